"""Verdicts of a judge on texts, as Python objects."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.types import Grounding
from faith_jax.scoring.judges.card import ENDING, preset_names
from faith_jax.scoring.registry import is_judge, load_scorer

Texts = str | Sequence[str] | Mapping[str, Sequence[str]] | Grounding


@dataclasses.dataclass(frozen=True)
class JudgedResponse:
    """The verdict of a judge on a response.

    Attributes:
      supported: whether the score is above the card's threshold; None where the card has none, or
        the score is undefined.
      score: higher = more faithful; NaN = undefined.
      evidence: the chunks of the grounding that decided, for each sentence that was judged by
        itself; a chunk of several texts is as many passages.
      cut_tokens: how many tokens of the grounding the model could not read.
      undefined: why the score is NaN; "" = it is not.
    """

    supported: bool | None
    score: float
    evidence: tuple[str, ...]
    cut_tokens: int = 0
    undefined: str = ""


def judge(
    groundings: Sequence[Texts],
    responses: Sequence[str],
    judge: str = "minicheck_flan_t5_large",
    model: str | None = None,
    histories: Sequence[Sequence[str] | str] | None = None,
    **options: Any,
) -> list[JudgedResponse]:
    """Returns the verdict of a judge on each response; docs/judges.md lists the judges.

    Args:
      groundings: of each response: a text, several, or texts by perspective.
      responses: as many as groundings.
      judge: the name of a card of the package, or the FILE.toml of a card of your own.
      model: the folder of the judge's model.
      histories: of each response the turns before it; few judges read the last one.
      **options: of the judge, such as sentences="min" or max_length=1024.

    Raises:
      ConfigError: for an unknown judge, a wrong option, and a model that the card does not fit.
      InputError: for a response that is too long to be read.
      ValueError: for lengths that differ.
    """
    if not is_judge(judge):
        hint = did_you_mean(judge, preset_names())
        raise ConfigError(
            f"judge: {judge!r} is no judge.{hint} There are: {', '.join(preset_names())}; one of "
            f"your own is the FILE{ENDING} of its card."
        )
    scorer: Any = load_scorer(judge, model=model, **options)
    threshold = scorer.judge.card.threshold
    return [
        JudgedResponse(
            None if threshold is None or math.isnan(score.value) else score.value > threshold,
            score.value,
            tuple(passage.word for passage in score.evidence),
            score.cut_tokens,
            score.undefined,
        )
        for score in scorer.score(groundings, responses, histories)
    ]
