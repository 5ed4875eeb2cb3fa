"""Salience maps of examples, as text for a terminal and as a page; `figures` draws them as PNG.

Contributions of the grounding's words stand at the side and attributions of the response's words on
top, as in Chang 2024, figure 2. Marked are words of the response with a low attribution, and words
of the grounding with a low contribution, which the response may not cover.

Gradients may also flow to an invented word, from pieces of other words. So a word of the response
that is neither in the grounding nor in the query is marked too, with a star, whatever its
attribution, except for framing words ("Supporters say"), which no grounding has. This does not
affect the values and scores.
"""

import dataclasses
import html
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from faith_jax.core.table import printable
from faith_jax.core.types import GroundedExample
from faith_jax.report.inks import HEAT, ink
from faith_jax.report.table_pages import page_template
from faith_jax.statistics.texts.argument_coverage import FRAMING_WORDS
from faith_jax.statistics.texts.salience_scores import Floats, PlacedWord, WordSalience
from faith_jax.statistics.texts.text_metrics import words_in_none

# A word is marked if its largest share of gradients in the map is below this.
THRESHOLD = 0.1
STAR = "*"  # follows a word that is in neither the grounding nor the query
# Explains to readers how to compare the scores.
COMPARE = (
    "Compare scores with those of other responses to this model only; framing words lower them."
)


class TextStretch(NamedTuple):
    """A stretch of a text, with the value of a content word, and whether it is marked.

    `is_foreign`: it is a word that is neither in the grounding nor in the query.
    """

    text: str
    value: float | None
    marked: bool
    is_foreign: bool = False

    @property
    def ink(self) -> str:
        """The colour of the text on a light page."""
        return ink(HEAT, self.value or 0.0)


class ShownText(NamedTuple):
    """A text in pieces, and its name: "response", "pro 2", "grounding 1"."""

    title: str
    pieces: tuple[TextStretch, ...]


@dataclasses.dataclass(frozen=True, repr=False)
class SaliencePicture:
    """An example's salience; it shows itself as text, and in a notebook as a heat map.

    Attributes:
      query: the last utterance before the response; "" = none.
      contributions: in [0, 1]: [argument words].
      attributions: in [0, 1]: [response words].
      threshold: words with a smaller value are marked.
      foreign: which words of the response are neither in the grounding nor in the query, by
        `words_in_none`, and are not `FRAMING_WORDS`: [response words].
    """

    title: str
    query: str
    salience: WordSalience
    contributions: Floats
    attributions: Floats
    response: ShownText
    arguments: tuple[ShownText, ...]
    threshold: float
    foreign: tuple[bool, ...]

    def __str__(self) -> str:
        return salience_text(self, colour=False).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Returns the page in a frame, which keeps its style apart from a notebook's."""
        page = html.escape(salience_page(self.heading or self.title, [self]))
        height = 420 + 32 * len(self.salience.argument_words)
        return (
            f'<iframe srcdoc="{page}" sandbox style="width: 100%; height: {height}px; border: 0">'
            "</iframe>"
        )

    @property
    def heading(self) -> str:
        """The text above the picture: the example's name, if any, and its query."""
        query = f"query: {self.query}" if self.query else ""
        named = self.title if self.title != self.response.title or not query else ""
        return ", ".join(filter(None, (named, query)))

    @property
    def scores(self) -> dict[str, float]:
        """The salience scores by scorer: higher = more faithful; NaN without words."""
        return {
            "salience_hallucination": self.salience.attribution_score(),
            "salience_coverage": self.salience.contribution_score(),
        }

    @property
    def unsupported_words(self) -> tuple[str, ...]:
        """The response's words with a low attribution, in order, except for framing words."""
        return self._low_words(self.salience.response_words, self.attributions)

    @property
    def uncovered_words(self) -> tuple[str, ...]:
        """The grounding's words with a low contribution, in order, except for framing words."""
        return self._low_words(self.salience.argument_words, self.contributions)

    @property
    def foreign_words(self) -> tuple[str, ...]:
        """The response's words that are neither in the grounding nor in the query, in order."""
        pairs = zip(self.salience.response_words, self.foreign, strict=True)
        return tuple(word.text for word, is_foreign in pairs if is_foreign)

    def _low_words(self, words: Sequence[PlacedWord], values: Floats) -> tuple[str, ...]:
        pairs = zip(words, values, strict=True)
        return tuple(word.text for word, value in pairs if is_low(word, value, self.threshold))


def is_low(word: PlacedWord, value: float, threshold: float) -> bool:
    """Whether a word's value is below the threshold; never true of framing words ("argue")."""
    return bool(value < threshold) and word.text.lower() not in FRAMING_WORDS


def salience_picture(
    example: GroundedExample, salience: WordSalience, threshold: float = THRESHOLD
) -> SaliencePicture:
    """Returns the picture of an example; words with a value below the threshold are marked.

    Words of the response that are neither in the grounding nor in the query are marked with a star.
    """
    contributions, attributions = salience.contributions(), salience.attributions()
    arguments = []
    titles = example.grounding.labels("grounding")
    for number, (title, text) in enumerate(zip(titles, example.grounding.texts, strict=True)):
        word_numbers = [i for i, w in enumerate(salience.argument_words) if w.number == number]
        words = [salience.argument_words[i] for i in word_numbers]
        pieces = tuple(_cut_into_pieces(text, words, contributions[word_numbers], threshold))
        arguments.append(ShownText(title, pieces))
    query = example.history[-1] if example.history else ""
    absent = words_in_none(example.response, (*example.grounding.texts, query))
    starts = {word.start for word in absent if word.text.lower() not in FRAMING_WORDS}
    foreign = tuple(word.start in starts for word in salience.response_words)
    response = _cut_into_pieces(
        example.response, salience.response_words, attributions, threshold, foreign
    )
    return SaliencePicture(
        title=example.id,
        query=query,
        salience=salience,
        contributions=contributions,
        attributions=attributions,
        response=ShownText("response", tuple(response)),
        arguments=tuple(arguments),
        threshold=threshold,
        foreign=foreign,
    )


def _cut_into_pieces(
    text: str,
    words: Sequence[PlacedWord],
    values: Floats,
    threshold: float,
    foreign: Sequence[bool] = (),
) -> Iterator[TextStretch]:
    """Cuts a text into its words and the stretches between them."""
    place = 0
    foreign = foreign or [False] * len(words)
    for word, value, is_foreign in zip(words, values, foreign, strict=True):
        if word.start > place:
            yield TextStretch(text[place : word.start], None, False)
        word_text = text[word.start : word.end]
        is_marked = is_foreign or is_low(word, value, threshold)
        yield TextStretch(word_text, float(value), is_marked, is_foreign)
        place = word.end
    if place < len(text):
        yield TextStretch(text[place:], None, False)


# Pictures as text: coloured in a terminal, with brackets around marked words elsewhere.

_LEGEND = "a darker ground = a larger share of the gradients; "
# Background and text colours of the 256-colour cube: light to full blue, with readable text.
_STEPS = ((195, 16), (153, 16), (111, 16), (69, 231), (27, 231), (19, 231))


def salience_text(picture: SaliencePicture, colour: bool) -> str:
    """Returns the texts with their words' values shown, and the scores.

    Without ANSI colours, marked words are in [brackets]. A star follows words of the response that
    are neither in the grounding nor in the query.
    """
    lines = [f"query: {_on_one_line(picture.query)}"] if picture.query else []
    for text_map in (*picture.arguments, picture.response):
        text = "".join(_paint_piece(piece, colour) for piece in text_map.pieces)
        lines.append(f"{_on_one_line(text_map.title)}: {text}")
    mark = _paint_piece(TextStretch("red", 0.0, True), True) if colour else "[brackets]"
    star = f", or not in the grounding or the query ({STAR})" if any(picture.foreign) else ""
    lines += ["", f"{_LEGEND if colour else ''}{mark} = below {picture.threshold:g}{star}"]
    if any(picture.foreign):
        listed = ", ".join(map(_on_one_line, picture.foreign_words))
        lines.append(f"not in the grounding or the query: {listed}")
    small = {
        "low attribution": picture.unsupported_words,
        "low contribution": picture.uncovered_words,
    }
    for (name, score), (kind, words) in zip(picture.scores.items(), small.items(), strict=True):
        listed = ", ".join(map(_on_one_line, words)) or "none"
        shown_score = _format_score(score)
        lines.append(f"{name} {shown_score} (0 to 1, higher = more faithful); {kind}: {listed}")
    lines.append(COMPARE)
    if cut := picture.salience.cut_tokens:
        parts = ", ".join(f"{count} of {part}" for part, count in picture.salience.cut.items())
        lines.append(f"{cut} tokens ({parts}) did not fit and are not shown with a value")
    return "\n".join(lines) + "\n"


def _paint_piece(piece: TextStretch, colour: bool) -> str:
    """Returns a word on blue, darker for higher values; a marked word is red and underlined."""
    text = _on_one_line(piece.text) + STAR * piece.is_foreign
    if piece.value is None:
        return text
    if not colour:
        return f"[{text}]" if piece.marked else text
    style = "4;31"
    if not piece.marked:
        ground, ink = _STEPS[min(len(_STEPS) - 1, int(piece.value * len(_STEPS)))]
        style = f"48;5;{ground};38;5;{ink}"
    return f"\x1b[{style}m{text}\x1b[0m"


def _on_one_line(text: str) -> str:
    """Returns a text without line breaks, and with characters that a terminal obeys as escapes."""
    return printable(re.sub(r"\s", " ", text))


def salience_page(title: str, pictures: Sequence[SaliencePicture]) -> str:
    """Returns one self-contained HTML page of examples' salience maps."""
    sections = [salience_section(picture) for picture in pictures]
    return page_template("salience.html").render(title=title, pictures=sections)


def salience_section(picture: SaliencePicture) -> dict[str, Any]:
    """Returns a picture's values for the template `salience_section.html`."""

    def word_fields(word: PlacedWord, value: float, star: bool = False) -> dict[str, Any]:
        marked = star or is_low(word, value, picture.threshold)
        return {"text": word.text + STAR * star, "share": _format_score(value), "marked": marked}

    salience = picture.salience
    columns = zip(salience.response_words, picture.attributions, picture.foreign, strict=True)
    rows = zip(salience.argument_words, picture.contributions, salience.values, strict=True)
    return {
        "title": picture.title,
        "query": picture.query,
        "texts": [*picture.arguments, picture.response],
        "scores": {name: _format_score(score) for name, score in picture.scores.items()},
        "unsupported": ", ".join(picture.unsupported_words),
        "uncovered": ", ".join(picture.uncovered_words),
        "foreign": ", ".join(picture.foreign_words),
        "star": STAR,
        "compare": COMPARE,
        "threshold": f"{picture.threshold:g}",
        "cut_tokens": salience.cut_tokens,
        "columns": [word_fields(*column) for column in columns],
        "rows": [
            word_fields(word, value)
            | {"perspective": word.perspective, "cells": [_format_score(cell) for cell in cells]}
            for word, value, cells in rows
        ],
    }


def _format_score(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.3f}"
