"""Token ids as each family wants them: special tokens in front, padding, one sequence or two.

- An encoder-decoder reads prefix, input and end token, and writes prefix, target and end token.
- A decoder-only model reads prefix and input, without an end token, and goes on with the target and
  the end token.

The prefix is what the tokenizer puts in front of a text (`<s>` in BART, `<bos>` in Gemma; nothing
in T5 and GPT-2).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from faith_jax.errors import ConfigError
from faith_jax.models.config import TransformerConfig


@dataclasses.dataclass(frozen=True)
class InputLayout:
    """How a model's inputs and targets are laid out.

    Attributes:
      config: the model's.
      prefix: special ids in front of a text.
      eos_id: the vocabulary's end token.
    """

    config: TransformerConfig
    prefix: tuple[int, ...]
    eos_id: int

    @classmethod
    def of(cls, config: TransformerConfig, vocabulary: Any) -> "InputLayout":
        """Returns the layout for a model and a vocabulary, ours or SeqIO's."""
        return cls(config, prefix_ids(vocabulary), int(vocabulary.eos_id))

    @property
    def is_t5s(self) -> bool:
        """Whether it is T5's, which SeqIO's own converter makes."""
        config = self.config
        return (
            not config.is_decoder_only
            and not config.knowledge_attention
            and not self.prefix
            and (config.pad_id, config.decoder_start_id) == (0, 0)
        )

    def inputs(self, ids: Sequence[int], limit: int) -> tuple[list[int], int]:
        """Returns an input as the model reads it, and how many of its tokens did not fit.

        Args:
          ids: of a text, without special tokens.
          limit: tokens of an input, special ones included; what exceeds it is cut at the end.
        """
        end = [] if self.config.is_decoder_only else [self.eos_id]
        room = limit - len(self.prefix) - len(end)
        kept = list(ids[:room])
        # A decoder-only model must read something before it can go on.
        return [*self.prefix, *kept, *end] or [self.eos_id], len(ids) - len(kept)

    def check_positions(
        self, inputs: int, targets: int, settings: tuple[str, ...] = ("TASK_FEATURE_LENGTHS",)
    ) -> None:
        """Checks that lengths fit a table of learned positions.

        Args:
          inputs: tokens of an input at most.
          targets: tokens of a target or a response at most.
          settings: what says both, or the one and the other, for the message.

        Raises:
          ConfigError: naming the lengths and what says them.
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


def prefix_ids(vocabulary: Any) -> tuple[int, ...]:
    """Returns the special ids in front of a text, of a vocabulary of ours or SeqIO's."""
    from faith_jax.data.seqio_vocabularies import DefaultVocabulary
    from faith_jax.data.vocabularies import default_vocabulary

    if isinstance(vocabulary, DefaultVocabulary):
        vocabulary = default_vocabulary()
    return tuple(getattr(vocabulary, "prefix_ids", ()))


def converted(
    dataset: Any,
    layout: InputLayout,
    inputs: int,
    targets: int,
    negatives: Sequence[int] | None = None,
) -> Any:
    """Returns a tf.data set of padded features, for what SeqIO's own converter does not make.

    Args:
      dataset: of {"inputs", "targets"}, the latter with end tokens, and DoHA's "knowledge"; cut
        already.
      layout: of the model.
      inputs: tokens of an input at most, special ones included.
      targets: tokens of a target at most, special ones included.
      negatives: how many there are at most, and the tokens of each; None = examples have none.

    Returns:
      Of `decoder_input_tokens`, `decoder_target_tokens`, `decoder_loss_weights` (1 on target
      tokens) and, with an encoder, `encoder_input_tokens`, DoHA's `knowledge_input_tokens`, int32
      [length], and `negatives`, int32 [texts, length].
    """
    import tensorflow as tf

    config = layout.config
    pad, prefix = config.pad_id, tf.constant(layout.prefix, tf.int32)

    def filled(ids, length, value):
        ids = tf.pad(ids, [[0, length - tf.shape(ids)[0]]], constant_values=value)
        return tf.ensure_shape(ids, [length])

    def texts(tokens, count, length):
        # Padded with 0 when they come; with the model's padding, and its prefix, when they go.
        starts = tf.repeat(prefix[None], tf.shape(tokens)[0], axis=0)
        tokens = tf.concat([starts, tf.where(tokens == 0, pad, tokens)], 1)
        missing = [[0, count - tf.shape(tokens)[0]], [0, length - tf.shape(tokens)[1]]]
        return tf.ensure_shape(tf.pad(tokens, missing, constant_values=pad), [count, length])

    def of_both(example):
        source, target = (tf.cast(example[n], tf.int32) for n in ("inputs", "targets"))
        target = tf.concat([prefix, target], 0)
        fed = tf.concat([[config.decoder_start_id], target[:-1]], 0)
        more = {}
        if "knowledge" in example:
            knowledge = tf.concat([prefix, tf.cast(example["knowledge"], tf.int32)], 0)
            more["knowledge_input_tokens"] = filled(knowledge, inputs, pad)
        if negatives is not None:
            more["negatives"] = texts(tf.cast(example["negatives"], tf.int32), *negatives)
        return more | {
            "encoder_input_tokens": filled(tf.concat([prefix, source], 0), inputs, pad),
            "decoder_input_tokens": filled(fed, targets, pad),
            "decoder_target_tokens": filled(target, targets, pad),
            "decoder_loss_weights": filled(tf.ones_like(target), targets, 0),
        }

    def of_decoder(example):
        source, target = (tf.cast(example[n], tf.int32) for n in ("inputs", "targets"))
        source = tf.concat([prefix, source], 0)
        sequence = tf.concat([source, target], 0)
        weights = tf.concat([tf.zeros_like(source), tf.ones_like(target)], 0)
        length = inputs + targets - 1
        return {
            "decoder_input_tokens": filled(sequence[:-1], length, pad),
            "decoder_target_tokens": filled(sequence[1:], length, pad),
            "decoder_loss_weights": filled(weights[1:], length, 0),
        }

    return dataset.map(of_decoder if config.is_decoder_only else of_both)
