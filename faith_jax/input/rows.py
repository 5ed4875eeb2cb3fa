"""From the examples of a SeqIO task to the rows that a model reads: token ids, cut by a policy."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core import cutting
from faith_jax.core.cutting import Kind
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.inference.text_pairs import PairEncoder, row_length
from faith_jax.input.layout import InputLayout, padded
from faith_jax.input.numpy_examples import numpy_examples
from faith_jax.models.config import TransformerConfig
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.vocabularies import tokenizer_of

Row = dict[str, Any]

# The fields that may hold two texts to compare, in this order.
PAIRS = (
    ("premise", "hypothesis"),
    ("knowledge", "response"),
    ("grounding", "generated_text"),
)
_LONGEST_KIND = 40  # characters of a field that may tell kinds of rows apart
_NO_KINDS = {"id", "inputs", "targets", "inputs_pretokenized", "length"}


@dataclasses.dataclass(frozen=True)
class TextRows:
    """Makes the rows of a language model.

    Attributes:
      where: names the task and its split, for errors.
      layout: of the model; its vocabulary is the task's.
      lengths: TASK_FEATURE_LENGTHS.
      cut_policy: see `faith_jax.core.cutting`.
      check_targets: whether a target beyond its length is an error; else it stays as it is.
    """

    where: str
    layout: InputLayout
    lengths: Mapping[str, Any]
    cut_policy: str
    check_targets: bool = True

    def rows(self, task: Any, examples: Any) -> Iterator[Row]:
        """Yields a row for each example.

        Raises:
          InputError: for a target that is too long, an input that the policy cannot cut, and a
            token that the model has no embedding for.
          ConfigError: for DoHA, on examples without knowledge.
        """
        with_knowledge = self.layout.config.knowledge_attention
        if with_knowledge and "knowledge" not in examples.element_spec:
            raise ConfigError(
                f"{self.where}: its examples have no field 'knowledge', which DoHA's second "
                "encoder input is made of; choose a task of a dialogue data set."
            )
        tokenizer = tokenizer_of(task.output_features["inputs"].vocabulary)
        for number, example in enumerate(numpy_examples(examples)):
            yield self._row(example, _identifier(example, number), tokenizer)

    def _row(self, example: Mapping[str, Any], identifier: str, tokenizer: Any) -> Row:
        layout, where = self.layout, f"{self.where}, example {identifier}"
        ids = example["inputs"].tolist()
        if layout.inputs_end and ids[-1:] == [layout.eos_id]:
            ids.pop()
        text = example.get("inputs_pretokenized", b"").decode("utf-8")
        room, parts = layout.room(self.lengths["inputs"]), []
        if len(ids) > room and list(tokenizer.encode(text)) == ids:
            parts = cutting.in_tokens(cutting.parse(text), text, ids, tokenizer)
        limit = f"{where}: TASK_FEATURE_LENGTHS['inputs'] = {self.lengths['inputs']}"
        keep, cut = cutting.cut(len(ids), parts, room, self.cut_policy, limit)
        row = {
            "id": identifier,
            "inputs": layout.inputs(np.asarray(ids, int)[keep].tolist()),
            "targets": layout.targets(example["targets"].tolist()),
            "length": len(ids) + self.lengths["inputs"] - room,
            "cut": [cut.get(kind, 0) for kind in Kind],
            "kinds": kinds_of(example),
            "grounding": grounding_of(text),
        }
        if self.check_targets and len(row["targets"]) > self.lengths["targets"]:
            raise InputError(
                f"{where}: the target has {len(row['targets'])} tokens but TASK_FEATURE_LENGTHS "
                f"allows {self.lengths['targets']}; raise the limit or shorten the response."
            )
        if layout.config.knowledge_attention:
            knowledge = tokenizer.encode(example["knowledge"].decode("utf-8"))
            row["knowledge"] = layout.inputs(knowledge[:room])
        if "negatives" in self.lengths:
            row["negatives"], row["negatives_cut"] = self._negatives(example["negatives"])
        for ids in (row["inputs"], row["targets"], *row.get("negatives", ())):
            check_ids(ids, layout.config, where)
        return row

    def _negatives(self, tokens: np.ndarray) -> tuple[list[list[int]], int]:
        """Returns the texts' ids, each with its end token, and how many of them were cut."""
        most, longest = self.lengths["negatives"]
        longest -= len(self.layout.prefix)
        texts = [[int(token) for token in text if token] for text in tokens[:most]]
        cut = sum(len(text) > longest for text in texts)
        fitted = [
            text if len(text) <= longest else [*text[: longest - 1], self.layout.eos_id]
            for text in texts
        ]
        return [self.layout.targets(text) for text in fitted], cut


@dataclasses.dataclass(frozen=True)
class PairRows:
    """Makes the rows of an encoder with a classification head: two texts, and their class.

    Attributes:
      where: names the task and its split, for errors.
      encode: of the model.
      classes: the model's, with their numbers.
    """

    where: str
    encode: PairEncoder
    classes: Mapping[str, int]

    @classmethod
    def of(
        cls,
        where: str,
        model: TransformerConfig,
        tokenizer: Tokenizer,
        max_length: int,
        cut_policy: str,
    ) -> "PairRows":
        """Returns what makes the rows of a model with a head, of at most `max_length` tokens.

        Raises:
          ConfigError: for a model without a head, and more tokens than the model has positions.
        """
        if not model.label_names:
            raise ConfigError(
                "The checkpoint has no classification head: name the classes of a new one, such as "
                "LABEL_NAMES = ('entailment', 'neutral', 'contradiction')."
            )
        length = row_length(model, max_length)
        encode = PairEncoder(tokenizer, model.vocab_size, length, cut_policy)
        classes = {name.strip().lower(): n for n, name in enumerate(model.label_names)}
        return cls(where, encode, classes)

    def rows(self, task: Any, examples: Any) -> Iterator[Row]:
        """Yields a row for each example; arguments as for `TextRows.rows`.

        Raises:
          ConfigError: for examples without two texts.
          InputError: for an example of a class that the model does not have.
        """
        found = [pair for pair in PAIRS if all(name in examples.element_spec for name in pair)]
        if not found:
            raise ConfigError(
                f"{self.where}: its examples have no two texts to compare, neither "
                f"{' nor '.join(' and '.join(pair) for pair in PAIRS)}."
            )
        for number, example in enumerate(numpy_examples(examples)):
            yield self._row(example, _identifier(example, number), found[0])

    def _row(self, example: Mapping[str, Any], identifier: str, fields: tuple[str, str]) -> Row:
        premise, hypothesis = (example[name].decode("utf-8") for name in fields)
        label = example["targets_pretokenized"].decode("utf-8").strip()
        if label.lower() not in self.classes:
            raise InputError(
                f"{self.where}, example {identifier}: its class is {label!r}, the model's classes "
                f"are {', '.join(self.classes)}. LABEL_NAMES names those of a new head."
            )
        row = self.encode(premise, hypothesis, f"{self.where}, example {identifier}")
        return {
            "id": identifier,
            "inputs": row.ids,
            "label": self.classes[label.lower()],
            "length": len(row.ids) + row.cut_tokens,
            "cut": [row.cut.get(kind, 0) for kind in Kind],
            "kinds": kinds_of(example),
            "grounding": _hash(premise),
        }


def pair_features(rows: Sequence[Row], length: int, pad_id: int) -> dict[str, np.ndarray]:
    """Returns a batch for a classification head.

    Returns:
      `encoder_input_tokens`, int32 [rows, length], `labels`, int32 [rows], and `label_weights`,
      float32 [rows], all 1.
    """
    tokens = padded([row["inputs"] for row in rows], length, pad_id)
    labels = np.array([row["label"] for row in rows], np.int32)
    weights = np.ones(len(rows), np.float32)
    return {"encoder_input_tokens": tokens, "labels": labels, "label_weights": weights}


def check_ids(ids: Sequence[int], config: TransformerConfig, where: str) -> None:
    """Checks that the model has an embedding for each token of a text.

    Raises:
      InputError: naming the text and the first token that it has none for.
    """
    if max(ids, default=0) >= config.vocab_size:
        token = next(token for token in ids if token >= config.vocab_size)
        raise InputError(
            f"{where}: the tokenizer makes token {token} of it, but the model has embeddings for "
            f"{config.vocab_size} only; change the text."
        )


def kinds_of(example: Mapping[str, Any]) -> str:
    """Returns an example's short scalar fields, which tell kinds of rows apart, as JSON."""
    found: dict[str, Any] = {}
    for name, value in sorted(example.items()):
        if name in _NO_KINDS:
            continue
        if isinstance(value, bytes) and len(value) <= _LONGEST_KIND:
            found[name.removesuffix("_pretokenized")] = value.decode("utf-8")
        elif isinstance(value, np.bool_ | np.integer):
            found[name] = value.item()
    if "negatives" in example:
        found["negatives"] = len(example["negatives"])
    return json.dumps(found, ensure_ascii=False)


def grounding_of(text: str) -> int:
    """Returns a number that stands for the knowledge in an input; 0 where there is none."""
    parts = [part for part in cutting.parse(text) if part.kind == Kind.KNOWLEDGE]
    return _hash("\n".join(text[part.text_start : part.text_end] for part in parts))


def _hash(text: str) -> int:
    if not text:
        return 0
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _identifier(example: Mapping[str, Any], number: int) -> str:
    found = example.get("id", b"")
    shown = found.decode("utf-8") if isinstance(found, bytes) else str(found)
    return shown or str(number)
