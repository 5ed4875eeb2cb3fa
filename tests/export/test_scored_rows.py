import copy
import json
import math
import shutil

import numpy as np
import pytest
import tensorflow_datasets as tfds

from faith_jax.core.errors import InputError
from faith_jax.core.rows import Row, read_jsonl
from faith_jax.core.types import GroundedExample, Grounding, Score, WordScore
from faith_jax.datasets.grounded_rows import ExampleRow
from faith_jax.export import read_scored, scored_rows
from faith_jax.export.read_scored import read_scored_rows
from tests.export.data_sets import write_responses, write_scores

EXAMPLE = GroundedExample(
    "a", Grounding(("P.", "C."), ("pro", "con")), ("q",), "Räsponse\u2028.", 1
)
WORDS = (WordScore("Räsponse", 0, 8, 0.5), WordScore("P", 0, 1, 1.0, text=0))
ROWS = [
    scored_rows.scored_row(
        ExampleRow(EXAMPLE, "corpus", {"source": "wow"}),
        {
            "one": Score(0.1, WORDS, {"knowledge": 2, "history": 1}),
            "two": Score(math.nan, (), {}, "no words", (WordScore("C.", 0, 2, 0.25, text=1),)),
        },
    ),
    scored_rows.scored_row(
        ExampleRow(GroundedExample("b", Grounding(("K",))), "corpus", {}),
        {"one": Score(1.0), "two": Score(2.0)},
    ),
]


def test_a_row():
    assert ROWS[0] == {
        "id": "a",
        "corpus": "corpus",
        "grounding": ["P.", "C."],
        "perspectives": ["pro", "con"],
        "history": ["q"],
        "generated_text": "Räsponse\u2028.",
        "label": 1,
        "fields": {"source": "wow"},
        "scores": {"one": 0.1, "two": None},
        "words": {"one": [[0, 8, 0.5, None], [0, 1, 1.0, 0]]},
        "evidence": {"two": [[0, 2, 0.25, 1]]},
        "cut_tokens": {"one": 3, "two": 0},
        "cut": {"one": {"knowledge": 2, "history": 1}},
        "undefined": {"two": "no words"},
    }
    with pytest.raises(ValueError, match="one gave a an infinite score"):
        scored_rows.scored_row(ExampleRow(EXAMPLE, "c", {}), {"one": Score(math.inf)})


def test_jsonl_and_parquet_give_back_what_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(scored_rows, "_BATCH", 1)
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS), "utf-8")
    assert list(read_scored_rows(path)) == ROWS
    assert [row.fields for row in read_jsonl(path)] == ROWS
    path = tmp_path / "s.parquet"
    scored_rows.write_parquet(iter(ROWS), path, ["one", "two"])
    assert list(read_scored_rows(path)) == ROWS


def test_tfds_gives_back_what_was_written(tmp_path):
    folder = write_scores(tmp_path, "test", iter(ROWS), ["one", "two"])
    builder = tfds.builder_from_directory(folder)
    first, second = tfds.as_numpy(builder.as_dataset(split="test"))
    assert first["generated_text"].decode() == "Räsponse\u2028."
    assert (first["label"], second["label"]) == (1, -1)
    assert first["scores"]["one"] == np.float32(0.1)
    assert math.isnan(first["scores"]["two"])
    assert first["words"]["one"]["text"].tolist() == [-1, 0]
    assert first["words"]["one"]["score"].tolist() == [0.5, 1.0]
    assert first["evidence"]["two"]["text"].tolist() == [1]
    assert first["evidence"]["one"]["start"].tolist() == []
    assert first["fields"]["name"].tolist() == [b"source"]
    assert first["cut_tokens"]["one"] == 3
    assert first["cut"]["one"] == {"other": 0, "knowledge": 2, "history": 1, "response": 0}
    assert not any(first["cut"]["two"].values())
    assert (first["undefined"]["one"], first["undefined"]["two"]) == (b"", b"no words")
    assert second["words"]["one"]["start"].tolist() == []


def test_tfds_is_read_as_it_was_scored(tmp_path):
    """From the data set's own folder, and from one in which it lies as NAME/VERSION."""
    rounded = copy.deepcopy(ROWS)
    for row in rounded:
        row["scores"] = {
            scorer: None if value is None else float(np.float32(value))
            for scorer, value in row["scores"].items()
        }
    folder = write_scores(tmp_path / "s", "test", iter(ROWS), ["one", "two"])
    assert folder == tmp_path / "s"
    assert list(read_scored_rows(folder)) == rounded
    shutil.copytree(folder, tmp_path / "above" / "scores" / "1.0.0")
    assert list(read_scored_rows(tmp_path / "above")) == rounded
    shutil.copytree(folder, tmp_path / "above" / "others" / "1.0.0")
    with pytest.raises(InputError, match="several TFDS data sets; name one of them"):
        list(read_scored_rows(tmp_path / "above"))
    write_responses(tmp_path / "p", "test", [{"id": "a"}], "No scores.")
    with pytest.raises(InputError, match="a TFDS data set without fields, scores"):
        list(read_scored_rows(tmp_path / "p"))


def test_fields_keep_their_types_where_the_format_has_them(tmp_path):
    fields = {"turn": 3, "spans": [[0, 2]], "source": "wow", "flag": True}
    row = scored_rows.scored_row(ExampleRow(EXAMPLE, "c", fields), {"one": Score(1.0)})
    assert row["fields"] == fields
    texts = {"turn": "3", "spans": "[[0, 2]]", "source": "wow", "flag": "true"}
    scored_rows.write_parquet(iter([row]), tmp_path / "s.parquet", ["one"])
    write_scores(tmp_path / "s", "test", iter([row]), ["one"])
    (tmp_path / "s.jsonl").write_text(json.dumps(row) + "\n")
    for name in ("s.parquet", "s", "s.jsonl"):
        (row_read,) = read_scored_rows(tmp_path / name)
        assert row_read["fields"] == texts, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": 3}, "field 'scores': expected an object"),
        ({"cut_tokens": {"one": "3"}}, r"field 'cut_tokens\[.one.\]': expected a whole number"),
        (
            {"cut": {"one": {"history": True}}},
            r"field 'cut\[.one.\]\[.history.\]': expected a whole",
        ),
        ({"scores": {"one": "high"}}, r"field 'scores\.one': expected a finite number"),
        ({"scores": {"one": math.inf}}, r"field 'scores\.one': expected a finite number"),
        ({"scores": {}}, "field 'scores': expected an object of scores by scorer, got {}"),
        ({"id": [3]}, "field 'id': expected a text, a whole number or a number"),
        ({"corpus": 3}, "field 'corpus': expected a text"),
        ({"grounding": [3]}, r"field 'grounding\[0\]': expected a text"),
        ({"fields": 3}, "field 'fields': expected an object"),
        ({"words": {"one": [[0, 1]]}}, r"field 'words\.one': expected \[start, end, score"),
        ({"evidence": {"one": [[0, 1, 1, None]]}}, r"field 'evidence\.one': expected \[start"),
        ({"label": 2}, "field 'label': expected 1, 0 or null, got 2"),
    ],
)
def test_what_is_no_scored_row(tmp_path, change, message):
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (ROWS[0], ROWS[1] | change)))
    with pytest.raises(InputError, match=rf"s\.jsonl:2: {message}"):
        list(read_scored_rows(path))


def test_labels_may_be_floats_as_pandas_writes_them(tmp_path):
    labels = [1.0, None, 0.0]
    rows = [ROWS[0] | {"id": str(n), "label": label} for n, label in enumerate(labels)]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row["label"] for row in read_scored_rows(path)] == [1, None, 0]


_VALUES = [
    *(None, True, False, 0, 1, 2, -1, 1.0, 0.5, 1e101, 10**18, 10**19, 10**120, "", "a", [], {}),
    *([None], ["a"], ["a", 1], [["a", 1]], {"one": None}, {"one": 1}, {"one": True}, {"one": "a"}),
    *({"one": 0.5}, {"one": 10**20}, {"one": -1}, {"one": 2**63}, {"one": []}, {"one": {}}),
    *({"one": {"history": 0}}, {"one": {"history": 2}}, {"one": [[0, 1, 1, None]]}, {"": 1e-5}),
]


@pytest.mark.parametrize("name", [*ROWS[0], "another"])
def test_usual_rows_are_read_as_all_are(tmp_path, name):
    def told(read):
        try:
            return repr(read())
        except InputError as error:
            return str(error)

    path = tmp_path / "s.jsonl"
    usual = 0
    for value in _VALUES:
        row = ROWS[0] | {name: value}
        path.write_text(json.dumps(row) + "\n")
        plain = told(lambda row=row: [read_scored._check_row(Row(f"{path}:1", row), path)])
        assert told(lambda: list(read_scored_rows(path))) == plain, value
        (row_read,) = read_jsonl(path, usual=read_scored._DECODER)
        usual += not isinstance(row_read.fields, dict)
    assert bool(usual) == (name in ROWS[0]), "only the plain path was compared"


@pytest.mark.parametrize(
    "more",
    [
        '"id": "2"',
        '"undefined": {"one": "x", "one": "y"}',
        '"label": null, "corpus": "a", "corpus": "b"',
    ],
)
def test_a_key_that_is_there_twice(tmp_path, more):
    path = tmp_path / "s.jsonl"
    path.write_text(f'{{"id": "1", "scores": {{"one": 1}}, {more}}}\n')
    with pytest.raises(
        InputError, match=r's\.jsonl:1: the key ".*" is there twice; rename or drop'
    ):
        list(read_scored_rows(path))
    path.write_text('{"id": "1", "scores": {"one": 1, "one": 0}}\n')
    with pytest.raises(InputError, match='the key "one" is there twice'):
        list(read_scored_rows(path))
