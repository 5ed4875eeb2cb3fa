"""Natural language inference: premise and hypothesis in, one of three labels out.

- `nli_anli`: ANLI, its three rounds as one (from TFDS).
- `nli_anli_augmented`: every instance twice, as it is and with a dialogue phrase before the
  hypothesis (Steen 2023); which phrase depends on the instance's id.
- `nli_mnli`: MultiNLI (from TFDS); validation is its matched part, test its mismatched one.
- `nli_all`: the mixture of the first and the third.

Each has a `_sample` over the embedded sample.
"""

import functools

import numpy as np
import seqio
import tensorflow as tf

from faith_jax.data.augmentation.dialogue_phrases import with_random_phrase
from faith_jax.labels import NliLabel
from faith_jax.tasks import metrics, preprocessors, sources
from faith_jax.tasks.registering import Example, add_text_task, raw_source

PHRASE_SEED = 0
_ANLI_SPLITS = {"train": "train", "validation": "validation", "test": "test"}
_MNLI_SPLITS = {
    "train": "train",
    "validation": "validation_matched",
    "test": "validation_mismatched",
}


@seqio.map_over_dataset
def infer(example: Example) -> Example:
    """Adds inputs, and the label's name as the target."""
    inputs = preprocessors.nli_inputs(example["premise"], example["hypothesis"])
    return {**example, "inputs": inputs, "targets": example["label"]}


@seqio.map_over_dataset
def from_tfds(example: Example) -> Example:
    """Returns an instance of ANLI or MultiNLI with our names: id, premise, hypothesis, label."""
    premise = example["context"] if "context" in example else example["premise"]
    names = dict(enumerate(label.value for label in NliLabel))
    return {
        "id": example["uid"] if "uid" in example else tf.constant(""),
        "premise": premise,
        "hypothesis": example["hypothesis"],
        "label": preprocessors.label_text(example["label"], names),
    }


def augmented(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns every instance as it is, then every instance with a dialogue phrase."""
    return dataset.concatenate(dataset.map(_with_phrase, num_parallel_calls=tf.data.AUTOTUNE))


def _with_phrase(example: Example) -> Example:
    def phrased(hypothesis: bytes, identifier: bytes) -> np.bytes_:
        text = with_random_phrase(hypothesis.decode(), identifier.decode(), PHRASE_SEED)
        return np.bytes_(text.encode())

    hypothesis = tf.numpy_function(
        phrased, [example["hypothesis"], example["id"]], tf.string, stateful=False
    )
    return {**example, "hypothesis": tf.ensure_shape(hypothesis, [])}


def _chained(dataset: tf.data.Dataset, steps: tuple) -> tf.data.Dataset:
    for step in steps:
        dataset = step(dataset)
    return dataset


def _add(name: str, source: seqio.DataSource, steps: tuple) -> None:
    options = {"postprocess": metrics.label_postprocess, "metric_fns": [metrics.classification]}
    from_source = functools.partial(_chained, steps=(from_tfds, *steps))
    add_text_task(name, source, from_source, **options)
    sample = raw_source("nli", "Nli", "sample")
    add_text_task(f"{name}_sample", sample, functools.partial(_chained, steps=steps), **options)


_ANLI = sources.TfdsUnionSource(("anli/r1", "anli/r2", "anli/r3"), _ANLI_SPLITS)
_add("nli_anli", _ANLI, (infer,))
_add("nli_anli_augmented", _ANLI, (augmented, infer))
_add("nli_mnli", sources.TfdsUnionSource(("multi_nli",), _MNLI_SPLITS), (infer,))
for _suffix in ("", "_sample"):
    seqio.MixtureRegistry.add(
        f"nli_all{_suffix}",
        [f"nli_anli{_suffix}", f"nli_mnli{_suffix}"],
        default_rate=seqio.mixing_rate_num_examples,
    )
