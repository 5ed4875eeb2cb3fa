import csv
import json
import shutil

import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.datasets.benchmarks import described_rows
from faith_jax.datasets.benchmarks.described_rows import HALUEVAL, LLM_AGGREFACT, TOFUEVAL, WICE
from faith_jax.datasets.raw_files import ignored_files, official_files, sample_files
from faith_jax.datasets.samples import sample_folder
from tests.datasets.raw.files import json_lines

ROW = {"dataset": "Wice", "doc": "Tea is a leaf.", "claim": "Tea is green.", "label": 0}


def sample_examples(dataset, split):
    files = sample_files(dataset)
    return list(dataset.examples({name: files[name] for name in dataset.splits[split]}, split))


def examples(path, dataset=LLM_AGGREFACT, split="test", **options):
    name = dataset.splits[split][0]
    return list(dataset.examples({name: path}, split, **options))


def lines(path, *rows):
    path.write_text(json_lines(rows), encoding="utf-8")
    return path


def table(path, *rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_row_of_llm_aggrefact(tmp_path):
    (row,) = examples(lines(tmp_path / "test.jsonl", ROW))
    assert row == {
        "id": "Wice-1",
        "corpus": "Wice",
        "source_id": described_rows.source_of("Tea is a leaf."),
        "grounding": "Tea is a leaf.",
        "generated_text": "Tea is green.",
        "label": 0,
    }


def test_csv_and_parquet_have_the_same_examples(tmp_path):
    import pyarrow
    from pyarrow import parquet

    path = sample_folder("llm_aggrefact") / "test.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[3]["doc"] += '\nIt said "yes",\nand left.'
    expected = examples(lines(tmp_path / "rows.jsonl", *rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    assert examples(table(tmp_path / "rows.csv", *rows)) == expected
    assert examples(tmp_path / "rows.parquet") == expected


def test_a_copy_may_have_the_name_of_another_form(tmp_path):
    names = ("test.csv", "dev.parquet", "notes.txt")
    for name in names:
        (tmp_path / name).touch()
    paths = official_files(LLM_AGGREFACT, ["dev.jsonl", "test.jsonl"], [tmp_path], tmp_path / "x")
    assert [paths[name].name for name in ("dev.jsonl", "test.jsonl")] == ["dev.parquet", "test.csv"]
    assert ignored_files(LLM_AGGREFACT, tmp_path) == ["notes.txt"]
    (tmp_path / "dev.parquet").unlink()
    with pytest.raises(InputError, match=r"dev\.jsonl: no such file\. .* Accept the conditions"):
        official_files(LLM_AGGREFACT, ["dev.jsonl"], [tmp_path], tmp_path / "x")


def test_a_missing_column(tmp_path):
    row = {key: value for key, value in ROW.items() if key != "doc"}
    with pytest.raises(InputError, match=r"test\.jsonl:1: field 'doc' is missing"):
        examples(lines(tmp_path / "test.jsonl", row))
    with pytest.raises(InputError, match=r"test\.csv:2: field 'doc' is missing"):
        examples(table(tmp_path / "test.csv", row))


@pytest.mark.parametrize("part", list(WICE))
def test_partially_supported_claims_of_wice_are_not(part):
    (name,) = WICE[part].splits["test"]
    raw = (sample_folder("wice") / name).read_text(encoding="utf-8").splitlines()
    for line, row in zip(raw, sample_examples(WICE[part], "test"), strict=True):
        fields = json.loads(line)
        assert row["label"] == int(fields["label"] == "supported")
        assert row["grounding"] == " ".join(fields["evidence"])
        assert row["id"] == f"wice-{fields['meta']['id']}"
        assert json.loads(row["supporting_sentences"]) == fields["supporting_sentences"]


def test_a_field_of_a_nested_object_that_is_missing(tmp_path):
    row = {"evidence": ["Tea is a leaf."], "claim": "Tea is green.", "label": "supported"}
    for meta, near in (({}, ""), ({"ids": "1"}, r"\. Did you mean 'meta\.ids'\?")):
        path = lines(tmp_path / "test.jsonl", row | {"meta": meta})
        with pytest.raises(InputError, match=rf"test\.jsonl:1: field 'meta\.id' is missing{near}"):
            examples(path, WICE["claims"])


@pytest.mark.parametrize("part", list(HALUEVAL))
def test_each_row_of_halueval_is_two_examples(part):
    rows = sample_examples(HALUEVAL[part], "test")
    right, wrong = rows[::2], rows[1::2]
    assert {row["label"] for row in right} == {1}
    assert {row["label"] for row in wrong} == {0}
    for first, second in zip(right, wrong, strict=True):
        assert first["grounding"] == second["grounding"]
        assert first["generated_text"] != second["generated_text"]
        assert first["id"].partition("-right")[0] == second["id"].partition("-hallucinated")[0]
    assert all(row["history"] for row in rows) == (part != "summarization")


def tofueval_files(folder):
    names = TOFUEVAL["mediasum"].splits["test"]
    for name in names:
        shutil.copy(sample_folder("tofueval") / name, folder / name)
    return {name: folder / name for name in names}


def test_documents_of_tofueval_stand_in_a_file_of_their_own(tmp_path):
    rows = list(TOFUEVAL["mediasum"].examples(tofueval_files(tmp_path), "test"))
    with open(tmp_path / "mediasum_test_doc.csv", newline="", encoding="utf-8") as file:
        documents = {row["doc_id"]: row["source"] for row in csv.DictReader(file)}
    assert {row["source_id"] for row in rows} == set(documents)
    assert all(row["grounding"] == documents[row["source_id"]] for row in rows)
    assert {row["model_name"] for row in rows} == {"model_A", "model_B"}


def test_a_document_that_is_missing(tmp_path):
    paths = tofueval_files(tmp_path)
    document = paths["mediasum_test_doc.csv"]
    document.write_text("doc_id,source\nother,Tea.\n", encoding="utf-8")
    message = r"mediasum_factual_eval_test\.csv:2: mediasum_test_doc\.csv has no doc_id 'NPR-103'"
    with pytest.raises(InputError, match=message):
        list(TOFUEVAL["mediasum"].examples(paths, "test"))
    document.write_text("id,source\nother,Tea.\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mediasum_test_doc\.csv:2: field 'doc_id' is missing"):
        list(TOFUEVAL["mediasum"].examples(paths, "test"))


def test_a_card_that_names_no_such_thing(monkeypatch):
    fields = {"row": {"grounding": "doc", "generated_text": "claim", "lable": "label"}}
    monkeypatch.setattr(described_rows, "card", lambda name, part: fields)
    with pytest.raises((InputError, ConfigError), match=r"field 'lable' is unknown\. Did you mean"):
        described_rows.load_row_card("llm_aggrefact")


@pytest.mark.parametrize("dataset", [LLM_AGGREFACT, WICE["claims"], TOFUEVAL["mediasum"]])
def test_readers_reach_the_workers_of_beam(dataset):
    pickler = pytest.importorskip("apache_beam.internal.pickler")
    copy = pickler.loads(pickler.dumps(dataset))
    assert sample_examples(copy, "test") == sample_examples(dataset, "test")
