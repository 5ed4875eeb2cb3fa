import functools
import pathlib
import shutil
import tempfile

import pytest
import tensorflow_datasets as tfds

from faith_jax.core.errors import InputError
from faith_jax.core.files.stores import path_of, versions
from faith_jax.core.files.whole import UPLOAD, is_complete
from faith_jax.core.rows import BadRows
from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.builders.catalogue import BUILDERS
from faith_jax.datasets.raw_files import sample_files

BEGIN = BUILDERS["begin"]
HEADER = "model_name\tdata_source\tknowledge\tmessage\tresponse\tbegin_label\n"


def line(number, label="Generic"):
    return f"t5\twow\tKnowledge {number}.\tHello.\tResponse.\t{label}\n"


def write(folder, *lines, part="dev"):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"begin_{part}_wow.tsv"
    path.write_text(HEADER + "".join(lines), encoding="utf-8")


def texts(builder, split="validation", feature="knowledge"):
    return [row[feature].decode() for row in tfds.as_numpy(builder.as_dataset(split=split))]


@pytest.fixture
def offline(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


@pytest.fixture
def raw(tmp_path, offline):
    """A folder of raw files, with one row of the development part."""
    write(tmp_path / "raw", line(1))
    return tmp_path / "raw"


@pytest.fixture
def prepare(tmp_path, offline):
    """Prepares BEGIN's responses to Wizard of Wikipedia, from raw files if they are given."""
    return functools.partial(prepare_builder, BEGIN, "wow", tmp_path / "d")


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("begin", "sample"),
        ("dialfact", "retrieved_sample"),
        ("topical_chat", "post_build_sample"),
        ("true_benchmark", "frank_sample"),
    ],
)
def test_samples_are_what_their_parsers_read(data_folder, name, config):
    built = prepare_builder(BUILDERS[name], config, data_folder)
    dataset = built.builder_config.dataset
    assert list(built.info.splits) == list(dataset.splits)
    for split in dataset.splits:
        expected = [row["id"] for row in dataset.examples(sample_files(dataset), split)]
        assert texts(built, split, "id") == expected


def test_nobody_is_asked_about_a_data_set_and_nothing_is_left(tmp_path, monkeypatch):
    """TFDS would ask its servers about the data set, and leave a temporary folder."""
    monkeypatch.setattr(tempfile, "mkdtemp", None)
    monkeypatch.setattr(tfds.core.utils.gcs_utils, "gcs_dataset_info_files", None)
    assert not BUILDERS["faithdial"](data_dir=str(tmp_path)).info.splits


def test_configs_are_the_whole_and_the_sources():
    sources = [name for s in ("wow", "cmu", "tc") for name in (s, f"{s}_sample")]
    assert list(BEGIN.builder_configs) == ["official", "sample", *sources]
    assert list(BUILDERS["begin_2021"].builder_configs) == ["official", "sample"]


def test_tfds_load_needs_nothing_but_the_import(data_folder):
    assert len(tfds.load("dialfact/sample", split="test", data_dir=data_folder)) == 104


def test_what_is_prepared_is_not_made_again(tmp_path):
    first = prepare_builder(BEGIN, "wow_sample", tmp_path)
    folder = pathlib.Path(first.data_dir)
    files = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    prepare_builder(BEGIN, "wow_sample", tmp_path)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == files


def test_a_split_that_comes_later_is_added(tmp_path, prepare):
    write(tmp_path / "raw" / "begin", line(1))
    assert list(prepare(tmp_path / "raw").info.splits) == ["validation"]
    write(tmp_path / "raw" / "begin", line(2), part="test")
    assert list(prepare(tmp_path / "raw").info.splits) == ["validation", "test"]


def test_the_folder_that_was_named_is_looked_into_again(tmp_path, raw, prepare):
    for number, part in ((8, "dev"), (9, "test")):  # as if fetched at some time
        write(tmp_path / "d" / "downloads" / "begin", line(number), part=part)
    prepare(raw)
    assert texts(prepare()) == ["Knowledge 1."]
    write(raw, line(2))
    assert texts(prepare()) == ["Knowledge 2."]
    shutil.rmtree(raw)  # prepared data needs its raw files no more
    assert texts(prepare()) == ["Knowledge 2."]


def test_data_of_another_folder_is_not_what_is_asked_for(tmp_path, raw, prepare):
    prepare(raw)
    with pytest.raises(InputError, match=r"cannot be fetched|no such file"):
        prepare(tmp_path / "elsewhere")


def test_files_that_are_not_at_hand(tmp_path, raw, prepare):
    with pytest.raises(InputError, match=r"cannot be fetched .*github\.com/google/BEGIN-dataset"):
        prepare()
    # A part of a split is an error.
    with pytest.raises(InputError, match=r"begin_dev_cmu\.tsv: cannot be fetched"):
        prepare_builder(BEGIN, "official", tmp_path / "d", raw)
    assert not (tmp_path / "d" / "begin").exists()
    # Files that were fetched earlier are not the user's own.
    write(tmp_path / "d" / "downloads" / "begin", line(1))
    with pytest.raises(InputError, match=r"begin_test_wow\.tsv: cannot be fetched"):
        prepare()


def test_a_bad_row_leaves_what_was_prepared(tmp_path, raw, prepare):
    built = prepare(raw)
    write(raw, line(2), line(3, "Genric"))
    with pytest.raises(InputError, match=r"begin_dev_wow\.tsv:3: .*Did you mean 'Generic'"):
        prepare(raw)
    assert texts(built) == ["Knowledge 1."]
    assert not list((tmp_path / "d").rglob("*incomplete*"))


def test_skipped_rows_are_told_again_where_nothing_is_made(raw, prepare):
    write(raw, line(1), "short\n", line(2, "Genric"), line(3))
    for _ in range(2):
        bad_rows = BadRows(skip=True)
        assert texts(prepare(raw, bad_rows)) == ["Knowledge 1.", "Knowledge 3."]
        assert [m.partition("wow.tsv:")[2][0] for m in bad_rows.messages] == ["3", "4"]
        assert bad_rows.count == 2
    assert texts(prepare()) == ["Knowledge 1.", "Knowledge 3."]


def test_a_split_of_bad_rows_alone(raw, prepare):
    write(raw, line(1, "Genric"), line(2, ""))
    bad_rows = BadRows(skip=True)
    message = r"no split has an example in .* Of its bad rows: .*wow\.tsv:2: field 'begin_label'"
    with pytest.raises(InputError, match=message):
        prepare(raw, bad_rows)
    write(raw, line(3), part="test")
    assert (list(prepare(raw, bad_rows).info.splits), bad_rows.count) == (["test"], 2)


def test_a_failure_leaves_nothing_that_is_taken_for_data(tmp_path, prepare):
    """TFDS's own folder of manual downloads is searched as well."""
    manual = tmp_path / "d" / "downloads" / "manual" / "begin"
    write(manual, line(1), line(2, "Genric"))
    loads = [prepare, lambda: tfds.load("begin/wow", data_dir=tmp_path / "d")]
    for load in [*loads, *loads]:
        with pytest.raises(InputError, match=r"begin_dev_wow\.tsv:3: field 'begin_label'"):
            load()
    write(manual, line(1), line(2))
    assert len(loads[1]()["validation"]) == 2


def test_what_a_killed_process_left_is_passed_over(raw, prepare):
    folder = pathlib.Path(prepare(raw).data_dir)
    shutil.copytree(folder, folder.parent / ".incomplete-x" / "begin" / "wow" / "1.0.0")
    assert texts(prepare()) == ["Knowledge 1."]
    (folder / "metadata.json").write_text("{")
    assert texts(prepare(raw)) == ["Knowledge 1."]


def test_folders_below_the_home_folder(tmp_path, raw, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    built = prepare_builder(BEGIN, "wow", "~/d", "~/raw")
    assert built.data_path.is_relative_to(tmp_path / "d")
    assert texts(built) == ["Knowledge 1."]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "raw"]


@pytest.mark.faults
def test_data_on_a_store_is_prepared_once_and_read_from_a_staged_copy(
    gs, tmp_path, monkeypatch, raw
):
    write(raw, line(1), line(2))
    store = path_of(f"{gs}/data")

    def knowledge(raw_folder=None):
        return texts(prepare_builder(BEGIN, "wow", str(store), raw_folder))

    assert knowledge(raw) == ["Knowledge 1.", "Knowledge 2."]
    (info,) = store.rglob("dataset_info.json")
    assert is_complete(info.parent)
    before = versions(store)
    assert not any(".lock" in name or "downloads" in name for name in before)
    # Another machine, which has no raw files.
    monkeypatch.setenv("FAITH_JAX_STAGING", str(tmp_path / "elsewhere"))
    shutil.rmtree(raw)
    for _ in range(2):
        assert knowledge() == ["Knowledge 1.", "Knowledge 2."]
    assert versions(store) == before
    # Other raw files.
    write(raw, line(3))
    assert knowledge(raw) == ["Knowledge 3."]
    monkeypatch.setenv("FAITH_JAX_STAGING", str(tmp_path / "staging"))
    assert knowledge() == ["Knowledge 3."]
    assert versions(store) != before
    # A data set whose upload was stopped is made again.
    mark = info.parent / UPLOAD
    mark.write_text('{"made_by": "faith_jax", "complete": false, "files": {}}')
    assert knowledge(raw) == ["Knowledge 3."]
    assert is_complete(info.parent)
