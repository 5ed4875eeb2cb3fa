"""The run `score`: scores of every row by any number of scorers, in one pass.

Before anything is scored it says what the scorers will see (`faith_jax.runs.preflight`).
Rows gather in `<output>.partial`, from which a stopped run resumes; the output appears whole when
the last row is scored.
"""

import collections
import dataclasses
import itertools
import logging
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import CheckpointError, ConfigError, InputError, counted
from faith_jax.core.files import (
    ROWS,
    ContentDigest,
    append_rows,
    check_outputs,
    count_whole_rows,
    has_parent,
    keep_rows,
    kept_note,
    made_in,
    note_later,
    partial_output,
    put,
    write_json,
)
from faith_jax.core.files.staging import stands
from faith_jax.core.files.stores import path_of
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.grounded_rows import ExampleRow
from faith_jax.export.scored_rows import ScoredRow, scored_row, write_parquet
from faith_jax.input.score_input import ScoreInput
from faith_jax.runs import preflight as preflights
from faith_jax.runs.options import MODEL_OPTIONS
from faith_jax.scoring.base import BaseScorer
from faith_jax.scoring.registry import load_scorer

logger = logging.getLogger("faith_jax")

OUTPUT_FORMATS = {".jsonl": "jsonl", ".parquet": "parquet"}
_TIMED_ROWS = 64  # of `costs`
# Scored between two passes, so that the second one is not remembered.
_OTHER = GroundedExample("other", Grounding(("Nothing is said.",)), (), "It is not said.")


class Cut(NamedTuple):
    """Of how many rows tokens were cut, and how many tokens."""

    rows: int = 0
    tokens: int = 0


@dataclasses.dataclass
class ScoreSummary:
    """What a run of `score` made.

    Attributes:
      output: the file or folder.
      rows: how many it has.
      left_out: the columns whose values JSON cannot hold, with their types.
      undefined: for each scorer, how many rows it left without a score, by reason; "" = not told.
      cut: for each scorer, how many inputs it cut because they were too long.
      cut_parts: for each scorer what was cut of each part.
    """

    output: pathlib.Path
    rows: int
    left_out: Mapping[str, str]
    undefined: dict[str, collections.Counter[str]] = dataclasses.field(default_factory=dict)
    cut: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    cut_parts: dict[str, dict[str, Cut]] = dataclasses.field(default_factory=dict)

    def add(self, rows: Iterable[ScoredRow]) -> None:
        """Counts what rows lack, and what was cut of them."""
        for row in rows:
            for name, value in row["scores"].items():
                if value is None:
                    self.undefined[name][row.get("undefined", {}).get(name, "")] += 1
            self.cut.update(name for name, tokens in row["cut_tokens"].items() if tokens)
            for name, cut in row.get("cut", {}).items():
                parts = self.cut_parts.setdefault(name, {})
                for part, tokens in cut.items():
                    before = parts.get(part, Cut())
                    parts[part] = Cut(before.rows + 1, before.tokens + tokens)


def score(
    given: ScoreInput,
    scorers: Mapping[str, Mapping[str, Any]],
    output: str,
    output_format: str = "",
    batch_size: int = 256,
    bad_rows: BadRows | None = None,
    restart: bool = False,
    costs: str = "",
) -> ScoreSummary:
    """Scores all rows and writes them; see `faith_jax.export.scored_rows` for their form.

    Args:
      given: what is scored.
      scorers: options of each scorer by its name, or by "NAME=SCORER", whose scores are NAME's.
      output: the file, or for TFDS the folder, which must not exist.
      output_format: "jsonl", "parquet" or "tfds"; "" = as the ending says, TFDS without one.
      batch_size: rows scored and written at once; with models, must be the same when a stopped run
        resumes, because the rows of a batch change the last digits of each other's scores.
      bad_rows: what to do with bad rows; by default scoring stops.
      restart: discard the rows of a run that was stopped.
      costs: a file for what each scorer costs; "" = none.
    """
    target = path_of(output)
    form = _output_format(target, output_format)
    try:
        chosen, digests = _pinned(scorers, {} if restart else kept_note(target))
    except CheckpointError:
        _loaded(scorers, target)  # says all that is wrong with the models of a scorer
        raise
    loaded = _loaded(chosen, target)
    check_outputs([output], {"--costs": costs})
    bad_rows = bad_rows or BadRows()
    run: dict[str, Any] = {"scorers": scorers, "input": given.options(), "models": digests}
    if digests:
        run["--batch-size"] = batch_size
    with partial_output(target, run, restart) as folder:
        # Bad input is found before anything is scored.
        digest = ContentDigest()
        rows = digest.of(given.rows(bad_rows))
        report, left_out = preflights.scoring_report(given.source, rows, loaded)
        note_later(folder, {"rows": digest.hexdigest()})
        preflights.tell(report, preflights.beside(target) if report["scorers"] else None)
        count = report["rows"]
        lines = folder / ROWS
        summary = ScoreSummary(target, count, left_out)
        if digests and (done := count_whole_rows(lines)) < count:
            keep_rows(lines, done - done % batch_size)
        for name in loaded:  # in their order
            summary.undefined[name], summary.cut[name] = collections.Counter(), 0
        _score_rows(given.rows(bad_rows), loaded, lines, batch_size, summary)
        if (written := count_whole_rows(lines)) != count:
            raise InputError(
                f"{lines} has {counted(written, 'row')}, the input {count:,}: it changed while it "
                "was scored; score again with --restart."
            )
        if costs:
            _write_costs(costs, loaded, scorers, given)
        _finish(lines, target, form, list(loaded), given.split or "rows")
    for name, cut in summary.cut_parts.items():
        # Of a scorer that asks a model what to ask, such as Q2, not all is known before.
        if not any(warning.startswith(f"{name}: ") for warning in report["warnings"]):
            shares = {part: {"share": found.rows / count} for part, found in cut.items()}
            for sentence in preflights.cut_warnings(shares):
                logger.warning("%s: %s", name, sentence)
    return summary


def _pinned(
    scorers: Mapping[str, Mapping[str, Any]], note: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Returns scorers with the steps of checkpoints that a stopped run noted, or that are there.

    Also returns what identifies each of these checkpoints.
    """
    chosen = {name: dict(told) for name, told in scorers.items()}
    kept, digests = note.get("models", {}), {}
    for name, told in chosen.items():
        for option in (it for it in MODEL_OPTIONS if isinstance(told.get(it), str)):
            from faith_jax.checkpoints.identity import checkpoint_digest, pinned  # imports JAX

            path, place = told[option], f"{name}.{option}"
            step = (kept.get(place) or checkpoint_digest(path))["step"]
            told[option] = path if step is None else str(pinned(path, step))
            digests[place] = checkpoint_digest(told[option])
    return chosen, digests


def preflight(
    given: ScoreInput,
    scorers: Mapping[str, Mapping[str, Any]],
    output: str,
    output_format: str = "",
    bad_rows: BadRows | None = None,
) -> None:
    """Prints what `score` would see, and writes it to OUTPUT.preflight.json; nothing is scored."""
    target = path_of(output)
    _output_format(target, output_format)
    loaded = _loaded(scorers, target)
    rows = given.rows(bad_rows or BadRows())
    report, _ = preflights.scoring_report(given.source, rows, loaded)
    preflights.tell(report, preflights.beside(target), dry_run=True)


def _loaded(
    scorers: Mapping[str, Mapping[str, Any]], target: pathlib.Path
) -> dict[str, BaseScorer]:
    if not scorers:
        raise ConfigError("--scorers: name at least one scorer.")
    loaded: dict[str, BaseScorer] = {}
    for told, options in scorers.items():
        name, _, scorer = told.partition("=")
        if name in loaded:
            raise ConfigError(f"--scorers: {name!r} is given twice; rename one as NAME=SCORER.")
        loaded[name] = load_scorer(scorer or name, **options)
    if stands(target):
        raise ConfigError(f"{target} exists already; remove it or name another output.")
    return loaded


def _output_format(target: pathlib.Path, form: str) -> str:
    said = OUTPUT_FORMATS.get(target.suffix, "" if target.suffix else "tfds")
    problem = ""
    if form and target.suffix in OUTPUT_FORMATS and form != said:
        problem = f"the ending says {said}, --format says {form}; let them agree"
    elif not (form or said):
        problem = "name a .jsonl or .parquet file, or a folder"
    elif not has_parent(target):
        problem = "no such folder"
    if problem:
        raise ConfigError(f"--output: {target}: {problem}.")
    return form or said


def _score_rows(
    rows: Iterator[ExampleRow],
    scorers: Mapping[str, BaseScorer],
    lines: pathlib.Path,
    batch_size: int,
    summary: ScoreSummary,
) -> None:
    """Appends the rows that are not scored yet."""
    done = count_whole_rows(lines)
    if done:
        logger.info("%d of %d rows are scored already", done, summary.rows)
        summary.add(_scored(lines))
    rows = itertools.islice(rows, done, None)
    progress = Progress("row", summary.rows, done)
    while batch := list(itertools.islice(rows, batch_size)):
        examples = [row.example for row in batch]
        columns = {name: scorer.score(examples) for name, scorer in scorers.items()}
        scored = [
            scored_row(row, {name: scores[place] for name, scores in columns.items()})
            for place, row in enumerate(batch)
        ]
        append_rows(lines, scored)
        summary.add(scored)
        progress.add(len(batch))


def _scored(lines: pathlib.Path) -> Iterator[ScoredRow]:
    return (dict(row.fields) for row in read_jsonl(lines))


def _finish(
    lines: pathlib.Path, target: pathlib.Path, form: str, scorers: Sequence[str], split: str
) -> None:
    """Turns the rows into the output, which appears whole."""
    if form == "jsonl":
        put(lines, target)
        return
    rows = _scored(lines)
    with made_in(lines.parent) as made:
        if form == "parquet":
            write_parquet(rows, made, scorers)
        else:
            from faith_jax.export.tfds import write_scored_tfds

            write_scored_tfds(made, "scores", split, rows, scorers)
        put(made, target)


def _write_costs(
    path: str,
    scorers: Mapping[str, BaseScorer],
    options: Mapping[str, Mapping[str, Any]],
    given: ScoreInput,
) -> None:
    """Writes as JSON what each scorer costs, measured on the first rows of the first corpus.

    `millions` are the parameters of each of its models, `examples_per_second` of a second pass over
    as many `rows` of the `corpus` on a `device`, after everything is compiled. `options` are in the
    order of `scorers`.
    """
    import jax

    from faith_jax.inference.opening import open_model
    from faith_jax.runs.setup import count_params

    rows = list(itertools.islice(given.rows(BadRows(skip=True)), _TIMED_ROWS))
    examples = [row.example for row in rows if row.corpus == rows[0].corpus]
    found = {}
    for (name, scorer), told in zip(scorers.items(), options.values(), strict=True):
        scorer.score(examples)
        scorer.score([_OTHER])
        start = time.perf_counter()
        scorer.score(examples)
        seconds = time.perf_counter() - start
        folders = dict.fromkeys(told[it] for it in MODEL_OPTIONS if told.get(it))
        found[name] = {
            "millions": [count_params(open_model(folder).params) / 1e6 for folder in folders],
            "examples_per_second": len(examples) / seconds,
            "rows": len(examples),
            "corpus": rows[0].corpus,
            "device": jax.devices()[0].device_kind,
        }
    write_json(path, found)
