import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.rows import BadRows, Row
from faith_jax.export import tfds
from faith_jax.input import score_input
from faith_jax.input.score_input import ScoreInput

ROWS = [{"grounding": "Tea is hot.", "generated_text": f"Tea {i}."} for i in range(7)]


def write(path):
    """Writes rows, the fourth of which is bad where the format allows it."""
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=3)
    elif path.suffix == ".jsonl":
        lines = [json.dumps(row) for row in ROWS]
        lines[3] = "{"
        path.write_text("\n \n".join(lines))
    else:
        separator = "\t" if path.suffix == ".tsv" else ","
        lines = [separator.join(row.values()) for row in [dict.fromkeys(ROWS[0], ""), *ROWS]]
        lines[0], lines[4] = separator.join(ROWS[0]), "Tea"
        path.write_text("\n".join(lines))


@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv", "parquet"])
def test_reading_can_begin_at_any_row(tmp_path, form):
    """Bad rows of two files are skipped; the others keep their numbers, which are their ids."""
    paths = [tmp_path / f"{name}.{form}" for name in ("one", "two")]
    for path in paths:
        write(path)
    data = ScoreInput(input=tuple(map(str, paths)))
    bad_rows = BadRows(skip=True)
    rows = list(data.rows(bad_rows))
    good = [0, 1, 2, 4, 5, 6] if form != "parquet" else list(range(7))
    assert [row.place for row in rows] == [(part, n) for part in (0, 1) for n in good]
    assert [row.example.id for row in rows] == [str(n + 1) for _ in (0, 1) for n in good]
    assert bad_rows.count == (0 if form == "parquet" else 2)
    for number, row in enumerate(rows):
        rest = list(data.rows(BadRows(skip=True), row.place))
        assert rest == rows[number:]


def test_an_id_is_once_in_a_corpus_of_several_inputs(tmp_path):
    paths = []
    for folder, answers in (("sa", "ab"), ("sb", "cd")):
        paths.append(tmp_path / folder / "answers.csv")
        paths[-1].parent.mkdir()
        lines = [f"{answer},{folder},Tea.,{answer}" for answer in answers]
        paths[-1].write_text("\n".join(["key,set,contexts,answer", *lines]))
    inputs = tuple(map(str, paths))
    for options in ({}, {"corpus": "tea"}, {"system": "gpt"}):
        score_input = ScoreInput(input=inputs, **options)
        corpus = options.get("corpus", "answers")
        message = (
            f"{paths[1]}: the id '1' of the corpus '{corpus}' is also in {paths[0]}; give each"
        )
        with pytest.raises(InputError) as caught:
            list(score_input.rows(BadRows(skip=True)))
        assert str(caught.value).startswith(message)
        assert len(list(score_input.rows(BadRows(), (1, 0)))) == 2
    for options in ({"id_column": "key"}, {"corpus_column": "set"}):
        rows = list(ScoreInput(input=inputs, **options).rows(BadRows()))
        assert [row.example.response for row in rows] == list("abcd")


def test_reading_of_a_data_set_can_begin_at_any_row(data_folder, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
    for data in (
        ScoreInput(tfds=("npov_errors/sample",), split="test"),
        ScoreInput(task=("npov_coverage_sample",), split="test"),
    ):
        rows = list(data.rows(BadRows()))
        assert list(data.rows(BadRows(), rows[20].place)) == rows[20:]


def test_a_data_set_is_read_from_its_folder(tmp_path):
    """A file written by infer."""
    row = {"id": "a", "knowledge": ["Tea is hot.", "It grows."], "prediction": "Tea.", "length": 2}
    data_set = tfds.responses("rows", row, "Responses.")
    folder = tmp_path / "tfds"
    folder.mkdir()
    data_set.write_shard(folder, 0, 1, [row, {**row, "id": "b", "prediction": "Ink."}])
    data_set.write_metadata(folder, [2])
    data = ScoreInput(tfds=(str(folder),), split="rows")
    rows = list(data.rows(BadRows()))
    assert [row.example.id for row in rows] == ["a", "b"]
    assert [row.example.response for row in rows] == ["Tea.", "Ink."]
    assert rows[1].example.grounding.texts == ("Tea is hot.", "It grows.")
    assert rows[1].fields == {"length": 2}
    assert list(data.rows(BadRows(), (0, 1))) == rows[1:]
    with pytest.raises(ConfigError, match=r"--split: .*tfds has the splits rows, or a slice"):
        list(ScoreInput(tfds=(str(folder),), split="test").rows(BadRows()))
    with pytest.raises(ConfigError, match=r"--split: rows\[:0\] of .*tfds has no rows"):
        list(ScoreInput(tfds=(str(folder),), split="rows[:0]").rows(BadRows()))


def test_texts_of_a_data_set_that_look_like_lists_stay_beside_others(monkeypatch):
    rows = [{"context": text, "answer": "Red."} for text in ('["red", "green"]', "It prints red.")]

    def seqio_rows(task, split, first=0):
        return (Row(f"{task}:{n}", row) for n, row in enumerate(rows[first:]))

    monkeypatch.setattr(score_input, "seqio_rows", seqio_rows)
    columns = ScoreInput(task=("printing",), split="test", grounding_column="context")
    for first in (0, 1):
        read = [row.example.grounding.texts for row in columns.rows(BadRows(), (0, first))]
        assert read == [(row["context"],) for row in rows[first:]]
