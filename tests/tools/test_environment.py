"""The Python that tools/environment.sh selects; each accepted version has constraints."""

import configparser
import os
import re
import shutil
import subprocess

import pytest

from tests.paths import REPOSITORY

TOOLS = REPOSITORY / "tools"
SETUP = configparser.RawConfigParser()
SETUP.read(REPOSITORY / "setup.cfg")
VERSIONS = re.findall(r"Python :: (3\.\d+)$", SETUP["metadata"]["classifiers"], re.MULTILINE)

# Prints its version, makes an environment by copying itself, and records what it is to install.
FAKE = """#!/bin/sh
case "$2" in
  venv) rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
  pip) echo "$@" >>"${0%/*}/installs" ;;
  *) echo VERSION ;;
esac
"""


def pins(version):
    """Returns the pinned versions of constraints by normalised name."""
    text = (TOOLS / f"constraints-{version}.txt").read_text(encoding="utf-8")
    pairs = (line.split("==") for line in text.splitlines() if not line.startswith("#"))
    return {re.sub(r"[-_.]+", "-", name).lower(): pin for name, pin in pairs}


def test_every_accepted_python_has_constraints():
    assert VERSIONS == ["3.11", "3.12", "3.13"]
    assert SETUP["options"]["python_requires"] == ">=3.11, <3.14"
    assert sorted(file.name for file in TOOLS.glob("constraints-*")) == [
        f"constraints-{version}.txt" for version in VERSIONS
    ]


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_all_pythons_have_the_same_set(version):
    first, second = pins(VERSIONS[0]), pins(version)
    assert len(first.keys() & second.keys()) >= 230
    assert {name: pin for name, pin in second.items() if first.get(name, pin) != pin} == {}
    # Packages that only one version has are not our requirements.
    assert first.keys() ^ second.keys() <= {"tzdata", "setuptools", "wheel"}


@pytest.fixture
def prepare(tmp_path):
    """Makes an environment with only certain Pythons on the path; returns the process."""
    (tmp_path / "tools").mkdir()
    for file in ("setup.cfg", "pyproject.toml", "tools/environment.sh"):
        shutil.copy(REPOSITORY / file, tmp_path / file)
    for file in TOOLS.glob("constraints-*"):
        shutil.copy(file, tmp_path / "tools")
    bash = shutil.which("bash")

    def run(*installed, extras="", chosen="", more=""):
        folder = tmp_path / "path"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("cat", "cksum", "cp", "dirname", "grep", "mkdir", "rm", "sed"):
            (folder / name).symlink_to(shutil.which(name))
        for version in installed:
            python = folder / f"python{version}"
            python.write_text(FAKE.replace("VERSION", version))
            python.chmod(0o755)
        code = f'set -euo pipefail; source tools/environment.sh; prepare_environment "{extras}"'
        code += f" {more}"
        return subprocess.run(
            [bash, "-c", code],
            cwd=tmp_path,
            env=os.environ
            | {"PATH": str(folder), "FAITH_JAX_PYTHON": chosen, "PYTHONDONTWRITEBYTECODE": ""},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def installs(tmp_path):
    file = tmp_path / ".venv" / "bin" / "installs"
    command = r"constraints-(\S+)\.txt --no-compile --editable \S*?(\[\w+\])?$"
    return re.findall(command, file.read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("installed", "chosen", "taken"),
    [(["3.10", "3.12", "3.13", "3.14"], "", "3.12"), (["3.11", "3.13"], "python3.13", "3.13")],
)
def test_the_lowest_accepted_python_is_taken_or_the_chosen_one(
    prepare, tmp_path, installed, chosen, taken
):
    process = prepare(*installed, chosen=chosen)
    assert process.returncode == 0, process.stderr
    assert f"with Python {taken} " in process.stdout
    assert installs(tmp_path) == [(taken, "")]


def test_an_environment_keeps_its_python_until_another_is_chosen(prepare, tmp_path):
    prepare("3.12")
    assert prepare("3.11", "3.12").stdout == ""
    assert "Adding [dev]" in prepare("3.11", "3.12", extras="[dev]").stdout
    assert prepare("3.11", "3.12").stdout == ""  # [dev] serves it
    assert installs(tmp_path) == [("3.12", ""), ("3.12", "[dev]")]
    assert "with Python 3.13 " in prepare("3.13", chosen="python3.13").stdout
    assert installs(tmp_path) == [("3.13", "")]
