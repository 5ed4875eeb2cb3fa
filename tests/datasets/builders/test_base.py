import pathlib
import shutil

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
DIALFACT = BUILDERS["dialfact"]
FAITH_CRITIC = BUILDERS["faith_critic"]
FAITHDIAL = BUILDERS["faithdial"]
MULTIDOC2DIAL = BUILDERS["multidoc2dial"]
TOPICAL_CHAT = BUILDERS["topical_chat"]
TRUE_BENCHMARK = BUILDERS["true_benchmark"]

HEADER = "model_name\tdata_source\tknowledge\tmessage\tresponse\tbegin_label\n"


def line(number, label="Generic"):
    return f"t5\twow\tKnowledge {number}.\tHello.\tResponse.\t{label}\n"


def write(folder, *lines, part="dev"):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"begin_{part}_wow.tsv"
    path.write_text(HEADER + "".join(lines), encoding="utf-8")


def texts(builder, split, feature="knowledge"):
    return [row[feature].decode() for row in tfds.as_numpy(builder.as_dataset(split=split))]


@pytest.mark.parametrize(
    ("builder", "config"),
    [
        (BEGIN, "sample"),
        (BUILDERS["begin_2021"], "sample"),
        (BUILDERS["cmu_dog"], "sample"),
        (DIALFACT, "retrieved_sample"),
        (BUILDERS["dialfact_evidence"], "sample"),
        (FAITHDIAL, "control_tokens_sample"),
        (BUILDERS["faithdial_audit"], "sample"),
        (FAITH_CRITIC, "all_edits_sample"),
        (MULTIDOC2DIAL, "spans_sample"),
        (BUILDERS["nli"], "sample"),
        (TOPICAL_CHAT, "post_build_sample"),
        (BUILDERS["wizard_of_wikipedia"], "sample"),
        (TRUE_BENCHMARK, "frank_sample"),
    ],
)
def test_samples_are_what_their_parsers_read(data_folder, builder, config):
    built = prepare_builder(builder, config, data_folder)
    dataset = built.builder_config.dataset
    assert list(built.info.splits) == list(dataset.splits)
    for split in dataset.splits:
        expected = [row["id"] for row in dataset.examples(sample_files(dataset), split)]
        assert texts(built, split, "id") == expected


def test_tfds_load_needs_nothing_but_the_import(data_folder):
    assert len(tfds.load("dialfact/sample", split="test", data_dir=data_folder)) == 104


def test_what_is_prepared_is_not_made_again(tmp_path):
    first = prepare_builder(BEGIN, "wow_sample", tmp_path)
    folder = pathlib.Path(first.data_dir)
    files = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    prepare_builder(BEGIN, "wow_sample", tmp_path)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == files


def test_files_of_ones_own_and_their_changes(tmp_path):
    for part in ("dev", "test"):
        write(tmp_path / "raw", line(1), part=part)
    assert texts(prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw"), "test") == [
        "Knowledge 1."
    ]
    write(tmp_path / "raw", line(1), line(2), part="test")
    built = prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    assert texts(built, "test") == ["Knowledge 1.", "Knowledge 2."]


@pytest.fixture
def offline(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


def test_splits_that_are_not_at_hand_are_left_out(tmp_path, offline):
    write(tmp_path / "raw" / "begin", line(1))
    built = prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    assert list(built.info.splits) == ["validation"]


def test_prepared_data_needs_its_raw_files_no_more(tmp_path, offline):
    write(tmp_path / "raw", line(1))
    prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    assert texts(prepare_builder(BEGIN, "wow", tmp_path / "d"), "validation") == ["Knowledge 1."]
    with pytest.raises(InputError, match=r"cannot be fetched|no such file"):
        prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "elsewhere")


def test_no_split_at_hand_is_an_error(tmp_path, offline):
    with pytest.raises(InputError, match=r"cannot be fetched .*github\.com/google/BEGIN-dataset"):
        prepare_builder(BEGIN, "wow", tmp_path)


def test_a_bad_row_leaves_what_was_prepared(tmp_path, offline):
    write(tmp_path / "raw", line(1))
    built = prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    write(tmp_path / "raw", line(2), line(3, "Genric"))
    with pytest.raises(InputError, match=r"begin_dev_wow\.tsv:3: .*Did you mean 'Generic'"):
        prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    assert texts(built, "validation") == ["Knowledge 1."]
    assert not list((tmp_path / "d").rglob("*incomplete*"))
    bad_rows = BadRows(skip=True)
    built = prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw", bad_rows)
    assert (texts(built, "validation"), bad_rows.count) == (["Knowledge 2."], 1)


def test_skipped_rows_are_told_again_where_nothing_is_made(tmp_path, offline):
    write(tmp_path / "raw", line(1), "short\n", line(2, "Genric"), line(3))
    for _ in range(2):
        bad_rows = BadRows(skip=True)
        built = prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw", bad_rows)
        assert texts(built, "validation") == ["Knowledge 1.", "Knowledge 3."]
        assert bad_rows.count == 2
        assert [m.partition("wow.tsv:")[2][0] for m in bad_rows.messages] == ["3", "4"]
    assert texts(prepare_builder(BEGIN, "wow", tmp_path / "d"), "validation") == texts(
        built, "validation"
    )


def test_a_split_of_bad_rows_alone(tmp_path, offline):
    write(tmp_path / "raw", line(1, "Genric"), line(2, ""))
    bad_rows = BadRows(skip=True)
    message = r"no split has an example in .* Of its bad rows: .*wow\.tsv:2: field 'begin_label'"
    with pytest.raises(InputError, match=message):
        prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw", bad_rows)
    write(tmp_path / "raw", line(3), part="test")
    built = prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw", bad_rows)
    assert (list(built.info.splits), bad_rows.count) == (["test"], 2)


def test_the_folder_that_was_named_is_looked_into_again(tmp_path, offline):
    write(tmp_path / "raw", line(1))
    write(tmp_path / "d" / "downloads" / "begin", line(8))  # as if fetched at some time
    write(tmp_path / "d" / "downloads" / "begin", line(9), part="test")
    prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    assert texts(prepare_builder(BEGIN, "wow", tmp_path / "d"), "validation") == ["Knowledge 1."]
    write(tmp_path / "raw", line(2))
    assert texts(prepare_builder(BEGIN, "wow", tmp_path / "d"), "validation") == ["Knowledge 2."]
    shutil.rmtree(tmp_path / "raw")
    assert texts(prepare_builder(BEGIN, "wow", tmp_path / "d"), "validation") == ["Knowledge 2."]


def test_a_split_that_comes_later_is_added(tmp_path, offline):
    write(tmp_path / "raw", line(1))
    prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    write(tmp_path / "raw", line(2), part="test")
    built = prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    assert list(built.info.splits) == ["validation", "test"]


def test_files_fetched_earlier_are_not_the_users_own(tmp_path, offline):
    write(tmp_path / "d" / "downloads" / "begin", line(1))
    with pytest.raises(InputError, match=r"begin_test_wow\.tsv: cannot be fetched"):
        prepare_builder(BEGIN, "wow", tmp_path / "d")


def test_a_part_of_a_split_is_an_error(tmp_path, offline):
    write(tmp_path / "raw", line(1))
    with pytest.raises(InputError, match=r"begin_dev_cmu\.tsv: cannot be fetched"):
        prepare_builder(BEGIN, "official", tmp_path / "d", tmp_path / "raw")
    assert not (tmp_path / "d" / "begin").exists()


def test_a_failure_leaves_nothing_that_is_taken_for_data(tmp_path, offline):
    write(tmp_path / "d" / "downloads" / "manual" / "begin", line(1), line(2, "Genric"))
    loads = [
        lambda: prepare_builder(BEGIN, "wow", tmp_path / "d"),
        lambda: tfds.load("begin/wow", data_dir=tmp_path / "d"),
    ]
    for load in [*loads, *loads]:
        with pytest.raises(InputError, match=r"begin_dev_wow\.tsv:3: field 'begin_label'"):
            load()
    write(tmp_path / "d" / "downloads" / "manual" / "begin", line(1), line(2))
    assert len(loads[1]()["validation"]) == 2


def test_what_a_killed_process_left_is_passed_over(tmp_path, offline):
    write(tmp_path / "raw", line(1))
    built = prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    folder = pathlib.Path(built.data_dir)
    shutil.copytree(folder, folder.parent / ".incomplete-x" / "begin" / "wow" / "1.0.0")
    assert texts(prepare_builder(BEGIN, "wow", tmp_path / "d"), "validation") == ["Knowledge 1."]
    (folder / "metadata.json").write_text("{")
    built = prepare_builder(BEGIN, "wow", tmp_path / "d", tmp_path / "raw")
    assert texts(built, "validation") == ["Knowledge 1."]


def test_folders_below_the_home_folder(tmp_path, offline, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "raw", line(1))
    built = prepare_builder(BEGIN, "wow", "~/d", "~/raw")
    assert built.data_path.is_relative_to(tmp_path / "d")
    assert texts(built, "validation") == ["Knowledge 1."]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "raw"]


def test_an_unknown_config_names_the_nearest(tmp_path):
    with pytest.raises(InputError, match=r"begin has no config 'wow_smaple'\. Did you mean 'wow_s"):
        prepare_builder(BEGIN, "wow_smaple", tmp_path)


@pytest.mark.faults
def test_data_on_a_store_is_prepared_once_and_read_from_a_staged_copy(
    gs, tmp_path, monkeypatch, offline
):
    raw = tmp_path / "raw"
    write(raw, line(1), line(2))
    store = path_of(f"{gs}/data")

    def knowledge(raw_folder=None):
        builder = prepare_builder(BEGIN, "wow", str(store), raw_folder)
        return texts(builder, "validation")

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
