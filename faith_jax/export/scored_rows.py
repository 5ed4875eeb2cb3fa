"""Scored examples as rows, the output of `faith-jax score`.

A row holds the example (`id`, `corpus`, `grounding`, `perspectives`, `history`, `generated_text`,
`label`), its other `fields`, and values by scorer: `scores` (null = undefined), `words` (start,
end, score, and the number of the grounding's text, null = the response), `evidence` (the same for
passages of the grounding), `cut_tokens`, `cut` (cut tokens by part of the input, without parts that
are not cut), and `undefined` (why a score is null).
"""

import itertools
import json
import math
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.cutting import Kind
from faith_jax.core.errors import ConfigError
from faith_jax.core.files import NO_FOLDER, has_parent, write_jsonl
from faith_jax.core.types import Score
from faith_jax.datasets.grounded_rows import ExampleRow

ScoredRow = dict[str, Any]
TFDS = "tfds"
_FORMATS = {".jsonl": "jsonl", ".parquet": "parquet"}
_VERSION = re.compile(r"\d+\.\d+\.\d+")
# The parts of the input that `cut` may name.
PARTS = tuple(kind.name.lower() for kind in Kind)
_BATCH = 1024


def scored_row(row: ExampleRow, scores: Mapping[str, Score]) -> ScoredRow:
    """Returns a row of an example and its scores by scorer.

    Raises:
      ValueError: a score is infinite.
    """
    example = row.example
    values: dict[str, float | None] = {}
    cut_tokens: dict[str, int] = {}
    words, evidence, cut, undefined = {}, {}, {}, {}
    for name, score in scores.items():
        value = score.value
        if math.isinf(value):
            raise ValueError(f"{name} gave {example.id} an infinite score.")
        values[name] = None if math.isnan(value) else value
        cut_tokens[name] = score.cut_tokens if score.cut else 0
        if score.words:
            words[name] = [[w.start, w.end, w.score, w.text] for w in score.words]
        if score.evidence:
            evidence[name] = [[e.start, e.end, e.score, e.text] for e in score.evidence]
        if score.cut:
            cut[name] = dict(score.cut)
        if score.undefined:
            undefined[name] = score.undefined
    return {
        "id": example.id,
        "corpus": row.corpus,
        "grounding": list(example.grounding.texts),
        "perspectives": list(example.grounding.perspectives),
        "history": list(example.history),
        "generated_text": example.response,
        "label": example.label,
        "fields": dict(row.fields),
        "scores": values,
        "words": words,
        "evidence": evidence,
        "cut_tokens": cut_tokens,
        "cut": cut,
        "undefined": undefined,
    }


def write_parquet(rows: Iterable[ScoredRow], path: pathlib.Path, scorers: Sequence[str]) -> None:
    """Writes rows with the scores of all `scorers` to a Parquet file, a batch at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    texts = pa.list_(pa.string())
    word = pa.struct(
        [("start", pa.int32()), ("end", pa.int32()), ("score", pa.float64()), ("text", pa.int32())]
    )
    parts = pa.struct([(part, pa.int32()) for part in PARTS])
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("corpus", pa.string()),
            ("grounding", texts),
            ("perspectives", texts),
            ("history", texts),
            ("generated_text", pa.string()),
            ("label", pa.int8()),
            ("fields", pa.map_(pa.string(), pa.string())),
            ("scores", pa.struct([(name, pa.float64()) for name in scorers])),
            ("words", pa.struct([(name, pa.list_(word)) for name in scorers])),
            ("evidence", pa.struct([(name, pa.list_(word)) for name in scorers])),
            ("cut_tokens", pa.struct([(name, pa.int32()) for name in scorers])),
            ("cut", pa.struct([(name, parts) for name in scorers])),
            ("undefined", pa.struct([(name, pa.string()) for name in scorers])),
        ]
    )
    with parquet.ParquetWriter(path, schema) as writer:
        left = map(_nest_words, rows)
        while batch := list(itertools.islice(left, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema))


def form_of(target: pathlib.Path, form: str = "") -> str:
    """Returns "jsonl", "parquet" or "tfds", by an output's ending or `form`.

    Raises:
      ConfigError: neither determines a format, they differ, or the output's folder does not exist.
    """
    # A folder's name has no ending, or is a version as in TFDS.
    is_folder = not target.suffix or _VERSION.fullmatch(target.name)
    named_form = TFDS if is_folder else _FORMATS.get(target.suffix, "")
    problem = ""
    if form and target.suffix in _FORMATS and form != named_form:
        problem = f"the ending says {named_form}, --format says {form}; let them agree"
    elif not (form or named_form):
        problem = "name a .jsonl or .parquet file, or a folder"
    elif not has_parent(target):
        problem = NO_FOLDER
    if problem:
        raise ConfigError(f"--output: {target}: {problem}.")
    return form or named_form


def write_scored(
    rows: Iterable[ScoredRow], output: pathlib.Path, form: str, scorers: Sequence[str]
) -> None:
    """Writes rows with the scores of all `scorers`, in a format that `form_of` returns."""
    if form == TFDS:
        from faith_jax.export import tfds

        count = 0

        def count_rows() -> Iterator[ScoredRow]:
            nonlocal count
            for row in rows:
                count += 1
                yield row

        data_set = tfds.scores("rows", scorers)
        output.mkdir()
        data_set.write_shard(output, 0, 1, count_rows())
        data_set.write_metadata(output, [count])
    elif form == "jsonl":
        write_jsonl(output, rows)
    else:
        write_parquet(rows, output, scorers)


def _nest_words(row: ScoredRow) -> ScoredRow:
    names = ("start", "end", "score", "text")
    nested = {
        field: {
            name: [dict(zip(names, word, strict=True)) for word in scorer_words]
            for name, scorer_words in row.get(field, {}).items()
        }
        for field in ("words", "evidence")
    }
    return row | {"fields": list(field_texts(row["fields"]).items())} | nested


def field_texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """Returns fields as texts; values that are not texts become JSON, and None is left out.

    >>> field_texts({"source": "wow", "turn": 3, "spans": [[0, 3]]})
    {'source': 'wow', 'turn': '3', 'spans': '[[0, 3]]'}
    """
    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
    return {
        name: value if isinstance(value, str) else encode(value)
        for name, value in fields.items()
        if value is not None
    }
