"""What `infer` responds to: the rows of a task's split or of a JSONL file."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from faith_jax.core import templates
from faith_jax.core.cutting import CutTokens, Fitted, Kind, check_second_branch, fit, parse
from faith_jax.core.errors import InputError
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text, Texts, converted
from faith_jax.datasets import npov
from faith_jax.inference.opening import check_ids
from faith_jax.input.layout import InputLayout
from faith_jax.input.numpy_examples import numpy_examples, plain, utf8_in
from faith_jax.input.task_batches import DatasetConfig, examples

# Fields with another place in the output, or that it has of its own.
_NOT_CARRIED = {
    "id", "inputs", "targets", "inputs_pretokenized", "targets_pretokenized", "response", "target",
    "inputs_without_document", "label", "prediction", "predictions", "log_prob", "num_tokens",
    "inputs_cut_tokens", "inputs_cut_knowledge", "inputs_cut_history", "inputs_cut_response",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class InputRow:
    """One row to respond to.

    Attributes:
      id: unique.
      inputs: the text that the model sees.
      target: the gold response, "" where it is not known.
      second_inputs: the text of PMI-Decode's other branch, or DoHA's knowledge; None = as `inputs`
        say.
      fields: the row's other texts and lists of texts, such as the knowledge; they are written
        beside the response, so that it can be scored.
      postprocess: what is written of a decoded text; the default leaves it as it is.
    """

    id: str
    inputs: str
    target: str = ""
    second_inputs: str | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # Not in `repr`, by which a stopped run is known: a function's address changes.
    postprocess: Callable[[str], str] = dataclasses.field(default=str, repr=False)


def task_rows(dataset: DatasetConfig) -> list[InputRow]:
    """Returns the rows of a task's split, in its order.

    Of a mixture, all rows of each of its tasks that has the split, whatever its rate; their ids are
    "<task>/<id>".
    """
    given = dataset.task()
    rows = []
    for task in getattr(given, "tasks", [given]):
        if dataset.split not in task.splits:
            continue
        for number, example in enumerate(numpy_examples(examples(dataset, task))):
            with utf8_in(f"{task.name}, split {dataset.split!r}, example {number}"):
                identifier = str(plain(example.get("id", number)))
                inputs = plain(example["inputs_pretokenized"])
                target = plain(example["targets_pretokenized"])
                texts = {n: v for n, v in example.items() if np.asarray(v).dtype.kind in "OS"}
                fields = {n: plain(v) for n, v in texts.items() if n not in _NOT_CARRIED}
            if task is not given:
                identifier = f"{task.name}/{identifier}"
            postprocess = functools.partial(_postprocessed, task, example)
            target = postprocess(target, is_target=True)
            rows.append(InputRow(identifier, inputs, target, None, fields, postprocess))
    return with_common_fields(rows)


def _postprocessed(
    task: Any, example: Mapping[str, Any], text: str, is_target: bool = False
) -> str:
    """Returns what the task's postprocessor makes of a text, called as SeqIO calls it.

    That is a mapping's "response", as our tasks return of targets, or a text; else the text given.
    """
    found = task.postprocess_fn(text, example=example, is_target=is_target)
    if isinstance(found, Mapping):
        found = found.get("response")
    return found if isinstance(found, str) else text


def with_common_fields(rows: Sequence[InputRow]) -> list[InputRow]:
    """Keeps the fields that all rows have as a text, or that all have as a list of texts."""
    kinds = [{name: _kind(value) for name, value in row.fields.items()} for row in rows]
    first = kinds[0] if kinds else {}
    kept = [
        name
        for name, kind in first.items()
        if kind and name not in _NOT_CARRIED and all(found.get(name) == kind for found in kinds)
    ]
    return [
        dataclasses.replace(row, fields={name: row.fields[name] for name in kept}) for row in rows
    ]


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "texts"
    return ""


def read_input_file(
    path: str, knowledge: str, arguments_per_side: int, seed: int
) -> list[InputRow]:
    """Reads rows of a JSONL file (`docs/data_formats.md`).

    A row has `inputs`, or `query` with or without arguments, of which `arguments_per_side` are then
    drawn from `knowledge`, or `history` and `knowledge`. `response` is kept as the target. A
    response to `inputs` stays as it is; of a response to `query`, whose input is in the curly
    braces format, the text in that format is kept.

    Raises:
      InputError: names file, line and field.
    """
    topics = functools.cache(functools.partial(npov.load_topics, knowledge))
    rows, seen = [], set()
    for where, row in read_jsonl(path):
        identifier = str(row.get("id", where.rpartition(":")[2]))
        if identifier in seen:
            raise InputError(f"{where}: field 'id': {identifier!r} occurs twice.")
        seen.add(identifier)
        made = functools.partial(InputRow, identifier)
        if "inputs" in row:
            given = converted(row, where, _WholeInput, strip=False)
            other = given.inputs_without_document or given.knowledge
            rows.append(made(given.inputs, given.response, other, row))
        elif "query" in row:
            asked = converted(row, where, _Query, strip=False)
            pro, con = asked.pro_arguments, asked.con_arguments
            if not pro and not con:
                try:
                    topic = npov.retrieve(topics(), asked.query)
                except InputError as error:
                    raise InputError(f"{where}: field 'query': {error}") from None
                chosen = npov.choose_arguments(topic, arguments_per_side, seed)
                pro, con = ([argument.text for argument in side] for side in chosen)
            if not pro or not con:
                missing = "pro_arguments" if con else "con_arguments"
                raise InputError(f"{where}: field {missing!r} is missing; give both sides.")
            inputs = templates.npov_generate_inputs(asked.query, pro, con)
            fields = {**row, "pro_arguments": pro, "con_arguments": con}
            postprocess = templates.npov_response
            rows.append(made(inputs, asked.response, None, fields, postprocess))
        elif "history" in row:
            turn = converted(row, where, _Turn, strip=False)
            told = turn.knowledge if isinstance(turn.knowledge, str) else " ".join(turn.knowledge)
            turns = [turn.history] if isinstance(turn.history, str) else turn.history
            rows.append(made(templates.dialogue_inputs(told, turns), turn.response, None, row))
        else:
            raise InputError(
                f"{where}: expected a field 'query' or 'inputs', or 'history' with 'knowledge', "
                f"got {list(row)}."
            )
    return with_common_fields(rows)


class _WholeInput(msgspec.Struct):
    inputs: Text
    inputs_without_document: Text | None = None
    knowledge: Text | None = None
    response: str = ""


class _Query(msgspec.Struct):
    query: Text
    pro_arguments: Texts | None = None
    con_arguments: Texts | None = None
    response: str = ""


class _Turn(msgspec.Struct):
    history: Text | Texts
    knowledge: Text | Texts
    response: str = ""


class InputTokens(NamedTuple):
    """What a model reads of a row.

    Attributes:
      ids: of its input.
      second: of PMI-Decode's other branch or of DoHA's knowledge; empty for other models.
      cut: how many tokens of the input are cut.
    """

    ids: list[int]
    second: list[int]
    cut: CutTokens


@dataclasses.dataclass(frozen=True)
class RowTokens:
    """Makes the tokens of rows.

    Attributes:
      tokenizer: the model's.
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

    def __call__(self, row: InputRow) -> InputTokens:
        """Returns a row's tokens.

        Raises:
          InputError: the policy cannot cut the input, PMI-Decode or DoHA find no knowledge, or the
            model has no embedding for a token.
        """
        fitted = self._fitted(row, row.inputs)
        second = self._second(row, fitted) if self.branches else []
        return InputTokens(self._known(row, fitted.ids), second, fitted.cut)

    def _second(self, row: InputRow, fitted: Fitted) -> list[int]:
        if row.second_inputs is not None:
            policy = "end" if self.branches == "doha" else self.cut_policy
            return self._known(row, self._fitted(row, row.second_inputs, policy).ids)
        parts = parse(row.inputs)
        if not parts and row.inputs.strip():
            needed, field = (
                ("PMI-Decode needs the input without its document", "inputs_without_document")
                if self.branches == "pmi"
                else ("DoHA needs the knowledge", "knowledge")
            )
            raise InputError(
                f"Row {row.id}: {needed}, but there is no <knowledge>, and no {{key: value}} of a "
                f"document; give {field!r}."
            )
        if self.branches == "pmi":
            other, where = fitted.without_knowledge, f"Row {row.id}: {self.limit}"
            check_second_branch(len(other), fitted.cut, self.cut_policy, where)
            return self._known(row, other)
        knowledge = [part for part in parts if part.kind == Kind.KNOWLEDGE]
        text = " ".join(row.inputs[p.text_start : p.text_end] for p in knowledge)
        return self._known(row, self._fitted(row, text, "end").ids)

    def _fitted(self, row: InputRow, text: str, policy: str = "") -> Fitted:
        room, where = self.layout.room(self.max_length), f"Row {row.id}: {self.limit}"
        return fit(self.tokenizer, text, room, policy or self.cut_policy, where)

    def _known(self, row: InputRow, ids: list[int]) -> list[int]:
        whole = self.layout.inputs(ids)
        return check_ids(whole, self.layout.config.vocab_size, f"Row {row.id}")
