"""The documentation: its site builds without a warning, and no link of its pages is dead."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from faith_jax import cli
from tests.paths import REPOSITORY

PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page):
    """Returns the anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    dead = []
    for link in LINK.findall(text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


def test_the_index_lists_every_page():
    listed = set(LINK.findall((REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")))
    pages = {page.name for page in (REPOSITORY / "docs").glob("*.md")} - {"index.md"}
    assert pages <= listed


def test_the_walkthrough_shows_what_its_commands_print(tmp_path, monkeypatch, capsys):
    page = (REPOSITORY / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    shutil.copytree(REPOSITORY / "docs" / "walkthrough", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    compared, printed = 0, ""
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", page, re.M | re.S):
        if kind == "text":
            assert block == printed
            compared += 1
        for line in block.splitlines() if not kind else ():
            assert cli.main(shlex.split(line)[1:]) == 0
            printed = capsys.readouterr().out
    assert compared == 2
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_site_builds_without_a_warning(tmp_path):
    config = REPOSITORY / "tools" / "mkdocs.yml"
    command = ["-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    for page in (REPOSITORY / "docs").glob("*.md"):
        name = "" if page.stem == "index" else page.stem
        assert (tmp_path / name / "index.html").is_file()
    interface = (tmp_path / "api" / "index.html").read_text(encoding="utf-8")
    assert "Returns the log-probability of each target token" in interface
