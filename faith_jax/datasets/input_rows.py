"""Turns the fields of a row into the text that a model responds to.

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

# The fields that `input_row` reads; `pro` and `con` are other names for the arguments.
FIELDS = ("id", "inputs", "inputs_without_document", "query", *SIDE_FIELDS, *SIDES, "history",
          "knowledge", "response")  # fmt: skip
# Fields that may be a text or a list of texts.
LISTS = frozenset((*SIDE_FIELDS, *SIDES, "history", "knowledge"))
# Likely misnomers of fields, an error in rows that have neither the field nor `inputs`.
_MEANT = {"question": "query"} | {
    f"{side}_{texts}": side for side in SIDES for texts in ("arg", "args", "texts")
}
# Retrieval programs' names for the knowledge, suggested if a row has no evidence for its query.
_PASSAGES = (
    *("context", "contexts", "retrieved_contexts", "retrieval_context"),
    *("documents", "passages", "source_documents", "evidence"),
)
_FORMS = "'query' with 'knowledge' or arguments, 'history' with 'knowledge', or 'inputs'"
# Returns the arguments of both sides for a query.
_Lookup = Callable[[str], tuple[Sequence[str], Sequence[str]]]


@dataclasses.dataclass(frozen=True)
class InputRow:
    """One row to respond to.

    Attributes:
      id: a unique id.
      inputs: the text that the model sees.
      target: the gold response; None = unknown.
      second_inputs: the text of PMI-Decode's other branch, without the document; None = derived
        from `inputs`.
      fields: the row's other values, such as the knowledge, which are written beside the response
        so that it can be scored.
      postprocess: turns a decoded text into the text to write; by default it is left as it is.
      place: the number of the part of the input, such as a task, and of the row in it, from 0.
      knowledge: the knowledge for DoHA, if it cannot be found in the text of `inputs`.
    """

    id: str
    inputs: str
    target: str | None = None
    second_inputs: str | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # Left out of `repr`, which identifies a stopped run, since a function's address changes.
    postprocess: Callable[[str], str] = dataclasses.field(default=str, repr=False)
    place: tuple[int, int] = dataclasses.field(default=(0, 0), repr=False)
    knowledge: str = ""


def input_row(
    row: Mapping[str, Any], where: str, identifier: str, look_up: _Lookup | None = None
) -> InputRow:
    """Returns the input built from a row's fields.

    The row has `inputs`; or `query` and arguments of both sides (`pro_arguments` or `pro`,
    `con_arguments` or `con`); or `knowledge` and `history`, `query` or both, where `query` is the
    last turn and `history` may be empty; or `query` alone. Arguments, knowledge and history are a
    text or a list of texts. `response` becomes the target. Responses to a query with arguments are
    generated in the curly braces format, from which the text is extracted; others stay as they are.

    Args:
      row: the fields; None counts as missing.
      where: the place for errors, such as `path:line`.
      identifier: the row's id.
      look_up: finds the arguments for a `query` alone; None = such a row is an error.

    Raises:
      InputError: a field is missing, has a wrong value, or has nearly the name of a field above.
    """
    # The user's own columns, empty ones included, are written beside the response.
    nulls = {name: None for name, v in row.items() if v is None and name not in FIELDS}
    row = {name: value for name, value in row.items() if value is not None}
    # A name that nearly equals a field's is refused; other names are columns of the user's own.
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

    # `inputs` are read as they are, regardless of other fields.
    if "inputs" in row:
        whole_input = convert_row(row, where, _WholeInput, strip=False)
        without = whole_input.inputs_without_document
        as_it_stands = build_row(whole_input.inputs, whole_input.response, without, row)
        knowledge = " ".join(_as_list(whole_input.knowledge or []))
        return dataclasses.replace(as_it_stands, knowledge=knowledge)
    # With knowledge but no arguments, a query is the last turn of a dialogue; see below.
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
    # If the texts are given, `pro` and `con` may be their numbers, as in the NPOV responses.
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
    # Close enough for a typo or a plural, but not for a name with another meaning.
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
