"""What a picture of an example's salience shows, whatever draws it: terminal, PNG or a page.

Contributions stand at the side and attributions on top, as in Chang 2024, figure 2. Words of the
response whose attribution is small are marked as unsupported, words of the grounding whose
contribution is small as not covered.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.core.types import GroundedExample
from faith_jax.statistics.salience_scores import PlacedWord, WordSalience

# Below this share of its gradients from one given word, a word is marked.
THRESHOLD = 0.1


class Piece(NamedTuple):
    """A stretch of a text.

    Attributes:
      text: as it stands there.
      value: of the word, in [0, 1]; None = it is no content word.
      marked: whether the value is below the threshold.
    """

    text: str
    value: float | None
    marked: bool


class ShownText(NamedTuple):
    """A text with its words' values.

    Attributes:
      title: what it is: "response", "pro 2", "grounding 1".
      pieces: whose texts, joined, are the text.
    """

    title: str
    pieces: tuple[Piece, ...]


@dataclasses.dataclass(frozen=True)
class SaliencePicture:
    """An example's salience, ready to be drawn.

    Attributes:
      title: of the picture.
      query: the last utterance in front of the response; "" = none.
      salience: the map and its words.
      contributions: of the argument words, in [0, 1]: [argument words].
      attributions: of the response words, in [0, 1]: [response words].
      response: the response's text.
      arguments: the grounding's texts.
      threshold: below which a word is marked.
    """

    title: str
    query: str
    salience: WordSalience
    contributions: NDArray[np.float64]
    attributions: NDArray[np.float64]
    response: ShownText
    arguments: tuple[ShownText, ...]
    threshold: float

    @property
    def heading(self) -> str:
        """What stands above the picture: the example's name, where it has one, and its query."""
        query = f"query: {self.query}" if self.query else ""
        named = self.title if self.title != self.response.title or not query else ""
        return ", ".join(filter(None, (named, query)))

    @property
    def hallucination_score(self) -> float:
        """Chang 2024's: higher = less faithful; NaN without content words."""
        return 1 - self.salience.attribution_score()

    @property
    def coverage_error_score(self) -> float:
        """Chang 2024's: higher = less is covered; NaN without content words."""
        return 1 - self.salience.contribution_score()

    @property
    def unsupported_words(self) -> tuple[str, ...]:
        """The response's words with a small attribution, in order."""
        return _below(self.salience.response_words, self.attributions, self.threshold)

    @property
    def uncovered_words(self) -> tuple[str, ...]:
        """The grounding's words with a small contribution, in order."""
        return _below(self.salience.argument_words, self.contributions, self.threshold)


def salience_picture(
    example: GroundedExample, salience: WordSalience, threshold: float = THRESHOLD
) -> SaliencePicture:
    """Returns the picture of an example.

    Args:
      example: with the texts.
      salience: of the same example.
      threshold: in [0, 1]; words with a smaller value are marked.
    """
    contributions = salience.contributions()
    attributions = salience.attributions()
    titles = argument_titles(example)
    arguments = []
    for number, text in enumerate(example.grounding.texts):
        chosen = [i for i, w in enumerate(salience.argument_words) if w.number == number]
        words = [salience.argument_words[i] for i in chosen]
        pieces = tuple(_pieces(text, words, contributions[chosen], threshold))
        arguments.append(ShownText(titles[number], pieces))
    response = _pieces(example.response, salience.response_words, attributions, threshold)
    return SaliencePicture(
        title=example.id,
        query=example.history[-1] if example.history else "",
        salience=salience,
        contributions=contributions,
        attributions=attributions,
        response=ShownText("response", tuple(response)),
        arguments=tuple(arguments),
        threshold=threshold,
    )


def argument_titles(example: GroundedExample) -> list[str]:
    """Returns a name for each text of the grounding: "pro 1", "con 1", or "grounding 1"."""
    names = example.grounding.perspectives or ("grounding",) * len(example.grounding.texts)
    return [f"{name} {names[: i + 1].count(name)}" for i, name in enumerate(names)]


def _below(
    words: Sequence[PlacedWord], values: NDArray[np.float64], threshold: float
) -> tuple[str, ...]:
    return tuple(w.text for w, value in zip(words, values, strict=True) if value < threshold)


def _pieces(
    text: str, words: Sequence[PlacedWord], values: NDArray[np.float64], threshold: float
) -> Iterator[Piece]:
    """Cuts a text into its words and what stands between them."""
    place = 0
    for word, value in zip(words, values, strict=True):
        if word.start > place:
            yield Piece(text[place : word.start], None, False)
        yield Piece(text[word.start : word.end], float(value), bool(value < threshold))
        place = word.end
    if place < len(text):
        yield Piece(text[place:], None, False)
