"""Makes examples to score of rows of any form: of a table, a frame, or a data set."""

import dataclasses
import datetime
import decimal
import functools
import json
import math
import pathlib
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, field_error, pluralize
from faith_jax.core.files import stamp
from faith_jax.core.rows import BadRows, Row, Seen, parse_rows
from faith_jax.core.settings import unescape
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.list_cells import ListColumns, document_text, has_texts
from faith_jax.datasets.tables import (
    TableForm,
    TableNotes,
    decimal_commas,
    file_form,
    read_rows,
    table_files,
)
from faith_jax.datasets.usual_names import USUAL, field_named, flatten_row, usual_name

_TEXTS = ("grounding", "response", "history")  # of which a column holds one
# Labels that say which rows are faithful, or, with --labels-are-errors, which have an error.
_ANSWERS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "0,0": 0, "1,0": 1}  # also with a decimal comma
_ANSWERS |= {"false": 0, "true": 1, "no": 0, "yes": 1}
# Labels that say it themselves.
_SAYING = {
    **dict.fromkeys(("faithful", "supported", "consistent", "attributable"), 1),
    **dict.fromkeys(("unfaithful", "not faithful", "unsupported", "not supported"), 0),
    **dict.fromkeys(("inconsistent", "not attributable", "hallucinated", "hallucination"), 0),
}
KNOWN_LABELS = _ANSWERS | _SAYING  # in lower case: 1 = faithful
# Several systems may respond to one row, and several trainings of one system.
SYSTEM_FIELDS = ("system", "replicate")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    r"""Which columns hold what: options of the commands that read rows.

    Attributes:
      grounding_column (NAME): a text or a list of texts; or pro=NAME,con=NAME, the arguments of
        each side (its perspectives); default: the usual names, TRUE's first
      perspective_column (NAME): of each text of the grounding its side, or its article's title
      response_column (NAME): the text; default: the usual names, TRUE's first
      split_grounding (TEXT): between the texts of a grounding that stands in one cell, such as
        '\n\n'
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
    reads_grounding: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("grounding", "response")  # parts that each row has
    empty_remedy: ClassVar[str] = "leave out rows without one"  # where a grounding is empty
    accepts_empty: ClassVar[bool] = False  # a grounding may be empty: its scores are undefined
    unknown_remedy: ClassVar[str] = "name it with {}"  # where no column is known; {} = the options
    ambiguous_remedy: ClassVar[str] = "say which does with {}"  # where several are
    label_remedy: ClassVar[str] = "say what others mean with --label-values=LABEL=1,…"
    grounding_column: str = ""
    split_grounding: Annotated[str, unescape] = ""
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
        option_of_column: dict[str, str] = {}
        for option in (f"{part}_column" for part in _TEXTS):
            for name in filter(None, set(_parse_perspectives(getattr(self, option)).values())):
                if name in option_of_column:
                    first_option, second_option = (
                        f"--{option_name.replace('_', '-')}"
                        for option_name in (option_of_column[name], option)
                    )
                    raise ConfigError(
                        f"{second_option}: the column {name!r} is that of {first_option} already."
                    )
                option_of_column[name] = option
        return frozenset(option_of_column)

    @functools.cached_property
    def known_labels(self) -> dict[str, int | None]:
        """The meaning of each label, in lower case: 1, 0, or None."""
        label_meanings: dict[str, int | None] = {"": None, **KNOWN_LABELS}
        for part in filter(None, map(str.strip, self.label_values.split(","))):
            name, equals, value = (text.strip() for text in part.rpartition("="))
            if not (name and equals and value in ("0", "1", "")):
                expected = "expected LABEL=1, LABEL=0 or LABEL="
                raise ConfigError(f"--label-values: {expected}, got {part!r}.")
            label_meanings[name.lower()] = int(value) if value else None
        return label_meanings


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


def file_examples(
    path: pathlib.Path,
    form: TableForm | str,
    columns: Columns,
    corpus: str,
    bad_rows: BadRows,
    first: int = 0,
    notes: TableNotes | None = None,
) -> Iterator[ExampleRow]:
    """Yields the examples of a file or folder from row `first` on, counted from 0.

    Bad rows count in the numbers that rows without ids get.
    """
    notes = notes or TableNotes()
    unread = _Unread(bad_rows)
    rows = read_rows(path, form, unread, first, notes.add, id_column_of(columns))
    if decimals := decimal_commas(path, form):
        rows = _with_points(rows, decimals, columns, notes)
    has_texts_of = file_has_texts(path, form, columns)
    return example_rows(rows, columns, corpus, bad_rows, unread, first, notes, has_texts_of)


def file_has_texts(
    path: pathlib.Path, form: TableForm | str, columns: Columns
) -> Callable[[str], bool] | None:
    """Returns `rows_have_texts` for the columns of a file or folder; None for CSV and TSV."""
    form = TableForm(form=form) if isinstance(form, str) else form
    files = table_files(path)
    if file_form(files[0], form).form in ("csv", "tsv"):
        return None
    return lambda name: _file_has_texts(path, form, columns.named_texts, name, repr(stamp(files)))


@functools.lru_cache(maxsize=4096)  # shards of a file are read by themselves
def _file_has_texts(
    path: pathlib.Path, form: TableForm, named: frozenset[str], name: str, _: str
) -> bool:
    return rows_have_texts(read_rows(path, form, BadRows(skip=True)), named, name)


def rows_have_texts(rows: Iterable[Row], named: Collection[str], name: str) -> bool:
    """Returns whether `has_texts` of a column of rows that have lists of their own.

    Args:
      rows: all of the table.
      named: the columns that a user names.
      name: of the column.
    """
    return has_texts(flatten_row(row.fields, named).get(name) for row in rows)


def id_column_of(columns: Columns) -> Callable[[tuple[str, ...]], str]:
    """Returns what says which of a table's columns has the ids; "" = none."""

    def find(fields: tuple[str, ...]) -> str:
        try:
            return _find_column_names(columns, fields)["id"]
        except InputError:  # which the rows raise with their place
            return ""

    return find


def _with_points(
    rows: Iterable[Row], decimals: frozenset[str], columns: Columns, notes: TableNotes
) -> Iterator[Row]:
    """Yields rows with points for decimal commas; texts and ids stay as they are."""
    layout_of = functools.lru_cache(functools.partial(_build_layout, columns))
    for place, fields in rows:
        layout = layout_of(tuple(fields))
        changed = {
            name: value.replace(",", ".")
            for name in decimals & {*layout.further_fields, layout.names["label"]}
            if isinstance(value := fields.get(name), str)
        }
        for name in sorted(changed):
            notes.add(f"{name}: decimal commas are read as points")
        yield Row(place, {**fields, **changed})


class _Unread(BadRows):
    """Passes bad rows on, and counts those of this reading."""

    def __init__(self, bad_rows: BadRows):
        super().__init__(bad_rows.skip)
        self._bad_rows = bad_rows

    def add(self, error: InputError) -> None:
        self._bad_rows.add(error)
        self.count += 1


def example_rows(
    rows: Iterable[Row],
    columns: Columns,
    corpus: str,
    bad_rows: BadRows | None = None,
    unread: BadRows | None = None,
    first: int = 0,
    notes: TableNotes | None = None,
    has_texts_of: Callable[[str], bool] | None = None,
) -> Iterator[ExampleRow]:
    """Yields the examples of rows.

    Args:
      rows: of any form.
      columns: which of their fields hold what.
      corpus: of rows that name none.
      bad_rows: what to do with a bad row; by default reading stops.
      unread: counts the rows that could not be read.
      first: the number of the first row, from 0.
      notes: collects what is found out about the rows.
      has_texts_of: returns `rows_have_texts` of a column, for rows that have lists of their own.

    Raises:
      InputError: a row lacks a column, a grounding or a response, or has an unknown label or the id
        of an earlier response of its system. Also, whatever `bad_rows` says, two columns may hold
        the same, or a column has lists of several forms.
    """
    seen = Seen()
    read = first
    has_numbered = False  # rows without an id of their own
    notes = notes or TableNotes()
    layout_of = functools.lru_cache(functools.partial(_build_layout, columns))

    def parse(fields: Mapping[str, Any], place: str) -> ExampleRow:
        nonlocal read, has_numbered
        read += 1
        number = read + (unread.count if unread else 0)
        layout = layout_of(tuple(fields))
        row = _example_row(fields, place, number, columns, corpus, layout, notes)
        id_column = layout.names["id"]
        has_numbered |= not (id_column and cell_text(fields.get(id_column), place, id_column))
        if not seen.add(response_key(row)):
            remedy = (
                "an empty id is the row's number, so fill it in"
                if has_numbered
                else "choose another --id-column"
            )
            raise InputError(
                f"{place}: field '{columns.id_column or 'id'}': {row.example.id!r} occurs twice; "
                f"{remedy}, or --id-column= for the rows' numbers."
            )
        return row

    listed_rows = _with_lists(rows, columns, layout_of, notes, has_texts_of)
    return parse_rows(listed_rows, parse, bad_rows or BadRows())


def response_key(row: ExampleRow) -> tuple[Any, ...]:
    """Returns what tells a response from all others: corpus, id, and the system that made it."""
    return row.corpus, row.example.id, *map(row.fields.get, SYSTEM_FIELDS)


def _with_lists(
    rows: Iterable[Row],
    columns: Columns,
    layout_of: Callable[[tuple[str, ...]], "_Layout"],
    notes: TableNotes,
    has_texts_of: Callable[[str], bool] | None,
) -> Iterator[Row]:
    """Yields rows with lists in the place of texts that stand for them, in columns of texts."""
    lists, separator = ListColumns(has_texts_of, notes.warn), columns.split_grounding
    for row in rows:
        flat = flatten_row(row.fields, columns.named_texts)
        try:
            layout = layout_of(tuple(flat))
        except InputError as error:
            raise InputError(f"{row.place}: {error}.") from None
        notes.columns = notes.columns or dict(layout.names)
        changed: dict[str, Any] = {}
        for name in layout.texts:
            value = flat[name]
            if separator and name in layout.grounding:
                read: Any = value.split(separator) if isinstance(value, str) else value
            else:
                read = lists.read(name, value, row.place)
            if read is not value:
                changed[name] = read
                notes.count_list(name, len(read))
            if isinstance(read, list) and None in read:
                notes.count_nulls(name, read.count(None))
        yield row if flat is row.fields and not changed else Row(row.place, {**flat, **changed})


class _Layout(NamedTuple):
    """Which fields of rows hold what.

    Attributes:
      names: of the fields, by the part of an example.
      grounding: those of the grounding.
      texts: those of one text or several: the grounding, the history and the perspectives.
      further_fields: those that ride along.
    """

    names: Mapping[str, str]
    grounding: tuple[str, ...]
    texts: tuple[str, ...]
    further_fields: tuple[str, ...]


def _build_layout(columns: Columns, fields: tuple[str, ...]) -> _Layout:
    names = _find_column_names(columns, fields)
    grounding = tuple(_parse_perspectives(names["grounding"]).values())
    texts = [*grounding, names["history"]]
    texts += [] if "=" in names["grounding"] else [columns.perspective_column]
    used = {*grounding, *(names[part] for part in ("response", "history", "id", "corpus"))}
    used |= {"label"} & {names["label"]}  # other names say what the label is of
    further_fields = tuple(name for name in fields if not name or name not in used)
    return _Layout(
        names, grounding, tuple(name for name in texts if name and name in fields), further_fields
    )


def _example_row(
    fields: Mapping[str, Any],
    place: str,
    number: int,
    columns: Columns,
    corpus: str,
    layout: _Layout,
    notes: TableNotes,
) -> ExampleRow:
    names, id_column = layout.names, columns.id_column
    if missing := [part for part in columns.needs if not names[part]]:
        raise _unknown_columns(missing, fields, place, columns)
    response, label, identifier, row_corpus = [
        _read_field(fields, place, name) if (name := names[part]) else None
        for part in ("response", "label", "id", "corpus")
    ]
    spec = names["grounding"]
    sides = _text_perspectives(fields, place, spec, columns.perspective_column) if spec else ()
    remedy = "--id-column= takes the rows' numbers"
    named_id = cell_text(identifier, place, id_column or "id", remedy)
    if id_column and not named_id:
        raise field_error(place, id_column, "an id", identifier, remedy)
    grounding = _read_grounding(fields, place, spec, columns, sides)
    notes.count_grounding(spec, grounding.texts)
    history = _read_texts(fields, place, names["history"]) if names["history"] else ()
    answer = None if _is_missing(response) else response
    if not isinstance(answer, str | None):
        raise field_error(place, names["response"], "a text", answer)
    answer_text = (answer or "").strip()
    if names["response"]:
        notes.count_answer(names["response"], answer, answer_text)
    meaning = _read_label(label, columns, names["label"], place)
    example = GroundedExample(named_id or str(number), grounding, history, answer_text, meaning)
    json_fields, left_out = {}, {}
    for name in layout.further_fields:
        if sides and name == columns.perspective_column:
            continue
        value = fields[name]
        try:
            if not isinstance(value, str | int):  # what is no finite number becomes null
                text = json.dumps(value, default=_json_text)
                value = json.loads(text, parse_constant=lambda _: None)
        except TypeError:
            left_out[name] = type(value).__name__
            continue
        if value is not None:
            json_fields[name] = value
    named_corpus = cell_text(row_corpus, place, names["corpus"], "--corpus-column= reads none")
    return ExampleRow(example, named_corpus or corpus, json_fields, left_out, (0, number - 1))


def _unknown_columns(
    missing: Sequence[str], fields: Iterable[str], place: str, columns: Columns
) -> InputError:
    """Returns the error that no column is known to hold some parts, and what may help."""
    suggested, hint = dict.fromkeys(missing, "NAME"), ""
    if "grounding" in missing:
        sides = {s: [n for n in fields if re.match(rf"{s}s?([_ -]|$)", n)] for s in ("pro", "con")}
        named = [f"{side}={names[0]}" for side, names in sides.items() if len(names) == 1]
        if len(named) == 2:
            suggested["grounding"] = ",".join(named)
        elif "context" in fields:  # it may also be the history, so it is not taken unasked
            suggested["grounding"] = "context"
        if "reference" in fields:
            hint = (
                " 'reference' may be evidence or an ideal answer: --grounding-column=reference "
                "takes it."
            )
    options = " ".join(f"--{part}-column={name}" for part, name in suggested.items())
    usual_names = "; ".join(
        f"of the {part} {', '.join(name for rank in USUAL[part] for name in rank)}"
        for part in missing
    )
    return InputError(
        f"{place}: none of the columns {', '.join(fields)} is known to hold the "
        f"{' or the '.join(missing)}; {columns.unknown_remedy.format(options)}.{hint} "
        f"Known names: {usual_names}."
    )


def have_usual_names(fields: Iterable[str]) -> bool:
    """Returns whether rows of such fields have a grounding and a response by their names."""
    try:
        names = _find_column_names(Columns(), tuple(fields))
    except InputError:  # several columns may hold one of them
        return True
    return bool(names["grounding"] and names["response"])


@functools.lru_cache
def _find_column_names(columns: Columns, fields: tuple[str, ...]) -> dict[str, str]:
    """Returns the columns that hold the parts of an example; "" = none, a named one may lack.

    A text that an option names is nothing else by its usual name.

    Raises:
      InputError: two columns may hold a part; the message is without a place.
    """
    names = {"grounding": ""}
    taken = {field_named(name, fields) for name in columns.named_texts}
    for part in USUAL:
        if part == "grounding" and not columns.reads_grounding:
            continue
        option = getattr(columns, f"{part}_column")
        if option:
            named = option.split(",") if part == "label" else [option]
            candidates = [_match_fields(name, fields) for name in named]
            names[part] = next((name for name in candidates if name in fields), candidates[0])
        elif option is None or part not in ("label", "id", "corpus"):
            names[part] = usual_name(
                part, fields, taken if part in _TEXTS else (), columns.ambiguous_remedy
            )
        else:
            names[part] = ""
        if part in _TEXTS:
            taken |= {*_parse_perspectives(names[part]).values()}
    return names


def _match_fields(option: str, fields: tuple[str, ...]) -> str:
    """Returns the value of an option with the names as the table has them."""
    if option in fields or "=" not in option:
        return field_named(option, fields)
    sides = _parse_perspectives(option).items()
    return ",".join(f"{side}={field_named(name, fields)}" for side, name in sides)


def _read_field(fields: Mapping[str, Any], place: str, name: str) -> Any:
    if name not in fields:
        raise InputError(
            f"{place}: column '{name}' is missing.{did_you_mean(name, fields)} "
            f"The columns are: {', '.join(fields)}."
        )
    return fields[name]


def _to_text(value: Any) -> str:
    """Returns a value as text; "" for none and for a blank text."""
    text = "" if value is None else str(value)
    return text if text.strip() else ""


def _json_text(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):  # and datetime.datetime
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError


@functools.cache
def _parse_perspectives(spec: str) -> dict[str, str]:
    """Returns the column of each perspective; of a single column without one that of ""."""
    if "=" not in spec:
        return {"": spec}
    return dict(part.split("=", 1) for part in spec.split(",") if "=" in part)


def _text_perspectives(
    fields: Mapping[str, Any], place: str, spec: str, column: str
) -> Sequence[Any]:
    """Returns the perspectives of the grounding's texts that a row gives; empty = it gives none."""
    if "=" in spec or column not in fields:
        return ()
    sides, items = fields[column], fields.get(spec)
    if not isinstance(sides, list | tuple):
        return ()
    if isinstance(items, list | tuple) and len(items) == len(sides):
        texts = _read_items(items, place, spec)
        return [side for side, text in zip(sides, texts, strict=True) if text]
    return sides


def _read_grounding(
    fields: Mapping[str, Any], place: str, spec: str, columns: Columns, sides: Sequence[Any]
) -> Grounding:
    if not spec:
        return Grounding(())
    if not sides and "=" not in spec and (texts := _read_texts(fields, place, spec)):
        return Grounding(texts)
    sided_texts = [
        (perspective, text)
        for perspective, name in _parse_perspectives(spec).items()
        for text in _read_texts(fields, place, name)
    ]
    if sides:
        if len(sides) != len(sided_texts) or not all(isinstance(side, str) for side in sides):
            expected = (
                f"the side of each of the {pluralize(len(sided_texts), 'text')} of the grounding"
            )
            raise field_error(place, columns.perspective_column, expected, sides)
        sided_texts = [(side, text) for side, (_, text) in zip(sides, sided_texts, strict=True)]
    if not sided_texts:
        if columns.accepts_empty or "grounding" not in columns.needs:
            return Grounding(())
        expected = "a text that is not empty, or several"
        raise field_error(place, spec, expected, [], columns.empty_remedy)
    named, texts = zip(*sided_texts, strict=True)
    return Grounding(texts, named if any(named) else ())


def _read_texts(fields: Mapping[str, Any], place: str, name: str) -> tuple[str, ...]:
    """Returns the texts of a field with one or a list (or of a chat), without blank ones."""
    value = _read_field(fields, place, name)
    if isinstance(value, str):
        return (text,) if (text := value.strip()) else ()
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(filter(None, _read_items(items, place, name)))


def _read_items(items: Sequence[Any], place: str, name: str) -> list[str]:
    """Returns the texts of a field's items, which may be documents or turns of a chat."""
    texts = []
    for item in items:
        document = document_text(item)
        text = item if document is None else document
        texts.append("" if _is_missing(text) else text)
        if not isinstance(texts[-1], str):
            raise field_error(place, name, "a text", text)
    return list(map(str.strip, texts))


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _read_label(value: Any, columns: Columns, name: str, place: str) -> int | None:
    value = None if _is_missing(value) else value
    meanings, text = columns.known_labels, _to_text(value).strip().lower()
    if text not in meanings:
        user_labels = "".join(
            f"{label}, " for label in meanings if label and label not in KNOWN_LABELS
        )
        expected = f"{user_labels}1 or yes (faithful), 0 or no, faithful, hallucinated, or nothing"
        raise field_error(place, name, expected, value, columns.label_remedy)
    meaning = meanings[text]
    is_error = columns.labels_are_errors and text not in _SAYING
    return 1 - meaning if is_error and meaning is not None else meaning


def cell_text(value: Any, place: str, name: str, remedy: str = "") -> str:
    """Returns a text or a number of a row as a text; "" = it is missing or blank.

    Whole numbers are the same text whatever their type: pandas makes 1 of an id 1.0 where another
    one is missing.

    Args:
      value: of a field, such as the id.
      place: of the row, as `path:line`.
      name: of the field.
      remedy: for one that is neither a text nor a number.

    Raises:
      InputError: it is neither.
    """
    if _is_missing(value):
        return ""
    is_float = isinstance(value, float)
    if isinstance(value, bool | bytes | list | tuple | dict) or (is_float and math.isinf(value)):
        raise field_error(place, name, "a text or a number", value, remedy)
    return _to_text(int(value) if is_float and value.is_integer() else value)
