"""Registration of this package's tasks, with one source, text features and gin's vocabulary.

`faith_jax.datasets.task_data` lists the tasks with their data.
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
    """Returns a source for data sets of TFDS, or for one of our builders, NAME/CONFIG.

    Our builders are only imported when the source is read.
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
      name: `<dataset>_<what the model does>[_<variant>]`, a key of `TASKS`.
      preprocess: adds `inputs` and `targets` to the examples; other fields stay.
      postprocess: converts decoded texts for the metrics.
      metric_fns: metrics of the results of `postprocess`.
      shuffle_buffer_size: number of examples shuffled at once; None keeps the order of
        `preprocess`, but then the task has no offline cache.
      candidates: features with several texts each, and their maximum numbers of texts;
        `preprocess` adds them as `<feature>_pretokenized`, a string [texts].
      uncached: changes texts after the offline cache, because it depends on gin or the vocabulary.
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
            # The cache has texts, so it works with any vocabulary; it does not keep the order.
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
    """Returns a preprocessor whose functions TensorFlow does not rewrite, which would take seconds.

    No function needs rewriting, because none has an `if` or a loop over tensors.
    """

    @functools.wraps(preprocess)  # SeqIO reads the names of its arguments
    def unchanged(*args: Any, **kwargs: Any) -> tf.data.Dataset:
        return tf.autograph.experimental.do_not_convert(preprocess)(*args, **kwargs)

    return unchanged


def add_with_sample(name: str, preprocess: Callable, **options: Any) -> None:
    """Registers `name`, and `name_sample` with the sample data; see `add_text_task`."""
    for suffix in ("", "_sample"):
        add_text_task(f"{name}{suffix}", preprocess, **options)


def add_mixtures(name: str, rate: Any) -> None:
    """Registers the mixture `name` of `MIXTURES`, and `name_sample`, with the rate of each task."""
    for suffix in ("", "_sample"):
        tasks = list(MIXTURES[f"{name}{suffix}"])
        seqio.MixtureRegistry.add(f"{name}{suffix}", tasks, default_rate=rate)
