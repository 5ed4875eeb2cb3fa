"""Examples to score from rows of any form: JSON lines, CSV, TSV, Parquet, or rows of a data set."""

import dataclasses
import datetime
import decimal
import functools
import json
import pathlib
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from faith_jax.core.errors import ConfigError, InputError, counted, did_you_mean, field_error
from faith_jax.core.rows import BadRows, Row, Seen, parsed, read_jsonl
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.delimited import read_csv, read_tsv

FORMATS = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}

# If no column is named, the first of these that a row has; TRUE's names come first.
_USUAL = {
    "grounding": (
        "grounding", "knowledge", "evidence", "pro=pro_arguments,con=con_arguments", "premise",
        "contexts", "passages", "passage", "retrieved_text",
    ),
    "response": ("generated_text", "prediction", "response", "hypothesis", "answer"),
    "history": ("history", "context", "message", "query", "question"),
    "label": ("label",),
    "id": ("id",),
    "corpus": ("corpus",),
}  # fmt: skip
_TEXTS = ("grounding", "response", "history")  # of which a column holds one
# Labels that say which rows are faithful, or, with --labels-are-errors, which have an error.
_ANSWERS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1, "no": 0, "yes": 1}
# Labels that say it themselves.
_SAYING = {
    **dict.fromkeys(("faithful", "supported", "consistent", "attributable"), 1),
    **dict.fromkeys(("unfaithful", "not faithful", "unsupported", "not supported"), 0),
    **dict.fromkeys(("inconsistent", "not attributable", "hallucinated", "hallucination"), 0),
}
_LABELS = _ANSWERS | _SAYING
# Several systems may respond to one row, and several trainings of one system.
SYSTEM_FIELDS = ("system", "replicate")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns hold what: options of the commands that read rows.

    Attributes:
      grounding_column (NAME): a text or a list of texts; or pro=NAME,con=NAME; default: the usual
        names, TRUE's first
      perspective_column (NAME): of each text of the grounding its side, or its article's title
      response_column (NAME): the text; default: the usual names, TRUE's first
      history_column (NAME): earlier utterances
      label_column (NAME): 1, yes, true or faithful; 0, no, false or hallucinated; or empty
        (default: label, where there is one); of several with commas the first that a row has
      label_values (LABEL=VALUE): what other labels mean, with commas:
        entailment=1,contradiction=0,generic= (unknown)
      labels_are_errors: a label of 1, yes or true says that there is an error
      id_column (NAME): default: id, where there is one; else, or with --id-column=, the row's
        number
      corpus_column (NAME): default: corpus, where there is one
    """

    group: ClassVar = "columns"
    needs_grounding: ClassVar[bool] = True  # else a row's grounding is not read
    empty_remedy: ClassVar[str] = ""  # what to do where a grounding is empty
    grounding_column: str = ""
    perspective_column: str = "perspectives"
    response_column: str = ""
    history_column: str = ""
    label_column: str | None = None
    label_values: str = ""
    labels_are_errors: bool = False
    id_column: str | None = None
    corpus_column: str | None = None

    def __post_init__(self):
        _ = self.known_labels, self.named_texts

    @functools.cached_property
    def named_texts(self) -> frozenset[str]:
        """The columns of texts that options name."""
        found: dict[str, str] = {}
        for option in (f"{what}_column" for what in _TEXTS):
            for name in filter(None, set(_perspectives(getattr(self, option)).values())):
                if name in found:
                    one, other = (f"--{it.replace('_', '-')}" for it in (found[name], option))
                    raise ConfigError(f"{other}: the column {name!r} is that of {one} already.")
                found[name] = option
        return frozenset(found)

    @functools.cached_property
    def known_labels(self) -> dict[str, int | None]:
        """What labels mean, in lower case: 1, 0, or nothing."""
        found: dict[str, int | None] = {"": None, **_LABELS}
        for part in filter(None, map(str.strip, self.label_values.split(","))):
            name, equals, value = (it.strip() for it in part.rpartition("="))
            if not (name and equals and value in ("0", "1", "")):
                expected = "expected LABEL=1, LABEL=0 or LABEL="
                raise ConfigError(f"--label-values: {expected}, got {part!r}.")
            found[name.lower()] = int(value) if value else None
        return found


_JSON = msgspec.json.Encoder(enc_hook=dict)  # of mappings that are no dict


class ExampleRow(NamedTuple):
    """An example with what else its row says.

    Attributes:
      example: what is scored.
      corpus: which it belongs to.
      fields: the row's other values as JSON (dates as texts), without nulls; the label too if its
        column is not named "label".
      left_out: columns whose values JSON cannot hold, with their types.
      place: which part of the input it is of (a file, a task), and which row of it, from 0.
    """

    example: GroundedExample
    corpus: str
    fields: Mapping[str, Any]
    left_out: Mapping[str, str] = types.MappingProxyType({})
    place: tuple[int, int] = (0, 0)

    # Digests of rows are of this text, which is made in a third of the usual one's time.
    def __repr__(self) -> str:
        return f"ExampleRow{_JSON.encode(self).decode()}"


def read_rows(
    path: pathlib.Path,
    form: str = "",
    bad_rows: BadRows | None = None,
    first: int = 0,
    **options: Any,
) -> Iterator[Row]:
    """Yields the rows of a file.

    Args:
      path: the file.
      form: "jsonl", "csv", "tsv" or "parquet"; "" = by the file's ending.
      bad_rows: what to do with bad rows; by default reading stops.
      first: the row to begin with, from 0.
      **options: of `read_jsonl`, for its files.

    Raises:
      InputError: an unknown ending, and what the format's reader raises.
    """
    packed = path.suffix in (".gz", ".bz2")
    form = form or FORMATS.get(path.with_suffix("").suffix if packed else path.suffix, "")
    if form != "parquet" and _is_parquet(path):
        raise InputError(f"{path}: a Parquet file by what it holds; let its name end in .parquet.")
    if form == "jsonl":
        return read_jsonl(path, bad_rows, first, **options)
    if form in ("csv", "tsv"):
        return (read_csv if form == "csv" else read_tsv)(path, (), bad_rows, first=first)
    if form == "parquet":
        return _read_parquet(path, first)
    known = ", ".join(FORMATS)
    raise InputError(f"{path}: the ending says no format ({known}); say it with --input-format.")


def _is_parquet(path: pathlib.Path) -> bool:
    from faith_jax.core.files.stores import opened_binary, storage_errors

    try:
        with opened_binary(path) as file:
            return file.read(4) == b"PAR1"
    except storage_errors():
        return False  # the format's reader says why


def _read_parquet(path: pathlib.Path, first: int) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    from faith_jax.core.files.stores import is_remote, opened_binary

    try:
        source = opened_binary(path) if is_remote(path) else path
        with parquet.ParquetFile(source) as file:
            number, groups = 0, list(range(file.metadata.num_row_groups))
            while groups and number + file.metadata.row_group(groups[0]).num_rows <= first:
                number += file.metadata.row_group(groups.pop(0)).num_rows
            for batch in file.iter_batches(batch_size=1024, row_groups=groups):
                wanted = batch.slice(max(0, first - number))
                number += batch.num_rows - wanted.num_rows
                for fields in wanted.to_pylist():
                    number += 1
                    yield Row(f"{path}:{number}", fields)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except (OSError, pyarrow.ArrowException) as error:
        problem = str(error).split("\n")[0]
        raise InputError(f"{path}: not a whole Parquet file ({problem}).") from None


def file_examples(
    path: pathlib.Path,
    form: str,
    columns: Columns,
    corpus: str,
    bad_rows: BadRows,
    first: int = 0,
) -> Iterator[ExampleRow]:
    """Yields the examples of a file from row `first` on, counted from 0.

    Bad rows count in the numbers that rows without ids get.
    """
    unread = _Unread(bad_rows)
    rows = read_rows(path, form, unread, first)
    return example_rows(rows, columns, corpus, bad_rows, unread, first)


class _Unread(BadRows):
    """Passes bad rows on, and counts those of this reading."""

    def __init__(self, told: BadRows):
        super().__init__(told.skip)
        self._told = told

    def add(self, error: InputError) -> None:
        self._told.add(error)
        self.count += 1


def example_rows(
    rows: Iterable[Row],
    columns: Columns,
    corpus: str,
    bad_rows: BadRows | None = None,
    unread: BadRows | None = None,
    first: int = 0,
) -> Iterator[ExampleRow]:
    """Yields the examples of rows.

    Args:
      rows: of any form.
      columns: which of their fields hold what.
      corpus: of rows that name none.
      bad_rows: what to do with a bad row; by default reading stops.
      unread: counts the rows that could not be read.
      first: the number of the first row, from 0.

    Raises:
      InputError: a row lacks a column, a grounding or a response, or has an unknown label or the id
        of an earlier response of its system.
    """
    seen = Seen()
    read = first
    layout_of = functools.lru_cache(functools.partial(_layout, columns))

    def parse(fields: Mapping[str, Any], place: str) -> ExampleRow:
        nonlocal read
        read += 1
        number = read + (unread.count if unread else 0)
        layout = layout_of(tuple(fields))
        row = _example_row(fields, place, number, columns, corpus, layout)
        key = (row.corpus, row.example.id, *map(row.fields.get, SYSTEM_FIELDS))
        if not seen.add(key):
            raise InputError(
                f"{place}: field '{columns.id_column or 'id'}': {row.example.id!r} occurs twice; "
                "choose another --id-column, or --id-column= for the rows' numbers."
            )
        return row

    return parsed(rows, parse, bad_rows or BadRows())


class _Layout(NamedTuple):
    """Which fields of rows hold what, and the others."""

    names: Mapping[str, str]
    others: tuple[str, ...]


def _layout(columns: Columns, fields: tuple[str, ...]) -> _Layout:
    names = _names(columns, fields)
    used = {*_perspectives(names["grounding"]).values(), ""}
    used |= {names[what] for what in ("response", "history", "id", "corpus")}
    used |= {"label"} & {names["label"]}  # other names say what the label is of
    return _Layout(names, tuple(name for name in fields if name not in used))


def _example_row(
    fields: Mapping[str, Any],
    place: str,
    number: int,
    columns: Columns,
    corpus: str,
    layout: _Layout,
) -> ExampleRow:
    names, others = layout
    needed = ("grounding", "response") if columns.needs_grounding else ("response",)
    if missing := [what for what in needed if not names[what]]:
        options = [f"--{what}-column={_likely(what, fields)}" for what in missing]
        raise InputError(
            f"{place}: none of the columns {', '.join(fields)} is known to hold the "
            f"{' or the '.join(missing)}; name it with {' '.join(options)}. Known names: "
            + "; ".join(f"of the {what} {', '.join(_USUAL[what])}" for what in missing)
            + "."
        )
    response, label, identifier, told_corpus = [
        _value(fields, place, name) if (name := names[what]) else None
        for what in ("response", "label", "id", "corpus")
    ]
    spec = names["grounding"]
    sides = _text_perspectives(fields, spec, columns.perspective_column) if spec else ()
    example = GroundedExample(
        _identifier(identifier, place, number, columns.id_column),
        _grounding(fields, place, spec, columns, sides),
        _texts(fields, place, names["history"]) if names["history"] else (),
        _response(response, names["response"], place),
        _label(label, columns, names["label"], place),
    )
    kept, left_out = _json_fields(
        {n: fields[n] for n in others if not (sides and n == columns.perspective_column)}
    )
    return ExampleRow(example, _shown(told_corpus) or corpus, kept, left_out, (0, number - 1))


def _likely(what: str, fields: Iterable[str]) -> str:
    """Returns the value of an option: the sides of a grounding, where two fields look like them."""
    if what != "grounding":
        return "NAME"
    sides = {s: [n for n in fields if re.match(rf"{s}s?([_ -]|$)", n)] for s in ("pro", "con")}
    named = [f"{side}={found[0]}" for side, found in sides.items() if len(found) == 1]
    return ",".join(named) if len(named) == 2 else "NAME"


def have_usual_names(fields: Iterable[str]) -> bool:
    """Whether rows of such fields have a grounding and a response without being told where."""
    names = _names(Columns(), tuple(fields))
    return bool(names["grounding"] and names["response"])


@functools.lru_cache
def _names(columns: Columns, fields: tuple[str, ...]) -> dict[str, str]:
    """Returns the columns that hold the parts of an example; "" = none, a named one may lack.

    A text that an option names is nothing else by its usual name.
    """
    found = {"grounding": ""}
    taken = columns.named_texts
    for what, usual in _USUAL.items():
        if what == "grounding" and not columns.needs_grounding:
            continue
        given = getattr(columns, f"{what}_column")
        if given:
            names = given.split(",") if what == "label" else [given]
            found[what] = next((name for name in names if name in fields), names[0])
        elif given is None or what not in ("label", "id", "corpus"):
            free = {*fields} - taken if what in _TEXTS else {*fields}
            found[what] = next((n for n in usual if free >= {*_perspectives(n).values()}), "")
        else:
            found[what] = ""
    return found


def _value(fields: Mapping[str, Any], place: str, name: str) -> Any:
    if name not in fields:
        raise InputError(
            f"{place}: column '{name}' is missing.{did_you_mean(name, fields)} "
            f"The columns are: {', '.join(fields)}."
        )
    return fields[name]


def _shown(value: Any) -> str:
    """Returns a value as text; "" for none and for a blank text."""
    text = "" if value is None else str(value)
    return text if text.strip() else ""


def _json_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the fields that JSON can hold, and the types of the others."""
    found, left_out = {}, {}
    for name, value in fields.items():
        try:
            kept = value
            if not isinstance(value, str | int):  # what is no finite number becomes null
                text = json.dumps(value, default=_json_text)
                kept = json.loads(text, parse_constant=lambda _: None)
        except TypeError:
            left_out[name] = type(value).__name__
            continue
        if kept is not None:
            found[name] = kept
    return found, left_out


def _json_text(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):  # and datetime.datetime
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError


@functools.cache
def _perspectives(spec: str) -> dict[str, str]:
    """Returns the column of each perspective; of a single column without one that of ""."""
    if "=" not in spec:
        return {"": spec}
    return dict(part.split("=", 1) for part in spec.split(",") if "=" in part)


def _text_perspectives(fields: Mapping[str, Any], spec: str, column: str) -> Sequence[Any]:
    """Returns what a row says of the perspectives of its grounding's texts; empty = nothing."""
    if "=" in spec or column not in fields:
        return ()
    sides, texts = listed(fields[column]), listed(fields.get(spec))
    if not isinstance(sides, list | tuple):
        return ()
    if isinstance(texts, list | tuple) and len(texts) == len(sides):
        return [side for side, text in zip(sides, texts, strict=True) if (text or "").strip()]
    return sides


def _grounding(
    fields: Mapping[str, Any], place: str, spec: str, columns: Columns, sides: Sequence[Any]
) -> Grounding:
    if not spec:
        return Grounding(())
    if not sides and "=" not in spec and (texts := _texts(fields, place, spec)):
        return Grounding(texts)
    found = [
        (perspective, text)
        for perspective, name in _perspectives(spec).items()
        for text in _texts(fields, place, name)
    ]
    if sides:
        if len(sides) != len(found) or not all(isinstance(side, str) for side in sides):
            expected = f"the side of each of the {counted(len(found), 'text')} of the grounding"
            raise field_error(place, columns.perspective_column, expected, sides)
        found = [(side, text) for side, (_, text) in zip(sides, found, strict=True)]
    if not found:
        expected = "a text that is not empty, or several"
        raise field_error(place, spec, expected, [], columns.empty_remedy)
    named, given = zip(*found, strict=True)
    return Grounding(given, named if any(named) else ())


def listed(value: Any) -> Any:
    """Returns a value; a text that is a JSON list of texts, as in a cell of CSV, as the list.

    >>> listed('["Hi!", "Hello."]'), listed("[1]"), listed("[sic]")
    (['Hi!', 'Hello.'], '[1]', '[sic]')
    """
    if not (isinstance(value, str) and value.strip()[:1] == "["):
        return value
    try:
        return msgspec.json.decode(value, type=list[str])
    except msgspec.DecodeError:
        return value


def _texts(fields: Mapping[str, Any], place: str, name: str) -> tuple[str, ...]:
    """Returns the texts of a field with one or a list (or of a chat), without blank ones."""
    value = listed(_value(fields, place, name))
    if isinstance(value, str):
        return (text,) if (text := value.strip()) else ()
    items = value if isinstance(value, list | tuple) else [value]
    # A chat's turns have a role and a content.
    items = [it["content"] if isinstance(it, dict) and {"role", "content"} <= it.keys() else it
             for it in items]  # fmt: skip
    texts = ["" if item is None else item for item in items]
    for text in texts:
        if not isinstance(text, str):
            raise field_error(place, name, "a text", text)
    return tuple(filter(None, map(str.strip, texts)))


def _response(value: Any, name: str, place: str) -> str:
    """Returns the response; a system may have answered with nothing, which is an empty text."""
    if not isinstance(value, str):
        remedy = 'an answer of nothing is the empty text ""' if value is None else ""
        raise field_error(place, name, "a text", value, remedy)
    return value.strip()


def _label(value: Any, columns: Columns, name: str, place: str) -> int | None:
    known, text = columns.known_labels, _shown(value).strip().lower()
    if text not in known:
        own = "".join(f"{label}, " for label in known if label and label not in _LABELS)
        expected = f"{own}1 or yes (faithful), 0 or no, faithful, hallucinated, or nothing"
        raise field_error(
            place, name, expected, value, "say what others mean with --label-values=LABEL=1,…"
        )
    found = known[text]
    is_error = columns.labels_are_errors and text not in _SAYING
    return 1 - found if is_error and found is not None else found


def _identifier(value: Any, place: str, number: int, column: str | None) -> str:
    if isinstance(value, list | dict | bool):
        raise field_error(
            place,
            column or "id",
            "a text or a number",
            value,
            "--id-column= takes the rows' numbers",
        )
    if column and not _shown(value):
        raise field_error(place, column, "an id", value, "--id-column= takes the rows' numbers")
    return _shown(value) or str(number)
