import os
import shlex
import subprocess
import sys

import gin
import numpy as np
import pytest
import seqio
from absl.testing import flagsaver
from seqio.scripts import cache_tasks_main

from faith_jax.cli import main
from faith_jax.core import user_modules
from faith_jax.core.errors import ConfigError
from faith_jax.input.task_batches import DatasetConfig
from faith_jax.tasks import lookup, sources

# Tasks with more than texts and tokens: lists of them, numbers, and phrases that a run draws.
TASKS = ("faithdial_generate_infonce_sample", "nli_anli_augmented_sample")
LENGTHS = {"inputs": 64, "targets": 32, "negatives": (8, 16)}


@pytest.fixture(scope="module")
def cache(data_folder, tmp_path_factory):
    """The output of SeqIO's own command with Beam's local runner."""
    folder = tmp_path_factory.mktemp("cache")
    argv = ["seqio_cache_tasks", "--module_import=faith_jax.tasks", f"--tasks={','.join(TASKS)}"]
    argv += [f"--output_cache_dir={folder}", "--min_shards=2"]
    before = list(seqio.utils.get_global_cache_dirs())
    with pytest.MonkeyPatch.context() as patch, flagsaver.flagsaver():
        patch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
        cache_tasks_main.FLAGS(argv)
        cache_tasks_main.main([])
    seqio.set_global_cache_dirs(before)
    return folder


@pytest.fixture
def cached(cache):
    before = list(seqio.utils.get_global_cache_dirs())
    seqio.set_global_cache_dirs([str(cache)])
    yield
    seqio.set_global_cache_dirs(before)
    for name in TASKS:
        lookup.get_task(name)._cache_dir = None


def rows(name, split, use_cached):
    dataset = lookup.get_task(name).get_dataset(
        LENGTHS, split, shuffle=False, use_cached=use_cached
    )
    return sorted(dataset.as_numpy_iterator(), key=lambda row: (row["id"], *row["inputs"].tolist()))


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_cached_task_gives_the_same_rows(cached, name):
    for split in lookup.get_task(name).splits:
        cached_rows, expected = rows(name, split, True), rows(name, split, False)
        assert len(cached_rows) == len(expected) > 0
        for row, same in zip(cached_rows, expected, strict=True):
            assert row.keys() == same.keys()
            for feature in same:
                np.testing.assert_array_equal(row[feature], same[feature])


@pytest.mark.slow
def test_a_cache_serves_any_phrases(cached):
    name, phrase = "nli_anli_augmented_sample", "By the way,"
    with gin.unlock_config():
        gin.bind_parameter("faith_jax.tasks.nli.augmentation.phrases", (phrase,))
    cached_rows, expected = (rows(name, "train", use_cached) for use_cached in (True, False))
    texts = [row["inputs_pretokenized"].decode() for row in cached_rows]
    assert texts == [row["inputs_pretokenized"].decode() for row in expected]
    assert sum(phrase in text for text in texts) == len(texts) // 2 > 0


def config(name):
    return DatasetConfig(name, {"inputs": 64, "targets": 32}, use_cached=True)


@pytest.mark.slow
def test_runs_find_the_cache(cached):
    assert config("faithdial_generate_infonce_sample").task().cache_dir


def test_a_task_that_is_not_cached_names_the_command():
    with pytest.raises(ConfigError) as caught:
        config("begin_classify_sample").task()
    message = str(caught.value)
    assert "begin_classify_sample is not cached (looked in no folder)" in message
    assert "seqio_cache_tasks --module_import=faith_jax.tasks --tasks=begin_classify_s" in message


@pytest.mark.parametrize(
    ("written", "place", "name"),
    [
        ("my tasks/cached_of_mine.py", "my tasks/cached_of_mine.py", "cached_of_mine"),
        ("cached_in_cwd.py", "cached_in_cwd", "cached_in_cwd"),
        ("cached_package/inner.py", "cached_package.inner", "cached_package.inner"),
        ("cached_root/__init__.py", "cached_root", "cached_root"),
    ],
)
def test_the_command_for_tasks_of_your_own_imports_their_module(
    tmp_path, monkeypatch, written, place, name
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / written
    file.parent.mkdir(exist_ok=True)
    file.write_text("NAME = __name__\n")
    user_modules.import_user_module(place, "MIXTURE_OR_TASK_MODULE")
    with pytest.raises(ConfigError) as caught:
        lookup.check_cached(lookup.get_task("begin_classify_sample"), True, place)
    command = str(caught.value).partition("Cache it: ")[2].partition(", and add")[0]
    variable, *words = shlex.split(command)
    assert words[:2] == ["seqio_cache_tasks", f"--module_import={name}"]
    # In a process that, like SeqIO's command, does not search the working folder.
    script = tmp_path / "bin" / "script.py"
    script.parent.mkdir()
    script.write_text(f"import {name} as module\nprint(module.NAME)\n")
    environment = {**os.environ, "PYTHONPATH": variable.removeprefix("PYTHONPATH=")}
    ran = subprocess.run(
        [sys.executable, "-S", script], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{name}\n"


def test_a_task_whose_order_matters_has_no_cache():
    with pytest.raises(ConfigError, match="wow_then_faithdial_sample cannot be cached"):
        config("faithdial_generate_wow_then_faithdial_sample").task()


def test_a_cache_folder_that_is_not_there(capsys):
    arguments = ["eval", "--gin_file=runs/eval.gin", "--seqio_additional_cache_dirs=/no/where"]
    assert main(arguments) == 2
    message = "faith-jax: --seqio_additional_cache_dirs: /no/where: no such folder.\n"
    assert capsys.readouterr().err == message


def test_the_lock_of_a_data_folder_follows_no_link(tmp_path):
    foreign = tmp_path / "thesis.txt"
    foreign.write_text("not ours")
    (tmp_path / ".faithdial.lock").symlink_to(foreign)
    with sources._lock(tmp_path, "faithdial"):
        pass
    assert foreign.read_text() == "not ours"
    with sources._lock(tmp_path / "new", "faithdial"):
        assert [path.name for path in (tmp_path / "new").iterdir()] == [".faithdial.lock"]
    assert not list((tmp_path / "new").iterdir())
