import shutil

import pytest

from faith_jax.datasets.raw_catalogue import raw_dataset_of
from faith_jax.datasets.samples import sample_folder


@pytest.mark.parametrize(
    ("file", "dataset", "split"),
    [
        ("faithdial/test.json", "faithdial/official", "test"),
        ("dialfact/test_split.jsonl", "dialfact/official", "test"),
        ("true_benchmark/vitaminc_dev.jsonl", "true_benchmark/vitaminc", "test"),
        ("faithdial_audit/gpt2_cmu.csv", "faithdial_audit/official", "gpt2_cmu"),
        ("summedits/summedits_news.json", "summedits/official", "test"),
        # dialfact_evidence reads this file too.
        (
            "wizard_of_wikipedia/test_topic_split.json",
            "wizard_of_wikipedia/official",
            "test_unseen",
        ),
    ],
)
def test_raw_files_are_known_by_their_columns(file, dataset, split):
    folder, _, name = file.rpartition("/")
    recognised, its_split = raw_dataset_of(sample_folder(folder) / name)
    assert (f"{recognised.name}/{recognised.config}", its_split) == (dataset, split)


def test_the_name_of_a_file_does_not_matter(tmp_path):
    path = tmp_path / "mine.jsonl"
    shutil.copy(sample_folder("dialfact") / "valid_split.jsonl", path)
    recognised, split = raw_dataset_of(path)
    assert (recognised.name, split) == ("dialfact", "validation")


def test_a_copy_in_another_form_is_of_the_split_of_its_name(tmp_path):
    for name, split in (("test.csv", "test"), ("dev.csv", "validation")):
        text = "dataset,doc,claim,label,contamination_identifier\nWice,A.,B.,1,x\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert raw_dataset_of(tmp_path / name)[1] == split


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # It has no grounding once it is prepared.
        ("texts.jsonl", '{"id": "1", "inputs": "a", "targets": "b"}'),
        # It can be scored as it is.
        ("pairs.jsonl", '{"id": "1", "premise": "A.", "hypothesis": "B.", "label": "entailment"}'),
        ("columns.txt", "sentence1\tsentence2\n"),
    ],
)
def test_other_files_are_of_no_data_set(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert raw_dataset_of(tmp_path / name) is None
    assert raw_dataset_of(tmp_path / "missing.jsonl") is None
