"""Heat maps of salience as one self-contained HTML page; all text is escaped by Jinja."""

import math
from collections.abc import Sequence
from typing import Any

from faith_jax.report.html import page_template
from faith_jax.report.salience_picture import SaliencePicture


def salience_page(title: str, pictures: Sequence[SaliencePicture]) -> str:
    """Returns the page of some examples' maps.

    Args:
      title: of the page.
      pictures: in order.
    """
    shown = [salience_section(picture) for picture in pictures]
    return page_template("salience.html").render(title=title, pictures=shown)


def salience_section(picture: SaliencePicture) -> dict[str, Any]:
    """Returns what the template `salience_section.html` shows of a picture."""
    salience = picture.salience
    columns = zip(salience.response_words, picture.attributions, strict=True)
    rows = zip(salience.argument_words, picture.contributions, salience.values, strict=True)
    return {
        "title": picture.title,
        "query": picture.query,
        "texts": [*picture.arguments, picture.response],
        "hallucination": _figure(picture.hallucination_score),
        "coverage": _figure(picture.coverage_error_score),
        "unsupported": ", ".join(picture.unsupported_words),
        "uncovered": ", ".join(picture.uncovered_words),
        "threshold": f"{picture.threshold:g}",
        "cut_tokens": salience.cut_tokens,
        "columns": [
            {"text": word.text, "share": _figure(value), "marked": value < picture.threshold}
            for word, value in columns
        ],
        "rows": [
            {
                "text": word.text,
                "perspective": word.perspective,
                "share": _figure(value),
                "marked": value < picture.threshold,
                "cells": [_figure(cell) for cell in cells],
            }
            for word, value, cells in rows
        ],
    }


def _figure(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.3f}"
