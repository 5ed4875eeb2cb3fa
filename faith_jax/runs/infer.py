"""The run `infer`: generates a response for every row of a task or a JSONL file.

The output folder appears whole or not at all: rows gather in `<output>.partial`, from which a
killed run resumes. Of several processes, process 0 alone reads and writes these files. Several
checkpoints may respond to the same rows, each in a folder of its own; one file joins all rows.
"""

import contextlib
import dataclasses
import itertools
import logging
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.experimental import multihost_utils

from faith_jax.checkpoints.identity import checkpoint_digest, pinned
from faith_jax.core.cutting import Kind, by_name, check_policy
from faith_jax.core.errors import ConfigError, InputError, counted
from faith_jax.core.files import (
    ROWS,
    append_rows,
    content_digest,
    count_whole_rows,
    difference,
    keep_rows,
    kept_json,
    kept_note,
    made_in,
    partial_folder,
    partial_output,
    put,
    write_json,
    written_whole,
)
from faith_jax.core.files.kept import current
from faith_jax.core.files.staging import stands
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.progress import Progress
from faith_jax.core.rows import read_jsonl
from faith_jax.core.settings import BatchSize, NotNegative, Path, Positive
from faith_jax.datasets.control_tokens import check_control_tokens, extra_id_texts
from faith_jax.decoding.config import DecodingConfig
from faith_jax.inference.batch_decoder import BatchDecoder, DecodedRow
from faith_jax.inference.checkpoint_decoding import log_ignored
from faith_jax.inference.input_rows import InputRow, RowTokens
from faith_jax.input.infer_rows import read_input_file, task_rows
from faith_jax.input.task_batches import DatasetConfig
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import Partitioner, make_partitioner, number_of_first_process
from faith_jax.models.transformer import Transformer
from faith_jax.runs import preflight, setup
from faith_jax.runs.model_dir import make_folder
from faith_jax.tokenizers.carried import RunVocabulary
from faith_jax.tokenizers.vocabularies import fingerprint_of, tokenizer_of, with_own_vocabulary

logger = logging.getLogger("faith_jax")

PREDICTIONS, SUMMARY = "predictions.jsonl", "summary.json"
_FINISHED = _NO_STEP = -1
_PARTS = tuple(kind.name.lower() for kind in (Kind.KNOWLEDGE, Kind.HISTORY, Kind.RESPONSE))


@with_own_vocabulary
def infer(
    checkpoint_path: str | Mapping[str, str | Sequence[str]],
    output_dir: Path,
    dataset: DatasetConfig | None = None,
    input_file: str | None = None,
    knowledge: str = "procon_npov",
    arguments_per_side: NotNegative = 2,
    max_input_length: Positive = 512,
    batch_size: BatchSize = 16,
    decoding: DecodingConfig | None = None,
    model: Transformer | None = None,
    seed: NotNegative = 0,
    formats: Sequence[str] = ("jsonl",),
    partitioner_for: Callable[..., Partitioner] = make_partitioner,
    params_dtype: setup.ParamsDtype = "float32",
    vocabulary: str | None = None,
    cut_policy: str = "knowledge",
    system: str = "",
    limit: NotNegative = 0,
    control_tokens: Sequence[str] = (),
    restart: bool = False,
    dry_run: bool = False,
) -> pathlib.Path:
    """Generates responses and writes them.

    Each output row has `id`; the other texts that all rows of the data have, such as the arguments;
    `inputs`, as the model saw them before cutting; `prediction` (see `task_rows` and
    `read_input_file`); `log_prob`, natural, the sum over the prediction's tokens, the end token
    included, at temperature 1; `num_tokens` of the prediction; `finished`, whether it ends with an
    end token of the model, and not at the maximum length; `inputs_cut_tokens`, and of these
    `inputs_cut_knowledge`, `inputs_cut_history` and `inputs_cut_response`; and `target`, the gold
    response or "". With `decoding.num_return` above 1 these are of the best response, and
    `predictions` lists all of them, each with its `score`, by which a search ranks them.

    Args:
      checkpoint_path: a checkpoint of any form; or several by the names of their systems, or lists
        of them, such as trainings with other seeds. Rows then have the field `system`, and of lists
        also `replicate`, the number.
      output_dir: a new or empty folder, or one with the responses of the same run, which is kept.
        Of several checkpoints it has `predictions.jsonl` of all and the folder SYSTEM, or
        SYSTEM/REPLICATE, of each.
      dataset: the task and split to respond to.
      input_file: or a JSONL file, see `read_input_file`.
      knowledge: where a row has a query without arguments: a folder of the raw NPOV format, or the
        name of an embedded sample.
      arguments_per_side: how many arguments are drawn for such a row.
      max_input_length: tokens of an input of a file, the end token included.
      batch_size: rows decoded at once.
      decoding: default: greedy, 64 tokens.
      model: a module in place of the checkpoint's, with the same dimensions.
      seed: of sampling, to which a replicate adds its number, and of the choice of arguments.
      formats: "jsonl", "tfds" or both.
      partitioner_for: makes the mesh for the model's config.
      params_dtype: of the parameters in memory: "bfloat16" takes half of it.
      vocabulary: default: what the checkpoint carries, or else "english_4096".
      cut_policy: what is cut of a longer input, see `faith_jax.core.cutting`.
      system: of a single checkpoint, the rows' field `system`; "" = none.
      limit: only the first rows; 0 = all.
      control_tokens: in front of all inputs, one of each kind (`datasets.control_tokens`).
      restart: discard what a stopped run with other settings has made.
      dry_run: only report what the model would read, also to `output_dir`.preflight.json.

    Returns:
      The output folder.
    """
    if not formats or set(formats) - {"jsonl", "tfds"}:
        raise ConfigError(f"FORMATS: expected 'jsonl', 'tfds' or both, got {list(formats)!r}.")
    if batch_size < 1:
        raise ConfigError(f"BATCH_SIZE: expected a positive number, got {batch_size}.")
    check_policy(cut_policy)
    if dataset is not None and input_file is None:
        source = _task_source(dataset)
    elif input_file is not None and dataset is None:
        drawn = knowledge, arguments_per_side, seed
        source = _file_source(input_file, max_input_length, cut_policy, drawn)
    else:
        raise ConfigError("Give either MIXTURE_OR_TASK_NAME or INPUT_FILE, not both or neither.")
    decoding = decoding or DecodingConfig()
    output, several = path_of(output_dir).expanduser(), not isinstance(checkpoint_path, str)
    rows: list[InputRow] = []
    finished = []
    for one in _systems(checkpoint_path, output, system):
        # Its rows, and whether they have responses already.
        one = one.pinned({} if restart else kept_note(one.output))
        chosen = RunVocabulary.choose(vocabulary, one.checkpoint)
        make_folder(str(output.parent if dry_run else one.output.parent))
        tokenizer = source.tokenizer(chosen)
        rows = rows or source.read()
        if not rows:
            raise InputError(f"{source.name}: no rows to respond to.")
        prefix = _control_prefix(control_tokens, tokenizer)
        own = [one.row(prefix, row) for row in rows[: limit or None]]
        run = {
            "checkpoint": checkpoint_digest(one.checkpoint),
            "tokenizer": fingerprint_of(tokenizer),
            "rows": content_digest(own),
            "decoding": dataclasses.asdict(decoding),
            source.setting: source.max_length,
            "CUT_POLICY": source.cut_policy,
            "RANDOM_SEED": seed,
            "BATCH_SIZE": batch_size,
            "model": model and model.config.to_dict(),
        }
        partial = partial_folder(one.output)
        resumed: contextlib.AbstractContextManager[int | None] = contextlib.nullcontext(0)
        if not dry_run:
            resumed = _resumed(one.output, run, restart, len(own), batch_size)
        with resumed as done:
            if done is None:
                logger.info("%s is kept", one.output)
                finished.append(one.output)
                continue

            # Its model, and what it will see.
            module, params, partitioner = setup.load_for_inference(
                one.checkpoint, partitioner_for, model, params_dtype
            )
            setup.check_generates(module.config)
            chosen.check(module.config, tokenizer)
            log_ignored(one.checkpoint, decoding, module.config)
            sampling = seed + int(one.fields.get("replicate", 0))
            decoder = BatchDecoder(module, partitioner, decoding, batch_size, sampling)
            read = source.row_tokens(module.config, tokenizer, decoding)
            report = preflight.inference_report(source.name, own, read)  # before hours of decoding
            if jax.process_index() == 0:
                preflight.tell(report, preflight.beside(output) if dry_run else None, dry_run)
            if dry_run:
                return output

            # Its responses, row by row, and the output of them.
            if done:
                logger.info("Resuming from row %d of %s", done, partial)
            progress = Progress("row", len(own), done)
            for start in range(done, len(own), batch_size):
                batch = own[start : start + batch_size]
                inputs = [read(row) for row in batch]
                second = [found.second for found in inputs]
                decoded = decoder(params, [found.ids for found in inputs], start, second)
                if jax.process_index() == 0:
                    written = [
                        _output_row(row, given.cut, found, tokenizer, decoding.num_return)
                        for row, given, found in zip(batch, inputs, decoded, strict=True)
                    ]
                    append_rows(partial / ROWS, written)
                progress.update(start + len(batch), force=start + len(batch) == len(own))
            logger.info("%s compiled", counted(decoder.num_compilations, "shape"))
            if jax.process_index() == 0:
                kept = ("jsonl", *formats) if several else formats
                with made_in(partial) as made:
                    _finish(partial, made, one.output, kept, source, run)
            finished.append(one.output)
    if several and jax.process_index() == 0:
        with written_whole(output / PREDICTIONS) as beside, open(beside, "wb") as joined:
            for folder in finished:
                joined.write((folder / PREDICTIONS).read_bytes())
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices("infer: output is written")
    return output


def first_responses(output: pathlib.Path, count: int = 3) -> Iterator[str]:
    """Yields the first responses in the JSONL of an output, if it has one, as lines `id: text`."""
    if jax.process_index() == 0 and (output / PREDICTIONS).is_file():
        for row in itertools.islice(read_jsonl(output / PREDICTIONS), count):
            text = " ".join(row.fields["prediction"].split())
            yield f"{row.fields['id']}: {text or '(empty)'}"


class _Source(NamedTuple):
    """What is responded to: a task's split or a file."""

    name: str
    split: str  # of the task; "rows" of a file
    setting: str  # the macro of `max_length`
    max_length: int  # tokens of an input, the end token included
    cut_policy: str
    read: Callable[[], list[InputRow]]
    tokenizer: Callable[[RunVocabulary], Any]

    def row_tokens(
        self, config: TransformerConfig, tokenizer: Any, decoding: DecodingConfig
    ) -> RowTokens:
        """Returns what makes the tokens of rows; raises ConfigError for lengths that do not fit."""
        given = self.max_length, self.setting, self.cut_policy, decoding.pmi is not None
        read = RowTokens.of(config, tokenizer, *given)
        settings = (self.setting, "DECODE_LENGTH")
        read.layout.check_positions(self.max_length, decoding.max_length, settings)
        return read


def _task_source(dataset: DatasetConfig) -> _Source:
    return _Source(
        dataset.mixture_or_task_name,
        dataset.split,
        "TASK_FEATURE_LENGTHS['inputs']",
        dataset.task_feature_lengths["inputs"],
        dataset.cut_policy,
        lambda: task_rows(dataset),
        lambda _: tokenizer_of(dataset.task().output_features["targets"].vocabulary),
    )


def _file_source(
    path: str, max_length: int, cut_policy: str, drawn: tuple[str, int, int]
) -> _Source:
    """Returns a JSONL file; `drawn` says which arguments a query without any gets."""

    def tokenizer(vocabulary: RunVocabulary) -> Any:
        if "faith_jax.tasks.faithdial" in sys.modules:  # gin may steer its tasks alone
            from faith_jax.tasks import lookup

            lookup.check_steered(None)
        return vocabulary.tokenizer

    return _Source(
        pathlib.Path(path).name,
        "rows",
        "MAX_INPUT_LENGTH",
        max_length,
        cut_policy,
        lambda: read_input_file(path, *drawn),
        tokenizer,
    )


def _control_prefix(control_tokens: Sequence[str], vocabulary: Any) -> str:
    """Returns control tokens as a vocabulary has them, as text in front of inputs."""
    if not control_tokens:
        return ""
    check_control_tokens(control_tokens)
    texts = extra_id_texts(getattr(vocabulary, "extra_ids", 0))
    return "".join(f"{texts.get(token, token)} " for token in control_tokens)


class _System(NamedTuple):
    """A checkpoint, where its responses go, and what its rows say of it."""

    checkpoint: str
    output: pathlib.Path
    fields: Mapping[str, str]

    def pinned(self, note: Mapping[str, Any]) -> "_System":
        """Returns this with the step of its checkpoint that a stopped run noted, or that is there.

        A training may write further steps meanwhile.
        """

        def step() -> int:
            found = note.get("checkpoint") or checkpoint_digest(self.checkpoint)
            return _NO_STEP if found["step"] is None else int(found["step"])

        found = number_of_first_process(step, f"the step of {self.checkpoint}")
        if found == _NO_STEP:
            return self
        return self._replace(checkpoint=str(pinned(self.checkpoint, found)))

    def row(self, prefix: str, row: InputRow) -> InputRow:
        """Returns a row with these fields, and with a prefix of its inputs."""
        fields = {**row.fields, **self.fields}
        return dataclasses.replace(row, inputs=prefix + row.inputs, fields=fields)


def _systems(
    given: str | Mapping[str, str | Sequence[str]], output: pathlib.Path, system: str
) -> Iterator[_System]:
    if isinstance(given, str):
        yield _System(given, output, {"system": system} if system else {})
        return
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(f"CHECKPOINT_PATH: expected a path, or paths by system, got {given!r}.")
    for name, paths in given.items():
        parts = str(name).split("/")
        if not name or any(part in ("", ".", "..") for part in parts):
            raise ConfigError(f"CHECKPOINT_PATH: {name!r} is no name for a system and its folder.")
        if isinstance(paths, str):
            yield _System(paths, output / name, {"system": name})
        else:
            for number, path in enumerate(paths):
                fields = {"system": name, "replicate": str(number)}
                yield _System(path, output / name / str(number), fields)


@contextlib.contextmanager
def _resumed(
    output: pathlib.Path, run: Mapping[str, Any], restart: bool, total: int, batch_size: int
) -> Iterator[int | None]:
    """Holds the only right to write an output.

    Yields how many rows a stopped run has done, in whole batches; None where the output has them.
    """
    with contextlib.ExitStack() as held:

        def begin() -> int:
            folder = partial_output(output, run, restart, True, "INFER_OUTPUT_DIR")
            rows = held.enter_context(folder) / ROWS
            if _is_finished(output, run):
                return _FINISHED
            done = count_whole_rows(rows)
            return keep_rows(rows, done - done % batch_size) if done < total else done

        done = number_of_first_process(begin, f"the folder of {output}")
        yield None if done == _FINISHED else done


def _is_finished(output: pathlib.Path, run: Mapping[str, Any]) -> bool:
    """Whether a folder has responses of this run; anything else in it is an error."""
    if not stands(output) or (output.is_dir() and not any(output.iterdir())):
        return False
    found = difference((kept_json(output / SUMMARY) or {}).get("run"), run)
    if not found:
        return True
    raise ConfigError(
        f"{output} is not empty: it holds responses with {found}; remove it, or choose another "
        "INFER_OUTPUT_DIR."
    )


def _output_row(
    row: InputRow,
    cut: Mapping[Kind, int],
    found: Sequence[DecodedRow],
    vocabulary: Any,
    num_return: int,
) -> dict[str, Any]:
    """Returns what is written of a row; with several responses, all of them in `predictions`."""
    responses = [
        {
            "prediction": row.postprocess(vocabulary.decode([int(t) for t in one.tokens])),
            "log_prob": one.log_prob,
            "num_tokens": len(one.tokens),
            "finished": one.finished,
        }
        for one in found
    ]
    written = {"id": row.id, **row.fields, "inputs": row.inputs} | responses[0]
    written["inputs_cut_tokens"] = sum(cut.values())
    written |= {f"inputs_cut_{part}": by_name(cut).get(part, 0) for part in _PARTS}
    written["target"] = row.target
    if num_return > 1:
        scored = zip(responses, found, strict=True)
        written["predictions"] = [response | {"score": one.score} for response, one in scored]
    return written


def _finish(
    partial: pathlib.Path,
    made: pathlib.Path,
    output: pathlib.Path,
    formats: Sequence[str],
    source: _Source,
    run: Mapping[str, Any],
) -> None:
    """Turns the rows into the output, which is `made` and appears whole."""
    made.mkdir()
    rows = [row.fields for row in read_jsonl(partial / ROWS)]
    if "jsonl" in formats:
        shutil.copy(current(partial / ROWS), made / PREDICTIONS)
    if "tfds" in formats:
        from faith_jax.export.tfds import write_tfds

        write_tfds(
            made / "tfds",
            "predictions",
            source.split,
            rows,
            f"Generated responses to {source.name}, split {source.split}.",
        )
    # Rows of a run that an earlier version began do not say it.
    unfinished = sum(not row.get("finished", True) for row in rows)
    summary = {
        "source": source.name,
        "split": source.split,
        "rows": len(rows),
        "inputs_cut": sum(row["inputs_cut_tokens"] > 0 for row in rows),
        "unfinished": unfinished,
        "run": run,
    }
    write_json(made / SUMMARY, summary)
    if output.exists() and not is_remote(output):
        output.rmdir()
    put(made, output)
    reason = f", {unfinished:,} of them not finished at DECODE_LENGTH" if unfinished else ""
    logger.info("%s in %s%s", counted(len(rows), "response"), output, reason)
