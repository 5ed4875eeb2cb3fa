"""An example's salience as text: coloured in a terminal, with brackets around words elsewhere."""

import unicodedata
from collections.abc import Iterator

from faith_jax.report.salience_picture import Piece, SaliencePicture, ShownText

_RESET = "\x1b[0m"
_LEGEND = "a darker ground = a larger share of the gradients; {} = below {:g}"


def salience_text(picture: SaliencePicture, colour: bool) -> str:
    """Returns the texts with their words' values shown, and the scores.

    Args:
      picture: what is shown.
      colour: with ANSI colours; without, words below the threshold stand in [brackets].
    """
    return "\n".join(_lines(picture, colour)) + "\n"


def _lines(picture: SaliencePicture, colour: bool) -> Iterator[str]:
    if picture.query:
        yield f"query: {printable(picture.query)}"
    for shown in (*picture.arguments, picture.response):
        yield f"{printable(shown.title)}: {_painted(shown, colour)}"
    yield ""
    mark = _paint("red", True, 0.0) if colour else "[brackets]"
    legend = _LEGEND.format(mark, picture.threshold)
    yield legend if colour else legend.partition("; ")[2]
    for name, words, score in (
        ("unsupported words", picture.unsupported_words, picture.hallucination_score),
        ("words not covered", picture.uncovered_words, picture.coverage_error_score),
    ):
        shown_words = ", ".join(printable(word) for word in words) or "none"
        kind = "hallucination" if name.startswith("unsupported") else "coverage error"
        yield f"{kind} score {score:.3f} (0 to 1, higher = less faithful); {name}: {shown_words}"
    if picture.salience.cut_tokens:
        parts = ", ".join(f"{count} of {part}" for part, count in picture.salience.cut.items())
        yield (
            f"{picture.salience.cut_tokens} tokens ({parts}) did not fit and are not shown with a "
            "value"
        )


def _painted(shown: ShownText, colour: bool) -> str:
    return "".join(_piece(piece, colour) for piece in shown.pieces)


def _piece(piece: Piece, colour: bool) -> str:
    text = printable(piece.text)
    if piece.value is None:
        return text
    if colour:
        return _paint(text, piece.marked, piece.value)
    return f"[{text}]" if piece.marked else text


def _paint(text: str, marked: bool, value: float) -> str:
    """Returns text on a blue ground as dark as its value, or in red and underlined."""
    if marked:
        return f"\x1b[4;31m{text}{_RESET}"
    # From the 256-colour cube: light to full blue, with text that can be read on it.
    steps = ((195, 16), (153, 16), (111, 16), (69, 231), (27, 231), (19, 231))
    ground, ink = steps[min(len(steps) - 1, int(value * len(steps)))]
    return f"\x1b[48;5;{ground};38;5;{ink}m{text}{_RESET}"


def printable(text: str) -> str:
    """Returns a text in one line without control characters, which could steer a terminal."""
    return "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)
