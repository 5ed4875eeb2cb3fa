"""The contents of a wheel built from the tree, and the public names."""

import pathlib
import subprocess
import sys
import zipfile

import pytest

import faith_jax
from tests.paths import REPOSITORY


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    # A copy, so that the build leaves nothing in the tree.
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    for name in (n.decode() for n in listed if n):
        file = REPOSITORY / name
        if file.is_file() and not name.startswith(("tests/", "docs/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(file.read_bytes())
    subprocess.run(
        [
            sys.executable,
            "-c",
            f"import setuptools.build_meta as b; b.build_wheel({str(folder)!r})",
        ],
        cwd=source,
        capture_output=True,
        check=True,
    )
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return wheel.namelist()


@pytest.mark.parametrize(
    "name",
    [
        "faith_jax/gin_configs/quickstart.gin",
        "faith_jax/gin_configs/models/t5_1_1_xxl.gin",
        "faith_jax/gin_configs/runs/train.gin",
        "faith_jax/tokenizers/vocabulary/english_4096.model",
        "faith_jax/report/templates/report.html",
        "faith_jax/scoring/presets/minicheck_flan_t5_large.toml",
        "faith_jax/runs/judges/references.json",
        "faith_jax/runs/judges/pairs.toml",
        "faith_jax/papers/npov/npov_detection.smk",
        "faith_jax/papers/table.smk",
        "faith_jax/annotation/forms.json",
        "faith_jax/papers/pmi/decoding_table.json",
    ],
)
def test_the_wheel_carries(names, name):
    assert name in names


def test_every_module_is_in_the_wheel(names):
    for package, folder in (("faith_jax", "faith_jax"), ("faith_jax/tasks", "tasks")):
        for file in (REPOSITORY / folder).rglob("*.py"):
            assert f"{package}/{file.relative_to(REPOSITORY / folder).as_posix()}" in names


def test_every_sample_is_in_the_wheel(names):
    samples = REPOSITORY / "faith_jax" / "datasets" / "sample"
    for file in filter(pathlib.Path.is_file, samples.rglob("*")):
        assert f"faith_jax/datasets/sample/{file.relative_to(samples).as_posix()}" in names


def test_public_names_exist():
    assert dir(faith_jax) == sorted(faith_jax.__all__)
    for name in faith_jax.__all__:
        assert getattr(faith_jax, name) is not None
