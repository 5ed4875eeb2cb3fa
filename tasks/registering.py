"""How the tasks of this package are registered: one source, text features, a vocabulary by gin."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

from faith_jax.tasks import preprocessors, sources
from faith_jax.tokenizers.seqio_vocabulary import DefaultVocabulary

Example = dict[str, tf.Tensor]


def raw_source(name: str, config: str) -> sources.PreparedTfdsSource:
    """Returns a source over one of our builders, which are imported when it is read.

    Args:
      name: of `faith_jax.datasets.builders.catalogue.BUILDERS`.
      config: the name of one of its configs.
    """

    def prepare(config: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
        from faith_jax.datasets.builders import base, catalogue

        return base.prepared(catalogue.BUILDERS[name], config, data_dir=data_dir)

    return sources.PreparedTfdsSource(prepare, name=name, config=config)


def add_text_task(
    name: str,
    source: seqio.DataSource,
    preprocess: Callable[[tf.data.Dataset], tf.data.Dataset],
    postprocess: Callable[..., Any] | None = None,
    metric_fns: Sequence[Callable[..., Any]] = (),
    shuffle_buffer_size: int | None = seqio.dataset_providers.SHUFFLE_BUFFER_SIZE,
    candidates: Mapping[str, int] | None = None,
    uncached: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
) -> None:
    """Registers a task from text to text.

    Args:
      name: `<dataset>_<what the model does>[_<variant>]`.
      source: of the examples.
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
    feature = seqio.Feature(vocabulary=DefaultVocabulary(), add_eos=True)
    seqio.TaskRegistry.add(
        name,
        source=source,
        preprocessors=[
            preprocess,
            # Texts are cached, for any vocabulary; a cache keeps no order.
            *([] if shuffle_buffer_size is None else [seqio.CacheDatasetPlaceholder()]),
            *([] if uncached is None else [uncached]),
            functools.partial(seqio.preprocessors.tokenize, with_eos=False),
            seqio.preprocessors.append_eos_after_trim,
            *(
                functools.partial(preprocessors.encode_candidates, name=candidate, most=most)
                for candidate, most in candidates.items()
            ),
        ],
        output_features={"inputs": feature, "targets": feature}
        | dict.fromkeys(candidates, seqio.Feature(vocabulary=DefaultVocabulary(), rank=2)),
        postprocess_fn=postprocess,
        metric_fns=list(metric_fns),
        shuffle_buffer_size=shuffle_buffer_size,
    )


def add_official_and_sample(
    name: str, builder: str, preprocess: Callable, part: str = "", **options: Any
) -> None:
    """Registers `name` over a builder's official files and `name_sample` over the sample.

    Args:
      name: of the task.
      builder: its name.
      preprocess: see `add_text_task`.
      part: of the data set, whose configs are `<part>` and `<part>_sample`; empty = the whole.
      **options: see `add_text_task`.
    """
    configs = (part, f"{part}_sample") if part else ("official", "sample")
    for suffix, config in zip(("", "_sample"), configs, strict=True):
        source = raw_source(builder, config)
        add_text_task(f"{name}{suffix}", source, preprocess, **options)
