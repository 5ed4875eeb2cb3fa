"""Two texts as one row of a classifier: premise and hypothesis.

An encoder reads them side by side; a language model that writes the class reads them in the form of
its training task. In both the premise is knowledge and the hypothesis a response, of which
`core.cutting` says what is cut: by default the premise's end, and of a hypothesis only what would
leave the premise less than a quarter of the row.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from faith_jax.core import templates
from faith_jax.core.cutting import CutTokens, Kind, Part, concatenate_pieces, cut, fit, one_part
from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import CriticLabel, NliLabel
from faith_jax.inference.opening import check_ids
from faith_jax.tokenizers.base import Tokenizer

NOT_ENTAILED = "not_entailment"


class PairRow(NamedTuple):
    """One row of two texts.

    Attributes:
      cut: how many tokens of each text did not fit.
      second: where the tokens of type 1 begin, those of the second text in BERT; the length of the
        row where the tokenizer has no such tokens.
    """

    ids: list[int]
    cut: CutTokens
    second: int

    @property
    def cut_tokens(self) -> int:
        """How many tokens of both texts did not fit."""
        return sum(self.cut.values())


def cut_pair(
    tokenizer: Tokenizer,
    vocab_size: int,
    ids: np.ndarray,
    split: int,
    parts: Sequence[Part],
    max_length: int,
    cut_policy: str,
    where: str,
) -> tuple[PairRow, np.ndarray]:
    """Returns the row of two texts side by side, and which of their tokens stay, bool [tokens].

    Args:
      tokenizer: the model's.
      vocab_size: of the model.
      ids: int [tokens], of both texts: they share one limit, so that the policy sees both.
      split: tokens of the first text.
      parts: of both that may be cut.
      max_length: tokens of the row, special ones included.
      cut_policy: see `core.cutting`.
      where: for errors.
    """
    room = max_length - sum(map(len, tokenizer.pair_ids))
    keep, tokens = cut(len(ids), parts, room, cut_policy, where)
    first, second = ids[:split][keep[:split]].tolist(), ids[split:][keep[split:]].tolist()
    row = tokenizer.add_special_tokens(first, second)
    # By the tokens that stay: types begin where the second text does after the cut.
    start = tokenizer.second_start(len(first), len(row))
    return PairRow(check_ids(row, vocab_size), tokens, start), keep


@dataclasses.dataclass(frozen=True)
class PairEncoder:
    """Makes rows of two texts.

    Attributes:
      max_length: tokens of a row, special ones included.
      cut_policy: see `core.cutting`.
      form: makes one text of the two; None = they stand side by side.
    """

    tokenizer: Tokenizer
    vocab_size: int
    max_length: int
    cut_policy: str = "knowledge"
    form: Callable[[str, str], str] | None = None

    def __call__(self, premise: str, hypothesis: str, name: str = "a pair") -> PairRow:
        """Returns the row of a premise and a hypothesis; `name` is that of the two, for errors.

        Raises:
          InputError: where they are too long, and cannot be cut by the policy.
        """
        if self.form is not None:
            return self.one(self.form(premise, hypothesis), name)
        return self._side_by_side((premise, Kind.KNOWLEDGE), (hypothesis, Kind.RESPONSE), name)

    def response_first(self, response: str, knowledge: str, name: str = "a pair") -> PairRow:
        """As `__call__`, of an encoder that reads the knowledge as the second text."""
        return self._side_by_side((response, Kind.RESPONSE), (knowledge, Kind.KNOWLEDGE), name)

    def _side_by_side(
        self, first_text: tuple[str, Kind], second_text: tuple[str, Kind], name: str
    ) -> PairRow:
        where = f"{name}: max_length = {self.max_length}"
        kinds = [(self.tokenizer.encode(text), kind) for text, kind in (first_text, second_text)]
        ids, parts = concatenate_pieces((text, [one_part(kind, len(text))]) for text, kind in kinds)
        limits = self.max_length, self.cut_policy, where
        return cut_pair(self.tokenizer, self.vocab_size, ids, len(kinds[0][0]), parts, *limits)[0]

    def one(self, text: str, name: str = "a text") -> PairRow:
        """Returns the row of what a template made of both texts; for errors see `__call__`."""
        where = f"{name}: max_length = {self.max_length}"
        limit = self.max_length - len(self.tokenizer.add_special_tokens([]))
        fitted = fit(self.tokenizer, text, limit, self.cut_policy, where)
        row = self.tokenizer.add_special_tokens(fitted.ids)
        return PairRow(check_ids(row, self.vocab_size), fitted.cut, len(row))

    def claim(
        self,
        claim: str,
        context: Sequence[str],
        titles: Sequence[str],
        sentences: Sequence[str],
        name: str = "a claim",
    ) -> PairRow:
        """Returns the row of a claim with its evidence, or without any, as in DialFact's tasks.

        Encoders read the evidence beside the claim; for errors see `__call__`.
        """
        if self.form is None:
            return self(*templates.dialfact_pair(context, claim, titles, sentences), name)
        if not sentences:
            return self.one(templates.dialfact_claim_inputs(context, claim), name)
        return self.one(templates.dialfact_inputs(context, claim, titles, sentences), name)

    def relevance(
        self,
        claim: str,
        context: Sequence[str],
        title: str,
        sentence: str,
    ) -> PairRow:
        """Returns the row of a claim with a sentence that may be relevant, as in DialFact's tasks.

        As in the authors' code, encoders read the claim first, and no title; for errors see
        `__call__`.
        """
        if self.form is None:
            claim_text = templates.dialfact_claim(context, claim)
            return self.response_first(claim_text, templates.clean_value(sentence), "a claim")
        return self.one(templates.dialfact_inputs(context, claim, [title], [sentence]), "a claim")


@dataclasses.dataclass(frozen=True)
class LabelForm:
    """The input of a model that writes the class of two texts, and the classes that it writes.

    Attributes:
      classes: their names, in the order in which words for them are given.
      inputs: makes the input of the two texts.
    """

    classes: tuple[str, ...]
    inputs: Callable[[str, str], str]

    def class_names(self, words: Sequence[str]) -> tuple[str, ...]:
        """Returns the names of the classes that words are given for.

        Two words where the form has three classes are the first of these and all others together,
        as those of TRUE's T5, "1" and "0".

        Raises:
          ConfigError: for another number of words, and for words that are not different texts.
        """
        classes = self.classes
        if len(words) == 2 and len(classes) == 3:
            classes = (classes[0], NOT_ENTAILED)
        if len(words) != len(classes) or not all(words) or len(set(words)) != len(words):
            two = f", or 2, for {self.classes[0]} and all else" if len(self.classes) == 3 else ""
            raise ConfigError(
                f"label_words: expected {len(self.classes)} different texts, for "
                f"{', '.join(self.classes)}{two}; got {', '.join(map(repr, words))}."
            )
        return classes


NLI_FORM = LabelForm(tuple(label.value for label in NliLabel), templates.nli_inputs)
CRITIC_FORM = LabelForm(
    tuple(label.value for label in CriticLabel), templates.knowledge_response_inputs
)


def label_tokens(tokenizer: Tokenizer, words: Sequence[str]) -> list[list[int]]:
    """Returns the target of each class, no longer than it takes to tell them apart.

    What ends all targets, such as T5's end token, is left out unless a word begins with another.

    >>> from faith_jax.tokenizers.vocabularies import load_vocabulary
    >>> lengths = [len(ids) for ids in label_tokens(load_vocabulary("english_4096"), ["a", "b"])]
    >>> lengths
    [1, 1]
    """
    targets = [list(tokenizer.encode(word)) for word in words]
    for ids in targets:
        for longer in targets:
            # A label that begins another is never less likely than it, as each further token costs
            # probability; only the end token sets them apart.
            if ids is not longer and longer[: len(ids)] == ids:
                return [[*target, *tokenizer.suffix_ids] for target in targets]
    return targets
