"""Turns the examples of a SeqIO task into rows that a model reads: token ids, cut by a policy."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from faith_jax.core import cutting
from faith_jax.core.cutting import Kind
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.templates import npov_label
from faith_jax.inference.opening import LONGEST_PAIR, check_ids, input_limit
from faith_jax.inference.texts.row_tokens import InputLayout
from faith_jax.inference.texts.text_pairs import PairEncoder
from faith_jax.input.numpy_examples import feature_text, plain, utf8_in
from faith_jax.input.task_examples import TaskExamples
from faith_jax.models.config import TransformerConfig
from faith_jax.retrieval.dense import Passage, text_row
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.unknown import UnknownTokens, counting_unknown
from faith_jax.tokenizers.vocabularies import default_vocabulary, tokenizer_of

Row = dict[str, Any]

# Pairs of fields that may hold two texts to compare, in order of preference. An encoder reads the
# second field of (claim, sentence) first, and of the others the first.
_CLAIM_FIRST = ("claim", "sentence")
PAIRS = (
    _CLAIM_FIRST,
    ("premise", "hypothesis"),
    ("knowledge", "response"),
    ("grounding", "generated_text"),
)


def _make_rows(
    examples: TaskExamples, where: str, make: Callable[[Mapping[str, Any], str], Row]
) -> Iterator[Row]:
    """Yields the row that `make(example, place)` makes of each example."""
    for number, example in enumerate(examples):
        with utf8_in(f"{where}, example {number}"):
            identifier = str(plain(example.get("id", ""))) or str(number)
            row = {"id": identifier, **make(example, f"{where}, example {identifier}")}
        yield row


def text_rows(
    task: Any,
    examples: TaskExamples,
    where: str,
    layout: InputLayout,
    lengths: Mapping[str, Any],
    cut_policy: str,
) -> Iterator[Row]:
    """Yields the rows of a language model, one for each example of a part of a task's split.

    `where` names the task and split in errors; `lengths` is TASK_FEATURE_LENGTHS.

    Raises:
      InputError: a target is too long, an input cannot be cut by the policy or has no knowledge for
        DoHA, the model has no embedding for a token, or a text is not UTF-8.
    """
    features = task.output_features
    tokenizer = tokenizer_of(features.get("inputs", features["targets"]).vocabulary)
    try:
        metrics = task.metric_fns
    except ValueError:  # a metric that SeqIO refuses; `try_metrics` reports it
        metrics = []
    has_labels = any(getattr(metric, "reads_labels", False) for metric in metrics)
    make = functools.partial(_make_text_row, layout, lengths, cut_policy, tokenizer, has_labels)
    return _make_rows(examples, where, make)


def _make_text_row(
    layout: InputLayout,
    lengths: Mapping[str, Any],
    cut_policy: str,
    tokenizer: Any,
    has_labels: bool,
    example: Mapping[str, Any],
    where: str,
) -> Row:
    ids = example["inputs"].tolist() if "inputs" in example else []
    if "inputs_pretokenized" not in example and ids[-1:] != [layout.eos_id]:
        # Rows of token ids are read as they are, so add no end token.
        layout = dataclasses.replace(layout, inputs_end=False)
    if layout.inputs_end and ids[-1:] == [layout.eos_id]:
        ids.pop()
    text = plain(example.get("inputs_pretokenized", ""))
    # Rows with the same knowledge texts count as having the same grounding.
    published = cutting.notation_of(tokenizer).to_published_notation(text)
    knowledge = "\n".join(
        published[part.text_start : part.text_end]
        for part in cutting.parse(published)
        if part.kind == Kind.KNOWLEDGE
    )
    room, parts = layout.room(lengths["inputs"]), []
    is_doha = layout.config.knowledge_attention
    if (is_doha or len(ids) > room) and text and list(tokenizer.encode(text)) == ids:
        parsed = cutting.parse(text, cutting.notation_of(tokenizer))
        parts = cutting.in_tokens(parsed, text, ids, tokenizer)
    limit = f"{where}: TASK_FEATURE_LENGTHS['inputs'] = {lengths['inputs']}"
    keep, cut = cutting.cut(len(ids), parts, room, cut_policy, limit)
    row = {
        "inputs": layout.inputs(np.asarray(ids, int)[keep].tolist()),
        "targets": layout.targets(example["targets"].tolist()),
        "length": len(ids) + lengths["inputs"] - room,
        "cut": [cut.get(kind, 0) for kind in Kind],
        "grounding": _hash_text(knowledge),
        **_count_unknown(tokenizer, text, ids, example, has_labels, where),
    }
    if len(row["targets"]) > lengths["targets"]:
        raise InputError(
            f"{where}: the target has {len(row['targets'])} tokens but TASK_FEATURE_LENGTHS allows "
            f"{lengths['targets']}; raise the limit or shorten the response."
        )
    if is_doha:
        if ids and not parts:
            raise InputError(
                f"{where}: DoHA reads the dialogue alone, and the dialogue with its knowledge; the "
                "input is of another form. Choose a task of a dialogue data set."
            )
        dialogue = cutting.without_knowledge(keep, parts)
        row["knowledge"] = row["inputs"]
        row["inputs"] = layout.inputs(np.asarray(ids, int)[dialogue].tolist())
    if "negatives" in lengths:
        max_texts, longest = lengths["negatives"]
        longest -= len(layout.prefix)
        texts = [[int(token) for token in text if token] for text in example["negatives"]]
        texts = texts[:max_texts]
        row["negatives_cut"] = sum(len(text) > longest for text in texts)
        row["negatives"] = [
            layout.targets(t if len(t) <= longest else [*t[: longest - 1], layout.eos_id])
            for t in texts
        ]
    for ids in (row["inputs"], row["targets"], *row.get("negatives", ())):
        check_ids(ids, layout.config.vocab_size, where)
    return row


def pair_rows(
    task: Any,
    examples: TaskExamples,
    where: str,
    model: TransformerConfig,
    max_length: int,
    cut_policy: str,
) -> Iterator[Row]:
    """Yields the rows of an encoder with a classification head: two texts and their class.

    Raises:
      ConfigError: the model has no head or too few positions, or the examples lack two texts.
      InputError: an example's class is not one of the model's, or a text is not UTF-8.
    """
    if not model.label_names:
        raise ConfigError(
            "The checkpoint has no classification head: name the classes of a new one, such as "
            "LABEL_NAMES = ('entailment', 'neutral', 'contradiction')."
        )
    pairs = [pair for pair in PAIRS if examples.names.issuperset(pair)]
    if not pairs:
        raise ConfigError(
            f"{where}: its examples have no two texts to compare, neither "
            f"{' nor '.join(' and '.join(pair) for pair in PAIRS)}."
        )
    length = input_limit(model, max_length, LONGEST_PAIR)
    encode = PairEncoder(default_vocabulary(), model.vocab_size, length, cut_policy)
    row_of = encode.response_first if pairs[0] == _CLAIM_FIRST else encode
    classes = {name.strip().lower(): n for n, name in enumerate(model.label_names)}

    def make(example: Mapping[str, Any], where: str) -> Row:
        first, second = (plain(example[name]) for name in pairs[0])
        label = feature_text(task, example, "targets").strip()
        if label.lower() not in classes:
            raise InputError(
                f"{where}: its class is {label!r}, the model's classes are {', '.join(classes)}. "
                "LABEL_NAMES names those of a new head."
            )
        with counting_unknown() as unknown:
            row = row_of(first, second, where)
        return {
            "inputs": row.ids,
            "second": row.second,
            "label": classes[label.lower()],
            "length": len(row.ids) + row.cut_tokens,
            "cut": [row.cut.get(kind, 0) for kind in Kind],
            "grounding": _hash_text(second if pairs[0] == _CLAIM_FIRST else first),
            **unknown.row(),
        }

    return _make_rows(examples, where, make)


def passage_rows(
    examples: TaskExamples, where: str, model: TransformerConfig, lengths: Mapping[str, Any]
) -> Iterator[Row]:
    """Yields the rows of an encoder of queries and passages, as `retrieval.dense` reads them.

    Raises:
      ConfigError: the model has too few positions, or the examples lack a title.
      InputError: a text is not UTF-8.
    """
    if "title" not in examples.names:
        raise ConfigError(
            f"{where}: its examples are no passages with a title; choose a task such as "
            "dialfact_dense."
        )
    tokenizer = default_vocabulary()
    limits = [input_limit(model, lengths[n], lengths[n]) for n in ("inputs", "passages")]

    def make(example: Mapping[str, Any], where: str) -> Row:
        query, passage, title = (
            plain(example[name])
            for name in ("inputs_pretokenized", "targets_pretokenized", "title")
        )
        texts = (query, Passage(title, passage))
        with counting_unknown() as unknown:
            ids, knowledge = (
                check_ids(text_row(tokenizer, *pair), model.vocab_size)
                for pair in zip(texts, limits, strict=True)
            )
        return {
            "inputs": ids,
            "knowledge": knowledge,
            "length": len(ids),
            "cut": [0 for _ in Kind],
            "grounding": _hash_text(passage),
            **unknown.row(),
        }

    return _make_rows(examples, where, make)


def _count_unknown(
    tokenizer: Any,
    text: str,
    ids: list[int],
    example: Mapping[str, Any],
    has_labels: bool,
    where: str,
) -> Row:
    """Returns the counts of a row's unknown tokens, as `UnknownTokens.row`.

    Raises:
      InputError: a label cannot be read back from its tokens, or a target has only unknown ones.
      ConfigError: the vocabulary cannot write the delimiters.
    """
    counts = UnknownTokens()
    if not isinstance(tokenizer, Tokenizer):
        return counts.row()
    target = plain(example.get("targets_pretokenized", ""))
    target_ids = example["targets"].tolist()
    for written in (text, target):
        tokenizer.notation.to_model_notation(written)  # raises if it lacks the delimiters
    counts.add(tokenizer, text, ids)
    counts.add(tokenizer, target, target_ids, "targets")
    if tokenizer.unk_id in target_ids:
        written = tokenizer.decode(target_ids)
        is_lost = has_labels and npov_label(written).split() != npov_label(target).split()
        if is_lost or set(target_ids) <= {tokenizer.unk_id, tokenizer.eos_id}:
            raise InputError(
                f"{where}: the target {target!r} cannot be read back from its tokens, which are "
                f"{written!r}: the vocabulary does not know {' '.join(counts.characters)}. Change "
                "this text, or choose a model with another vocabulary."
            )
    return counts.row()


def _hash_text(text: str) -> int:
    """Returns a hash of a text; 0 for an empty text."""
    if not text:
        return 0
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
