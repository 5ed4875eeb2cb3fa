"""Turns rows of a table, a frame or a data set into examples that can be scored."""

import dataclasses
import datetime
import decimal
import functools
import itertools
import json
import math
import pathlib
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, field_error, pluralize
from faith_jax.core.labels import label_text
from faith_jax.core.rows import BadRows, Row, Seen, parse_rows
from faith_jax.core.settings import unescape
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.list_cells import ListColumns, document_text, is_plain_text
from faith_jax.datasets.table_notes import TableNotes
from faith_jax.datasets.tables import (
    TableForm,
    decimal_commas,
    file_form,
    is_missing,
    read_rows,
    table_files,
    until_changed,
)
from faith_jax.datasets.usual_names import (
    SYSTEM_FIELDS,
    USUAL,
    field_named,
    flatten_row,
    key_hints,
    question_beside,
    system_columns,
    usual_name,
)

_BYTES = re.compile(r"b(['\"]).*\1", re.DOTALL)
# Column names that error messages suggest, but that are never assumed.
_LIKELY = {
    "grounding": ("context", "document", "doc", "article"),
    "response": ("summary", "claim", "outputs", "model_output"),
}
_TEXTS = ("grounding", "response", "history")  # a column holds at most one of these parts
# These labels mark faithful rows or, with --labels-are-errors, rows that have an error.
_ANSWERS = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1}
# These labels mean the same with or without --labels-are-errors.
_SAYING = {
    **dict.fromkeys(("faithful", "supported", "consistent", "attributable"), 1),
    **dict.fromkeys(("unfaithful", "not faithful", "unsupported", "not supported"), 0),
    **dict.fromkeys(("inconsistent", "not attributable", "hallucinated", "hallucination"), 0),
}
KNOWN_LABELS = _ANSWERS | _SAYING  # in lower case: 1 = faithful
# In columns with such names (HaluEval's, say) yes means an error, unless the name has a negation.
_NAMES_AN_ERROR = re.compile(
    r"(?!.*(?<![a-z])(?:no|non|not|free|without)(?![a-z]))"
    r".*(?:hallucinat|unfaithful|inconsisten|unsupported|(?<![a-z])errors?(?![a-z]))",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    r"""Options of the commands that read rows: which column holds which part of an example.

    Attributes:
      grounding_column (NAME): a text or a list of texts; or pro=NAME,con=NAME, the arguments of
        each side (its perspectives); default: the usual names, TRUE's first
      perspective_column (NAME): the side of each text of the grounding, or its article's title
      response_column (NAME): the text; default: the usual names, TRUE's first
      split_grounding (TEXT): the separator of the texts of a grounding that stands in one cell,
        such as '\n\n'
      history_column (NAME): earlier utterances
      label_column (NAME): 1, yes, true or faithful; 0, no, false or hallucinated; or empty
        (default: label, if present); several with commas are tried in order until one is filled
      label_values (LABEL=VALUE): the meanings of other labels, with commas:
        entailment=1,contradiction=0,generic= (unknown)
      labels_are_errors: a label of 1, yes or true says that there is an error
      id_column (NAME): default: id, if present; otherwise, or with --id-column=, the row's number
      corpus_column (NAME): default: corpus, if present
    """

    group: ClassVar = "columns"
    reads_grounding: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("grounding", "response")  # parts that each row must have
    empty_remedy: ClassVar[str] = "leave out rows without one"  # if a grounding is empty
    accepts_empty: ClassVar[bool] = False  # a grounding may be empty: its scores are undefined
    unknown_remedy: ClassVar[str] = "name it with {}"  # if no column is known; {} = the options
    ambiguous_remedy: ClassVar[str] = "say which does with {}"  # if several columns fit
    label_remedy: ClassVar[str] = "say what others mean with --label-values=LABEL=1,…"
    repeated_id_remedy: ClassVar[str] = "choose another --id-column"
    number_remedy: ClassVar[str] = "--id-column= takes the rows' numbers"
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
        """The columns of grounding, response and history that options name."""
        option_of: dict[str, str] = {}
        for part in _TEXTS:
            option = f"--{part}-column"
            for name in {*_parse_perspectives(getattr(self, f"{part}_column")).values()} - {""}:
                if (first := option_of.setdefault(name, option)) != option:
                    raise ConfigError(f"{option}: the column {name!r} is that of {first} already.")
        return frozenset(option_of)

    @functools.cached_property
    def known_labels(self) -> dict[str, int | None]:
        """The meaning of each label, in lower case: 1, 0, or None."""
        return {"": None, **KNOWN_LABELS, **self.given_labels}

    @functools.cached_property
    def given_labels(self) -> dict[str, int | None]:
        """The meanings that `label_values` gives."""
        label_meanings: dict[str, int | None] = {}
        for part in filter(None, map(str.strip, self.label_values.split(","))):
            name, equals, value = (text.strip() for text in part.rpartition("="))
            if not (name and equals and value in ("0", "1", "")):
                expected = "expected LABEL=1, LABEL=0 or LABEL="
                raise ConfigError(f"--label-values: {expected}, got {part!r}.")
            label_meanings[label_text(name)] = int(value) if value else None
        return label_meanings

    def find_id_column(self, fields: tuple[str, ...]) -> str | None:
        """Returns the column of a table that has the ids; "" = none, None = row numbers are."""
        if self.id_column == "":
            return None
        try:
            return _find_column_names(self, fields)["id"]
        except InputError:  # raised again when rows are read, then with their place
            return ""


_JSON = msgspec.json.Encoder(enc_hook=dict)  # the hook encodes mappings that are not dicts


class ExampleRow(NamedTuple):
    """An example, together with the other fields of its row.

    Attributes:
      example: the example to score.
      corpus: the corpus that the example belongs to.
      fields: the row's other values as JSON (dates as texts), without nulls; the label too if its
        column is not named "label".
      left_out: columns whose values JSON cannot hold, with their types.
      place: the number of the part of the input (a file, a task), and of the row in it, from 0.
    """

    example: GroundedExample
    corpus: str
    fields: Mapping[str, Any]
    left_out: Mapping[str, str] = types.MappingProxyType({})
    place: tuple[int, int] = (0, 0)

    # Rows are digested by this text, which takes a third of the time of the default repr.
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
    """Yields the examples of a file or folder, starting at row `first`, counted from 0.

    Rows without ids are numbered; bad rows count too.
    """
    notes = notes or TableNotes()
    unread = _Unread(bad_rows)
    rows = read_rows(path, form, unread, first, notes.add, columns.find_id_column)
    find_text_columns = file_text_columns(path, form, columns)
    decimals = decimal_commas(path, form)
    return example_rows(
        rows, columns, corpus, bad_rows, unread, first, notes, find_text_columns, decimals
    )


def file_text_columns(
    path: pathlib.Path, form: TableForm | str, columns: Columns
) -> Callable[[], Collection[str]] | None:
    """Returns a function that finds `text_columns` of a file or folder; None for CSV and TSV."""
    if file_form(table_files(path)[0], form).form in ("csv", "tsv"):
        return None
    return functools.partial(_file_text_columns, path, form, columns.named_texts)


@until_changed
def _file_text_columns(
    path: pathlib.Path, form: TableForm | str, named: frozenset[str]
) -> frozenset[str]:
    return text_columns(read_rows(path, form, BadRows(skip=True)), named)


def text_columns(rows: Iterable[Row], named: Collection[str]) -> frozenset[str]:
    """Returns the columns of a table in which some value is a plain text, not a printed list.

    `rows` are all rows of the table, and `named` the columns that a user names.
    """
    names = set[str]()
    for row in rows:
        flat = flatten_row(row.fields, named)
        names.update(name for name in flat.keys() - names if is_plain_text(flat[name]))
    return frozenset(names)


class _Unread(BadRows):
    """Passes bad rows on to another `BadRows`, and counts the bad rows of this pass."""

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
    find_text_columns: Callable[[], Collection[str]] | None = None,
    decimals: frozenset[str] = frozenset(),
) -> Iterator[ExampleRow]:
    """Yields the examples of rows.

    Args:
      rows: rows of any form.
      columns: which of their fields hold which part of an example.
      corpus: the corpus of rows that name none.
      bad_rows: how bad rows are handled; by default reading stops at the first.
      unread: counts the rows that could not be read.
      first: the number of the first row, from 0.
      notes: collects notes on how the rows are read.
      find_text_columns: returns `text_columns` of all rows of a table that can hold lists; None =
        the table cannot, so a text that looks like a printed list is read as a list.
      decimals: columns whose numbers have decimal commas.

    Raises:
      InputError: a row lacks a column, a grounding or a response, or has an unknown label or the id
        of an earlier response of its system. Also, whatever `bad_rows` says, two columns may hold
        the same part, or a column has lists of several forms.
    """
    seen = Seen()
    read = first
    has_numbered = False  # whether some row had no id of its own
    notes = notes or TableNotes()
    lists = ListColumns(notes, find_text_columns, is_checked=first > 0)
    layout_of = functools.lru_cache(functools.partial(_build_layout, columns))

    def prepare(row: Row) -> Row:
        flat = flatten_row(row.fields, columns.named_texts)
        try:
            layout = layout_of(tuple(flat))
        except InputError as error:
            raise InputError(f"{row.place}: {error}.") from None
        notes.add_columns(layout.names)
        changed: dict[str, Any] = {}
        for name in layout.texts:
            value = texts = flat[name]
            if not (columns.split_grounding and name in layout.grounding):
                texts = lists.read(name, value, row.place)
            elif isinstance(value, str):
                texts = value.split(columns.split_grounding)
            if name == columns.perspective_column and lists.is_mixed(name):
                remedy = "write every cell of the column as a JSON list"  # a text is not a side
                raise field_error(row.place, name, "lists throughout", value, remedy)
            if texts is not value:
                changed[name] = texts
                notes.count_list(name, texts)
            if isinstance(texts, list) and None in texts:
                notes.count_nulls(name, texts.count(None))
        # Decimal commas of texts and ids stay as they are.
        for name in sorted(decimals & {*layout.further_fields, layout.names["label"]}):
            if isinstance(value := flat.get(name), str):
                changed[name] = value.replace(",", ".")
                notes.add(f"{name}: decimal commas are read as points")
        return Row(row.place, {**flat, **changed} if changed else flat)

    def parse(fields: Mapping[str, Any], place: str) -> ExampleRow:
        nonlocal read, has_numbered
        read += 1
        number = read + (unread.count if unread else 0)
        reader = _RowReader(fields, place, columns, layout_of(tuple(fields)))
        row = reader.read_example(number, corpus, notes)
        has_numbered |= not reader.read_id()
        if not seen.add(response_key(row)):
            remedy = (
                "an empty id is the row's number, so fill it in"
                if has_numbered
                else columns.repeated_id_remedy
            )
            raise InputError(
                f"{place}: field '{columns.id_column or 'id'}': {row.example.id!r} occurs twice; "
                f"{remedy}; {columns.number_remedy}. If several systems answered, a column "
                "'system' says which."
            )
        return row

    return parse_rows(map(prepare, rows), parse, bad_rows or BadRows())


def response_key(row: ExampleRow) -> tuple[Any, ...]:
    """Returns the unique key of a response: its corpus, its id, and the system that made it."""
    return row.corpus, row.example.id, *map(row.fields.get, SYSTEM_FIELDS)


class _Layout(NamedTuple):
    """The fields of rows that hold the parts of examples."""

    names: Mapping[str, str]  # by the part of an example
    grounding: tuple[str, ...]
    texts: tuple[str, ...]  # fields that may hold lists: grounding, history, perspectives
    further_fields: Mapping[str, str]  # passed through to the output, with their names there
    question: str  # the further field whose text follows the history; "" = none


def _build_layout(columns: Columns, fields: tuple[str, ...]) -> _Layout:
    names = _find_column_names(columns, fields)
    grounding = tuple(_parse_perspectives(names["grounding"]).values())
    texts = [*grounding, names["history"]]
    if "=" not in names["grounding"]:
        texts.append(columns.perspective_column)
        if columns.perspective_column in {*fields} - {"perspectives"}:
            names["perspectives"] = columns.perspective_column
    used = {*grounding, *(names[part] for part in ("response", "history", "id", "corpus"))}
    used |= {"label"} & {names["label"]}  # a column with another name is passed through too
    texts = [name for name in texts if name and name in fields]
    systems = system_columns(fields)
    names.update({name: column for column, name in systems.items()})  # for the notes
    further_fields = {n: systems.get(n, n) for n in fields if not n or n not in used}
    question = "" if columns.history_column else question_beside(names["history"], further_fields)
    return _Layout(names, grounding, tuple(texts), further_fields, question)


class _RowReader(NamedTuple):
    """Reads the parts of an example from the fields of a row; errors name its place."""

    fields: Mapping[str, Any]
    place: str
    columns: Columns
    layout: _Layout

    def read_example(self, number: int, corpus: str, notes: TableNotes) -> ExampleRow:
        """Returns the example; a row without an id gets `number`."""
        names = self.layout.names
        if missing := [part for part in self.columns.needs if not names[part]]:
            raise self._unknown_columns(missing)
        identifier = self.read_id() or str(number)
        grounding = self._read_grounding()
        notes.count_grounding(names["grounding"], grounding.texts)
        turns = self._read_texts(names["history"]) if names["history"] else []
        history = list(filter(None, turns))
        history += self._read_question(history[-1:], notes)
        for part, texts in (("grounding", grounding.texts), ("history", history)):
            for text in texts:
                notes.count_object(part, names[part], text)
        answer = self._read_part("response")
        if answer is not None and not _is_text(answer):
            hints = "; ".join(key_hints("response", {names["response"]: answer}))
            remedy = hints or _text_remedy(answer)
            raise field_error(self.place, names["response"], "a text", answer, remedy)
        response = (answer or "").strip()
        if names["response"]:
            notes.count_answer(names["response"], answer, response, grounding.texts)
        example = GroundedExample(
            identifier, grounding, tuple(history), response, self._read_label()
        )
        json_fields, left_out = {}, {}
        has_sides = "=" not in names["grounding"] and bool(grounding.perspectives)
        for name, field in self.layout.further_fields.items():
            if has_sides and name == self.columns.perspective_column:
                continue
            value = self.fields[name]
            try:
                if not isinstance(value, str | int):  # NaN and infinities become null
                    text = json.dumps(value, default=_json_text)
                    value = json.loads(text, parse_constant=lambda _: None)
            except TypeError:
                left_out[name] = type(value).__name__
                continue
            if value is not None:
                json_fields[field] = value
        remedy = "--corpus-column= reads none"
        named_corpus = cell_text(self._read_part("corpus"), self.place, names["corpus"], remedy)
        return ExampleRow(example, named_corpus or corpus, json_fields, left_out, (0, number - 1))

    def read_id(self) -> str:
        """Returns the row's own id; "" = none."""
        option, remedy = self.columns.id_column, self.columns.number_remedy
        value = self._read_part("id")
        identifier = cell_text(value, self.place, option or "id", remedy)
        if option and not identifier:
            raise field_error(self.place, option, "an id", value, remedy)
        return identifier

    def _unknown_columns(self, missing: Sequence[str]) -> InputError:
        """Returns an error for parts that no known column holds, with suggestions."""
        # These names can have other meanings, so they are suggested rather than assumed.
        suggested = {
            part: next((name for name in _LIKELY.get(part, ()) if name in self.fields), "NAME")
            for part in missing
        }
        hints = [hint for part in missing for hint in key_hints(part, self.fields)]
        if "grounding" in missing:
            sides = {
                side: [name for name in self.fields if re.match(rf"{side}s?([_ -]|$)", name)]
                for side in ("pro", "con")
            }
            if all(len(names) == 1 for names in sides.values()):
                suggested["grounding"] = ",".join(f"{s}={name}" for s, (name,) in sides.items())
            if "reference" in self.fields:
                hints.append(
                    "'reference' may be evidence or an ideal answer: --grounding-column=reference "
                    "takes it"
                )
        options = " ".join(f"--{part}-column={name}" for part, name in suggested.items())
        usual_names = "; ".join(
            f"of the {part} {', '.join(name for rank in USUAL[part] for name in rank)}"
            for part in missing
        )
        return InputError(
            f"{self.place}: none of the columns {', '.join(self.fields)} is known to hold the "
            f"{' or the '.join(missing)}; {self.columns.unknown_remedy.format(options)}."
            f"{''.join(f' {hint}.' for hint in hints)} Known names: {usual_names}."
        )

    def _read_part(self, part: str) -> Any:
        """Returns the value of a part; None if its field is unknown or has no value."""
        name = self.layout.names[part]
        value = self._read_value(name) if name else None
        return None if is_missing(value) else value

    def _read_value(self, name: str) -> Any:
        if name not in self.fields:
            raise InputError(
                f"{self.place}: column '{name}' is missing.{did_you_mean(name, self.fields)} "
                f"The columns are: {', '.join(self.fields)}."
            )
        return self.fields[name]

    def _read_grounding(self) -> Grounding:
        spec, columns = self.layout.names["grounding"], self.columns
        if not spec:
            return Grounding(())
        sided_texts: list[tuple[Any, str]] = [
            (side, text)
            for side, name in _parse_perspectives(spec).items()
            for text in self._read_texts(name)
        ]
        sides = () if "=" in spec else self.fields.get(columns.perspective_column)
        if sides and isinstance(sides, list | tuple):
            texts = [text for _, text in sided_texts]
            if len(texts) != len(sides):  # sides may be given only for texts that are not blank
                texts = list(filter(None, texts))
            sided_texts = list(zip(sides, texts, strict=False))
            is_sided = all(isinstance(side, str) for side, text in sided_texts if text)
            if len(texts) != len(sides) or not is_sided:
                expected = (
                    f"the side of each of the {pluralize(len(texts), 'text')} of the grounding"
                )
                raise field_error(self.place, columns.perspective_column, expected, sides)
        sided_texts = [(side, text) for side, text in sided_texts if text]
        if not sided_texts:
            if columns.accepts_empty or "grounding" not in columns.needs:
                return Grounding(())
            expected = "a text that is not empty, or several"
            raise field_error(self.place, spec, expected, [], columns.empty_remedy)
        perspectives = tuple(side for side, _ in sided_texts)
        return Grounding(
            tuple(text for _, text in sided_texts), perspectives if any(perspectives) else ()
        )

    def _read_texts(self, name: str) -> list[str]:
        """Returns the texts of a field that holds a text or a list; blank or missing texts are "".

        Items may also be documents, or the turns of a chat, alone or in pairs.
        """
        value, texts = self._read_value(name), []
        items = value if isinstance(value, list | tuple) else [value]
        if name == self.layout.names["history"]:
            pairs = (item if isinstance(item, list | tuple) else [item] for item in items)
            items = list(itertools.chain.from_iterable(pairs))
        for item in items:
            document = document_text(item)
            text = item if document is None else document
            if not _is_text(text) and not is_missing(text):
                raise field_error(self.place, name, "a text", text, _text_remedy(text))
            texts.append(text.strip() if isinstance(text, str) else "")
        return texts

    def _read_question(self, last: Sequence[str], notes: TableNotes) -> list[str]:
        """Returns the question of a row that stores it apart from the earlier turns, or [].

        `last` is the last of the earlier turns, which may already be the question.
        """
        name = self.layout.question
        question = self.fields[name] if name else None
        if not isinstance(question, str) or question.strip() in ("", *last):
            return []
        notes.add(f"{name}: the last utterance, after those of {self.layout.names['history']}")
        return [question.strip()]

    def _read_label(self) -> int | None:
        value, columns = self._read_part("label"), self.columns
        name, further = self.layout.names["label"], (columns.label_column or "").split(",")[1:]
        for other in (field_named(it, tuple(self.fields)) for it in further):
            # A table of several corpora may have a label column for each; a row fills only one.
            if not label_text(value) and not is_missing(self.fields.get(other)):
                name, value = other, self.fields[other]
        meanings, text = columns.known_labels, label_text(value)
        if text not in meanings:
            user_labels = "".join(
                f"{label}, " for label in meanings if label and label not in KNOWN_LABELS
            )
            expected = (
                f"{user_labels}1 or yes (faithful), 0 or no, faithful, hallucinated, or nothing"
            )
            raise field_error(self.place, name, expected, value, columns.label_remedy)
        meaning = meanings[text]
        is_told = columns.labels_are_errors or columns.given_labels
        if not is_told and is_turned(name, text):
            raise InputError(
                f"{self.place}: field {name!r}: by its name, 1 or yes means an error; add "
                "--labels-are-errors, or --label-values=1=1,0=0,yes=1,no=0 if it means faithful."
            )
        is_error = columns.labels_are_errors and text not in _SAYING
        return 1 - meaning if is_error and meaning is not None else meaning


def is_turned(column: str, label: str) -> bool:
    """Returns whether the name of its column reverses the meaning of a label such as 1 or no.

    >>> is_turned("hallucination", "yes"), is_turned("hallucination", "faithful")
    (True, False)
    """
    return label in _ANSWERS and _NAMES_AN_ERROR.match(column) is not None


def have_usual_names(fields: Iterable[str]) -> bool:
    """Returns whether rows with these fields have a grounding and a response by the usual names."""
    try:
        names = _find_column_names(Columns(), tuple(fields))
    except InputError:  # several columns may hold the same part
        return True
    return bool(names["grounding"] and names["response"])


@functools.lru_cache
def _find_column_names(columns: Columns, fields: tuple[str, ...]) -> dict[str, str]:
    """Returns the column of each part of an example; "" = none, and a named one may be missing.

    A column of texts that an option names is not taken for another part by its usual name.

    Raises:
      InputError: two columns may hold the same part; the message does not name a place.
    """
    names = {"grounding": ""}
    used = {field_named(name, fields) for name in columns.named_texts}
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
                part, fields, used if part in _TEXTS else (), columns.ambiguous_remedy
            )
        else:
            names[part] = ""
        if part in _TEXTS:
            used |= {*_parse_perspectives(names[part]).values()}
    return names


def _match_fields(option: str, fields: tuple[str, ...]) -> str:
    """Returns the value of an option, with its column names spelled as in the table."""
    if option in fields or "=" not in option:
        return field_named(option, fields)
    sides = _parse_perspectives(option).items()
    return ",".join(f"{side}={field_named(name, fields)}" for side, name in sides)


@functools.cache
def _parse_perspectives(spec: str) -> dict[str, str]:
    """Returns the column of each perspective; a single column has the perspective ""."""
    if "=" not in spec:
        return {"": spec}
    return dict(part.split("=", 1) for part in spec.split(",") if "=" in part)


def _is_text(value: Any) -> bool:
    """Returns whether a value is a text, but not printed bytes such as b'Tea'."""
    return isinstance(value, str) and _BYTES.fullmatch(value) is None


def _text_remedy(value: Any) -> str:
    """Returns the remedy for a value that is no text; "" = none is known."""
    is_bytes = isinstance(value, bytes) or (isinstance(value, str) and not _is_text(value))
    return "decode the column's bytes to texts before you write it" if is_bytes else ""


def _to_text(value: Any) -> str:
    """Returns a value as text; "" for None and for a blank text."""
    text = "" if value is None else str(value)
    return text if text.strip() else ""


def _json_text(value: Any) -> str | float:
    if isinstance(value, datetime.date | datetime.time):  # and datetime.datetime
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError


def cell_text(value: Any, place: str, name: str, remedy: str = "") -> str:
    """Returns a text or number of a row as text; "" = missing or blank.

    A whole number gives the same text as an int and as a float: pandas turns the id 1 into 1.0 if
    another id is missing.

    Raises:
      InputError: the value is neither; the message names the place, the field and the remedy.
    """
    if is_missing(value):
        return ""
    is_float = isinstance(value, float)
    if isinstance(value, bool | bytes | list | tuple | dict) or (is_float and math.isinf(value)):
        raise field_error(place, name, "a text or a number", value, remedy)
    return _to_text(int(value) if is_float and value.is_integer() else value)
