"""Tokenization of the texts that a model responds to.

The layout depends on the model's family:

- An encoder-decoder reads prefix, input and end token, and writes prefix, target and end token.
- A decoder-only model reads prefix and input, without an end token, and continues with the target
  and the end token.

The prefix is the special tokens that the tokenizer puts before a text (`<s>` in BART, `<bos>` in
Gemma; none in T5 and GPT-2).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from faith_jax.core.cutting import (
    CutTokens,
    Fitted,
    check_policy,
    check_second_branch,
    fit,
    notation_of,
    parse,
)
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.datasets.input_rows import InputRow
from faith_jax.inference.opening import check_ids
from faith_jax.models.config import TransformerConfig
from faith_jax.tokenizers.vocabularies import special_id


@dataclasses.dataclass(frozen=True)
class InputLayout:
    """The layout of a model's inputs and targets.

    Attributes:
      prefix: special ids before a text.
      eos_id: the vocabulary's end token.
      inputs_end: whether an encoder's inputs end with `eos_id` (a SeqIO feature's `add_eos`).
    """

    config: TransformerConfig
    prefix: tuple[int, ...]
    eos_id: int
    inputs_end: bool = True

    @classmethod
    def of(
        cls, config: TransformerConfig, vocabulary: Any, inputs_end: bool = True
    ) -> "InputLayout":
        """Returns the layout for a model with our tokenizer or a SeqIO vocabulary."""
        prefix = tuple(getattr(vocabulary, "prefix_ids", ()))
        end = special_id(vocabulary, "eos")
        if end is None:  # the vocabulary passes ids through
            end = config.eos_ids[0] if config.eos_ids else config.pad_id
        return cls(config, prefix, int(end), inputs_end)

    @property
    def suffix(self) -> tuple[int, ...]:
        """The special ids after an input's text."""
        return (self.eos_id,) if self.inputs_end and not self.config.is_decoder_only else ()

    @property
    def target_prefix(self) -> tuple[int, ...]:
        """The special ids before a target's text, after the decoder's start token.

        A decoder-only model has read the prefix before the input. The decoder of an encoder-decoder
        reads it again, as BART's </s> <s>, unless its start token is the prefix, as T5Gemma's.
        """
        is_start = self.prefix == (self.config.decoder_start_id,)
        return () if self.config.is_decoder_only or is_start else self.prefix

    @property
    def is_t5s(self) -> bool:
        """Whether this is T5's layout, whose examples may be packed."""
        config = self.config
        return (
            not config.is_decoder_only
            and not config.knowledge_attention
            and not self.prefix
            and (config.pad_id, config.decoder_start_id) == (0, 0)
        )

    def room(self, limit: int) -> int:
        """Returns how many tokens of a text fit into an input of at most `limit` tokens."""
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
        # A decoder-only model must read at least one token before it can continue.
        return [*self.prefix, *ids, *self.suffix] or [self.eos_id]

    def targets(self, ids: Sequence[int]) -> list[int]:
        """Returns a target as the model writes it; `ids` already have the end token."""
        return [*self.target_prefix, *ids]

    def check_positions(
        self, inputs: int, targets: int, settings: tuple[str, ...] = ("TASK_FEATURE_LENGTHS",)
    ) -> None:
        """Raises a ConfigError if this many tokens do not fit a table of learned positions.

        `settings` names the setting of both lengths, or the setting of each.
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
            # Inputs and targets are one sequence.
            lengths = {f"inputs and {second}": (" + ".join(settings), total_length)}
        for name, (setting, length) in lengths.items():
            if length > config.max_positions:
                raise ConfigError(
                    f"{setting}: {name} take {length} positions (soft prompts included), but the "
                    f"model has {config.max_positions}; lower the limits."
                )


class _InputTokens(NamedTuple):
    """The token ids that a model reads for a row.

    Attributes:
      second: ids without the document for PMI-Decode, or with the knowledge for DoHA (whose `ids`
        are only the dialogue); empty for other models.
      cut: number of tokens cut from the input.
    """

    ids: list[int]
    second: list[int]
    cut: CutTokens


@dataclasses.dataclass(frozen=True)
class RowTokens:
    """Tokenizes rows.

    Attributes:
      layout: the model's layout.
      max_length: maximum number of tokens of an input, special ones included.
      limit: the setting with this limit and its value, for errors.
      cut_policy: see `faith_jax.core.cutting`.
      branches: "pmi" or "doha", which have a second input, or "".
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
          ConfigError: if there is no room for a text, and on an unknown policy.
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
          InputError: if the policy cannot cut the input, PMI-Decode or DoHA find no knowledge, or
            the model has no embedding for a token.
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
