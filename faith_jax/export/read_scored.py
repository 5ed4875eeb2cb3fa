"""Reads scored rows, from `faith-jax score` or elsewhere.

A row needs only `id`, `scores` and, for evaluation, `label`; docs/scores.md lists all fields. Rows
may also come from a table with a column for each scorer, such as a frame of `faith_jax.score` or a
CSV file of another system.
"""

import decimal
import itertools
import logging
import math
import pathlib
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from faith_jax.core.errors import InputError, did_you_mean, field_error
from faith_jax.core.files.stores import check_readable
from faith_jax.core.labels import parse_number
from faith_jax.core.progress import log_once
from faith_jax.core.rows import Row, read_jsonl
from faith_jax.core.schema import convert_row
from faith_jax.core.table import printable
from faith_jax.datasets.grounded_rows import (
    Columns,
    cell_text,
    example_rows,
    file_text_columns,
)
from faith_jax.datasets.table_notes import TableNotes, stands_for_none
from faith_jax.datasets.tables import decimal_commas, file_form, named_form, read_rows
from faith_jax.datasets.usual_names import system_columns
from faith_jax.export.scored_rows import ScoredRow, field_texts
from faith_jax.scoring.registry import scorer_names

logger = logging.getLogger("faith_jax")

# Larger scores are errors: differences and histogram bins would overflow.
_LARGEST_SCORE = 1e100
_WORD = "[start, end, score, number of the grounding's text or null] within the text"


def read_scored_rows(path: pathlib.Path, scorers: Sequence[str] = ()) -> Iterator[ScoredRow]:
    """Yields the rows of a scored JSON, CSV, TSV, Parquet or Arrow file, or of a TFDS folder.

    A missing corpus becomes the file's name, a missing `generated_text` None, and other missing
    values empty ones. Fields become texts, see `faith_jax.export.scored_rows.field_texts`. From a
    table with a column for each scorer, reads the columns `scorers` and all that are named as known
    scorers.

    Raises:
      InputError: the file has another form (the message names the row and field), or a score is
        infinite. NaN is an undefined score.
    """
    check_readable(path)
    form = named_form(path)
    if path.is_dir():
        from faith_jax.export.tfds import read_scored_tfds

        rows: Iterator[Row] = read_scored_tfds(path)
    elif form == "jsonl":
        file_form(path, form)  # raises if the content is Parquet
        rows = read_jsonl(path, usual=_DECODER)
    elif form:
        rows = read_rows(
            path,
            note=lambda line: log_once(printable(line)),  # a run may read the file again
            id_column_of=ScoredColumns().find_id_column,
        )
    else:
        expected = "expected scores as .jsonl, .csv or .parquet, or a folder of TFDS"
        raise InputError(f"{path}: {expected}.{_score_first(path)}")
    first = next(rows, None)
    if first is None:
        return
    rows = itertools.chain([first], rows)
    has_cells = form in ("csv", "tsv")  # a cell `scores` is not an object
    if isinstance(first.fields, Mapping) and (has_cells or first.fields.get("scores") is None):
        columns = score_columns(list(first.fields), scorers)
        if columns:
            commas = decimal_commas(path, "") if has_cells else frozenset()
            layout = ScoredColumns()
            find_texts = None if path.is_dir() else file_text_columns(path, "", layout)
            rows = scored_fields(rows, columns, layout, path.stem, commas, find_texts)
        elif has_cells:
            problem = (
                f"is {' or '.join(scorers)}; give the column with these scores this name."
                if scorers
                else "is named as a scorer; say which are scores with --scorers=NAMES (of "
                "calibrate: --scorer=NAME)."
            )
            raise InputError(
                f"{path}: none of the columns {', '.join(first.fields)} {problem}"
                f"{_score_first(path, 'Or score')}"
            )
    for row in rows:
        yield _check_row(row, path)


def _score_first(path: pathlib.Path, advice: str = "Score") -> str:
    """Returns advice on how to score the responses of a file; "" if its form is unknown."""
    if not named_form(path):
        return ""
    quoted = shlex.quote(str(path))
    command = f"faith-jax score --scorers=NAMES --input={quoted} --output=scores.jsonl"
    return f" {advice} its responses first: {command}"


_Value = Annotated[float, msgspec.Meta(ge=-_LARGEST_SCORE, le=_LARGEST_SCORE)]
_Whole = Annotated[int, msgspec.Meta(ge=-(10**18), le=10**18)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Texts = list[str] | str | None
_Words = dict[str, list[Any] | None]  # by scorer


class _RawRow(msgspec.Struct, forbid_unknown_fields=True):
    """A scored row as a file has it, before its words are checked against its texts."""

    id: str | int | float
    scores: dict[str, _Value | _Whole | None]
    corpus: str | UnsetType | None = UNSET
    grounding: _Texts | UnsetType = UNSET
    perspectives: _Texts | UnsetType = UNSET
    history: _Texts | UnsetType = UNSET
    generated_text: str | UnsetType | None = UNSET
    label: Any = UNSET
    fields: dict[str, Any] | UnsetType | None = UNSET
    words: _Words | UnsetType | None = UNSET
    evidence: _Words | UnsetType | None = UNSET
    cut_tokens: dict[str, _Count | None] | UnsetType | None = UNSET
    cut: dict[str, dict[str, _Count | None] | None] | UnsetType | None = UNSET
    undefined: dict[str, str | None] | UnsetType | None = UNSET


_DECODER = msgspec.json.Decoder(_RawRow)


def _check_row(row: Row, path: pathlib.Path) -> ScoredRow:
    place = row.place
    fields: Any = row.fields
    raw: _RawRow
    if isinstance(fields, _RawRow):
        raw = fields
    else:
        if "scores" in fields and fields["scores"] is None:
            remedy = "write null for each scorer without a score"
            raise field_error(place, "scores", "an object of scores by scorer", None, remedy)
        if "scores" not in fields:
            near = did_you_mean("scores", [name for name in fields if "score" in name.lower()])
            raise InputError(f"{place}: field 'scores' is missing.{near or _score_first(path)}")
        pairs = fields.get("fields")  # Parquet stores objects with varying names as pairs
        if isinstance(pairs, list) and all(isinstance(pair, tuple) for pair in pairs):
            fields = {**fields, "fields": (pairs := dict(pairs))}
        more = {name: v for name, v in fields.items() if name not in _RawRow.__struct_fields__}
        if more and isinstance(pairs, dict | None):  # the user's own columns
            fields = {name: v for name, v in fields.items() if name not in more}
            fields["fields"] = more | (pairs or {})
        if isinstance(fields["scores"], dict):  # NaN, as Python's json writes it, is undefined
            known = {name: None if v != v else v for name, v in fields["scores"].items()}
            fields = {**fields, "scores": known}
        try:
            raw = msgspec.convert(fields, _RawRow)
        except msgspec.ValidationError:
            scores = fields["scores"]
            for scorer, score in scores.items() if isinstance(scores, dict) else ():
                is_number = isinstance(score, int | float) and not isinstance(score, bool)
                if score is not None and not (is_number and abs(score) <= _LARGEST_SCORE):
                    expected = "a finite number or null"
                    raise field_error(place, f"scores.{scorer}", expected, score) from None
            raw = convert_row(fields, place, _RawRow, strip=False)  # raises, and says why
    if not raw.scores:
        raise field_error(place, "scores", "an object of scores by scorer", raw.scores)
    if not all(map(str.strip, raw.scores)):
        raise InputError(f"{place}: field 'scores': a scorer has no name; give it one.")
    if raw.id != raw.id:
        raise field_error(place, "id", "a text or a number", raw.id)
    label = None if raw.label is UNSET else raw.label
    if label not in (None, 0, 1):  # 1.0 also passes: pandas writes it if another label is missing
        raise field_error(place, "label", "1, 0 or null", label)
    further = raw.fields or {}
    try:
        columns = system_columns(tuple(further))
    except InputError as error:
        raise InputError(f"{place}: {error}.") from None
    scored_row: ScoredRow = {
        "id": raw.id if isinstance(raw.id, str) else cell_text(raw.id, place, "id"),
        "corpus": raw.corpus or path.stem,
        "grounding": _list_texts(raw.grounding),
        "perspectives": _list_texts(raw.perspectives),
        "history": _list_texts(raw.history),
        "generated_text": None if raw.generated_text is UNSET else raw.generated_text,
        "label": None if label is None else int(label),
        "fields": field_texts({columns.get(name, name): v for name, v in further.items()}),
        "scores": raw.scores,
        "cut_tokens": raw.cut_tokens or {},
        # Parquet and TFDS also store counts that are 0 or null; leave them out.
        "cut": {
            scorer: parts
            for scorer, counts in (raw.cut or {}).items()
            if (parts := {part: count for part, count in (counts or {}).items() if count})
        },
        "undefined": {name: why for name, why in (raw.undefined or {}).items() if why},
    }
    for name, words in (("words", raw.words), ("evidence", raw.evidence)):
        scored_row[name] = _read_words(words or {}, scored_row, place, name)
    return scored_row


def _list_texts(value: _Texts | UnsetType) -> list[str]:
    return [value] if isinstance(value, str) else value or []


def _read_words(words: _Words, row: ScoredRow, place: str, field: str) -> dict[str, list[Any]]:
    """Returns each scorer's words as lists; Parquet has objects, and null instead of no words."""
    words_by_scorer, texts = {}, row["grounding"]
    for name, raw_words in words.items():
        items: list[Any] = [
            [word.get(part) for part in ("start", "end", "score", "text")]
            if isinstance(word, dict)
            else word
            for word in raw_words or ()
        ]
        for item in items:
            is_word = isinstance(item, Sequence) and len(item) == 4
            if is_word:
                start, end, score, number = item
                is_word = field == "words"  # evidence cannot lie in the response
                if number is not None:
                    is_word = isinstance(number, int) and 0 <= number < len(texts)
                is_word &= type(score) in (int, float) and abs(score) <= _LARGEST_SCORE
                is_word &= isinstance(start, int) and isinstance(end, int)
            if is_word:
                text = (row["generated_text"] or "") if number is None else texts[number]
                is_word = 0 <= start <= end <= len(text)
            if not is_word:
                raise field_error(place, f"{field}.{name}", _WORD, item)
        if items:
            words_by_scorer[name] = items
    return words_by_scorer


# Verdicts in text files, as numbers.
_VERDICTS = {"true": "1", "false": "0"}


class ScoredColumns(Columns):
    """The roles of columns in a table of scores, which needs no texts."""

    needs: ClassVar[tuple[str, ...]] = ()
    ambiguous_remedy: ClassVar[str] = "rename one of them"
    label_remedy: ClassVar[str] = "write one of these in the table"
    repeated_id_remedy: ClassVar[str] = "give each row an id of its own"
    number_remedy: ClassVar[str] = "without the column, ids are the rows' numbers"


def score_columns(fields: Sequence[str], scorers: Sequence[str]) -> list[str]:
    """Returns the columns that hold scores: `scorers`, and all that are named as known scorers."""
    names = {*scorers, *scorer_names()}
    return [name for name in fields if name in names]


def scored_fields(
    rows: Iterable[Row],
    scorers: Sequence[str],
    columns: Columns,
    corpus: str,
    comma_columns: frozenset[str] = frozenset(),
    find_text_columns: Callable[[], Collection[str]] | None = None,
) -> Iterator[Row]:
    """Yields the fields of scored rows, with their places, from a table with columns of scores.

    A row may lack some of the `scorers`; `comma_columns` have numbers with decimal commas. For the
    other arguments see `example_rows`.

    Raises:
      InputError: a score, a label or a text is not valid; the message names the row.
    """
    rows, raw_rows = itertools.tee(rows)
    notes = TableNotes()
    examples = example_rows(rows, columns, corpus, notes=notes, find_text_columns=find_text_columns)
    for row, read in zip(raw_rows, examples, strict=True):
        example = read.example
        scores: dict[str, Any] = {}
        for scorer in (name for name in scorers if name in row.fields):
            value = row.fields[scorer]
            if isinstance(value, str):
                text = value.strip()
                if scorer in comma_columns:
                    text = text.replace(",", ".")
                is_none = not text or stands_for_none(text)
                try:
                    value = None if is_none else parse_number(_VERDICTS.get(text.lower(), text))
                except ValueError:
                    expected = "a number, true, false, or nothing"
                    raise field_error(row.place, scorer, expected, value) from None
            if isinstance(value, bool | decimal.Decimal):  # a verdict, or a number of a database
                value = float(value)
            if isinstance(value, float) and math.isinf(value):
                raise field_error(row.place, scorer, "a finite number, or nothing", value)
            # NaN = undefined; `_check_row` rejects other values that are not numbers.
            scores[scorer] = None if value != value else value
        yield Row(
            row.place,
            {
                "id": example.id,
                "corpus": read.corpus,
                "grounding": list(example.grounding.texts),
                "perspectives": list(example.grounding.perspectives),
                "history": list(example.history),
                "generated_text": example.response if notes.columns["response"] else None,
                "label": example.label,
                "fields": {n: value for n, value in read.fields.items() if n not in scores},
                "scores": scores,
            },
        )
