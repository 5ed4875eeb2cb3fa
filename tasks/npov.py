"""The NPOV tasks (Chang 2024); each has a `_sample` over the sample embedded in the package.

- `npov_generate`: a query and arguments in, a response that tells them out.
- `npov_hallucination`, `npov_coverage`: a query, a response and arguments in; `YES` (no error) or
  `NO` (the response tells an argument that is not given, or leaves a given one out), over the
  responses with and without synthetic errors.
- `npov_errors`: the mixture of the last two.

The unmarked ones read the user's own topics and responses; `faith_jax.data.builders.procon_npov`
says where their files go. Features are `inputs` and `targets` in the curly braces format, end
token included; where they are cut to a length, the end token stays. `id`, the pretokenised texts
and the arguments stay in the examples for evaluation and export.
"""

import functools
from collections.abc import Callable

import seqio
import tensorflow as tf

from faith_jax.labels import ErrorLabel
from faith_jax.tasks import metrics, preprocessors
from faith_jax.tasks.registering import Example, add_text_task, raw_source

_CONFIGS = {"": "full", "_sample": "sample"}


def _classify(dataset: tf.data.Dataset, error: str) -> tf.data.Dataset:
    """Adds a classifier's inputs and target; `error` names the field that says there is one."""

    def add(example: Example) -> Example:
        inputs = preprocessors.npov_classifier_inputs(
            example["query"],
            example["response"],
            example["pro_arguments"],
            example["con_arguments"],
        )
        texts = {0: ErrorLabel.NO_ERROR.value, 1: ErrorLabel.ERROR.value}
        target = preprocessors.npov_classifier_targets(
            preprocessors.label_text(example[error], texts)
        )
        return {**example, "inputs": inputs, "targets": target}

    return dataset.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def _add_classifier(name: str, error: str) -> None:
    preprocess: Callable = functools.partial(_classify, error=error)
    for suffix, config in _CONFIGS.items():
        add_text_task(
            name + suffix,
            raw_source("procon_npov", "NpovErrors", config),
            preprocess,
            postprocess=metrics.npov_label_postprocess,
            metric_fns=[metrics.classification],
        )


for _suffix, _config in _CONFIGS.items():
    add_text_task(
        f"npov_generate{_suffix}",
        raw_source("procon_npov", "ProconNpov", _config),
        preprocessors.npov_generate,
        postprocess=metrics.npov_postprocess,
        metric_fns=[metrics.token_f1, metrics.rouge, metrics.arguments],
    )
_add_classifier("npov_hallucination", "has_hallucination")
_add_classifier("npov_coverage", "has_coverage_error")
for _suffix in _CONFIGS:
    seqio.MixtureRegistry.add(
        f"npov_errors{_suffix}",
        [f"npov_hallucination{_suffix}", f"npov_coverage{_suffix}"],
        default_rate=1.0,
    )
