"""The Dockerfiles name existing files, and copy all that an installation needs (without Docker)."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.paths import REPOSITORY

DOCKERFILES = sorted((REPOSITORY / "tools" / "docker").glob("*.Dockerfile"))


def instructions(path):
    """Returns the instructions of a Dockerfile as (name, words)."""
    text = re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.M)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], shlex.split(line)[1:]) for line in lines if line]


def test_there_is_one_for_each_accelerator():
    assert [path.name for path in DOCKERFILES] == ["gpu.Dockerfile", "tpu.Dockerfile"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_what_is_named_exists(path):
    steps = instructions(path)
    (base,) = (words[0] for name, words in steps if name == "FROM")
    version = re.fullmatch(r"python:(3\.\d+)-slim", base)[1]
    (install,) = (words for name, words in steps if name == "RUN")
    constraints = f"tools/constraints-{version}.txt"
    assert install == [*("pip", "install", "--no-cache-dir", "-c", constraints, ".[${EXTRAS}]")]
    (extra,) = (words[0].partition("EXTRAS=")[2] for name, words in steps if name == "ARG")
    assert extra == path.stem
    settings = configparser.ConfigParser()
    settings.read(REPOSITORY / "setup.cfg")
    assert extra in settings["options.extras_require"]
    copied = [word for name, words in steps if name == "COPY" for word in words[:-1]]
    assert constraints in copied
    assert all((REPOSITORY / name).exists() for name in copied)
    # The comment gives the command that builds it.
    assert f"docker build -f tools/docker/{path.name} " in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_is_copied_is_enough_to_install(tmp_path):
    for name, words in instructions(DOCKERFILES[0]):
        for source in words[:-1] if name == "COPY" else ():
            target = tmp_path / words[-1] if (REPOSITORY / source).is_dir() else tmp_path / source
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (REPOSITORY / source).is_dir() else shutil.copy
            copy(REPOSITORY / source, target)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", "dist", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {
        f"faith_jax/{n}" for n in ("cli/__init__.py", "tasks/npov.py", "gin_configs/quickstart.gin")
    } <= names
