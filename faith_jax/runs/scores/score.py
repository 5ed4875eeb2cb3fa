"""The run `score`: scores of every row by any number of scorers, in one pass.

Before anything is scored it says what the scorers will see (`faith_jax.runs.preflight`).
Rows gather in `<output>.partial`, from which a stopped run resumes, and which several processes
share (`faith_jax.runs.shards`); the output appears whole when the last row is scored. A hidden file
beside it then says what it is of: the same command again scores nothing.
"""

import collections
import contextlib
import dataclasses
import functools
import itertools
import json
import logging
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from faith_jax.core.errors import CheckpointError, ConfigError, FaithJaxError, InputError
from faith_jax.core.files import (
    append_rows,
    atomic_file,
    check_outputs,
    difference,
    is_finished,
    make_output_folder,
    move_into_place,
    partial_folder,
    partial_note,
    read_json_or_none,
    stamp,
    write_json,
)
from faith_jax.core.files.staging import is_complete
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.grounded_rows import ExampleRow
from faith_jax.datasets.tables import TableNotes
from faith_jax.export.scored_rows import TFDS, ScoredRow, form_of, scored_row, write_parquet
from faith_jax.export.worst_rows import check_worst, write_worst
from faith_jax.input.score_input import ScoreInput
from faith_jax.runs import preflight as preflights
from faith_jax.runs.options import MODEL_OPTIONS
from faith_jax.runs.shards import Job, Shard, split
from faith_jax.scoring.base import BaseScorer, ScoreRange, warn_of_equal_scores
from faith_jax.scoring.registry import load_scorer

if TYPE_CHECKING:
    from faith_jax.export.tfds import DataSet

logger = logging.getLogger("faith_jax")

_TIMED_ROWS = 64  # of `costs`
_SAMPLE = 1000  # first rows, which the report looks at
_SHAPED = 500  # of these, by which the shapes of the models' batches are chosen
# Rows scored and written at once: enough for a batch of each shape, or for several on accelerators.
_ROWS_ON_CPU, _ROWS = 256, 2048
_SHARDS_OF_A_PROCESS = 2  # at least
# Scored between two passes, so that the second one is not remembered; and before a fork.
NO_LABEL = GroundedExample("other", Grounding(("Nothing is said.",)), ("What?",), "It is not said.")


class Cut(NamedTuple):
    """Of how many rows tokens were cut, and how many tokens."""

    rows: int = 0
    tokens: int = 0


@dataclasses.dataclass
class ScoreSummary:
    """The outcome of a run of `score`.

    Attributes:
      output: the file or folder.
      rows: how many it has.
      left_out: the columns whose values JSON cannot hold, with their types.
      is_whole: whether the output is there; else other processes compute what is missing.
      undefined: for each scorer, how many rows it left without a score, by reason; "" = not told.
      cut: for each scorer, how many inputs it cut because they were too long.
      cut_parts: for each scorer what was cut of each part.
      ranges: for each scorer its scores.
      worst: rows in the file of the worst answers.
    """

    output: pathlib.Path
    rows: int
    left_out: Mapping[str, str]
    is_whole: bool = False
    undefined: dict[str, collections.Counter[str]] = dataclasses.field(default_factory=dict)
    cut: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    cut_parts: dict[str, dict[str, Cut]] = dataclasses.field(default_factory=dict)
    ranges: dict[str, ScoreRange] = dataclasses.field(default_factory=dict)
    worst: int = 0

    def add(self, rows: Iterable[ScoredRow]) -> None:
        """Counts what rows lack, and what was cut of them."""
        defined: dict[str, list[float]] = {}
        for row in rows:
            for name, value in row["scores"].items():
                counts = self.undefined.setdefault(name, collections.Counter())
                if value is None:
                    counts[row.get("undefined", {}).get(name, "")] += 1
                else:
                    defined.setdefault(name, []).append(value)
            for name, tokens in row["cut_tokens"].items():
                self.cut[name] += bool(tokens)
            for name, cut in row.get("cut", {}).items():
                for part, tokens in cut.items():
                    self._cut_of(name, part, 1, tokens)
        for name, values in defined.items():
            self._join_range(name, ScoreRange(len(values), min(values), max(values)))

    def counts(self) -> dict[str, Any]:
        """Returns the counts as JSON."""
        names = ("undefined", "cut", "cut_parts", "ranges")
        return {name: getattr(self, name) for name in names}

    def take(self, counts: Mapping[str, Any]) -> None:
        """Adds the `counts` of other rows."""
        for name, reasons in counts["undefined"].items():
            self.undefined.setdefault(name, collections.Counter()).update(reasons)
        self.cut.update(counts["cut"])
        for name, cut in counts["cut_parts"].items():
            for part, (rows, tokens) in cut.items():
                self._cut_of(name, part, rows, tokens)
        for name, scores in counts["ranges"].items():
            self._join_range(name, ScoreRange(*scores))

    def _join_range(self, scorer: str, scores: ScoreRange) -> None:
        before = self.ranges.get(scorer, scores._replace(number=0))
        self.ranges[scorer] = ScoreRange(
            before.number + scores.number,
            min(before.lowest, scores.lowest),
            max(before.highest, scores.highest),
        )

    def _cut_of(self, scorer: str, part: str, rows: int, tokens: int) -> None:
        parts = self.cut_parts.setdefault(scorer, {})
        before = parts.get(part, Cut())
        parts[part] = Cut(before.rows + rows, before.tokens + tokens)


def score(
    score_input: ScoreInput,
    scorers: Mapping[str, Mapping[str, Any]],
    output: str,
    output_format: str = "",
    batch_size: int = 0,
    bad_rows: BadRows | None = None,
    restart: bool = False,
    costs: str = "",
    shards: int = 0,
    joins_only: bool = False,
    worst: str = "",
    worst_rows: int = 100,
    modules: Mapping[str, str] = MappingProxyType({}),
) -> ScoreSummary:
    """Scores all rows and writes them; see `faith_jax.export.scored_rows` for their form.

    Args:
      score_input: the rows that are scored.
      scorers: options of each scorer by its name, or by "NAME=SCORER", whose scores are NAME's.
      output: the file, or for TFDS the folder; one that exists is kept where it is of the same run,
        and else refused.
      output_format: "jsonl", "parquet" or "tfds"; "" = as the ending says, TFDS without one.
      batch_size: rows scored and written at once; 0 = 256, and 2,048 with models on an accelerator.
        With models it must be the same when a stopped run resumes, because the rows of a batch
        change the last digits of each other's scores.
      bad_rows: what to do with bad rows; by default scoring stops.
      restart: discard the rows of a run that was stopped.
      costs: a file for what each scorer costs; "" = none.
      shards: how many shards any number of processes share; 0 = one for every 5,000 rows.
      joins_only: only join what other processes have scored.
      worst: a file for the rows with the lowest scores of the first scorer; "" = none.
      worst_rows: how many these are at most.
      modules: digests of the code of the user's scorers, by module.
    """
    target = path_of(output)
    form = form_of(target, output_format)
    finished = {} if restart else _read_finished(target)
    former = {} if restart else finished.get("run") or partial_note(target)
    try:
        chosen, digests = _pin_checkpoints(scorers, former)
    except CheckpointError:
        _load_scorers(scorers, target)  # says all that is wrong with the models of a scorer
        raise
    bad_rows = bad_rows or BadRows()
    run: dict[str, Any] = {"scorers": scorers, "input": score_input.options(), "models": digests}
    if digests:
        run["--batch-size"] = batch_size
    if modules:
        run["--scorer-module"] = dict(modules)
    run |= {"--shards": shards, "--format": form}
    is_made = all(is_complete(path_of(path)) for path in (costs, worst) if path)
    stamps = json.loads(json.dumps(score_input.stamp()))
    if finished and is_made and stamps == finished["stamp"] and not difference(former, run):
        logger.info("%s is finished: these rows, scorers and options", target)
        bad_rows.take(*finished["bad_rows"])
        summary = ScoreSummary(target, finished["rows"], finished["left_out"], is_whole=True)
        summary.take(finished["counts"])
        return summary
    several = "jax" in sys.modules and sys.modules["jax"].distributed.is_initialized()
    if several and costs:
        raise ConfigError("--costs: cannot be measured by several processes; leave it out.")
    with _own_devices(several):
        loaded = {} if joins_only else _load_scorers(chosen, target)
    check_worst(worst)
    check_outputs([output], {"--costs": costs, "--worst": worst})
    plan = functools.partial(_plan_shards, score_input, bad_rows, shards)

    def begin(restart: bool) -> Job:
        return Job(target, run, plan, score_input.stamp(), restart, joins_only=joins_only)

    with _begin_job(begin, restart, several) as job, _own_devices(several):
        if not bad_rows.count:  # where another process has read them
            bad_rows.take(*job.known["bad_rows"])
        count = len(job)
        summary = ScoreSummary(target, count, job.known["left_out"])
        names = list(dict.fromkeys(scorer.partition("=")[0] for scorer in scorers))
        data_set = _data_set(names, score_input) if form == TFDS else None
        warnings: list[str] = []
        if joins_only:
            job.check_done()
        read = functools.partial(score_input.rows, BadRows(skip=bad_rows.skip))
        at_once = batch_size or _default_rows(bool(digests) and not joins_only)
        whole_batch = at_once if digests else 1
        # The next rows are read while the models compute; devices of several processes that compute
        # together must do the same in the same order.
        score_batches: Any = map
        if digests and not several:
            from faith_jax.inference.pipeline import ahead as score_batches

        def compute(shard: Shard, writes: bool, done: int, progress: Progress) -> None:
            rows, lines = shard.read(read, score_input.source), shard.rows if writes else None
            batches = functools.partial(score_batches, functools.partial(_score_batch, loaded))
            counts = _score_rows(rows, batches, lines, at_once, done, progress)
            if not writes:
                return
            files = []
            if data_set is not None:
                folder = make_output_folder(shard.folder / TFDS)
                scored = _read_scored(shard.rows)
                files = [data_set.write_shard(folder, shard.number, shard.of, scored)]
            shard.finish(counts, *files)

        def take_part() -> None:
            with begin(False) as helper_job:
                for shard in helper_job.take_shards():
                    if os.getppid() != parent:
                        return
                    compute(shard, True, shard.done_rows(), helper_job.progress)

        parent = os.getpid()
        is_shared = score_input.input and not (digests or several or joins_only or costs)
        with (
            _fork_workers(job, loaded.values(), take_part if is_shared else None) as helpers,
            _timing_device(bool(costs)) as device_time,
        ):
            sample: list[ExampleRow] = []
            for shard, writes, done in _take_shards(
                job, chosen, whole_batch, several, joins_only, helpers
            ):
                if not sample:
                    sample = list(itertools.islice(read(job.shards[0].place), _SAMPLE))
                    examples = [row.example for row in sample[:: -(-len(sample) // _SHAPED)]]
                    for name, scorer in loaded.items():
                        with preflights.naming(score_input.source, name):
                            scorer.prepare(examples, at_once, count)
                if shard.number == 0 and writes:  # most errors come before anything is scored
                    report = preflights.scoring_report(score_input.source, sample, loaded, count)
                    report = preflights.with_notes(report, job.known["notes"])
                    warnings = report["warnings"]
                    beside = preflights.beside(target) if report["scorers"] else None
                    preflights.tell(report, beside)
                compute(shard, writes, done, job.progress)
        with job.joining() as results:
            if results is not None:
                for result in results:
                    summary.take(result)
                if costs:
                    _write_costs(costs, loaded, scorers, score_input, device_time)
                if worst:
                    columns = job.known["notes"]["columns"]
                    summary.worst = write_worst(
                        worst, _read_all_rows(job), names, columns, worst_rows
                    )
                _write_output(job, target, form, names, data_set)
                known = {key: job.known[key] for key in ("left_out", "bad_rows")}
                known |= {"rows": count, "counts": summary.counts()}
                note = {"run": run, "stamp": job.stamp, "output": _output_stamp(target), **known}
                write_json(_finished_path(target), note)
            summary.is_whole = is_complete(target)
    if several:
        from faith_jax.core.processes import wait_for_all

        wait_for_all(f"{target} is written")
    for name, cut in summary.cut_parts.items():
        # Of a scorer that asks a model what to ask, such as Q2, not all is known before.
        if not any(warning.startswith(f"{name}: ") for warning in warnings):
            shares = {part: {"share": loss.rows / count} for part, loss in cut.items()}
            for sentence in preflights.cut_warnings(shares):
                logger.warning("%s: %s", name, sentence)
    for name, scores in summary.ranges.items():
        warn_of_equal_scores(name, scores)
    return summary


def _finished_path(target: pathlib.Path) -> pathlib.Path:
    """Returns where a run notes what its finished output is of, so that a rerun recognises it."""
    partial = partial_folder(target)  # named also where the target is "."
    return partial.with_name(f".{partial.stem}.finished.json")


def _read_finished(target: pathlib.Path) -> dict[str, Any]:
    """Returns the note of the run that made an output; empty without one, or of another file."""
    note = read_json_or_none(_finished_path(target)) or {}
    is_there = bool(note) and is_complete(target)
    return note if is_there and note["output"] == _output_stamp(target) else {}


def _output_stamp(target: pathlib.Path) -> list[list[Any]]:
    files = sorted(path for path in target.rglob("*") if path.is_file())
    return stamp([target] if target.is_file() else files)


def _own_devices(several: bool) -> contextlib.AbstractContextManager[None]:
    if not several:
        return contextlib.nullcontext()
    from faith_jax.models.partitioning import own_devices

    return own_devices()


def _begin_job(begin: Callable[[bool], Job], restart: bool, several: bool) -> Job:
    if not several:
        return begin(restart)
    from faith_jax.runs import processes

    return processes.begun(begin, restart)


@contextlib.contextmanager
def _fork_workers(
    job: Job, scorers: Iterable[BaseScorer], work: Callable[[], None] | None
) -> Iterator[list[Any]]:
    """Holds processes that take shards too, one for each further core; none for few shards.

    They are forked, so that they have the scorers, whatever these are, without loading them; where
    other threads run, that is not safe, and there are none.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    count = min(cores, len(job.undone()) // _SHARDS_OF_A_PROCESS) - 1
    alone = threading.active_count() == 1 and not {"jax", "tensorflow"} & sys.modules.keys()
    if work is None or count < 1 or not alone or is_remote(job.folder):
        yield []
        return

    def run() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # sent below
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process ends them
        logger.setLevel(logging.ERROR)
        with contextlib.suppress(FaithJaxError):  # this process takes the shard, and tells it
            work()

    for scorer in scorers:
        scorer.score([NO_LABEL])  # imports what it needs, once for all
    context = multiprocessing.get_context("fork")
    helpers = [context.Process(target=run, daemon=True) for _ in range(count)]
    for helper in helpers:
        helper.start()
    try:
        yield helpers
    finally:
        for helper in helpers:
            helper.terminate()
            helper.join()


def _take_shards(
    job: Job,
    scorers: Mapping[str, Mapping[str, Any]],
    batch_size: int,
    several: bool,
    joins_only: bool,
    helpers: Sequence[Any] = (),
) -> Iterator[tuple[Shard, bool, int]]:
    """Yields shards to score, whether this process writes them, and how many rows are done.

    When there are none left it waits for the helpers, and yields the shards of those that failed.
    """
    if joins_only:
        return
    if not several:
        yield from ((shard, True, shard.done_rows(batch_size)) for shard in job.take_shards())
        for helper in helpers:
            helper.join()
        if helpers:
            yield from _take_shards(job, scorers, batch_size, several, joins_only)
        return
    from faith_jax.models.partitioning import fits_own_devices
    from faith_jax.runs import processes

    partitions = (settings.get("num_partitions") or 1 for settings in scorers.values())
    together = not all(map(fits_own_devices, partitions))
    yield from processes.take_shards(job, together, batch_size)


def _plan_shards(score_input: ScoreInput, bad_rows: BadRows, shards: int) -> dict[str, Any]:
    """Reads all rows once: bad ones are found before anything is scored."""
    left_out: dict[str, str] = {}
    notes = TableNotes()

    def rows() -> Iterator[ExampleRow]:
        progress, count = Progress("reading row"), 0
        for count, row in enumerate(score_input.rows(bad_rows, notes=notes), 1):
            left_out.update(row.left_out)
            yield row
            if count % 100 == 0:
                progress.update(count)

    planned = split(rows(), shards)
    if not planned:
        raise InputError(f"{score_input.source}: no rows to score.")
    bad = bad_rows.count, bad_rows.messages
    return {"shards": planned, "left_out": left_out, "bad_rows": bad, "notes": notes.report()}


def _data_set(scorers: Sequence[str], score_input: ScoreInput) -> "DataSet":
    from faith_jax.export import tfds

    return tfds.scores((score_input.split or "rows").partition("[")[0], scorers)


def _pin_checkpoints(
    scorers: Mapping[str, Mapping[str, Any]], note: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Returns scorers with the steps of checkpoints that a stopped run noted, or that are there.

    Also returns what identifies each of these checkpoints.
    """
    chosen = {name: dict(settings) for name, settings in scorers.items()}
    kept, digests = note.get("models", {}), {}
    for name, settings in chosen.items():
        for option in (key for key in MODEL_OPTIONS if isinstance(settings.get(key), str)):
            from faith_jax.checkpoints.identity import checkpoint_digest, pin_step  # imports JAX

            path, place = settings[option], f"{name}.{option}"
            step = (kept.get(place) or checkpoint_digest(path))["step"]
            settings[option] = path if step is None else str(pin_step(path, step))
            digests[place] = checkpoint_digest(settings[option])
    return chosen, digests


def preflight(
    score_input: ScoreInput,
    scorers: Mapping[str, Mapping[str, Any]],
    output: str,
    output_format: str = "",
    bad_rows: BadRows | None = None,
) -> None:
    """Prints what `score` would see, and writes it to OUTPUT.preflight.json; nothing is scored."""
    target = path_of(output)
    form_of(target, output_format)
    loaded = _load_scorers(scorers, target)
    notes = TableNotes()
    rows = score_input.rows(bad_rows or BadRows(), notes=notes)
    report = preflights.scoring_report(score_input.source, rows, loaded)
    report = preflights.with_notes(report, notes.report())
    preflights.tell(report, preflights.beside(target), dry_run=True)


def _load_scorers(
    scorers: Mapping[str, Mapping[str, Any]], target: pathlib.Path
) -> dict[str, BaseScorer]:
    if not scorers:
        raise ConfigError("--scorers: name at least one scorer.")
    loaded: dict[str, BaseScorer] = {}
    for named, options in scorers.items():
        name, _, scorer = named.partition("=")
        if name in loaded:
            raise ConfigError(f"--scorers: {name!r} is given twice; rename one as NAME=SCORER.")
        try:
            loaded[name] = load_scorer(scorer or name, **options)
        except ConfigError as error:
            raise ConfigError(str(error).replace("=NAME.model=", f"={name}.model=")) from None
    if is_finished(target):
        raise ConfigError(
            f"{target} exists already; remove it or name another output (--restart discards what "
            "an unfinished run has kept, not a finished output)."
        )
    return loaded


def _default_rows(with_models: bool) -> int:
    if not with_models:
        return _ROWS_ON_CPU
    import jax

    return _ROWS_ON_CPU if jax.default_backend() == "cpu" else _ROWS


def _timing_device(is_measured: bool) -> contextlib.AbstractContextManager[Any]:
    if not is_measured:
        return contextlib.nullcontext()
    from faith_jax.inference.pipeline import timing_device

    return timing_device()


@contextlib.contextmanager
def _closing_batches(batches: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """Ends the threads of batches that are made ahead."""
    try:
        yield batches
    finally:
        if close := getattr(batches, "close", None):
            close()


def _score_batch(scorers: Mapping[str, BaseScorer], batch: Sequence[ExampleRow]) -> list[ScoredRow]:
    examples = [row.example for row in batch]
    columns = {name: scorer.score(examples) for name, scorer in scorers.items()}
    return [
        scored_row(row, {name: scores[place] for name, scores in columns.items()})
        for place, row in enumerate(batch)
    ]


def _score_rows(
    rows: Iterator[ExampleRow],
    score_batches: Callable[[Iterable[list[ExampleRow]]], Iterator[list[ScoredRow]]],
    lines: pathlib.Path | None,
    batch_size: int,
    done: int,
    progress: Progress,
) -> dict[str, Any]:
    """Appends the rows that are not scored yet to those that are; returns the counts of all.

    `lines` is None where another process writes them.
    """
    summary = ScoreSummary(pathlib.Path(), 0, {})
    if done:
        logger.info("%d of %d rows are scored already", done, progress.total)
        progress.others(done)
    if done and lines is not None:
        summary.add(_read_scored(lines))
    rows = itertools.islice(rows, done, None)
    batches = iter(lambda: list(itertools.islice(rows, batch_size)), [])
    with _closing_batches(score_batches(batches)) as scored_batches:
        for scored in scored_batches:
            if lines is not None:
                append_rows(lines, scored)
            summary.add(scored)
            progress.add(len(scored))
    return summary.counts()


def _read_scored(lines: pathlib.Path) -> Iterator[ScoredRow]:
    return (dict(row.fields) for row in read_jsonl(lines))


def _read_all_rows(job: Job) -> Iterator[ScoredRow]:
    return itertools.chain.from_iterable(_read_scored(shard.rows) for shard in job.shards)


def _write_output(
    job: Job, target: pathlib.Path, form: str, scorers: Sequence[str], data_set: "DataSet | None"
) -> None:
    """Turns the rows into the output, which appears whole."""
    if data_set is not None:
        data_set.write_metadata(job.folder / TFDS, [shard.count for shard in job.shards])
        move_into_place(job.folder / TFDS, target)
        return
    with atomic_file(target) as beside:
        if form == "jsonl":
            job.write_jsonl(beside)
        else:
            write_parquet(_read_all_rows(job), beside, scorers)


def _write_costs(
    path: str,
    scorers: Mapping[str, BaseScorer],
    options: Mapping[str, Mapping[str, Any]],
    score_input: ScoreInput,
    device_time: Any,
) -> None:
    """Writes as JSON what each scorer costs, measured on the first rows of the first corpus.

    `millions` are the parameters of each of its models, `examples_per_second` of a second pass over
    as many `rows` of the `corpus` on a `device`, after everything is compiled. `device_waited` is
    the share of the run, from its first batch to its last, in which no batch of any scorer was
    queued, compilations included; None where they queue none, or where a run before had scored all.
    `options` are in the order of `scorers`.
    """
    import jax

    from faith_jax.inference.opening import open_model
    from faith_jax.runs.setup import count_params

    rows = list(itertools.islice(score_input.rows(BadRows(skip=True)), _TIMED_ROWS))
    examples = [row.example for row in rows if row.corpus == rows[0].corpus]
    costs = {}
    for (name, scorer), settings in zip(scorers.items(), options.values(), strict=True):
        scorer.score(examples)
        scorer.score([NO_LABEL])
        start = time.perf_counter()
        scorer.score(examples)
        seconds = time.perf_counter() - start
        folders = dict.fromkeys(settings[key] for key in MODEL_OPTIONS if settings.get(key))
        costs[name] = {
            "millions": [count_params(open_model(folder).params) / 1e6 for folder in folders],
            "examples_per_second": len(examples) / seconds,
            "rows": len(examples),
            "corpus": rows[0].corpus,
            "device": jax.devices()[0].device_kind,
            "device_waited": device_time.waited_share,
        }
    write_json(path, costs)
