"""The documentation: its site builds without warnings, and its pages have no dead links."""

import importlib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

from faith_jax import cli
from faith_jax.gin_files import config as gin_config
from faith_jax.runs.scores import score_frames as scoring_tables
from faith_jax.scoring.registry import check_scorer
from tests.paths import REPOSITORY
from tools import docs_links

DOCS = sorted((REPOSITORY / "docs").glob("*.md"))
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *DOCS]
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


def groups(nav):
    """Yields the headings and pages of a site's navigation, in their order."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
            continue
        ((title, pages),) = entry.items()
        yield title
        yield from groups(pages)


def test_the_index_and_the_site_list_every_page_once():
    index = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    guide = index[index.index("## The guide") : index.index("## What faith_jax contains")]
    listed = [a or b for a, b in re.findall(r"^#+ (.+)|^- \[\S+\]\((\S+)\)", guide, re.M)]
    pages = [name for name in listed if name.endswith(".md")]
    assert sorted(pages) == [page.name for page in DOCS if page.stem != "index"]
    site = yaml.safe_load((REPOSITORY / "tools" / "mkdocs.yml").read_text(encoding="utf-8"))
    assert list(groups(site["nav"][1:])) == listed


def test_the_lists_of_names_have_the_first_lines_of_their_docstrings():
    """The unrendered page has the summaries, where the site has the whole docstrings."""
    text = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
    items = docs_links.NAMED.findall(text)
    assert len(items) == text.count("\n- [`") > 30
    for name, file, summary in items:
        module = importlib.import_module(file.replace("/", "."))
        value = module if "." in name else getattr(module, name)
        assert " ".join(summary.split()) == inspect.getdoc(value).splitlines()[0]


def test_no_page_is_too_long_to_read():
    lengths = {page.name: len(page.read_text(encoding="utf-8").split()) for page in DOCS}
    assert {name: length for name, length in lengths.items() if length > 2100} == {}


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


@pytest.mark.slow
def test_the_guide_to_guarantees_shows_what_its_commands_print(
    tmp_path, monkeypatch, capsys, offline_data_dir
):
    """Lines with an ellipsis stand for other lines."""
    page = (REPOSITORY / "docs" / "guarantees.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    compared, printed = 0, ""
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", page, re.M | re.S):
        if kind == "text":
            assert set(block.splitlines()) - {"…"} <= set(printed.splitlines())
            compared += 1
        for line in block.replace("\\\n", " ").splitlines() if not kind else ():
            assert cli.main(shlex.split(line)[1:]) == 0
            printed = capsys.readouterr().out
    assert compared == 2
    decided = (tmp_path / "decided.jsonl").read_text(encoding="utf-8").splitlines()
    documented = re.findall(r"^\| (accept|reject|abstain) \| (\S+) \| (.+) \|$", page, re.M)
    rows = [json.loads(line) for line in decided]
    table_rows = {(row["decision"], str(row["probability"]), row["reason"]) for row in rows}
    assert len(documented) == 3
    assert set(documented) <= table_rows


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


@pytest.mark.slow
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
    assert "Returns the log-probability of each target" in interface


# Perhaps as a task of Slurm or in a container.
COMMANDS = re.compile(r"^(?:srun |docker run .* )?((?:faith-jax|t5x) .*)$", re.MULTILINE)
RECIPES = ("recipes.md", "which_scorer.md", "scorer_results.md", "gallery.md", "cloud_tpu.md")
# The commands without models in recipes.md that run here, on the files of the walkthrough.
RUNS_HERE = ("score", "evaluate", "report", "annotate", "check")


def commands(page):
    """Returns the commands in the blocks of a page, as lists of arguments."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
    plain = "".join(block for kind, block in blocks if kind in ("", "sh")).replace("\\\n", " ")
    return [shlex.split(line, comments=True) for line in COMMANDS.findall(plain)]


def scorers_of(arguments):
    """Returns the scorers that a command of `score` names, and by scorer the options given."""
    named = [a.partition("=")[2] for a in arguments if a.startswith("--scorers=")]
    assignments = [a.partition("=")[2] for a in arguments if a.startswith("--scorer-option=")]
    options = {name: [] for text in named for name in text.split(",")}
    for option in assignments:
        scorer, _, name = option.partition("=")[0].partition(".")
        options[scorer].append(name)
    return options


@pytest.mark.parametrize("page", RECIPES)
def test_commands_of_recipes_have_the_options_that_they_name(page, monkeypatch, capsys):
    parsed = commands(page)
    assert parsed
    # Everything but the run itself.
    monkeypatch.setattr(cli, "_run_reporting_errors", lambda run, prog: 0)
    monkeypatch.setattr(cli, "keep_compiled_programs", lambda: None)
    for program, *arguments in parsed:
        main = {"faith-jax": cli.main, "t5x": cli.t5x_main}[program]
        assert main(arguments) == 0, (arguments, capsys.readouterr().err)
        if arguments[0] == "score":
            for name, options in scorers_of(arguments).items():
                check_scorer(name, options)
        if program == "t5x":
            files = [a.partition("=")[2] for a in arguments if a.startswith("--gin_file=")]
            bindings = [a[len("--gin.") :] for a in arguments if a.startswith("--gin.")]
            gin_config.parse(files, bindings)


@pytest.mark.slow
def test_recipes_that_need_no_model_run(tmp_path, monkeypatch, capsys, offline_data_dir):
    shutil.copytree(REPOSITORY / "docs" / "walkthrough", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    ran = 0
    for _, part, *arguments in commands("recipes.md"):
        needs = ("model=", "runs/", "responses.jsonl")
        remaining = [argument for argument in arguments if not argument.endswith("model=mini_nli")]
        if part not in RUNS_HERE or any(n in a for n in needs for a in remaining):
            continue
        assert cli.main([part, *arguments]) == 0, (arguments, capsys.readouterr().err)
        ran += 1
    assert ran == 15


def test_the_table_of_probes_is_what_the_scorers_give():
    page = (REPOSITORY / "docs" / "which_scorer.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if " | copy | " in line]
    columns = lines[0]
    probes = {
        cells[0].strip("`"): [float(cell) for cell in cells[1:]]
        for cells in (line.strip("| ").split(" | ") for line in page.splitlines())
        if len(cells) == len(columns) + 1 and cells[1][:1].isdigit() and cells[0][0] == "`"
    }
    path = REPOSITORY / "docs" / "which_scorer" / "probes.jsonl"
    rows = {row["id"]: row for row in map(json.loads, path.read_text("utf-8").splitlines())}
    rows = [rows[name] for name in columns]
    groundings = [{"pro": row["pro_arguments"], "con": row["con_arguments"]} for row in rows]
    assert len(probes) >= 10
    table = scoring_tables.score(groundings, [row["response"] for row in rows], scorers=[*probes])
    for name, values in probes.items():
        assert [round(value, 2) for value in table[name]] == values, name
