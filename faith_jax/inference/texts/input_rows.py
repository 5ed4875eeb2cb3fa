"""From the fields of a row to the text that a model responds to, and to its tokens.

The tokens have the form that each family wants:

- An encoder-decoder reads prefix, input and end token, and writes prefix, target and end token.
- A decoder-only model reads prefix and input, without an end token, and goes on with the target and
  the end token.

The prefix is what the tokenizer puts in front of a text (`<s>` in BART, `<bos>` in Gemma; nothing
in T5 and GPT-2).

>>> input_row({"query": "Is it?", "pro": "It is.", "con": "It is not."}, "rows.jsonl:1", "1").inputs
'{query: Is it?} {pro: It is.} {con: It is not.}'
>>> input_row({"query": "What is it?", "knowledge": "It is tea."}, "rows.jsonl:2", "2").inputs
'<knowledge> It is tea. <seeker> What is it?'
"""

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from faith_jax.core import templates
from faith_jax.core.cutting import (
    CutTokens,
    Fitted,
    check_policy,
    check_second_branch,
    fit,
    notation_of,
    parse,
)
from faith_jax.core.errors import ConfigError, InputError, nearest_names
from faith_jax.core.schema import Text, Texts, convert_row
from faith_jax.core.types import SIDE_FIELDS, SIDES
from faith_jax.inference.opening import check_ids
from faith_jax.models.config import TransformerConfig
from faith_jax.tokenizers.vocabularies import special_id

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


@dataclasses.dataclass(frozen=True)
class InputLayout:
    """How a model's inputs and targets are laid out.

    Attributes:
      prefix: special ids in front of a text.
      eos_id: the vocabulary's end token.
      inputs_end: whether an encoder's inputs end with it (a SeqIO feature's `add_eos`).
    """

    config: TransformerConfig
    prefix: tuple[int, ...]
    eos_id: int
    inputs_end: bool = True

    @classmethod
    def of(
        cls, config: TransformerConfig, vocabulary: Any, inputs_end: bool = True
    ) -> "InputLayout":
        """Returns the layout for a model and a tokenizer of ours, or a vocabulary of SeqIO's."""
        prefix = tuple(getattr(vocabulary, "prefix_ids", ()))
        end = special_id(vocabulary, "eos")
        if end is None:  # of a vocabulary that passes ids through
            end = config.eos_ids[0] if config.eos_ids else config.pad_id
        return cls(config, prefix, int(end), inputs_end)

    @property
    def suffix(self) -> tuple[int, ...]:
        """The special ids behind an input's text."""
        return (self.eos_id,) if self.inputs_end and not self.config.is_decoder_only else ()

    @property
    def is_t5s(self) -> bool:
        """Whether it is T5's, whose examples may be packed."""
        config = self.config
        return (
            not config.is_decoder_only
            and not config.knowledge_attention
            and not self.prefix
            and (config.pad_id, config.decoder_start_id) == (0, 0)
        )

    def room(self, limit: int) -> int:
        """Returns how many tokens of a text fit into an input of `limit` tokens in all."""
        return limit - len(self.prefix) - len(self.suffix)

    def check_room(self, limit: int, setting: str) -> None:
        """Raises a ConfigError unless an input of `limit` tokens has room for a text."""
        if self.room(limit) < 1:
            least = limit - self.room(limit) + 1
            raise ConfigError(
                f"{setting}: expected at least {least} tokens, special ones included, got {limit}."
            )

    def inputs(self, ids: Sequence[int]) -> list[int]:
        """Returns an input as the model reads it: a text's ids with special tokens around them."""
        # A decoder-only model must read something before it can go on.
        return [*self.prefix, *ids, *self.suffix] or [self.eos_id]

    def targets(self, ids: Sequence[int]) -> list[int]:
        """Returns a target as the model writes it; its end token is there already."""
        # A decoder-only model has read the prefix in front of the input; a decoder begins anew with
        # it.
        return list(ids) if self.config.is_decoder_only else [*self.prefix, *ids]

    def check_positions(
        self, inputs: int, targets: int, settings: tuple[str, ...] = ("TASK_FEATURE_LENGTHS",)
    ) -> None:
        """Raises a ConfigError if so many tokens do not fit a table of learned positions.

        `settings` names the one that says both lengths, or one each.
        """
        config = self.config
        if config.positions != "learned":
            return
        second = "targets" if len(settings) == 1 else "responses"
        lengths = {
            "inputs": (settings[0], inputs + config.encoder_prompt_length),
            second: (settings[-1], targets + config.decoder_prompt_length),
        }
        if config.is_decoder_only:
            total_length = inputs + targets + config.decoder_prompt_length
            # Both stand in one sequence.
            lengths = {f"inputs and {second}": (" + ".join(settings), total_length)}
        for name, (setting, length) in lengths.items():
            if length > config.max_positions:
                raise ConfigError(
                    f"{setting}: {name} take {length} positions (soft prompts included), but the "
                    f"model has {config.max_positions}; lower the limits."
                )


class _InputTokens(NamedTuple):
    """The token ids that a model reads of a row.

    Attributes:
      second: of PMI-Decode's branch without the document, or of DoHA's input with it (`ids` are
        then the dialogue alone); empty for other models.
      cut: how many tokens of the input are cut.
    """

    ids: list[int]
    second: list[int]
    cut: CutTokens


@dataclasses.dataclass(frozen=True)
class RowTokens:
    """Makes the tokens of rows.

    Attributes:
      layout: of the model.
      max_length: tokens of an input, special ones included.
      limit: the setting that says so, for errors.
      cut_policy: see `faith_jax.core.cutting`.
      branches: "pmi" and "doha" have a second input.
    """

    tokenizer: Any
    layout: InputLayout
    max_length: int
    limit: str
    cut_policy: str
    branches: str = ""

    @classmethod
    def of(
        cls,
        config: TransformerConfig,
        tokenizer: Any,
        max_length: int,
        setting: str,
        cut_policy: str,
        pmi: bool,
    ) -> "RowTokens":
        """Returns the tokenization for a model; `setting` names the option of `max_length`.

        Raises:
          ConfigError: where there is no room for a text, and for an unknown policy.
        """
        check_policy(cut_policy, "cut_policy")
        layout = InputLayout.of(config, tokenizer)
        layout.check_room(max_length, setting)
        branches = "pmi" if pmi else "doha" if config.knowledge_attention else ""
        limit = f"{setting} = {max_length}"
        return cls(tokenizer, layout, max_length, limit, cut_policy, branches)

    def __call__(self, row: InputRow) -> _InputTokens:
        """Returns a row's tokens.

        Raises:
          InputError: the policy cannot cut the input, PMI-Decode or DoHA find no knowledge, or the
            model has no embedding for a token.
        """
        if self.branches == "doha":
            # The dialogue, and the dialogue with its knowledge (Prabhumoye 2021's code).
            if row.knowledge and not parse(row.inputs, notation_of(self.tokenizer)):
                dialogue = self._fit_text(row, row.inputs).ids
                fitted = self._fit_text(row, f"{row.knowledge} {row.inputs}")
            else:
                self._check_knowledge(row, "DoHA needs the knowledge", "knowledge")
                fitted = self._fit_text(row, row.inputs)
                dialogue = fitted.without_knowledge
            return _InputTokens(
                self._check_ids(row, dialogue), self._check_ids(row, fitted.ids), fitted.cut
            )
        fitted, second = self._fit_text(row, row.inputs), list[int]()
        # The second branch is PMI-Decode's, without the document.
        if self.branches and row.second_inputs is not None:
            second = self._check_ids(row, self._fit_text(row, row.second_inputs).ids)
        elif self.branches:
            self._check_knowledge(
                row, "PMI-Decode needs the input without its document", "inputs_without_document"
            )
            second_ids, where = fitted.without_knowledge, f"Row {row.id}: {self.limit}"
            check_second_branch(len(second_ids), fitted.cut, self.cut_policy, where)
            second = self._check_ids(row, second_ids)
        return _InputTokens(self._check_ids(row, fitted.ids), second, fitted.cut)

    def _check_knowledge(self, row: InputRow, needed: str, field: str) -> None:
        if row.inputs.strip() and not parse(row.inputs, notation_of(self.tokenizer)):
            raise InputError(
                f"Row {row.id}: {needed}, but there is no <knowledge>, and no {{key: value}} of a "
                f"document; give {field!r}."
            )

    def _fit_text(self, row: InputRow, text: str) -> Fitted:
        room, where = self.layout.room(self.max_length), f"Row {row.id}: {self.limit}"
        return fit(self.tokenizer, text, room, self.cut_policy, where)

    def _check_ids(self, row: InputRow, ids: list[int]) -> list[int]:
        model_input = self.layout.inputs(ids)
        return check_ids(model_input, self.layout.config.vocab_size, f"Row {row.id}")
