"""Batches of SeqIO tasks and mixtures: trimmed, counted, packed or padded, in a fixed order.

Every process reads the whole stream and keeps its devices' rows: a run then gives the same
numbers on any number of processes. Text is small; if reading ever bounds a run, cache the task.
"""

import dataclasses
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from faith_jax.errors import ConfigError, InputError
from faith_jax.models.config import TransformerConfig
from faith_jax.runs.model_inputs import InputLayout, converted
from faith_jax.runs.numpy_examples import numpy_examples
from faith_jax.runs.pair_batches import PairBatches
from faith_jax.runs.run_vocabulary import check_ids

TOO_LONG = "faith_jax: target too long: "


@dataclasses.dataclass(frozen=True)
class DatasetConfig:
    """A split of a task, as batches.

    Attributes:
      mixture_or_task_name: a registered SeqIO task or mixture.
      task_feature_lengths: {"inputs": …, "targets": …}, in tokens, end token included; for
        objectives that contrast also "negatives": (texts, tokens of each).
      split: "train", "validation" …
      batch_size: rows of a global batch.
      shuffle: reshuffled each epoch, by `seed`.
      seed: of the order.
      pack: several examples in a row, told apart by segment ids.
      use_cached: read SeqIO's offline cache.
      module: a module to import first, which registers the user's own tasks.
    """

    mixture_or_task_name: str
    task_feature_lengths: Mapping[str, Any]
    split: str = "train"
    batch_size: int = 16
    shuffle: bool = True
    seed: int = 0
    pack: bool = False
    use_cached: bool = False
    module: str | None = None

    def __post_init__(self):
        for name in ("inputs", "targets"):
            if not isinstance(self.task_feature_lengths.get(name), int):
                raise ConfigError(
                    "TASK_FEATURE_LENGTHS: expected {'inputs': N, 'targets': M}, got "
                    f"{dict(self.task_feature_lengths)!r}."
                )
        _check_negatives(self)
        if self.batch_size < 1:
            raise ConfigError(f"BATCH_SIZE: expected a positive number, got {self.batch_size}.")

    def task(self) -> Any:
        """Returns the SeqIO task or mixture, its split checked.

        Raises:
          ConfigError: on an unknown module, task or split, with the nearest names, and on a task
            without the cache, the negatives or the control tokens that are asked for.
        """
        from faith_jax.tasks import lookup

        if self.module:
            try:
                importlib.import_module(self.module)
            except ModuleNotFoundError as error:
                raise ConfigError(
                    f"MIXTURE_OR_TASK_MODULE = {self.module!r} cannot be imported ({error})."
                ) from None
        task = lookup.get_task(self.mixture_or_task_name)
        if self.use_cached:
            lookup.check_cached(task)
        lookup.check_split(task, self.split)
        lookup.check_steered(task)
        if "negatives" in self.task_feature_lengths and "negatives" not in task.output_features:
            raise ConfigError(
                f"{self.mixture_or_task_name}: its examples have no feature 'negatives', which "
                "TASK_FEATURE_LENGTHS asks for; choose such as faithdial_generate_infonce."
            )
        return task

    @property
    def further_features(self) -> frozenset[str]:
        """What batches have besides a text's input and target tokens, where it is asked for."""
        features = {"negatives"} & set(self.task_feature_lengths)
        if self.pack:
            features |= {"encoder_segment_ids", "decoder_segment_ids"}
        return frozenset(features)


def training_batches(
    config: DatasetConfig, start_step: int = 0, model: TransformerConfig | None = None
) -> Iterator[dict[str, np.ndarray]]:
    """Yields global batches without end, from the batch that step `start_step` takes.

    The order is a function of the config alone, so that a resumed run sees the batches that it
    would have seen; those before `start_step` are read and passed over.

    Args:
      config: the split.
      start_step: how many batches are passed over.
      model: whose inputs they are; None = of a T5.

    Raises:
      InputError: on a target longer than its limit, or a split without examples.
    """
    if model is not None and model.is_encoder_only:
        pairs = pair_batches(config, model)
        examples = all_examples(config, num_epochs=None).skip(start_step * config.batch_size)
        yield from pairs.batches(examples.prefetch(4), config.batch_size)
        raise InputError(f"{_name(config)} has no examples.")
    dataset = _features(config, model, num_epochs=None)
    dataset = dataset.batch(config.batch_size, drop_remainder=True).skip(start_step).prefetch(4)
    found = False
    for batch in readable(dataset, config):
        found = True
        yield _model_features(batch, config, model)
    if not found:
        raise InputError(f"{_name(config)} has no examples.")


def evaluation_batches(
    config: DatasetConfig, model: TransformerConfig | None = None
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the split once, in order; the last batch is filled up with rows of no weight."""
    if model is not None and model.is_encoder_only:
        examples = all_examples(dataclasses.replace(config, shuffle=False), num_epochs=1)
        yield from pair_batches(config, model).batches(examples, config.batch_size)
        return
    dataset = _features(dataclasses.replace(config, shuffle=False), model, num_epochs=1)
    for batch in readable(dataset.batch(config.batch_size), config):
        features = _model_features(batch, config, model)
        yield {name: fill_rows(array, config.batch_size) for name, array in features.items()}


def pair_batches(config: DatasetConfig, model: TransformerConfig) -> PairBatches:
    """Returns what makes the batches of a model with a classification head.

    Raises:
      ConfigError: where the task and the model do not fit, and for packed examples.
    """
    if config.pack:
        raise ConfigError("PACK = True: rows to classify cannot be packed; set PACK = False.")
    length = config.task_feature_lengths["inputs"]
    return PairBatches.of(config.task(), _name(config), model, length)


def all_examples(config: DatasetConfig, num_epochs: int | None) -> Any:
    """Returns a split's examples, with all of their fields."""
    return config.task().get_dataset(
        None,
        split=config.split,
        shuffle=config.shuffle,
        seed=config.seed,
        use_cached=config.use_cached,
        num_epochs=num_epochs,
    )


def fill_rows(array: np.ndarray, rows: int) -> np.ndarray:
    """Returns [rows, …]: the array with rows of zeros behind its own."""
    return np.pad(array, ((0, rows - array.shape[0]),) + ((0, 0),) * (array.ndim - 1))


def check_layout(config: DatasetConfig, model: TransformerConfig) -> InputLayout:
    """Checks that a model can read what the config asks for.

    Returns:
      How the model's examples are laid out.

    Raises:
      ConfigError: on packed examples that are not T5's, and lengths beyond the model's positions.
    """
    vocabulary = config.task().output_features["targets"].vocabulary
    layout = InputLayout.of(model, vocabulary)
    if not layout.is_t5s:
        if config.pack:
            raise ConfigError("PACK = True: only T5's examples can be packed; set PACK = False.")
        limits = config.task_feature_lengths
        layout.check_positions(limits["inputs"], limits["targets"])
    return layout


def _check_negatives(config: DatasetConfig) -> None:
    """Checks the numbers of `task_feature_lengths["negatives"]`, where there are any."""
    if "negatives" not in config.task_feature_lengths:
        return
    found = config.task_feature_lengths["negatives"]
    if not (
        isinstance(found, (tuple, list))
        and len(found) == 2
        and all(isinstance(n, int) and n > 0 for n in found)
    ):
        raise ConfigError(
            "TASK_FEATURE_LENGTHS: expected 'negatives': (texts, tokens of each), such as (8, 64), "
            f"got {found!r}."
        )
    if config.pack:
        raise ConfigError(
            "PACK = True: examples with negatives cannot be packed; set PACK = False."
        )


def _name(config: DatasetConfig) -> str:
    return f"{config.mixture_or_task_name}, split {config.split!r}"


def _features(
    config: DatasetConfig, model: TransformerConfig | None, num_epochs: int | None
) -> Any:
    """Returns the features of a model's batches, not yet batched."""
    limits = config.task_feature_lengths
    negatives = limits.get("negatives")
    layout = None if model is None else check_layout(config, model)
    if layout is None or (layout.is_t5s and not negatives):
        import seqio

        lengths = {name: limits[name] for name in ("inputs", "targets")}
        dataset = _examples(config, lengths, num_epochs)
        return seqio.EncDecFeatureConverter(pack=config.pack)(dataset, lengths)
    is_decoder_only, prefix = layout.config.is_decoder_only, len(layout.prefix)
    rooms: dict[str, Any] = {"inputs": limits["inputs"] - prefix, "targets": limits["targets"]}
    if not is_decoder_only:
        rooms["targets"] -= prefix
    if negatives:
        rooms["negatives"] = (negatives[0], negatives[1] - prefix)
    dataset = _examples(
        config,
        rooms,
        num_epochs,
        keep_end=not is_decoder_only,
        with_knowledge=layout.config.knowledge_attention,
    )
    return converted(dataset, layout, limits["inputs"], limits["targets"], negatives)


def _examples(
    config: DatasetConfig,
    limits: Mapping[str, Any],
    num_epochs: int | None,
    keep_end: bool = True,
    with_knowledge: bool = False,
) -> Any:
    """Returns the tokenised examples, inputs cut to their limit, targets checked against theirs.

    Raises:
      ConfigError: `with_knowledge`, on a task whose examples have none.
    """
    import tensorflow as tf

    task = config.task()
    # SeqIO would cut silently; here inputs are cut and long targets are errors.
    dataset = all_examples(config, num_epochs)
    if with_knowledge and "knowledge" not in dataset.element_spec:
        raise ConfigError(
            f"{config.mixture_or_task_name}: its examples have no field 'knowledge', which DoHA's "
            "second encoder input is made of; choose a task of a dialogue data set."
        )
    vocabulary = task.output_features["inputs"].vocabulary

    def fit(example):
        length = tf.shape(example["targets"])[0]
        message = tf.strings.format(
            TOO_LONG + "{} {}", (example.get("id", tf.constant("?")), length)
        )
        check = tf.debugging.Assert(length <= limits["targets"], [message])
        inputs, eos = example["inputs"], task.output_features["inputs"].add_eos
        if eos and not keep_end:
            inputs = inputs[:-1]
        cut = inputs[: limits["inputs"]]
        if eos and keep_end:
            # The end token survives the cut.
            cut = tf.cond(
                tf.shape(inputs)[0] > limits["inputs"],
                lambda: tf.concat([inputs[: limits["inputs"] - 1], inputs[-1:]], 0),
                lambda: inputs,
            )
        more = {}
        if with_knowledge:
            ids = vocabulary.encode_tf(example["knowledge"])[: limits["inputs"] - 1]
            more["knowledge"] = tf.concat([ids, [vocabulary.eos_id]], 0)
        if "negatives" in limits:
            texts, length = limits["negatives"]
            more["negatives"] = _fit_texts(example["negatives"], texts, length, vocabulary.eos_id)
        with tf.control_dependencies([check]):
            return {"inputs": cut, "targets": tf.identity(example["targets"])} | more

    return dataset.map(fit, num_parallel_calls=tf.data.AUTOTUNE)


def _fit_texts(tokens: Any, texts: int, length: int, eos_id: int) -> Any:
    """Returns int32 [at most texts, at most length] of texts padded with 0; a cut one ends too."""
    import tensorflow as tf

    tokens = tokens[:texts]

    def cut():
        last = tf.where(tokens[:, length - 1] == 0, 0, eos_id)
        return tf.concat([tokens[:, : length - 1], last[:, None]], axis=1)

    return tf.cond(tf.shape(tokens)[1] > length, cut, lambda: tokens)


def readable(dataset: Any, config: DatasetConfig) -> Iterator[dict[str, Any]]:
    """Yields NumPy examples; a target that is too long becomes an error people can act on."""
    import tensorflow as tf

    try:
        yield from numpy_examples(dataset)
    except tf.errors.InvalidArgumentError as error:
        if TOO_LONG not in error.message:
            raise
        found = error.message.partition(TOO_LONG)[2].replace("\\", "")
        identifier, _, rest = found.partition(" ")
        length = "".join(c for c in rest.split("]")[0] if c.isdigit())
        raise target_too_long(config, identifier.strip('"'), int(length)) from None


def target_too_long(config: DatasetConfig, identifier: str, length: int) -> InputError:
    """Returns what is raised of an example whose target has `length` tokens."""
    return InputError(
        f"{_name(config)}, example {identifier}: the target has {length} tokens but "
        f"TASK_FEATURE_LENGTHS allows {config.task_feature_lengths['targets']}; raise the limit "
        "or shorten the response."
    )


def _model_features(
    batch: Mapping[str, Any], config: DatasetConfig, model: TransformerConfig | None
) -> dict[str, np.ndarray]:
    """Keeps what the objective takes, as int32.

    Raises:
      InputError: on a token that the model has no embedding for.
    """
    names = (
        "encoder_input_tokens",
        "knowledge_input_tokens",
        "decoder_input_tokens",
        "decoder_target_tokens",
        "decoder_loss_weights",
        "encoder_segment_ids",
        "decoder_segment_ids",
        "negatives",
    )
    # SeqIO's weights say no more than its padding.
    is_ours = batch.get("decoder_loss_weights", np.zeros(0)).dtype == np.int32
    for name in (*names[:4], "negatives"):
        if model is not None and name in batch:
            check_ids([int(np.max(batch[name], initial=0))], model, f"{_name(config)}: a text")
    return {
        n: np.asarray(batch[n], np.int32)
        for n in names
        if n in batch and (is_ours or n != "decoder_loss_weights")
    }
