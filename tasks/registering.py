"""How the tasks of this package are registered: one source, text features, a vocabulary by gin.

`faith_jax.datasets.task_data` lists them with the data that each reads.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

from faith_jax.datasets.task_data import MIXTURES, TASKS, TFDS_SPLITS
from faith_jax.tasks import preprocessors, sources
from faith_jax.tokenizers.seqio_vocabulary import DefaultVocabulary

Example = dict[str, tf.Tensor]


def _source(data_sets: tuple[str, ...]) -> seqio.DataSource:
    """Returns a source over data sets of TFDS's own, or over one of our builders, NAME/CONFIG.

    Our builders are imported when it is read.
    """
    if data_sets in TFDS_SPLITS:
        return sources.TfdsUnionSource(data_sets, TFDS_SPLITS[data_sets])
    name, _, config = data_sets[0].partition("/")

    def prepare(config: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
        from faith_jax.datasets.builders import base, catalogue

        return base.prepare_builder(catalogue.BUILDERS[name], config, data_dir=data_dir)

    return sources.PreparedTfdsSource(prepare, name=name, config=config)


def add_text_task(
    name: str,
    preprocess: Callable[[tf.data.Dataset], tf.data.Dataset],
    postprocess: Callable[..., Any] | None = None,
    metric_fns: Sequence[Callable[..., Any]] = (),
    shuffle_buffer_size: int | None = seqio.dataset_providers.SHUFFLE_BUFFER_SIZE,
    candidates: Mapping[str, int] | None = None,
    uncached: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
) -> None:
    """Registers a task from text to text.

    Args:
      name: `<dataset>_<what the model does>[_<variant>]`, of `TASKS`.
      preprocess: adds `inputs` and `targets` to the examples; other fields stay.
      postprocess: of decoded texts, for the metrics.
      metric_fns: of what `postprocess` returns.
      shuffle_buffer_size: examples shuffled at once; None keeps the order of `preprocess`, and
        such a task has no offline cache.
      candidates: features of several texts each, with how many there are at most; `preprocess`
        adds them as `<feature>_pretokenized`, a string [texts].
      uncached: what changes the texts behind an offline cache, as gin or the vocabulary say.
    """
    candidates = candidates or {}
    steps: list[Callable[..., tf.data.Dataset]] = [
        preprocessors.write_notation,
        functools.partial(seqio.preprocessors.tokenize, with_eos=False),
        seqio.preprocessors.append_eos_after_trim,
        *(
            functools.partial(preprocessors.encode_candidates, name=candidate, max_texts=max_texts)
            for candidate, max_texts in candidates.items()
        ),
    ]
    feature = seqio.Feature(vocabulary=DefaultVocabulary(), add_eos=True)
    seqio.TaskRegistry.add(
        name,
        source=_source(TASKS[name]),
        preprocessors=[
            _as_written(preprocess),
            # Texts are cached, for any vocabulary; a cache keeps no order.
            *([] if shuffle_buffer_size is None else [seqio.CacheDatasetPlaceholder()]),
            *map(_as_written, ([] if uncached is None else [uncached]) + steps),
        ],
        output_features={"inputs": feature, "targets": feature}
        | dict.fromkeys(candidates, seqio.Feature(vocabulary=DefaultVocabulary(), rank=2)),
        postprocess_fn=postprocess,
        metric_fns=list(metric_fns),
        shuffle_buffer_size=shuffle_buffer_size,
    )


def _as_written(preprocess: Callable[..., tf.data.Dataset]) -> Callable[..., tf.data.Dataset]:
    """Returns a preprocessor whose functions TensorFlow does not rewrite, which takes seconds.

    None of them has an `if` or a loop over tensors.
    """

    @functools.wraps(preprocess)  # SeqIO reads the names of its arguments
    def unchanged(*args: Any, **kwargs: Any) -> tf.data.Dataset:
        return tf.autograph.experimental.do_not_convert(preprocess)(*args, **kwargs)

    return unchanged


def add_with_sample(name: str, preprocess: Callable, **options: Any) -> None:
    """Registers `name`, and `name_sample` over the sample; see `add_text_task`."""
    for suffix in ("", "_sample"):
        add_text_task(f"{name}{suffix}", preprocess, **options)


def add_mixtures(name: str, rate: Any) -> None:
    """Registers the mixture `name` of `MIXTURES`, and `name_sample`, with the rate of each task."""
    for suffix in ("", "_sample"):
        tasks = list(MIXTURES[f"{name}{suffix}"])
        seqio.MixtureRegistry.add(f"{name}{suffix}", tasks, default_rate=rate)
