"""Reading scored rows: what `faith-jax score` writes, and scores of other origin.

A row needs no more than `id`, `scores` and, to be evaluated, `label`; docs/scores.md has all. Or it
is of a table with a column for each scorer (`faith_jax.export.score_columns`).
"""

import functools
import itertools
import logging
import pathlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from faith_jax.core.errors import InputError, did_you_mean, field_error
from faith_jax.core.files.stores import check_readable
from faith_jax.core.rows import Row, read_jsonl
from faith_jax.core.table import printable
from faith_jax.datasets.grounded_rows import file_text_columns
from faith_jax.datasets.tables import FORMATS, decimal_commas, file_form, read_rows
from faith_jax.export.score_columns import ScoredColumns, score_columns, scored_fields
from faith_jax.export.scored_rows import ScoredRow, field_texts

logger = logging.getLogger("faith_jax")

# No score is larger; beyond it, differences and the bins of a histogram overflow.
LARGEST_SCORE = 1e100
_WORD = "[start, end, score, number of the grounding's text or null] within the text"

_PASSAGES = ("words", "evidence")  # both of this form

T = TypeVar("T")


def read_scored_rows(path: pathlib.Path, scorers: Sequence[str] = ()) -> Iterator[ScoredRow]:
    """Yields the rows of a scored JSON, CSV, TSV, Parquet or Arrow file, or of a TFDS folder.

    What a row lacks is filled in: the corpus by the file's name, `generated_text` by None, and the
    rest by what is empty. Fields are texts, see `faith_jax.export.scored_rows.field_texts`.

    Args:
      path: of the file or folder.
      scorers: of a table with a column for each scorer, those that are read; default: the columns
        that are named as scorers.

    Raises:
      InputError: for a file of another form, with the row and field, and for scores that are not
        finite.
    """
    check_readable(path)
    if path.is_dir():
        from faith_jax.export.tfds import read_scored_tfds

        rows: Iterator[Row] = read_scored_tfds(path)
    elif path.suffix in (".json", ".parquet", ".arrow", ".csv", ".tsv"):
        rows = read_rows(path, note=_log_once, id_column_of=ScoredColumns().find_id_column)
    elif path.suffix == ".jsonl":
        file_form(path, "jsonl")  # an error for Parquet
        rows = read_jsonl(path, usual=_USUAL)
    else:
        expected = "expected scores as .jsonl, .csv or .parquet, or a folder of TFDS"
        raise InputError(f"{path}: {expected}.{_score_first(path)}")
    first = next(rows, None)
    if first is None:
        return
    rows = itertools.chain([first], rows)
    has_cells = path.suffix in (".csv", ".tsv")  # which hold no objects, whatever their names
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


@functools.lru_cache(maxsize=1024)
def _log_once(sentence: str) -> None:
    """Logs what is found out about a file, which a run may read several times."""
    logger.info("%s", printable(sentence))


def _score_first(path: pathlib.Path, advice: str = "Score") -> str:
    """Returns advice on how to score the responses of a file; "" = it holds none."""
    if path.suffix not in FORMATS:
        return ""
    quoted = shlex.quote(str(path))
    command = f"faith-jax score --scorers=NAMES --input={quoted} --output=scores.jsonl"
    return f" {advice} its responses first: {command}"


def _check_row(row: Row, path: pathlib.Path) -> ScoredRow:
    place, fields = row
    if isinstance(fields, _UsualRow):
        return _usual_row(fields, place, path)
    if fields.get("scores") is None:
        near = did_you_mean("scores", [name for name in fields if "score" in name.lower()])
        raise InputError(f"{place}: field 'scores' is missing.{near or _score_first(path)}")
    if fields.get("id") is None:
        raise InputError(f"{place}: field 'id' is missing.{did_you_mean('id', fields)}")
    for name, (is_right, expected) in _FIELDS.items():
        if (value := fields.get(name)) is not None and not is_right(value):
            raise field_error(place, name, expected, value)
    further_texts = field_texts(_read_object(fields, "fields", place))
    scores = fields["scores"]
    if not isinstance(scores, dict) or not scores:
        raise field_error(place, "scores", "an object of scores by scorer", scores)
    for scorer, score in scores.items():
        if score is not None and not _is_score(score):
            raise field_error(place, f"scores.{scorer}", "a finite number or null", score)
    cut_tokens = _read_object(fields, "cut_tokens", place)
    for scorer, count in cut_tokens.items():
        if not _is_count(count):
            expected = "0 or a positive whole number"
            raise field_error(place, f"cut_tokens.{scorer}", expected, count)
    scored_row: ScoredRow = {
        "id": str(fields["id"]),
        "corpus": fields.get("corpus") or path.stem,
        "grounding": _list_texts(fields.get("grounding")),
        "perspectives": _list_texts(fields.get("perspectives")),
        "history": _list_texts(fields.get("history")),
        "generated_text": fields.get("generated_text"),
        "label": None if fields.get("label") is None else int(fields["label"]),
        "fields": further_texts,
        "scores": scores,
        "cut_tokens": cut_tokens,
        "cut": _read_cut_counts(_read_object(fields, "cut", place), place),
        "undefined": {
            name: str(why) for name, why in _read_object(fields, "undefined", place).items() if why
        },
    }
    for name in _PASSAGES:
        scored_row[name] = _read_words(_read_object(fields, name, place), scored_row, place, name)
    return scored_row


_Value = Annotated[float, msgspec.Meta(ge=-LARGEST_SCORE, le=LARGEST_SCORE)]
_Whole = Annotated[int, msgspec.Meta(ge=-(10**18), le=10**18)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Texts = list[str] | str | None


class _UsualRow(msgspec.Struct):
    """A row that needs no more checks than msgspec makes, but for its words and cuts."""

    id: str | int
    scores: Annotated[dict[str, _Value | _Whole | None], msgspec.Meta(min_length=1)]
    corpus: str | UnsetType | None = UNSET
    grounding: _Texts | UnsetType = UNSET
    perspectives: _Texts | UnsetType = UNSET
    history: _Texts | UnsetType = UNSET
    generated_text: str | UnsetType | None = UNSET
    label: Literal[0, 1] | UnsetType | None = UNSET
    fields: dict[str, Any] | UnsetType | None = UNSET
    words: dict[str, Any] | UnsetType | None = UNSET
    evidence: dict[str, Any] | UnsetType | None = UNSET
    cut_tokens: dict[str, _Count | None] | UnsetType | None = UNSET
    cut: dict[str, Any] | UnsetType | None = UNSET
    undefined: dict[str, str] | UnsetType | None = UNSET


_USUAL = msgspec.json.Decoder(_UsualRow)


def _usual_row(row: _UsualRow, place: str, path: pathlib.Path) -> ScoredRow:
    """Returns the row that `_check_row` would return, in a fraction of its time."""
    scored_row: ScoredRow = {
        "id": str(row.id),
        "corpus": row.corpus or path.stem,
        "grounding": _list_texts(_none_if_unset(row.grounding)),
        "perspectives": _list_texts(_none_if_unset(row.perspectives)),
        "history": _list_texts(_none_if_unset(row.history)),
        "generated_text": _none_if_unset(row.generated_text),
        "label": _none_if_unset(row.label),
        "fields": field_texts(row.fields) if row.fields else {},
        "scores": row.scores,
        "cut_tokens": row.cut_tokens or {},
        "cut": _read_cut_counts(row.cut, place) if row.cut else {},
        "undefined": {name: why for name, why in (row.undefined or {}).items() if why},
    }
    scored_row["words"] = _read_words(row.words, scored_row, place) if row.words else {}
    evidence = row.evidence
    scored_row["evidence"] = (
        _read_words(evidence, scored_row, place, "evidence") if evidence else {}
    )
    return scored_row


def _none_if_unset(value: T | UnsetType) -> T | None:
    """Returns the value of a field, None where the row has none."""
    return None if value is UNSET else value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return all(map(_is_text, value)) if isinstance(value, list) else _is_text(value)


# What a field may be, where it is not null.
_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "id": (lambda value: type(value) in (str, int), "a text"),
    "label": (lambda value: value in (0, 1), "1, 0 or null"),
    **dict.fromkeys(("corpus", "generated_text"), (_is_text, "a text")),
    **dict.fromkeys(("grounding", "perspectives", "history"), (_are_texts, "a list of texts")),
}


def _list_texts(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else value


def _read_object(fields: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    """Returns an object; Parquet has pairs in the place of objects whose names vary."""
    value = fields.get(name)
    try:
        return dict(value or {})
    except (TypeError, ValueError):
        raise field_error(place, name, "an object", value) from None


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 2**63)


def _is_score(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= LARGEST_SCORE  # of an integer of any size; False of NaN


def _read_cut_counts(cut: Mapping[str, Any], place: str) -> dict[str, dict[str, int]]:
    """Returns each scorer's counts but for those of none; Parquet and TFDS have all."""
    cut_by_scorer = {}
    for name, counts in cut.items():
        if counts is not None and not (
            isinstance(counts, dict) and all(map(_is_count, counts.values()))
        ):
            raise field_error(place, f"cut.{name}", "an object of whole numbers by part", counts)
        if parts := {part: count for part, count in (counts or {}).items() if count}:
            cut_by_scorer[name] = parts
    return cut_by_scorer


def _read_words(
    words: Mapping[str, Any], row: ScoredRow, place: str, field: str = "words"
) -> dict[str, list[Any]]:
    """Returns each scorer's words as lists; Parquet has objects, and null for no words."""
    words_by_scorer = {}
    for name, its_words in words.items():
        listed = (
            its_words if isinstance(its_words, list) else [] if its_words is None else [its_words]
        )
        items = [list(word.values()) if isinstance(word, dict) else word for word in listed]
        for item in items:
            if not _is_word(item, row) or (field == "evidence" and item[3] is None):
                raise field_error(place, f"{field}.{name}", _WORD, item)
        if items:
            words_by_scorer[name] = items
    return words_by_scorer


def _is_word(word: Any, row: Mapping[str, Any]) -> bool:
    if not isinstance(word, Sequence) or len(word) != 4 or not _is_score(word[2]):
        return False
    start, end, _, number = word
    texts: list[str] = row["grounding"]
    if number is not None and not (isinstance(number, int) and 0 <= number < len(texts)):
        return False
    text = (row["generated_text"] or "") if number is None else texts[number]
    has_span = isinstance(start, int) and isinstance(end, int)
    return has_span and 0 <= start <= end <= len(text)
