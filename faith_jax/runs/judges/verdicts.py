"""Verdicts of a judge on texts and tables, as Python objects."""

import dataclasses
import logging
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, did_you_mean, format_value
from faith_jax.core.files.stores import path_of
from faith_jax.core.settings import sharing_programs
from faith_jax.core.types import WordScore
from faith_jax.runs.calibration.stored import Decider, read_calibration
from faith_jax.runs.scores.score_frames import (
    Texts,
    check_is_no_table,
    check_options,
    table_examples,
    warn_of_undefined_and_cut,
    with_columns,
)
from faith_jax.scoring.judges.card import ENDING, preset_names
from faith_jax.scoring.registry import is_judge, load_scorer, scorer_options

logger = logging.getLogger("faith_jax")


@dataclasses.dataclass(frozen=True)
class JudgedResponse:
    """The verdict of a judge on a response.

    Attributes:
      supported: whether the score is above the card's threshold; None if the card has no threshold
        or the score is undefined.
      score: higher = more faithful; NaN = undefined.
      evidence: the chunk of the grounding that decided, for each sentence that was judged
        separately; a chunk that spans several texts gives several passages.
      cut_tokens: how many tokens of the grounding the model could not read.
      undefined: why the score is NaN; "" = it is defined.
      probability: that the response is faithful, by a calibration; None = no calibration or no
        score.
      words: the words of the response with their scores, if the judge reads sentences or tokens.
    """

    supported: bool | None
    score: float
    evidence: tuple[str, ...]
    cut_tokens: int = 0
    undefined: str = ""
    probability: float | None = None
    words: tuple[WordScore, ...] = ()


def check_is_judge(name: str, where: str = "") -> None:
    """Raises ConfigError if a name is not a judge's; the message begins with `where`."""
    if not isinstance(name, str):
        given = format_value(name)
        raise ConfigError(f"{where}expected a name, got {given}; it follows what is judged.")
    if not is_judge(name):
        names = preset_names()
        raise ConfigError(
            f"{where}{name!r} is no judge.{did_you_mean(name, names)} There are: "
            f"{', '.join(names)}; one of your own is the FILE{ENDING} of its card."
        )


def judge(
    groundings: Sequence[Texts] | Any,
    responses: Sequence[str] | None = None,
    judge: str = "minicheck_flan_t5_large",
    model: str | None = None,
    histories: Sequence[Sequence[str] | str] | None = None,
    columns: Mapping[str, str] | None = None,
    calibration: str | None = None,
    corpus: str | None = None,
    **options: Any,
) -> Any:
    """Returns the verdict of a judge on each response; docs/judges.md lists the judges.

    Args:
      groundings: for each response: a text, several, or texts by perspective. Without `responses`,
        a table that has both: a pandas or Polars frame, an Arrow table, a list of mappings, or a
        mapping of columns, as `Dataset.map(batched=True)` of Hugging Face's datasets gives it.
      responses: as many as groundings.
      judge: the name of a card of the package, or the FILE.toml of a card of your own.
      model: the folder of the judge's model.
      histories: for each response, the turns before it; a few judges read the last one.
      columns: the names of a table's columns, by content: grounding, response or history; default:
        the usual names that `faith-jax score` knows.
      calibration: the file that `faith-jax calibrate` wrote for this judge's scores.
      corpus: a corpus of the calibration; None = the only one, or all together.
      **options: options of the judge, such as sentences="min" or max_length=1024.

    Returns:
      A `JudgedResponse` for each response. For a table, the table with the columns `judge_score`,
      `judge_supported`, `judge_evidence`, `judge_undefined` (why there is no score), `judge_words`
      if the judge scores words and, with a calibration, `judge_probability`; a mapping of columns
      stays one, other tables become what `faith_jax.score` returns.

    Raises:
      ConfigError: for an unknown judge, a wrong option, a model that does not fit the card, or a
        calibration of another judge's scores.
      InputError: for a response that is too long to be read, or a row of a table without texts.
      ValueError: for lengths that differ.
    """
    check_is_judge(judge, "judge: ")
    decider = None
    if calibration is not None:
        decider = _read_decider(calibration, corpus, judge)
        if given_options := [f"{name}={value!r}" for name, value in options.items()]:
            message = "%s must be of scores with the same options: %s"
            logger.warning(message, calibration, ", ".join(given_options))
    elif corpus is not None:
        raise ConfigError("corpus: goes with a calibration.")
    if responses is None and histories is not None:
        raise ValueError("histories: name their column in columns; leave out histories.")
    examples: Any = groundings
    if responses is None:
        examples = [row.example for row in table_examples(groundings, columns or {})]
    else:
        check_is_no_table(groundings)
        if columns is not None:
            raise ValueError("columns: name those of a table; leave out responses.")
    check_options(options, scorer_options(judge))
    scorer: Any = load_scorer(judge, model=model, **options)
    threshold = scorer.judge.card.threshold
    with sharing_programs():
        scores = scorer.score(examples, responses, histories)
    judged = [
        JudgedResponse(
            None if threshold is None or math.isnan(score.value) else score.value > threshold,
            score.value,
            tuple(passage.word for passage in score.evidence),
            score.cut_tokens,
            score.undefined,
            None
            if decider is None or math.isnan(score.value)
            else decider.probability(score.value),
            score.words,
        )
        for score in scores
    ]
    if responses is not None:
        return judged
    warn_of_undefined_and_cut({judge: scores})
    added: dict[str, list[Any]] = {
        "judge_score": [verdict.score for verdict in judged],
        "judge_supported": [verdict.supported for verdict in judged],
        "judge_evidence": [list(verdict.evidence) for verdict in judged],
        "judge_undefined": [verdict.undefined for verdict in judged],
    }
    if scorer.card.word_level:
        added["judge_words"] = [
            [{"word": word.word, "score": word.score} for word in verdict.words]
            for verdict in judged
        ]
    if decider is not None:
        added["judge_probability"] = [verdict.probability for verdict in judged]
    if isinstance(groundings, Mapping):
        return dict(groundings) | added
    return with_columns(groundings, added)


def _read_decider(file: str, corpus: str | None, judge: str) -> Decider:
    """Returns the decider of a corpus from a calibration, which must be this judge's."""
    calibration, name = read_calibration(path_of(file)), pathlib.Path(judge).stem
    if calibration.scorer != name:
        raise ConfigError(
            f"calibration: {file} is of the scores of {calibration.scorer}, not of {name}."
        )
    deciders = dict(calibration.corpora)
    if corpus is not None:
        if corpus not in deciders:
            raise ConfigError(
                f"corpus: {file} has none {corpus!r}, but {', '.join(deciders) or 'none'}."
            )
        return deciders[corpus]
    if calibration.pooled is not None:
        message = "probabilities are those of all corpora of %s together: %s; corpus names one"
        logger.warning(message, file, ", ".join(calibration.pooled.mix or deciders))
        return calibration.pooled
    if len(deciders) > 1:
        raise ConfigError(f"corpus: {file} has {', '.join(deciders)}; choose one.")
    return next(iter(deciders.values()))
