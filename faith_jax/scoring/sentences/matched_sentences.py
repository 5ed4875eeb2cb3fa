"""Scores errors of NPOV responses by natural language inference between single sentences.

Sentences of the response with content are matched one-to-one with sentences of the arguments, so
that the total mutual entailment of the pairs is largest. An unmatched sentence of the response is a
hallucination; an unmatched sentence of the arguments is missing in the response. If the response
names the holders of the con side ("Supporters say …", "On the other hand, critics …"), pro
arguments are not matched with its con sentences, nor con arguments with its pro sentences.

Single sentences are compared as in SummaC (Laban 2022, section 3); the errors are those of Chang
2024, section 3.1.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Unpack

import numpy as np
from scipy.optimize import linear_sum_assignment

from faith_jax.core.cutting import CutTokens, sum_cuts
from faith_jax.core.types import GroundedExample
from faith_jax.core.words import locate_sentences
from faith_jax.inference.texts.text_pairs import PairRow
from faith_jax.scoring.base import Judgement, sentence_words
from faith_jax.scoring.model_cards import CARDS
from faith_jax.scoring.nli import SentencePairScorer
from faith_jax.scoring.pair_classifier import ClassifierOptions
from faith_jax.statistics.texts.argument_coverage import FRAMING_WORDS, tell_arguments
from faith_jax.statistics.texts.text_metrics import content_words

# A sentence of only these words just says that there are views: "There are two views."
_FRAMING = FRAMING_WORDS | {"two", "both", "several", "many", "various"}
# A phrase that attributes a view: "Critics argue that …", "They also note: …".
_LINK = re.compile(r"[^:]{1,80}?(?: that|:) ")
# The conjunction between two clauses after such a phrase; in "and that of", "that" is a pronoun.
_AND_THAT = re.compile(r",? (?:and|but) (?:also )?that (?!of\b)")
# Words for the holders of a view in such a phrase; in sentences without one only nouns count.
_PRO, _CON = "pro", "con"
_NOUNS = {
    _CON: "opponents?|critics?|s[ck]eptics?",
    _PRO: "supporters?|proponents?|advocates?|defenders?",
}
_WORDS = {
    _CON: f"on the other hand|{_NOUNS[_CON]}|others|other people|opposing|opposed|against|disagree",
    _PRO: f"{_NOUNS[_PRO]}|in favou?r|for it|agree|some",
}
_HOLDERS, _BEGINNING = (
    re.compile("|".join(rf"\b(?P<{side}>{text})\b" for side, text in words.items()), re.IGNORECASE)
    for words in (_WORDS, _NOUNS)
)


class Sentence(NamedTuple):
    """A sentence and its place.

    Attributes:
      start: the offset of its first character.
      number: the number of the grounding's text that contains it; None = it is in the response.
      side: "pro" or "con", "" = unknown.
    """

    text: str
    start: int
    number: int | None = None
    side: str = ""


class SentencePairs(NamedTuple):
    """The sentences of a response and of its arguments, and the rows of pairs that may match.

    Attributes:
      response_sentences: the response's sentences that have content.
      argument_sentences: the sentences of all arguments.
      places: [pairs, 2], the numbers of both sentences of each pair.
      rows: two rows for each pair, with either sentence as the premise.
    """

    response_sentences: list[Sentence]
    argument_sentences: list[Sentence]
    places: np.ndarray
    rows: list[PairRow]
    cut: CutTokens

    def similarity(self, entailment: np.ndarray) -> np.ndarray:
        """Returns how far sentences entail each other: float64 [response, arguments].

        This is the mean of both directions, and 0 for sentences of different sides. `entailment`
        is the probability of entailment for each of the `rows`.
        """
        similarity = np.zeros((len(self.response_sentences), len(self.argument_sentences)))
        similarity[tuple(self.places.T)] = entailment.reshape(-1, 2).mean(axis=1)
        return similarity


def _match_sentences(similarity: np.ndarray) -> np.ndarray:
    """Returns the similarity of each sentence to its match; 0 = no match.

    Args:
      similarity: [sentences, others], in [0, 1].

    >>> _match_sentences(np.array([[0.9, 0.2], [0.8, 0.1], [0.7, 0.6]]))
    array([0.9, 0. , 0.6])
    """
    best = np.zeros(len(similarity))
    sentences, partners = linear_sum_assignment(similarity, maximize=True)
    best[sentences] = similarity[sentences, partners]
    return best


class MatchedSentenceScorer(SentencePairScorer[SentencePairs]):
    """The smallest similarity of a sentence to its match, 0 to 1; 0 = a sentence has no match.

    All words of a sentence get its score. The score is undefined if there is no sentence to judge.

    Args:
      name: "npov_nli_hallucination", which judges the response's sentences, or "npov_nli_coverage",
        which judges the sentences of the arguments.
      model: a folder of an NLI classifier, or "mini_nli".
      labels: see `nli_label_numbers`.
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """

    def __init__(
        self,
        name: str,
        model: str | None = None,
        labels: str | Sequence[str] | None = None,
        **options: Unpack[ClassifierOptions],
    ):
        self.card, self._coverage = CARDS[name], name == "npov_nli_coverage"
        super().__init__(model, labels, **options)

    def read(self, example: GroundedExample) -> SentencePairs | None:
        response_sentences = list(_telling_sentences(example))
        argument_sentences = list(_argument_sentences(example))
        if not (argument_sentences if self._coverage else response_sentences):
            return None
        encode, name = self._classify.encode, f"example {example.id!r}"
        places = [
            (i, j)
            for i, a in enumerate(response_sentences)
            for j, b in enumerate(argument_sentences)
            if a.side == b.side or "" in (a.side, b.side)
        ]
        rows = [
            encode(premise.text, hypothesis.text, name)
            for i, j in places
            for premise, hypothesis in (
                (argument_sentences[j], response_sentences[i]),
                (response_sentences[i], argument_sentences[j]),
            )
        ]
        numbers = np.array(places, int).reshape(-1, 2)
        return SentencePairs(
            response_sentences, argument_sentences, numbers, rows, sum_cuts(row.cut for row in rows)
        )

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[SentencePairs]
    ) -> list[Judgement]:
        judgements = []
        for row, part in zip(rows, self._classify.by_example(rows), strict=True):
            similarity = row.similarity(part[:, self._entailment])
            scores = _match_sentences(similarity.T if self._coverage else similarity)
            sentences = row.argument_sentences if self._coverage else row.response_sentences
            words = tuple(
                word
                for sentence, score in zip(sentences, scores.tolist(), strict=True)
                for word in sentence_words(sentence.text, sentence.start, score, sentence.number)
            )
            judgements.append(Judgement(float(scores.min()), words))
        return judgements


def _telling_sentences(example: GroundedExample) -> Iterator[Sentence]:
    """Yields the response's sentences with words other than framing words and the query's."""
    query = example.history[-1] if example.history else ""
    coverage = tell_arguments(example.response, (), query)
    wholes = [example.response[start:end] for start, end in coverage.spans]
    links = [sentence[: _link_length(sentence)] for sentence in wholes]
    holders = [
        _HOLDERS.search(link) if link else _BEGINNING.match(sentence)
        for link, sentence in zip(links, wholes, strict=True)
    ]
    sides = [str(holder.lastgroup) if holder else "" for holder in holders]  # "" = unknown
    # After "Supporters say …" alone, the other side may appear under a name not listed here.
    names_sides, side = _has_sides(example) and _CON in sides, ""
    for place, share in enumerate(coverage.sentences):
        side = sides[place] or side if names_sides else ""
        if math.isnan(share) or _FRAMING.issuperset(
            word.text.lower() for word in content_words(wholes[place])
        ):
            continue
        text = wholes[place][len(links[place]) :]
        start = coverage.spans[place][0] + len(links[place])
        for first, end in _split_clauses(links[place], text):
            clause = text[first:end]
            yield Sentence(clause[:1].upper() + clause[1:], start + first, side=side)


def _has_sides(example: GroundedExample) -> bool:
    return {_PRO, _CON}.issuperset(example.grounding.perspectives or ("",))


def _link_length(sentence: str) -> int:
    """Returns the length of a leading phrase that attributes a view, in characters; 0 = none.

    >>> _link_length("Critics argue that tea stains teeth.")
    19
    """
    link = _LINK.match(sentence)
    if link and all(w.text.lower() in FRAMING_WORDS for w in content_words(link.group())):
        return link.end()
    return 0


def _split_clauses(link: str, text: str) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each clause in the text after a link.

    Only "that" links several clauses: "Critics say that tea is hot and that it stains teeth."

    >>> text = "tea is hot, and that it stains teeth."
    >>> [text[start:end] for start, end in _split_clauses("Critics say that ", text)]
    ['tea is hot', 'it stains teeth.']
    """
    start = 0
    for conjunction in _AND_THAT.finditer(text if link.endswith("that ") else ""):
        yield start, conjunction.start()
        start = conjunction.end()
    yield start, len(text)


def _argument_sentences(example: GroundedExample) -> Iterator[Sentence]:
    sides = example.grounding.perspectives if _has_sides(example) else ()
    for number, text in enumerate(example.grounding.texts):
        for sentence, start, _ in locate_sentences(text):
            yield Sentence(sentence, start, number, sides[number] if sides else "")
