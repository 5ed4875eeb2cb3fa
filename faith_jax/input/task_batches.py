"""A split of a SeqIO task or mixture as batches of a model; any step's batch can be made alone.

A run makes the rows of its split once, as the model reads them (`faith_jax.input.rows`), and keeps
them in files with random access to rows (`faith_jax.input.row_cache`); each process makes a part.
Their order is a function of the seed (`faith_jax.input.order`). So a batch can be made without
earlier ones, global batches are the same for any number of processes, and each process reads only
its own rows of a batch. A task's preprocessors make their random draws once, with the rows.
"""

import concurrent.futures
import dataclasses
import functools
import hashlib
import itertools
import logging
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import jax
import msgspec
import numpy as np

from faith_jax.core.cutting import check_policy, notation_of
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files.stores import is_remote
from faith_jax.core.settings import BatchSize
from faith_jax.core.user_modules import import_user_module
from faith_jax.inference.texts.row_tokens import InputLayout
from faith_jax.input.layout import batch_features, packed_features, pair_features, passage_features
from faith_jax.input.order import Order, Packing
from faith_jax.input.row_cache import RowCache, RowsPart, count_parts, make_parts
from faith_jax.input.rows import Row, pair_rows, passage_rows, text_rows
from faith_jax.input.task_examples import TaskExamples, blamed_steps
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import Partitioner
from faith_jax.tokenizers.vocabularies import fingerprint_of, tokenizer_of

logger = logging.getLogger("faith_jax")

Batch = dict[str, np.ndarray]
_Length = Annotated[int, msgspec.Meta(ge=1)]


class _Lengths(msgspec.Struct):
    """The lengths of TASK_FEATURE_LENGTHS, in tokens, end token included."""

    targets: int
    inputs: int = 1
    negatives: tuple[_Length, _Length] | None = None
    passages: _Length | None = None


@dataclasses.dataclass(frozen=True)
class DatasetConfig:
    """A split of a task, as batches.

    Attributes:
      mixture_or_task_name: a registered SeqIO task or mixture.
      task_feature_lengths: {"inputs": …, "targets": …}, in tokens, end token included. "inputs" may
        be left out for a decoder-only model whose rows have only targets. Contrastive objectives
        also need "negatives": (texts, tokens of each), and encoders of queries and passages need
        "passages": tokens of a passage.
      split: "train", "validation" …; None if a run has no validation.
      batch_size: rows of a global batch.
      shuffle: reshuffle each epoch, by `seed`; a task without a shuffle buffer keeps its order.
      seed: of the order.
      pack: put several examples in a row, told apart by segment ids.
      use_cached: read SeqIO's offline cache.
      module: a module or Python file to import first, which registers the user's own tasks.
      cut_policy: how too long inputs are cut, see `faith_jax.core.cutting`.
    """

    mixture_or_task_name: str
    task_feature_lengths: Mapping[str, Any]
    split: str | None = "train"
    batch_size: BatchSize = 16
    shuffle: bool = True
    seed: int = 0
    pack: bool = False
    use_cached: bool = False
    module: str | None = None
    cut_policy: str = "knowledge"

    def __post_init__(self):
        try:
            lengths = msgspec.convert(dict(self.task_feature_lengths), _Lengths)
        except (msgspec.ValidationError, TypeError, ValueError):
            raise ConfigError(
                "TASK_FEATURE_LENGTHS: expected {'inputs': N, 'targets': M}, to contrast also "
                "'negatives': (texts, tokens of each), such as (8, 64); got "
                f"{self.task_feature_lengths!r}."
            ) from None
        if self.pack and lengths.negatives:
            raise ConfigError(
                "PACK = True: examples with negatives cannot be packed; set PACK = False."
            )
        # Without inputs, a decoder-only model reads one token before the target.
        all_lengths = {"inputs": lengths.inputs, **self.task_feature_lengths}
        object.__setattr__(self, "task_feature_lengths", all_lengths)
        check_policy(self.cut_policy)
        if self.batch_size < 1:
            raise ConfigError(f"BATCH_SIZE: expected a positive number, got {self.batch_size}.")

    def task(self, setting: str = "SPLIT") -> Any:
        """Returns the SeqIO task or mixture, after checking its split.

        Args:
          setting: the macro that names the split, for messages.

        Raises:
          ConfigError: the module, task or split is unknown (the message suggests the nearest), or
            the task lacks the cache, negatives or control tokens that are asked for.
        """
        from faith_jax.tasks import lookup

        if self.module:
            import_user_module(self.module, "MIXTURE_OR_TASK_MODULE")
        task = lookup.get_task(self.mixture_or_task_name, "MIXTURE_OR_TASK_NAME")
        lookup.check_cached(task, self.use_cached, self.module)
        lookup.check_features(task)
        lookup.check_split(task, self.split, setting)
        lookup.check_steered(task)
        if "negatives" in self.task_feature_lengths and "negatives" not in task.output_features:
            raise ConfigError(
                f"{self.mixture_or_task_name}: its examples have no feature 'negatives', which "
                "TASK_FEATURE_LENGTHS asks for; choose such as faithdial_generate_infonce."
            )
        return task

    @property
    def error_labels(self) -> dict[str, str] | None:
        """The texts of labels in the targets of NPOV's classifiers; None for other tasks."""
        from faith_jax.tasks import lookup

        return lookup.error_labels(self.task())

    @property
    def further_features(self) -> frozenset[str]:
        """The features that batches have besides a text's input and target tokens."""
        features = {"negatives", "passages"} & set(self.task_feature_lengths)
        if self.pack:
            features |= {"encoder_segment_ids", "decoder_segment_ids"}
        return frozenset(features)


class SplitRows:
    """The rows of a split, as a model reads them, and the batches made of them.

    Attributes:
      config: of the split.
      is_mixture: whether the split is of a mixture.
      tasks: the SeqIO task, or all tasks of a mixture that have the split.
      members: the rows of each task.
    """

    def __init__(
        self, config: DatasetConfig, model: TransformerConfig, folder: pathlib.Path | None = None
    ):
        """Makes the rows of a model, or finds them if this run has made them before.

        `folder` keeps them, on a disk or store that all processes share, so that each makes a part
        of them. None = each process makes all rows, in a temporary folder of its own.

        Raises:
          InputError: the split has no examples, or `text_rows` or `pair_rows` raises it.
          ConfigError: task and model do not fit, rows to classify are packed, or the rows cannot be
            written.
        """
        self.config, self._model = config, model
        if config.pack and not model.writes_text:
            raise ConfigError("PACK = True: rows to classify cannot be packed; set PACK = False.")
        self._task = task = config.task()
        if config.shuffle:  # in training: report rates that cannot be computed before reading data
            self._compute_mixing_rates()
        self.is_mixture = hasattr(task, "tasks")
        members = task.tasks if self.is_mixture else [task]
        # Like SeqIO, leave out the tasks of a mixture that lack the split.
        self.tasks = [t for t in members if config.split in t.splits]
        for name in [t.name for t in members if t not in self.tasks]:
            mixture = config.mixture_or_task_name
            logger.warning("%s: %s has no split %r: left out", mixture, name, config.split)
        self._layout = check_layout(config, model) if model.writes_text else None
        if folder is None or is_remote(folder):
            self._temporary = tempfile.TemporaryDirectory(prefix="faith_jax_rows_")
            local = pathlib.Path(self._temporary.name)  # removed with this object
        else:
            local = folder

        parts = self._plan_parts()
        contents = f"the rows of {config.mixture_or_task_name}, split {config.split!r}"
        make_parts([part for of_task in parts for part in of_task], local, folder, contents)
        self.members = list[RowCache]()
        for member_task, of_task in zip(self.tasks, parts, strict=True):
            paths = [local / part.name for part in of_task]
            keeps_order = member_task.shuffle_buffer_size is None
            self.members.append(RowCache(paths, member_task.name, keeps_order))
            if not len(self.members[-1]):
                raise InputError(f"{member_task.name}, split {config.split!r} has no examples.")
        self._packing = None
        if config.pack:
            names = ("inputs", "targets")
            lengths = [np.stack([m.lengths(n) for n in names], 1) for m in self.members]
            limits = [config.task_feature_lengths[n] for n in names]
            self._packing = Packing(self.order, lengths, limits)

    @functools.cached_property
    def order(self) -> Order:
        """The order in which training reads the rows of the members."""
        counts = tuple(map(len, self.members))
        config, rates = self.config, self._compute_mixing_rates(counts)
        shuffled = (config.shuffle and not member.keeps_order for member in self.members)
        return Order(counts, tuple(rates), tuple(shuffled), config.seed)

    def _compute_mixing_rates(self, counts: Sequence[int] | None = None) -> list[float]:
        from faith_jax.tasks import lookup

        return lookup.member_rates(self._task, self.config.split, counts)

    def _plan_parts(self) -> list[list[RowsPart]]:
        """Returns the parts of each task's rows; there is one part if the task's order is kept."""
        import gin

        config, split = self.config, self.config.split
        names = [re.sub("[^A-Za-z0-9_-]", "_", f"{task.name}-{split}") for task in self.tasks]
        parts = []
        for position, (task, name) in enumerate(zip(self.tasks, names, strict=True)):
            if names.count(name) > 1:  # `a.b` and `a_b`; no name has a dot
                name = f"{name}.{position}"
            with blamed_steps(config, task):
                count = count_parts(task, str(split), config.use_cached) if config.shuffle else 1
                # The fingerprint covers the settings and, of the data, only the number of examples.
                tokenizer = tokenizer_of(task.output_features["targets"].vocabulary)
                vocabulary = (fingerprint_of(tokenizer), notation_of(tokenizer))
                examples = task.num_input_examples(split)
                settings = repr((config, task.name, self._model, vocabulary, examples))
                # Tasks may read any gin binding; needlessly making rows again only costs time.
                fingerprint = hashlib.sha256(f"{settings}{gin.config_str()}".encode()).hexdigest()
            parts.append(
                [
                    RowsPart(
                        f"{name}-{number:05d}-of-{count:05d}.arrow",
                        fingerprint,
                        functools.partial(self._make_rows, task, number, count),
                    )
                    for number in range(count)
                ]
            )
        return parts

    def _make_rows(self, task: Any, number: int, count: int) -> Iterator[Row]:
        config, lengths = self.config, self.config.task_feature_lengths
        where = f"{task.name}, split {config.split!r}"
        where += f", part {number + 1} of {count}" if count > 1 else ""
        examples = TaskExamples(config, task, number, count)
        if self._layout is not None:
            return text_rows(task, examples, where, self._layout, lengths, config.cut_policy)
        if "passages" in lengths:
            return passage_rows(examples, where, self._model, lengths)
        return pair_rows(task, examples, where, self._model, lengths["inputs"], config.cut_policy)

    def places(self, step: int) -> list[Sequence[int]]:
        """Returns the places in the order whose examples form each row of batch `step`."""
        first = step * self.config.batch_size
        numbers = range(first, first + self.config.batch_size)
        if self._packing is None:
            return [range(number, number + 1) for number in numbers]
        return [self._packing.places(number) for number in numbers]

    def training_batches(self, start: int = 0, rows: slice = slice(None)) -> Iterator[Batch]:
        """Yields the given `rows` of each batch, endlessly, from step `start` on."""
        with concurrent.futures.ThreadPoolExecutor(1) as reader:
            ahead = [reader.submit(self._training_batch, start + n, rows) for n in range(3)]
            while True:
                yield ahead.pop(0).result()
                start += 1
                ahead.append(reader.submit(self._training_batch, start + 2, rows))

    def _training_batch(self, step: int, rows: slice) -> Batch:
        groups = self.places(step)[rows]
        places = np.array([place for group in groups for place in group])
        members, numbers = self.order.rows(places)
        chosen_rows = [
            self.members[m][n] for m, n in zip(members.tolist(), numbers.tolist(), strict=True)
        ]
        if self._packing is None:
            return self._build_batch(chosen_rows)
        remaining = iter(chosen_rows)
        packed = [[next(remaining) for _ in group] for group in groups]
        return packed_features(packed, self.config.task_feature_lengths)

    def evaluation_batches(
        self, rows: slice = slice(None), members: Sequence[RowCache] | None = None
    ) -> Iterator[Batch]:
        """Yields all rows once, in order, as batches; rows of zero weight fill up the last one.

        `rows` selects rows of each batch, and `members` the members of the split (None = all).
        """
        size = self.config.batch_size
        members = self.members if members is None else members
        numbered_rows = ((member, number) for member in members for number in range(len(member)))
        while places := list(itertools.islice(numbered_rows, size)):
            is_whole = len(places) == size
            batch = self._build_batch([m[n] for m, n in (places[rows] if is_whole else places)])
            if not is_whole:
                missing = size - len(places)
                filled = {
                    name: np.pad(array, ((0, missing),) + ((0, 0),) * (array.ndim - 1))
                    for name, array in batch.items()
                }
                if "label_weights" in batch:  # an encoder must have something to attend to
                    for name in {"encoder_input_tokens", "passage_tokens"} & batch.keys():
                        filled[name][-missing:] = batch[name][0]
                batch = {name: array[rows] for name, array in filled.items()}
            yield batch

    def _build_batch(self, rows: Sequence[Row]) -> Batch:
        return _build_batch(rows, self._model, self._layout, self.config.task_feature_lengths)


def _build_batch(
    rows: Sequence[Row],
    model: TransformerConfig,
    layout: InputLayout | None,
    lengths: Mapping[str, Any],
) -> Batch:
    """Returns the batch of unpacked rows; `layout` is None for an encoder."""
    if layout is not None:
        return batch_features(rows, layout, lengths)
    if "passages" in lengths:
        return passage_features(rows, lengths, model.pad_id)
    return pair_features(rows, lengths["inputs"], model)


def batch_shapes(
    model: TransformerConfig, config: DatasetConfig, partitioner: Partitioner
) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns the shapes of a global training batch on the mesh, before any row is read.

    Maps features to shapes [rows, ...] with the dtypes and shardings of a run's batches.
    """
    token_ids = np.ones(1, np.int32)
    row = {
        "inputs": token_ids,
        "targets": token_ids,
        "knowledge": token_ids,
        "negatives": [token_ids],
        "label": 0,
        "second": 1,
    }
    lengths = config.task_feature_lengths
    layout = None
    if model.writes_text:
        layout = InputLayout(model, (), model.eos_ids[0] if model.eos_ids else 0)
    if layout is not None and config.pack:
        batch = packed_features([[row]], lengths)
    else:
        batch = _build_batch([row], model, layout, lengths)
    return {
        name: jax.ShapeDtypeStruct(
            (config.batch_size, *array.shape[1:]),
            jax.dtypes.canonicalize_dtype(array.dtype),
            sharding=partitioner.rows,
        )
        for name, array in batch.items()
    }


def check_has_inputs(config: DatasetConfig, model: TransformerConfig) -> None:
    """Raises a ConfigError if a model with an encoder would read rows without inputs."""
    if not model.is_decoder_only and "inputs" not in config.task().output_features:
        raise ConfigError(
            f"{config.mixture_or_task_name}: its rows have targets and no inputs, which an encoder "
            "needs; choose a decoder-only model, or give the task inputs."
        )


def check_layout(config: DatasetConfig, model: TransformerConfig) -> InputLayout:
    """Returns the layout of the model's examples.

    Raises:
      ConfigError: examples of a model other than T5 are packed, lengths exceed the model's
        positions, or leave no room for a text.
    """
    features = config.task().output_features
    check_has_inputs(config, model)
    vocabulary = tokenizer_of(features["targets"].vocabulary)
    inputs = features.get("inputs")
    layout = InputLayout.of(model, vocabulary, inputs is not None and bool(inputs.add_eos))
    limits = config.task_feature_lengths
    if not layout.is_t5s:
        if config.pack:
            raise ConfigError("PACK = True: only T5's examples can be packed; set PACK = False.")
        layout.check_positions(limits["inputs"], limits["targets"])
    if inputs is not None:
        layout.check_room(limits["inputs"], "TASK_FEATURE_LENGTHS['inputs']")
    return layout
