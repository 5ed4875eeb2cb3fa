import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from faith_jax.core.rows import BadRows
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
    """Of two files; rows keep their numbers, which are the ids, and bad ones are passed over."""
    paths = [tmp_path / f"{name}.{form}" for name in ("one", "two")]
    for path in paths:
        write(path)
    given = ScoreInput(input=tuple(map(str, paths)))
    bad_rows = BadRows(skip=True)
    rows = list(given.rows(bad_rows))
    good = [0, 1, 2, 4, 5, 6] if form != "parquet" else list(range(7))
    assert [row.place for row in rows] == [(part, n) for part in (0, 1) for n in good]
    assert [row.example.id for row in rows] == [str(n + 1) for _ in (0, 1) for n in good]
    assert bad_rows.count == (0 if form == "parquet" else 2)
    for number, row in enumerate(rows):
        rest = list(given.rows(BadRows(skip=True), row.place))
        assert rest == rows[number:]


def test_reading_of_a_data_set_can_begin_at_any_row(data_folder, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
    for given in (
        ScoreInput(tfds=("npov_errors/sample",), split="test"),
        ScoreInput(task=("npov_coverage_sample",), split="test"),
    ):
        rows = list(given.rows(BadRows()))
        assert list(given.rows(BadRows(), rows[20].place)) == rows[20:]
