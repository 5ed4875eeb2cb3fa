"""Two texts, premise and hypothesis, as one row of a classifier.

An encoder reads them as a pair; a language model that writes the class reads them in the form of
its training task. For cutting (`core.cutting`), the premise is knowledge and the hypothesis a
response: by default the premise loses its end, and the hypothesis is cut only as far as needed to
leave the premise a quarter of the row.
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
      cut: number of tokens cut from each text.
      second: index of the first token of type 1, which in BERT marks the second text; the length of
        the row if the tokenizer has no token types.
    """

    ids: list[int]
    cut: CutTokens
    second: int

    @property
    def cut_tokens(self) -> int:
        """The number of tokens cut from both texts."""
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
    """Returns the row of a pair of texts, and which of their tokens are kept, bool [tokens].

    Args:
      tokenizer: the model's tokenizer.
      vocab_size: the model's vocabulary size.
      ids: int [tokens], both texts: they share one limit, so the policy must see both.
      split: number of tokens of the first text.
      parts: parts of both texts that may be cut.
      max_length: maximum number of tokens of the row, special ones included.
      cut_policy: see `core.cutting`.
      where: name of the row and its limit, for errors.
    """
    room = max_length - sum(map(len, tokenizer.pair_ids))
    keep, tokens = cut(len(ids), parts, room, cut_policy, where)
    first, second = ids[:split][keep[:split]].tolist(), ids[split:][keep[split:]].tolist()
    row = tokenizer.add_special_tokens(first, second)
    # Token types depend on where the second text begins after the cut.
    start = tokenizer.second_start(len(first), len(row))
    return PairRow(check_ids(row, vocab_size), tokens, start), keep


@dataclasses.dataclass(frozen=True)
class PairEncoder:
    """Makes rows of two texts.

    Attributes:
      max_length: maximum number of tokens of a row, special ones included.
      cut_policy: see `core.cutting`.
      form: joins the two texts into one; None = the model reads them as a pair.
    """

    tokenizer: Tokenizer
    vocab_size: int
    max_length: int
    cut_policy: str = "knowledge"
    form: Callable[[str, str], str] | None = None

    def __call__(self, premise: str, hypothesis: str, name: str = "a pair") -> PairRow:
        """Returns the row of a premise and a hypothesis; `name` is the pair's name for errors.

        Raises:
          InputError: if they are too long, and the policy cannot cut them.
        """
        if self.form is not None:
            return self.one(self.form(premise, hypothesis), name)
        return self._side_by_side((premise, Kind.KNOWLEDGE), (hypothesis, Kind.RESPONSE), name)

    def response_first(self, response: str, knowledge: str, name: str = "a pair") -> PairRow:
        """Like `__call__`, for an encoder that reads the knowledge as the second text."""
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
        """Returns the row of a text that a template made from both; for errors see `__call__`."""
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
        """Returns the row of a claim with its evidence, if any, as in DialFact's tasks.

        Encoders read evidence and claim as a pair; for errors see `__call__`.
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

        As in the authors' code, encoders read the claim first and do not read the title; for errors
        see `__call__`.
        """
        if self.form is None:
            claim_text = templates.dialfact_claim(context, claim)
            return self.response_first(claim_text, templates.clean_value(sentence), "a claim")
        return self.one(templates.dialfact_inputs(context, claim, [title], [sentence]), "a claim")


@dataclasses.dataclass(frozen=True)
class LabelForm:
    """The input of a model that writes the class of two texts, and the classes that it writes.

    Attributes:
      classes: names of the classes, in the order of the words that are given for them.
      inputs: makes the input from the two texts.
    """

    classes: tuple[str, ...]
    inputs: Callable[[str, str], str]

    def class_names(self, words: Sequence[str]) -> tuple[str, ...]:
        """Returns the names of the classes that words are given for.

        If the form has three classes, two words stand for the first class and for the two others
        together, like "1" and "0" of TRUE's T5.

        Raises:
          ConfigError: on another number of words, and on empty or equal words.
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
    """Returns the target tokens of each class, no longer than needed to tell classes apart.

    The tokenizer's suffix, such as T5's end token, is left out unless a word starts with another.

    >>> from faith_jax.tokenizers.vocabularies import load_vocabulary
    >>> lengths = [len(ids) for ids in label_tokens(load_vocabulary("english_4096"), ["a", "b"])]
    >>> lengths
    [1, 1]
    """
    targets = [list(tokenizer.encode(word)) for word in words]
    for ids in targets:
        for longer in targets:
            # A label that is a prefix of another is never less likely, since each further token
            # costs probability; only the end token distinguishes them.
            if ids is not longer and longer[: len(ids)] == ids:
                return [[*target, *tokenizer.suffix_ids] for target in targets]
    return targets
