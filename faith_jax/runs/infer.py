"""The run `infer`: generates a response for every row of a task or a file.

The output folder appears whole or not at all: rows are collected in `<output>.partial`, from which
a killed run resumes, and which several processes share (`faith_jax.runs.shards`). Each process
responds to its own shards, with the whole model on its own devices. If a model is split over the
devices of several processes, they all respond to the same shard, and process 0 writes. Several
checkpoints may respond to the same rows, each in its own folder; one file joins all rows.
"""

import dataclasses
import functools
import itertools
import logging
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from faith_jax.checkpoints.embedded import TWO_SIDES_ONLY, reads_two_sides
from faith_jax.checkpoints.identity import checkpoint_digest, pin_step
from faith_jax.core.cutting import Kind, by_name, check_policy
from faith_jax.core.errors import ConfigError, InputError, pluralize
from faith_jax.core.files import (
    append_rows,
    atomic_file,
    difference,
    make_output_folder,
    move_into_place,
    partial_note,
    read_json_or_none,
    stamp,
    write_json,
)
from faith_jax.core.files.stores import is_remote, open_binary, path_of
from faith_jax.core.files.whole import is_complete
from faith_jax.core.processes import number_of_first_process, wait_for_all
from faith_jax.core.rows import read_jsonl
from faith_jax.core.settings import BatchSize, NotNegative, Path, Positive, how_to_quote
from faith_jax.core.types import PyTree
from faith_jax.datasets.augmentation.control_tokens import (
    CONTROL_TOKENS,
    check_control_tokens,
    extra_id_texts,
)
from faith_jax.datasets.input_rows import InputRow
from faith_jax.datasets.table_notes import TableNotes
from faith_jax.datasets.tables import PREDICTIONS, SUMMARY
from faith_jax.decoding.config import DecodingConfig
from faith_jax.inference.batch_decoder import BatchDecoder, DecodedRow
from faith_jax.inference.texts.row_tokens import RowTokens
from faith_jax.input.infer_rows import FieldKinds, read_input_file, task_rows
from faith_jax.input.task_batches import DatasetConfig, check_has_inputs
from faith_jax.models.partitioning import Partitioner, make_partitioner, own_devices
from faith_jax.models.transformer import Transformer
from faith_jax.runs import as_trained, preflight, processes, setup
from faith_jax.runs.model_dir import make_folder
from faith_jax.runs.shards import Job, Place, Shard, digest_of, split
from faith_jax.tokenizers.carried import RunVocabulary
from faith_jax.tokenizers.unknown import UnknownTokens, counting_unknown, unknown_warnings
from faith_jax.tokenizers.vocabularies import fingerprint_of, tokenizer_of, with_own_vocabulary

if TYPE_CHECKING:
    from faith_jax.export.tfds import DataSet

logger = logging.getLogger("faith_jax")

# The number of batches that are decoded and written together. The longest inputs of such a window
# come first, and a finished row gives its place in the batch to the next one.
WINDOW = 16
_MADE, _TFDS = "made", "tfds"
_NONE = -1
_PARTS = tuple(kind.name.lower() for kind in (Kind.KNOWLEDGE, Kind.HISTORY, Kind.RESPONSE))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Models:
    """The models that respond.

    Attributes:
      checkpoint_path: a checkpoint of any form; or a mapping from names of systems to checkpoints,
        or to lists of them, such as trainings with different seeds. With a mapping, rows have the
        field `system`, and with lists also `replicate`, the number within the list.
      model: a module to use instead of the checkpoint's, with the same dimensions.
      system: for a single checkpoint, the rows' field `system`; "" = no such field.
      params_dtype: of the parameters in memory: "bfloat16" takes half the memory; "int8" takes a
        quarter and multiplies in 8 bits, see `faith_jax.models.quantization`.
      partitioner_for: makes the mesh for the model's config.
      vocabulary: default: the one that the checkpoint carries, or else "english_4096".
    """

    checkpoint_path: str | Mapping[str, str | Sequence[str]]
    model: Transformer | None = None
    system: str = ""
    params_dtype: setup.InferenceDtype = "float32"
    partitioner_for: Callable[..., Partitioner] = make_partitioner
    vocabulary: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file of rows to respond to.

    Attributes:
      path: a JSONL, CSV or TSV file, possibly compressed; see `read_input_file`.
      knowledge: the source of arguments for rows that have only a query: a folder of the raw NPOV
        format, or the name of an embedded sample.
      arguments_per_side: how many arguments are drawn for a row that has only a query.
      max_length: tokens of an input, the end token included.
    """

    path: str
    knowledge: str = "procon_npov"
    arguments_per_side: NotNegative = 2
    max_length: Positive = 512


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """Where responses are written, and how.

    Attributes:
      folder: a new or empty folder, or one with the responses of the same run, which is kept. With
        several checkpoints, it has one `predictions.jsonl` for all of them, and a folder SYSTEM,
        or SYSTEM/REPLICATE, for each.
      formats: "jsonl", "tfds" or both.
      shards: how many shards any number of processes share; 0 = one for every 5,000 rows.
    """

    folder: Path
    formats: Sequence[str] = ("jsonl",)
    shards: NotNegative = 0


@with_own_vocabulary
def infer(
    models: Models,
    output: Output,
    dataset: DatasetConfig | None = None,
    file: InputFile | None = None,
    decoding: DecodingConfig | None = None,
    batch_size: BatchSize = 16,
    seed: NotNegative = 0,
    cut_policy: str = "knowledge",
    control_tokens: Sequence[str] | None = (),
    limit: NotNegative = 0,
    restart: bool = False,
    dry_run: bool = False,
    joins_only: bool = False,
) -> pathlib.Path:
    """Generates responses and writes them.

    Each output row has `id`; the row's other fields, such as the arguments; `inputs`, the model's
    input before cutting; `prediction` (see `task_rows` and `read_input_file`); `log_prob`, the
    natural log probability at temperature 1, summed over the prediction's tokens and the end token;
    `num_tokens` of the prediction; `finished`, whether it ends with an end token of the model
    rather than at the maximum length; `inputs_cut_tokens`, and how they are distributed over
    `inputs_cut_knowledge`, `inputs_cut_history` and `inputs_cut_response`; and `target`, the gold
    response, where it is known. With `decoding.num_return` above 1, these fields describe the best
    response, and `predictions` lists all responses, each with the `score` that ranks it.

    Args:
      models: the models; each responds to all rows.
      output: where responses are written.
      dataset: the task and split to respond to.
      file: a file of rows, instead of `dataset`.
      decoding: default: greedy, 64 tokens.
      batch_size: rows decoded at once; a finished row gives its place to the next.
      seed: for sampling (a replicate adds its number) and for the choice of arguments.
      cut_policy: which part of an input that is too long is cut, see `faith_jax.core.cutting`.
      control_tokens: put in front of inputs that have none, one of each kind
        (`datasets.augmentation.control_tokens`); None = for each model, the tokens that it was
        trained with, see `as_trained.control_tokens`.
      limit: respond only to this many first rows; 0 = all.
      restart: discard the rows of a stopped run with other settings.
      dry_run: only report what the model would read, also in OUTPUT.preflight.json.
      joins_only: only join the shards that other processes have computed.

    Returns:
      The output folder. It does not exist yet while other processes still compute some shards.
    """
    formats = _list_formats(output.formats)
    check_policy(cut_policy)
    source = _source_of(dataset, file, cut_policy, seed)
    decoding = decoding or DecodingConfig()
    folder, several = path_of(output.folder), not isinstance(models.checkpoint_path, str)
    finished, is_made = [], True
    plan = functools.cache(functools.partial(_plan_shards, source, limit, output.shards))

    for system in _list_systems(models, folder):
        system = system.with_pinned_step({} if restart else partial_note(system.output))
        vocabulary = RunVocabulary.choose(models.vocabulary, system.checkpoint)
        made_in = folder.parent if dry_run else system.output.parent
        make_folder(str(made_in), "INFER_OUTPUT_DIR")
        tokenizer = source.tokenizer(vocabulary)
        tokens = control_tokens
        if tokens is None:
            tokens = as_trained.control_tokens(system.checkpoint)
        if tokens:
            system = system.with_control_tokens(tokens, getattr(tokenizer, "extra_ids", 0))
        load = functools.partial(
            _Responder.load, models, system, source, decoding, batch_size, seed, vocabulary,
            tokenizer,
        )  # fmt: skip
        if dry_run:
            rows = map(system.row, itertools.islice(source.read((0, 0)), limit or None))
            report = preflight.inference_report(source.name, rows, load().read)
            if jax.process_index() == 0:
                preflight.tell(report, preflight.beside(folder), dry_run=True)
            return folder
        run = {  # all of this must be the same for a stopped run to resume
            "checkpoint": checkpoint_digest(system.checkpoint),
            "tokenizer": fingerprint_of(tokenizer),
            "decoding": dataclasses.asdict(decoding),
            source.setting: source.max_length,
            "CUT_POLICY": source.cut_policy,
            "RANDOM_SEED": seed,
            "BATCH_SIZE": batch_size,
            "INPUT_CONTROL_TOKENS": system.prefix,
            "fields": system.fields,
            "SHARDS": output.shards,
            "FORMATS": list(formats),
            "model": models.model and models.model.config.to_dict(),
            "PARAMS_DTYPE": models.params_dtype,
        }
        with _open_job(system.output, run, source, plan, restart, joins_only) as job:
            if job.finished:
                logger.info("%s is kept", system.output)
            else:
                if joins_only:
                    job.check_done()
                elif job.undone():
                    has_knowledge = "knowledge" in job.known["fields"]
                    if has_knowledge and reads_two_sides(system.checkpoint):
                        logger.warning(TWO_SIDES_ONLY, system.checkpoint)
                    load().respond(job, formats)
                kept_formats = ("jsonl", *formats) if several else formats
                with job.joining() as shard_counts:
                    if shard_counts is not None:
                        _write_output(job, shard_counts, kept_formats, source, run)
                    is_made &= shard_counts is not None or is_complete(system.output)
        finished.append(system.output)
    if several and is_made and jax.process_index() == 0:
        with atomic_file(folder / PREDICTIONS) as beside, open(beside, "wb") as joined:
            for system_folder in finished:
                with open_binary(system_folder / PREDICTIONS) as part:
                    shutil.copyfileobj(part, joined)
    wait_for_all(f"{folder} is written")
    return folder


def _list_formats(formats: Sequence[str]) -> Sequence[str]:
    if isinstance(formats, str):  # as --gin.FORMATS=jsonl,tfds gives them
        formats = [name.strip() for name in formats.split(",")]
    if not formats or set(formats) - {"jsonl", "tfds"}:
        format_list = ",".join(map(str, formats))
        raise ConfigError(f"FORMATS: expected jsonl, tfds or jsonl,tfds, got {format_list!r}.")
    return formats


def first_responses(output: pathlib.Path) -> Iterator[str]:
    """Yields the first responses of an output as lines `id: text`, if it has a JSONL file."""
    if jax.process_index() == 0 and (output / PREDICTIONS).is_file():
        for row in itertools.islice(read_jsonl(output / PREDICTIONS), 3):
            text = " ".join(row.fields["prediction"].split())
            yield f"{row.fields['id']}: {text or '(empty)'}"


class _Source(NamedTuple):
    """A source of rows to respond to: a task's split or a file."""

    name: str
    split: str  # of the task; "rows" of a file
    setting: str  # the gin macro that sets `max_length`
    max_length: int  # tokens of an input, the end token included
    cut_policy: str
    read: Callable[[Place], Iterator[InputRow]]
    tokenizer: Callable[[RunVocabulary], Any]
    files: tuple[str, ...] = ()
    notes: TableNotes | None = None  # on the file
    dataset: DatasetConfig | None = None


def _source_of(
    dataset: DatasetConfig | None, file: InputFile | None, cut_policy: str, seed: int
) -> _Source:
    if dataset is not None and file is None:
        return _Source(
            dataset.mixture_or_task_name,
            dataset.split or "",
            "TASK_FEATURE_LENGTHS['inputs']",
            dataset.task_feature_lengths["inputs"],
            dataset.cut_policy,
            functools.partial(task_rows, dataset),
            lambda _: tokenizer_of(dataset.task().output_features["targets"].vocabulary),
            dataset=dataset,
        )
    if file is None or dataset is not None:
        raise ConfigError("Give either MIXTURE_OR_TASK_NAME or INPUT_FILE, not both or neither.")

    def tokenizer(vocabulary: RunVocabulary) -> Any:
        if "faith_jax.tasks.faithdial" in sys.modules:  # gin may steer its tasks alone
            from faith_jax.tasks import lookup

            lookup.check_steered(None)
        return vocabulary.tokenizer

    notes = TableNotes()
    return _Source(
        path_of(file.path).name,
        "rows",
        "MAX_INPUT_LENGTH",
        file.max_length,
        cut_policy,
        functools.partial(
            read_input_file, file.path, file.knowledge, file.arguments_per_side, seed, notes=notes
        ),
        tokenizer,
        (file.path,),
        notes,
    )


def _plan_shards(source: _Source, limit: int, shards: int) -> dict[str, Any]:
    """Reads all rows once, so that bad rows are found before anything is decoded."""
    fields = FieldKinds()
    rows = itertools.islice(source.read((0, 0)), limit or None)
    planned = split(fields.of(rows), shards)
    if not planned:
        raise InputError(f"{source.name}: no rows to respond to.")
    for line in source.notes.report()["lines"] if source.notes else ():
        logger.info("%s", line)
    return {"shards": planned, "fields": fields.kinds}


class _System(NamedTuple):
    """A checkpoint, the folder of its responses, and the fields that name it in their rows."""

    checkpoint: str
    output: pathlib.Path
    fields: Mapping[str, str]
    prefix: str = ""  # control tokens, put in front of inputs
    first_tokens: tuple[str, ...] = ()  # an input that starts with one has its own control tokens

    def with_pinned_step(self, note: Mapping[str, Any]) -> "_System":
        """Returns a copy whose checkpoint names its step: a stopped run's, or the current one.

        Without this, a training that is still running could change which step is read.
        """

        def step() -> int:
            digest = note.get("checkpoint") or checkpoint_digest(self.checkpoint)
            return _NONE if digest["step"] is None else int(digest["step"])

        number = number_of_first_process(step, f"the step of {self.checkpoint}")
        if number == _NONE:
            return self
        return self._replace(checkpoint=str(pin_step(self.checkpoint, number)))

    def with_control_tokens(self, tokens: Sequence[str], extra_ids: int) -> "_System":
        """Returns a copy with control tokens, as a vocabulary with `extra_ids` ids writes them."""
        check_control_tokens(tokens)
        texts = extra_id_texts(extra_ids)
        prefix = "".join(f"{texts.get(token, token)} " for token in tokens)
        first_tokens = tuple(texts.get(token, token) for token in CONTROL_TOKENS[0])
        return self._replace(prefix=prefix, first_tokens=first_tokens)

    def row(self, row: InputRow) -> InputRow:
        """Returns a row with the system's fields, and with the prefix in front of its inputs."""
        fields = {**row.fields, **self.fields}

        def add_prefix(inputs: str) -> str:
            return inputs if inputs.startswith(self.first_tokens) else self.prefix + inputs

        inputs = add_prefix(row.inputs)
        second = None if row.second_inputs is None else add_prefix(row.second_inputs)
        return dataclasses.replace(row, inputs=inputs, second_inputs=second, fields=fields)


def _list_systems(models: Models, output: pathlib.Path) -> Iterator[_System]:
    checkpoints = models.checkpoint_path
    if isinstance(checkpoints, str):
        yield _System(checkpoints, output, {"system": models.system} if models.system else {})
        return
    if not isinstance(checkpoints, Mapping) or not checkpoints:
        raise ConfigError(
            f"CHECKPOINT_PATH: expected a path, or paths by system, got {checkpoints!r}"
            f"{how_to_quote('CHECKPOINT_PATH', checkpoints)}."
        )
    for name, paths in checkpoints.items():
        parts = str(name).split("/")
        if not name or any(part in ("", ".", "..") for part in parts):
            raise ConfigError(f"CHECKPOINT_PATH: {name!r} is no name for a system and its folder.")
        if isinstance(paths, str):
            yield _System(paths, output / name, {"system": name})
        else:
            for number, path in enumerate(paths):
                fields = {"system": name, "replicate": str(number)}
                yield _System(path, output / name / str(number), fields)


def _open_job(
    output: pathlib.Path,
    run: Mapping[str, Any],
    source: _Source,
    plan: Callable[[], dict[str, Any]],
    restart: bool,
    joins_only: bool,
) -> Job:
    """Begins or resumes a run; with several processes, the first one plans it."""
    seen = stamp(source.files)

    def is_finished() -> bool:
        if not is_complete(output) or (output.is_dir() and not any(output.iterdir())):
            return False
        summary = read_json_or_none(output / SUMMARY)
        if summary is None:
            kind = "a folder of something else" if output.is_dir() else "a file"
            raise ConfigError(f"INFER_OUTPUT_DIR: {output} is {kind}; name another folder.")
        current_run = dict(run)
        if summary.get("stamp") != seen:
            current_run["rows"] = digest_of(plan()["shards"])
        if changes := difference(summary.get("run"), current_run):
            raise ConfigError(
                f"{output} is not empty: it holds responses with {changes}; remove it, or choose "
                "another INFER_OUTPUT_DIR."
            )
        return True

    def begin(restart: bool) -> Job:
        return Job(
            output, run, plan, seen, restart, is_finished, "INFER_OUTPUT_DIR", joins_only
        )  # fmt: skip

    return processes.begin_job(begin, restart)


class _Responder(NamedTuple):
    """A model that responds to rows, and the rows' source."""

    system: _System
    source: _Source
    read: RowTokens
    decoder: BatchDecoder
    params: PyTree
    window: int  # rows
    num_return: int  # responses to a row, which has fewer if not that many exist
    together: bool  # whether all processes of the run compute each shard together

    @classmethod
    def load(
        cls,
        models: Models,
        system: _System,
        source: _Source,
        decoding: DecodingConfig,
        batch_size: int,
        seed: int,
        vocabulary: RunVocabulary,
        tokenizer: Any,
    ) -> "_Responder":
        """Loads the model of a system, and checks that it can respond to the rows of a source."""
        with own_devices():
            loaded = setup.load_for_inference(
                system.checkpoint, models.partitioner_for, models.model, models.params_dtype
            )
        module, _, partitioner = loaded
        setup.check_generates(module.config)
        vocabulary.check(module.config, tokenizer)
        if source.dataset is not None:
            check_has_inputs(source.dataset, module.config)
        setup.log_data(vocabulary, source.dataset)
        prepared = setup.prepare_decoding(
            system.checkpoint, loaded, tokenizer, decoding, batch_size,
            seed + int(system.fields.get("replicate", 0)),
            (source.max_length, source.setting, source.cut_policy), "DECODE_LENGTH",
        )  # fmt: skip
        together = partitioner.mesh.is_multi_process
        return cls(system, source, *prepared, WINDOW * batch_size, decoding.num_return, together)

    def respond(self, job: Job, formats: Sequence[str]) -> None:
        """Responds to the shards that no other process has taken."""
        unknown = UnknownTokens()  # in the rows that this process has read
        is_reported = False  # whether a report has covered all rows, with their unknown tokens
        for shard, writes, done in processes.take_shards(job, self.together, self.window):
            if shard.number == 0 and writes:
                parsed = map(self.system.row, shard.read(self.source.read, self.source.name))
                report = preflight.inference_report(self.source.name, parsed, self.read, len(job))
                preflight.tell(report, None)  # before hours of decoding
                is_reported = len(job.shards) == 1
            if done:
                logger.info("Resuming from row %d of %s", done, shard.rows)
                job.progress.others(done)
            if not self.decoder.num_compilations:
                logger.info("The first rows take longest: the model is compiled")
            shard_rows = map(self.system.row, shard.read(self.source.read, self.source.name))
            rows = itertools.islice(shard_rows, done, None)
            while window := list(itertools.islice(rows, self.window)):
                with counting_unknown(unknown):
                    inputs = [self.read(row) for row in window]
                ids = [tokens.ids for tokens in inputs]
                second = [tokens.second for tokens in inputs]
                first = shard.first + done
                numbers = range(first, first + len(window))
                decoded = self.decoder(self.params, ids, numbers, second, job.progress.add)
                if writes:
                    vocabulary, count = self.read.tokenizer, self.num_return
                    written = [
                        _output_row(row, tokens.cut, responses, vocabulary, count)
                        for row, tokens, responses in zip(window, inputs, decoded, strict=True)
                    ]
                    append_rows(shard.rows, written)
                done += len(window)
            if writes:
                counts = {"inputs_cut": 0, "unfinished": 0}
                for _, row_fields in read_jsonl(shard.rows):
                    counts["inputs_cut"] += row_fields["inputs_cut_tokens"] > 0
                    counts["unfinished"] += not row_fields["finished"]
                files = []
                if "tfds" in formats:
                    folder = make_output_folder(shard.folder / _MADE / _TFDS, "INFER_OUTPUT_DIR")
                    data_set = _data_set(job, self.source, self.system.fields, shard)
                    records = (row_fields for _, row_fields in read_jsonl(shard.rows))
                    files = [data_set.write_shard(folder, shard.number, shard.of, records)]
                shard.finish(counts, *files)
        logger.info("%s compiled", pluralize(self.decoder.num_compilations, "program"))
        for warning in () if is_reported else unknown_warnings(unknown.report()):
            logger.warning("%s", warning)


def _output_row(
    row: InputRow,
    cut: Mapping[Kind, int],
    decoded_rows: Sequence[DecodedRow],
    vocabulary: Any,
    num_return: int,
) -> dict[str, Any]:
    """Returns a row of the output; `predictions` lists the responses if there may be several."""
    responses = [
        {
            "prediction": row.postprocess(vocabulary.decode([int(t) for t in decoded.tokens])),
            "log_prob": decoded.log_prob,
            "num_tokens": len(decoded.tokens),
            "finished": decoded.finished,
        }
        for decoded in decoded_rows
    ]
    written = {"id": row.id, **row.fields, "inputs": row.inputs} | responses[0]
    written["inputs_cut_tokens"] = sum(cut.values())
    written |= {f"inputs_cut_{part}": by_name(cut).get(part, 0) for part in _PARTS}
    if row.target is not None:  # `score` would take an empty text for a reference
        written["target"] = row.target
    if num_return > 1:
        scored = zip(responses, decoded_rows, strict=True)
        written["predictions"] = [
            response | {"score": decoded.score} for response, decoded in scored
        ]
    return written


def _data_set(job: Job, source: _Source, of_system: Mapping[str, str], shard: Shard) -> "DataSet":
    """Returns the TFDS data set of all shards, with the fields that have one kind in all rows.

    `of_system` are the fields that name the system; `shard` may be any of the shards.
    """
    from faith_jax.export import tfds

    kinds = job.known["fields"] | dict.fromkeys(of_system, "text")
    first = {"target": "", **next(read_jsonl(shard.rows)).fields}
    row = {name: value for name, value in first.items() if kinds.get(name, "of every row")}
    description = f"Generated responses to {source.name}, split {source.split}."
    return tfds.responses(source.split, row, description)


def _write_output(
    job: Job,
    shard_counts: Sequence[Mapping[str, int]],
    formats: Sequence[str],
    source: _Source,
    run: Mapping[str, Any],
) -> None:
    """Builds the output from the rows, and moves it into place as a whole."""
    folder = make_output_folder(job.folder / _MADE, "INFER_OUTPUT_DIR")
    if "jsonl" in formats:
        with atomic_file(folder / PREDICTIONS) as beside:
            job.write_jsonl(beside)
    if "tfds" in formats:
        counts = [shard.count for shard in job.shards]
        data_set = _data_set(job, source, run["fields"], job.shards[0])
        data_set.write_metadata(folder / _TFDS, counts)
    unfinished = sum(count["unfinished"] for count in shard_counts)
    summary = {
        "source": source.name,
        "split": source.split,
        "rows": len(job),
        "inputs_cut": sum(count["inputs_cut"] for count in shard_counts),
        "unfinished": unfinished,
        "run": {**run, "rows": job.digest},
        "stamp": job.stamp,
    }
    write_json(folder / SUMMARY, summary)
    if job.target.exists() and not is_remote(job.target):
        job.target.rmdir()
    move_into_place(folder, job.target)
    reason = f", {unfinished:,} of them not finished at DECODE_LENGTH" if unfinished else ""
    logger.info("%s in %s%s", pluralize(len(job), "response"), job.target, reason)
