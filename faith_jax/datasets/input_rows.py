"""From the fields of a row to the text that a model responds to.

>>> input_row({"query": "Is it?", "pro": "It is.", "con": "It is not."}, "rows.jsonl:1", "1").inputs
'{query: Is it?} {pro: It is.} {con: It is not.}'
>>> input_row({"query": "What is it?", "knowledge": "It is tea."}, "rows.jsonl:2", "2").inputs
'<knowledge> It is tea. <seeker> What is it?'
"""

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from faith_jax.core import templates
from faith_jax.core.errors import InputError, nearest_names
from faith_jax.core.schema import Text, Texts, convert_row
from faith_jax.core.types import SIDE_FIELDS, SIDES

# What `input_row` reads; `pro` and `con` are other names of the arguments.
FIELDS = ("id", "inputs", "inputs_without_document", "query", *SIDE_FIELDS, *SIDES, "history",
          "knowledge", "response")  # fmt: skip
# Those that are a text or a list of texts.
LISTS = frozenset((*SIDE_FIELDS, *SIDES, "history", "knowledge"))
# Other names for these, in rows that have neither these nor `inputs`.
_MEANT = {"question": "query"} | {
    f"{side}_{texts}": side for side in SIDES for texts in ("arg", "args", "texts")
}
# What programs of retrieval call the knowledge, for rows where nothing else answers the query.
_PASSAGES = (
    *("context", "contexts", "retrieved_contexts", "retrieval_context"),
    *("documents", "passages", "source_documents", "evidence"),
)
_FORMS = "'query' with 'knowledge' or arguments, 'history' with 'knowledge', or 'inputs'"
# The arguments of both sides for a query.
_Lookup = Callable[[str], tuple[Sequence[str], Sequence[str]]]


@dataclasses.dataclass(frozen=True)
class InputRow:
    """One row to respond to.

    Attributes:
      id: unique.
      inputs: the text that the model sees.
      target: the gold response, None where it is not known.
      second_inputs: the text of PMI-Decode's other branch, without the document; None = as `inputs`
        say.
      fields: the row's other values, such as the knowledge; they are written beside the response,
        so that it can be scored.
      postprocess: what is written of a decoded text; the default leaves it as it is.
      place: which part of the input it is of, such as a task, and which row of it, from 0.
      knowledge: that DoHA reads with `inputs` of a form in which it cannot be found.
    """

    id: str
    inputs: str
    target: str | None = None
    second_inputs: str | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # Not in `repr`, by which a stopped run is known: a function's address changes.
    postprocess: Callable[[str], str] = dataclasses.field(default=str, repr=False)
    place: tuple[int, int] = dataclasses.field(default=(0, 0), repr=False)
    knowledge: str = ""


def input_row(
    row: Mapping[str, Any], where: str, identifier: str, look_up: _Lookup | None = None
) -> InputRow:
    """Returns the input that a row's fields make.

    The row has `inputs`; or `query` with arguments of both sides (`pro_arguments` or `pro`,
    `con_arguments` or `con`); or `knowledge` with `history`, `query` or both, of which `query` is
    the last turn, beside which `history` may be empty; or `query` alone. Arguments, knowledge and
    history are a text or a list of texts. `response` is kept as the target. A response to `inputs`
    or to a dialogue stays as it is; of a response to a query with arguments, whose input is in the
    curly braces format, the text in that format is kept.

    Args:
      row: the fields; None counts as missing.
      where: for errors, such as `path:line`.
      identifier: the row's id.
      look_up: finds the arguments for a `query` alone; None = such a row is an error.

    Raises:
      InputError: names place and field: one that is missing, that has a wrong value, or whose name
        is nearly that of a field above.
    """
    # Columns of the user's own are written beside the response, empty ones too.
    nulls = {name: None for name, v in row.items() if v is None and name not in FIELDS}
    row = {name: value for name, value in row.items() if value is not None}
    # A name that is nearly that of a field is refused; others are the user's own.
    for name in row:
        similar = [field for field in FIELDS if name not in FIELDS and _is_nearly(name, field)]
        near = nearest_names(name, similar, 1)
        intended = _MEANT.get(name.lower())
        if intended and not {"inputs", intended, f"{intended}_arguments"} & row.keys():
            near = [intended]
        if near:
            raise InputError(
                f"{where}: field {name!r} is not known. Did you mean {near[0]!r}? Rename it: a "
                "column of your own may have any name that is less like one of these."
            )

    def build_row(
        inputs: str, target: str | None, second: str | None, fields: Mapping[str, Any], *rest: Any
    ) -> InputRow:
        return InputRow(identifier, inputs, target, second, {**fields, **nulls}, *rest)

    # `inputs` are read as they stand, whatever other fields there are.
    if "inputs" in row:
        whole_input = convert_row(row, where, _WholeInput, strip=False)
        without = whole_input.inputs_without_document
        as_it_stands = build_row(whole_input.inputs, whole_input.response, without, row)
        knowledge = " ".join(_as_list(whole_input.knowledge or []))
        return dataclasses.replace(as_it_stands, knowledge=knowledge)
    # With knowledge and without arguments, a query is the last turn of a dialogue, see below.
    has_sides = any(side in row for side in (*SIDE_FIELDS, *SIDES))
    if "query" in row and (has_sides or "knowledge" not in row):
        return _argument_row(row, where, build_row, look_up)
    if "history" in row or "query" in row:
        begins_here = "query" in row and row.get("history") in ([], "")
        read = {**row, "history": None} if begins_here else row
        turn = convert_row(read, where, _DialogueTurn, strip=False)
        turns = _as_list(turn.history or []) + ([turn.query] if turn.query else [])
        knowledge = " ".join(_as_list(turn.knowledge))
        return build_row(templates.dialogue_inputs(knowledge, turns), turn.response, None, row)
    raise InputError(f"{where}: expected {_FORMS}, got the fields {list(row)}.")


def _argument_row(
    row: Mapping[str, Any], where: str, build_row: Callable[..., InputRow], look_up: _Lookup | None
) -> InputRow:
    # Beside the texts, `pro` and `con` may be their numbers, as in the NPOV sets' responses.
    numbered = {side for side in SIDES if side in row and f"{side}_arguments" in row}
    for side in sorted(numbered):
        texts = row[side] if isinstance(row[side], list) else [row[side]]
        if any(isinstance(part, str) for part in texts):
            raise InputError(
                f"{where}: field '{side}' is another name of '{side}_arguments'; give one of them."
            )
    named = {name: value for name, value in row.items() if name not in numbered}
    query_row = convert_row(named, where, _Query, strip=False)
    pro = _as_list(query_row.pro_arguments or query_row.pro or [])
    con = _as_list(query_row.con_arguments or query_row.con or [])
    if not pro and not con:
        remedy = "give 'knowledge', or 'pro' and 'con', too"
        if passages := [name for name in row if name.lower() in _PASSAGES]:
            remedy = f"rename {passages[0]!r} to 'knowledge'"
        if look_up is None:
            raise InputError(f"{where}: field 'query': {remedy}.")
        try:
            pro, con = map(list, look_up(query_row.query))
        except InputError as error:
            raise InputError(f"{where}: field 'query': {error} Or {remedy}.") from None
    if not pro or not con:
        missing = SIDE_FIELDS[0] if con else SIDE_FIELDS[1]
        raise InputError(f"{where}: field {missing!r} is missing; give both sides.")
    fields = {n: value for n, value in row.items() if n in numbered or n not in SIDES}
    fields |= {"pro_arguments": pro, "con_arguments": con}
    inputs = templates.npov_generate_inputs(query_row.query, pro, con)
    return build_row(inputs, query_row.response, None, fields, templates.npov_response)


def _is_nearly(name: str, field: str) -> bool:
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    if plain == field or len(field) <= 3:
        return plain in (field, f"{field}s")
    # Near enough for a slip of the keyboard or a plural, and far from names of another meaning.
    is_similar = difflib.SequenceMatcher(None, plain, field).ratio() >= 0.8
    return is_similar and abs(len(plain) - len(field)) <= 2


def _as_list(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


class _WholeInput(msgspec.Struct):
    inputs: Text
    inputs_without_document: Text | None = None
    knowledge: Text | Texts | None = None
    response: str | None = None


class _Query(msgspec.Struct):
    query: Text
    pro_arguments: Text | Texts | None = None
    con_arguments: Text | Texts | None = None
    pro: Text | Texts | None = None
    con: Text | Texts | None = None
    response: str | None = None


class _DialogueTurn(msgspec.Struct):
    knowledge: Text | Texts
    history: Text | Texts | None = None
    query: Text | None = None
    response: str | None = None
