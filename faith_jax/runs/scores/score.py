"""The run `score`: scores every row with any number of scorers, in one pass.

Before scoring, the run reports what the scorers will see (`faith_jax.runs.preflight`). Scored rows
are collected in `<output>.partial`, from which a stopped run resumes, and which several processes
share (`faith_jax.runs.shards`); the output appears whole when the last row is scored. A hidden file
beside the output then notes its inputs and settings, so that repeating the command scores nothing.
"""

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
from multiprocessing.process import BaseProcess
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from faith_jax.core.errors import CheckpointError, ConfigError, FaithJaxError, first_duplicate
from faith_jax.core.files import (
    append_rows,
    atomic_file,
    check_outputs,
    count_kept_rows,
    difference,
    is_finished,
    make_output_folder,
    move_into_place,
    output_locks,
    partial_folder,
    partial_note,
    read_json_or_none,
    stamp,
    write_json,
)
from faith_jax.core.files.stores import is_remote, path_of, storage_errors
from faith_jax.core.files.whole import is_complete
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.datasets.grounded_rows import ExampleRow
from faith_jax.datasets.table_notes import TableNotes
from faith_jax.export.scored_rows import TFDS, ScoredRow, form_of, scored_row, write_parquet
from faith_jax.export.worst_rows import write_worst
from faith_jax.input.score_input import ScoreInput
from faith_jax.runs import preflight as preflights
from faith_jax.runs.options import MODEL_OPTIONS, ScoreOptions, split_scorer_name
from faith_jax.runs.scores.score_summary import ScoreCounts, ScoreSummary
from faith_jax.runs.shards import Job, Place, Shard, split
from faith_jax.scoring.base import BaseScorer, warn_of_equal_scores
from faith_jax.scoring.registry import load_scorer, scorer_card

if TYPE_CHECKING:
    from faith_jax.export.tfds import DataSet

logger = logging.getLogger("faith_jax")

_VERSION = 4  # of kept files and of scorers; runs of another version do not resume
_TIMED_ROWS = 64  # rows that `costs` times
_SAMPLE = 1000  # first rows, which the report looks at
_SHAPED = 500  # rows of the sample, from which the shapes of the models' batches are chosen
# Rows scored and written at once: enough for a batch of each shape, or for several on accelerators.
_ROWS_ON_CPU, _ROWS = 256, 2048
_SHARDS_OF_A_PROCESS = 2  # the smallest number that is worth a process


def score(
    score_input: ScoreInput,
    scorers: Mapping[str, Mapping[str, Any]],
    options: ScoreOptions,
    bad_rows: BadRows | None = None,
    modules: Mapping[str, str] = MappingProxyType({}),
) -> ScoreSummary:
    """Scores all rows and writes them; see `faith_jax.export.scored_rows` for their form.

    An existing output is kept if the same run made it, and is an error otherwise. `scorers` maps
    the name of a scorer, or "NAME=SCORER" (its scores are then called NAME), to its options;
    `modules` has digests of the code of the user's scorers. By default a bad row stops scoring.
    """
    target = path_of(options.output)
    form = form_of(target, options.format or "")
    if options.worst and pathlib.PurePath(options.worst).suffix not in (".csv", ".jsonl"):
        raise ConfigError(f"--worst: {options.worst}: name a .csv or .jsonl file.")
    outputs = {"--output": options.output, "--costs": options.costs, "--worst": options.worst}
    # A folder may be in the way of a TFDS output, which a later check says.
    check_outputs(score_input.input, outputs, folders=("--output",) if form == TFDS else ())
    bad_rows = bad_rows or BadRows()
    partial = partial_folder(target)  # has a name even if the target is "."
    # Notes for a rerun how the output was made; the note is void if the output changed since.
    note_file = partial.with_name(f".{partial.stem}.finished.json")
    finished = {} if options.restart else read_json_or_none(note_file) or {}
    if finished and not (
        is_complete(target) and finished["output"] == _output_stamp(target, target)
    ):
        finished = {}

    # A stopped or finished run has noted the steps of the checkpoints that it read.
    former = {} if options.restart else finished.get("run") or partial_note(target)
    try:
        is_ours = former.get("version") == _VERSION
        pinned, digests = _pin_checkpoints(scorers, former if is_ours else {})
    except CheckpointError:
        _load_scorers(scorers, target)  # its error is more precise
        raise
    run: dict[str, Any] = {"scorers": scorers, "input": score_input.options(), "models": digests}
    if digests:  # the rows of a batch change the last digits of each other's scores
        run["--batch-size"] = options.batch_size
    if modules:
        run["--scorer-module"] = dict(modules)
    run |= {"--shards": options.shards, "--format": form, "version": _VERSION}
    if finished and not difference(former, run):
        stamps = json.loads(json.dumps(score_input.stamp()))
        has_costs = not options.costs or (
            options.costs == finished.get("costs") and is_complete(path_of(options.costs))
        )
        # The worst rows can be rewritten from a JSONL output.
        has_worst = not options.worst or (form == "jsonl" and "columns" in finished)
        if stamps == finished["stamp"] and has_costs and has_worst:
            logger.info("%s is finished: these rows, scorers and options", target)
            is_finished(target, done=not difference(partial_note(target), run))
            bad_rows.take(*finished["bad_rows"])
            names = list(dict.fromkeys(split_scorer_name(scorer)[0] for scorer in scorers))
            rows, left_out = finished["rows"], finished["left_out"]
            summary = ScoreSummary(target, rows, names, left_out, True, worst=options.worst)
            summary.counts.add_json(finished["counts"])
            if options.worst:
                with output_locks({"--worst": options.worst}):
                    summary.worst_rows = write_worst(
                        options.worst, _read_scored(target), names, finished["columns"],
                        options.worst_rows,
                    )  # fmt: skip
            return summary
    return _score_rows(score_input, pinned, options, bad_rows, run, note_file)


def _score_rows(
    score_input: ScoreInput,
    scorers: Mapping[str, Mapping[str, Any]],
    options: ScoreOptions,
    bad_rows: BadRows,
    run: Mapping[str, Any],
    note_file: pathlib.Path,
) -> ScoreSummary:
    """Scores rows that no other process has taken, and writes the output when all are scored."""
    target, form, has_models = path_of(options.output), run["--format"], bool(run["models"])
    several = "jax" in sys.modules and sys.modules["jax"].distributed.is_initialized()
    own_devices: Any = contextlib.nullcontext
    timing_device: Any = contextlib.nullcontext
    together = False
    if several:
        from faith_jax.core.processes import wait_for_all
        from faith_jax.models.partitioning import fits_own_devices, own_devices
        from faith_jax.runs import processes

        partitions = [settings.get("num_partitions") or 1 for settings in scorers.values()]
        together = not all(map(fits_own_devices, partitions))
    if options.costs:
        if several:
            raise ConfigError("--costs: cannot be measured by several processes; leave it out.")
        from faith_jax.inference.pipeline import timing_device
    with own_devices():
        loaded = {} if options.join else _load_scorers(scorers, target)

    def begin(restart: bool) -> Job:
        plan = functools.partial(_plan_shards, score_input, bad_rows, options.shards)
        return Job(target, run, plan, score_input.stamp(), restart, joins_only=options.join)

    job = processes.begin_job(begin, options.restart) if several else begin(options.restart)
    with job, own_devices(), contextlib.ExitStack() as held:
        if job.is_first:  # the processes of a run share its further outputs
            further = {"--costs": options.costs, "--worst": options.worst}
            held.enter_context(output_locks(further))
        if not bad_rows.count:  # if another process has read the input
            bad_rows.take(*job.known["bad_rows"])
        names = list(dict.fromkeys(split_scorer_name(scorer)[0] for scorer in scorers))
        left_out = job.known["left_out"]
        summary = ScoreSummary(target, len(job), names, left_out, worst=options.worst)
        data_set = None
        if form == TFDS:
            from faith_jax.export import tfds

            data_set = tfds.scores((score_input.split or "rows").partition("[")[0], names)
        warnings: list[str] = []
        with timing_device() as device_time:
            if options.join:
                job.check_done()
            else:
                batch_size = options.batch_size or _ROWS_ON_CPU
                if has_models and not options.batch_size:
                    import jax

                    batch_size = _ROWS_ON_CPU if jax.default_backend() == "cpu" else _ROWS
                read = functools.partial(score_input.rows, BadRows(skip=bad_rows.skip))
                scoring = _Scoring(
                    score_input.source, read, loaded, batch_size, has_models, several, together,
                    data_set,
                )  # fmt: skip
                forks = score_input.input and not (has_models or several or options.costs)
                workers_of: Any = contextlib.nullcontext(())
                if forks and len(job.shards) >= 2 * _SHARDS_OF_A_PROCESS:
                    workers_of = _fork_workers(job, scoring, begin)
                with workers_of as workers:
                    warnings = scoring.score_shards(job, workers)
        with job.joining() as counts_by_shard:
            if counts_by_shard is not None:
                for counts in counts_by_shard:
                    summary.counts.add_json(counts)
                if options.costs:
                    _write_costs(options.costs, loaded, scorers, score_input, device_time)
                if options.worst:
                    columns = job.known["notes"]["columns"]
                    summary.worst_rows = write_worst(
                        options.worst, _read_all_rows(job), names, columns, options.worst_rows
                    )
                _write_output(job, run, summary, options.costs, data_set, note_file)
            summary.is_whole = is_complete(target)
    if several:
        wait_for_all(f"{target} is written")
    for name, rows_cut in summary.counts.cut_rows.items():
        # The report cannot foresee all inputs of scorers that generate questions, such as Q2.
        if not any(warning.startswith(f"{name}: ") for warning in warnings):
            shares = {part: {"share": rows / summary.rows} for part, rows in rows_cut.items()}
            for sentence in preflights.cut_warnings(shares):
                logger.warning("%s: %s", name, sentence)
    for name, scores in summary.counts.ranges.items():
        warn_of_equal_scores(name, scores)
    return summary


@dataclasses.dataclass(frozen=True)
class _Scoring:
    """How this process scores the shards of a job.

    Attributes:
      source: the name of the input, for messages.
      read: reads the rows from a place on.
      scorers: by name; scorers with models read rows in batches.
      batch_size: rows that are scored and written at once.
      several: whether JAX runs several processes; `together`: a model needs all their devices.
      data_set: the TFDS data set that the shards belong to; None = the output is one file.
    """

    source: str
    read: Callable[[Place], Iterator[ExampleRow]]
    scorers: Mapping[str, BaseScorer]
    batch_size: int
    has_models: bool
    several: bool
    together: bool
    data_set: "DataSet | None"

    def score_shards(self, job: Job, workers: Sequence[BaseProcess]) -> list[str]:
        """Scores shards that no other process has taken; returns the warnings of the report."""
        warnings: list[str] = []
        sample: list[ExampleRow] = []
        whole_batch = self.batch_size if self.has_models else 1
        if done_rows := count_kept_rows(job.target):
            logger.info("%d of %d rows are scored already", done_rows, len(job))
        for waits_for in (workers, ()) if workers else ((),):  # a second pass: workers' failures
            shards: Iterable[tuple[Shard, bool, int]]
            if self.several:
                from faith_jax.runs import processes

                shards = processes.take_shards(job, self.together, whole_batch)
            else:
                shards = ((s, True, s.done_rows(whole_batch)) for s in job.take_shards())
            for shard, writes, done in shards:
                if not sample:
                    sample = list(itertools.islice(self.read(job.shards[0].place), _SAMPLE))
                    examples = [row.example for row in sample[:: -(-len(sample) // _SHAPED)]]
                    for name, scorer in self.scorers.items():
                        with preflights.naming(self.source, name):
                            scorer.prepare(examples, self.batch_size, len(job))
                if shard.number == 0 and writes:  # shows most errors before anything is scored
                    report = preflights.scoring_report(
                        self.source, sample, self.scorers, lambda: job.known["notes"], len(job)
                    )
                    warnings = report["warnings"]
                    beside = preflights.beside(job.target) if report["scorers"] else None
                    preflights.tell(report, beside)
                self.score_shard(shard, writes, done, job.progress)
            for worker in waits_for:
                worker.join()
        return warnings

    def score_shard(self, shard: Shard, writes: bool, done: int, progress: Progress) -> None:
        """Scores the rows of a shard after the first `done`, and writes them if `writes`."""
        counts = ScoreCounts()
        progress.others(done)
        if done and writes:
            counts.add_rows(_read_scored(shard.rows))
        rows = itertools.islice(shard.read(self.read, self.source), done, None)
        batches = iter(lambda: list(itertools.islice(rows, self.batch_size)), [])
        # The next rows are read while the models compute. Not with several processes: when their
        # devices compute together, they must do the same in the same order.
        score_batches: Any = map
        if self.has_models and not self.several:
            from faith_jax.inference.pipeline import ahead as score_batches
        with contextlib.ExitStack() as held:
            scored_batches = score_batches(self._score_batch, batches)
            if close := getattr(scored_batches, "close", None):
                held.callback(close)  # ends the thread that reads ahead
            for scored in scored_batches:
                if writes:
                    append_rows(shard.rows, scored)
                counts.add_rows(scored)
                progress.add(len(scored))
        if not writes:
            return
        files = []
        if self.data_set is not None:
            folder = make_output_folder(shard.folder / TFDS)
            scored_rows = _read_scored(shard.rows)
            files = [self.data_set.write_shard(folder, shard.number, shard.of, scored_rows)]
        shard.finish(vars(counts), *files)

    def _score_batch(self, batch: Sequence[ExampleRow]) -> list[ScoredRow]:
        examples = [row.example for row in batch]
        columns = {name: scorer.score(examples) for name, scorer in self.scorers.items()}
        return [
            scored_row(row, {name: scores[place] for name, scores in columns.items()})
            for place, row in enumerate(batch)
        ]


@contextlib.contextmanager
def _fork_workers(
    job: Job, scoring: _Scoring, begin: Callable[[bool], Job]
) -> Iterator[Sequence[BaseProcess]]:
    """Runs worker processes that also take shards, one per further core; none for few shards.

    They are forked, so that they need not load the scorers. Forking is not safe while other threads
    run, so then there are no workers.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    cores = 1 if is_remote(job.folder) else cores
    count = min(cores, len(job.undone()) // _SHARDS_OF_A_PROCESS) - 1 if cores > 1 else 0
    if count < 1:
        yield []
        return
    first_row = next(scoring.read(job.shards[0].place))
    for scorer in scoring.scorers.values():
        with contextlib.suppress(FaithJaxError):  # scoring the shard reports the error
            scorer.score([first_row.example])  # makes its imports before the fork
    # Python does not count the threads of these libraries.
    if threading.active_count() > 1 or {"jax", "tensorflow", "torch"} & sys.modules.keys():
        yield []
        return
    parent = os.getpid()

    def work() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # sent below
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
        logger.setLevel(logging.ERROR)
        # The parent repeats a shard that fails here, and reports the error.
        with contextlib.suppress(FaithJaxError, *storage_errors()), begin(False) as own_job:
            for shard in own_job.take_shards():
                if os.getppid() != parent:
                    return
                scoring.score_shard(shard, True, shard.done_rows(), own_job.progress)

    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        yield workers
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _plan_shards(score_input: ScoreInput, bad_rows: BadRows, shards: int) -> dict[str, Any]:
    """Reads all rows once, so that bad rows are found before anything is scored."""
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
        raise bad_rows.nothing_left(f"{score_input.source}: no rows to score")
    bad = bad_rows.count, bad_rows.messages
    return {"shards": planned, "left_out": left_out, "bad_rows": bad, "notes": notes.report()}


def _output_stamp(target: pathlib.Path, contents: pathlib.Path) -> list[list[Any]]:
    """Returns the stamp of an output whose contents are in place or will be moved there."""
    is_file = contents.is_file()
    files = [contents] if is_file else sorted(p for p in contents.rglob("*") if p.is_file())
    names = (path.relative_to(contents) for path in files)
    return [[str(target / name), *of] for name, (_, *of) in zip(names, stamp(files), strict=True)]


def _pin_checkpoints(
    scorers: Mapping[str, Mapping[str, Any]], note: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Returns scorers whose checkpoints name their steps: a stopped run's, or the current ones.

    Also returns the digest of each checkpoint.
    """
    pinned = {name: dict(settings) for name, settings in scorers.items()}
    noted_models, digests = note.get("models", {}), {}
    for name, settings in pinned.items():
        checkpoints = [key for key in MODEL_OPTIONS if isinstance(settings.get(key), str)]
        if checkpoints and not scorer_card(split_scorer_name(name)[1]).needs_model:
            continue  # a user's scorer may call something else its model, such as a service
        for option in checkpoints:
            from faith_jax.checkpoints.identity import checkpoint_digest, pin_step  # imports JAX

            path, place = settings[option], f"{name}.{option}"
            step = (noted_models.get(place) or checkpoint_digest(path))["step"]
            settings[option] = path if step is None else str(pin_step(path, step))
            digests[place] = checkpoint_digest(settings[option])
    return pinned, digests


def preflight(
    score_input: ScoreInput,
    scorers: Mapping[str, Mapping[str, Any]],
    options: ScoreOptions,
    bad_rows: BadRows,
) -> None:
    """Prints what `score` would read, and writes it to OUTPUT.preflight.json; scores nothing."""
    target = path_of(options.output)
    form_of(target, options.format or "")
    partial_folder(target)  # raises if the target cannot have one
    loaded = _load_scorers(scorers, target)
    notes = TableNotes()
    rows = score_input.rows(bad_rows, notes=notes)
    report = preflights.scoring_report(score_input.source, rows, loaded, notes.report)
    if not report["rows"]:
        raise bad_rows.nothing_left(f"{score_input.source}: no rows to score")
    preflights.tell(report, preflights.beside(target), dry_run=True)


def _load_scorers(
    scorers: Mapping[str, Mapping[str, Any]], target: pathlib.Path
) -> dict[str, BaseScorer]:
    if not scorers:
        raise ConfigError("--scorers: name at least one scorer.")
    twice = first_duplicate([split_scorer_name(named)[0] for named in scorers])
    if twice is not None:
        raise ConfigError(f"--scorers: {twice!r} is given twice; rename one as NAME=SCORER.")
    if is_finished(target):  # before models are loaded
        raise ConfigError(
            f"{target} exists already; remove it or name another output (--restart discards what "
            "an unfinished run has kept, not a finished output)."
        )
    loaded: dict[str, BaseScorer] = {}
    for named, options in scorers.items():
        name, scorer = split_scorer_name(named)
        try:
            loaded[name] = load_scorer(scorer, **options)
        except ConfigError as error:
            raise ConfigError(str(error).replace("=NAME.model=", f"={name}.model=")) from None
    return loaded


def _read_scored(lines: pathlib.Path) -> Iterator[ScoredRow]:
    return (dict(row.fields) for row in read_jsonl(lines))


def _read_all_rows(job: Job) -> Iterator[ScoredRow]:
    return itertools.chain.from_iterable(_read_scored(shard.rows) for shard in job.shards)


def _write_output(
    job: Job,
    run: Mapping[str, Any],
    summary: ScoreSummary,
    costs: str,
    data_set: "DataSet | None",
    note_file: pathlib.Path,
) -> None:
    """Builds the output, which appears as a whole, and notes the run that made it.

    On a disk the note comes first, so that a kill between the two leaves no output without a note.
    On a store it comes last, because it holds the output's version, which is known only then.
    """

    def note(contents: pathlib.Path) -> None:
        fields = {
            "run": run,
            "stamp": job.stamp,
            "output": _output_stamp(job.target, contents),
            "left_out": job.known["left_out"],
            "bad_rows": job.known["bad_rows"],
            "rows": len(job),
            "counts": vars(summary.counts),
            "columns": job.known["notes"]["columns"],
            "costs": costs,
        }
        write_json(note_file, fields)

    target, is_known_before = job.target, not is_remote(job.target)
    if data_set is not None:
        folder = job.folder / TFDS
        data_set.write_metadata(folder, [shard.count for shard in job.shards])
        if is_known_before:
            note(folder)
        move_into_place(folder, target)
    else:
        with atomic_file(target) as beside:
            if run["--format"] == "jsonl":
                job.write_jsonl(beside)
            else:
                write_parquet(_read_all_rows(job), beside, summary.scorers)
            if is_known_before:
                note(beside)
    if not is_known_before:
        note(target)


def _write_costs(
    path: str,
    scorers: Mapping[str, BaseScorer],
    options: Mapping[str, Mapping[str, Any]],
    score_input: ScoreInput,
    device_time: Any,
) -> None:
    """Writes as JSON the cost of each scorer, measured on the first rows of the first corpus.

    `millions` lists the parameters of each of its models. `examples_per_second` is the speed of a
    second pass over `rows` rows of `corpus` on `device`, after everything is compiled.
    `device_waited` is the share of the run, from its first batch to its last, in which no batch of
    any scorer was queued, compilations included; None if no batch was queued, for example because
    an earlier run had scored all rows. `options` are in the order of `scorers`.
    """
    import jax

    from faith_jax.inference.opening import open_model
    from faith_jax.runs.setup import count_params

    rows = list(itertools.islice(score_input.rows(BadRows(skip=True)), _TIMED_ROWS))
    examples = [row.example for row in rows if row.corpus == rows[0].corpus]
    costs = {}
    for (name, scorer), settings in zip(scorers.items(), options.values(), strict=True):
        scorer.score(examples)
        # Scores another example in between, so that the second pass is not served from a cache.
        scorer.score([dataclasses.replace(examples[0], response=f"{examples[0].response} Yes.")])
        start = time.perf_counter()
        scorer.score(examples)
        seconds = time.perf_counter() - start
        keys = MODEL_OPTIONS if scorer.card.needs_model else ()
        folders = dict.fromkeys(settings[key] for key in keys if settings.get(key))
        costs[name] = {
            "millions": [count_params(open_model(folder).params) / 1e6 for folder in folders],
            "examples_per_second": len(examples) / seconds,
            "rows": len(examples),
            "corpus": rows[0].corpus,
            "device": jax.devices()[0].device_kind,
            "device_waited": device_time.waited_share,
        }
    write_json(path, costs)
