"""Rows as each family wants them: special tokens around texts, padding, one sequence or two.

- An encoder-decoder reads prefix, input and end token, and writes prefix, target and end token.
- A decoder-only model reads prefix and input, without an end token, and goes on with the target and
  the end token.

The prefix is what the tokenizer puts in front of a text (`<s>` in BART, `<bos>` in Gemma; nothing
in T5 and GPT-2).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.core.errors import ConfigError
from faith_jax.inference.batching import padded
from faith_jax.models.config import TransformerConfig


@dataclasses.dataclass(frozen=True)
class InputLayout:
    """How a model's inputs and targets are laid out.

    Attributes:
      config: the model's.
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
        return cls(config, prefix, int(vocabulary.eos_id), inputs_end)

    @property
    def suffix(self) -> tuple[int, ...]:
        """What stands behind an input's text."""
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
            both = inputs + targets + config.decoder_prompt_length
            lengths = {f"inputs and {second}": (" + ".join(settings), both)}
        for name, (setting, length) in lengths.items():
            if length > config.max_positions:
                raise ConfigError(
                    f"{setting}: {name} take {length} positions (soft prompts included), but the "
                    f"model has {config.max_positions}; lower the limits."
                )


def batch_features(
    rows: Sequence[Mapping[str, Any]], layout: InputLayout, lengths: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns a batch of rows for a language model.

    Returns:
      `decoder_input_tokens`, `decoder_target_tokens`, `decoder_loss_weights` (1 on target tokens)
      and, with an encoder, `encoder_input_tokens`, DoHA's `knowledge_input_tokens`, int32
      [rows, length], and `negatives`, int32 [rows, texts, length].
    """
    config = layout.config
    inputs = [row["inputs"] for row in rows]
    targets = [row["targets"] for row in rows]
    if config.is_decoder_only:
        length = lengths["inputs"] + lengths["targets"] - 1
        both = [np.concatenate(pair) for pair in zip(inputs, targets, strict=True)]
        weights = [
            np.r_[np.zeros(len(i) - 1, int), np.ones(len(t), int)]
            for i, t in zip(inputs, targets, strict=True)
        ]
        return {
            "decoder_input_tokens": padded([ids[:-1] for ids in both], length, config.pad_id),
            "decoder_target_tokens": padded([ids[1:] for ids in both], length, config.pad_id),
            "decoder_loss_weights": padded(weights, length, 0),
        }
    length = lengths["targets"]
    features = {
        "encoder_input_tokens": padded(inputs, lengths["inputs"], config.pad_id),
        "decoder_input_tokens": padded(
            [[config.decoder_start_id, *ids[:-1]] for ids in targets], length, config.pad_id
        ),
        "decoder_target_tokens": padded(targets, length, config.pad_id),
        "decoder_loss_weights": padded([np.ones(len(ids)) for ids in targets], length, 0),
    }
    if config.knowledge_attention:
        knowledge = [row["knowledge"] for row in rows]
        features["knowledge_input_tokens"] = padded(knowledge, lengths["inputs"], config.pad_id)
    if "negatives" in lengths:
        count, most = lengths["negatives"]
        features["negatives"] = np.full((len(rows), count, most), config.pad_id, np.int32)
        for texts, row in zip(features["negatives"], rows, strict=True):
            found = padded(row["negatives"], most, config.pad_id)
            texts[: len(found)] = found
    return features


def packed_features(
    rows: Sequence[Sequence[Mapping[str, Any]]], lengths: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns a batch of packed rows of a T5: several examples each, with segment ids.

    Returns:
      Those of `batch_features`, and `encoder_segment_ids` and `decoder_segment_ids`: 1 for the
      tokens of the first example, 2 for the second, 0 for padding.
    """

    def joined(name: str, of: Any = lambda ids, number: ids) -> np.ndarray:
        texts = [
            np.concatenate([of(row[name], number) for number, row in enumerate(examples, 1)])
            for examples in rows
        ]
        return padded(texts, lengths[name], 0)

    def segments(ids: Sequence[int], number: int) -> np.ndarray:
        return np.full(len(ids), number)

    decoder_segments = joined("targets", segments)
    return {
        "encoder_input_tokens": joined("inputs"),
        "encoder_segment_ids": joined("inputs", segments),
        "decoder_input_tokens": joined("targets", lambda ids, _: [0, *ids[:-1]]),
        "decoder_target_tokens": joined("targets"),
        "decoder_segment_ids": decoder_segments,
        "decoder_loss_weights": (decoder_segments > 0).astype(np.int32),
    }


def pair_features(
    rows: Sequence[Mapping[str, Any]], length: int, pad_id: int
) -> dict[str, np.ndarray]:
    """Returns a batch for a classification head.

    Returns:
      `encoder_input_tokens`, int32 [rows, length], `labels`, int32 [rows], and `label_weights`,
      float32 [rows], all 1.
    """
    return {
        "encoder_input_tokens": padded([row["inputs"] for row in rows], length, pad_id),
        "labels": np.array([row["label"] for row in rows], np.int32),
        "label_weights": np.ones(len(rows), np.float32),
    }
