"""The NPOV tasks (Chang 2024); each has a `_sample` over the sample embedded in the package.

- `npov_generate`: a query and arguments in, a response that presents the arguments out.
- `npov_hallucination`, `npov_coverage`: a query, a response and arguments in; `YES` (no error) or
  `NO` (the response has an argument that is not given, or omits a given one) out, over responses
  with and without synthetic errors.
- `npov_errors`: the mixture of the last two.
- `npov_hallucination_synth`, `…_para`, `…_dev`, `…_org`, and the same for `npov_coverage`: the same
  over the training sets of section 5.2, which `faith-jax reproduce npov_detection` makes
  (`datasets.builders.catalogue`).

Gin can flip or rename labels: `npov.error_labels.no_error` and `.error`. Tasks without `_sample`
read the user's own topics and responses; `datasets.builders.catalogue` says where to put the files.
Features are `inputs` and `targets` in the curly braces format, including the end token, which is
kept if texts are cut. `id`, the pretokenised texts and the arguments stay in the examples for
evaluation and export.
"""

import functools

import gin
import seqio
import tensorflow as tf

from faith_jax.core import templates
from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import ErrorLabel
from faith_jax.core.templates import check_label
from faith_jax.datasets.raw.npov import TRAINING_SETS
from faith_jax.tasks import metrics
from faith_jax.tasks.preprocessors import apply_template, label_text
from faith_jax.tasks.registering import Example, add_mixtures, add_with_sample
from faith_jax.tokenizers.vocabularies import default_vocabulary


def error_labels(
    no_error: str = ErrorLabel.NO_ERROR.value, error: str = ErrorLabel.ERROR.value
) -> dict[int, str]:
    """Returns the label texts of the classifiers' targets: 0 = no error, 1 = an error.

    Gin can flip or rename the labels. A run stores them in its MODEL_DIR, where scorers find them.
    A task's offline cache keeps the labels with which it was made.

    Raises:
      ConfigError: for labels that are empty or equal, or contain a delimiter.
    """
    texts = {0: no_error, 1: error}
    for name, text in (("no_error", no_error), ("error", error)):
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(f"npov.error_labels.{name}: expected a text, got {text!r}.")
        check_label(f"npov.error_labels.{name}", text, default_vocabulary().notation)
    if no_error.strip() == error.strip():
        raise ConfigError(
            f"npov.error_labels: expected two different texts, got {no_error!r} twice."
        )
    return texts


# Tasks may be imported after a run has read its gin files and locked the configuration; a gin file
# that binds the labels imports this module itself.
with gin.unlock_config():
    error_labels = gin.configurable(error_labels, module="faith_jax.tasks.npov")


@seqio.map_over_dataset
def _generate(example: Example) -> Example:
    """Adds a generator's inputs and target."""
    parts = [example[name] for name in ("query", "pro_arguments", "con_arguments")]
    inputs = apply_template(templates.npov_generate_inputs, *parts)
    targets = apply_template(templates.npov_generate_targets, example["response"])
    return {**example, "inputs": inputs, "targets": targets}


def classify(dataset: tf.data.Dataset, error: str) -> tf.data.Dataset:
    """Adds a classifier's inputs and target; `error` is the field that marks errors."""
    texts = error_labels()

    def add(example: Example) -> Example:
        parts = [example[n] for n in ("query", "response", "pro_arguments", "con_arguments")]
        return {
            **example,
            "inputs": apply_template(templates.npov_classifier_inputs, *parts),
            "targets": apply_template(
                templates.npov_classifier_targets, label_text(example[error], texts)
            ),
        }

    return dataset.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def _add_classifier(name: str, error: str) -> None:
    for part in ("", *(f"_{part}" for part in TRAINING_SETS)):
        add_with_sample(
            f"{name}{part}",
            functools.partial(classify, error=error),
            postprocess=metrics.npov_label_postprocess,
            metric_fns=[metrics.classification],
        )


add_with_sample(
    "npov_generate",
    _generate,
    postprocess=metrics.npov_postprocess,
    metric_fns=[metrics.token_f1, metrics.rouge, metrics.arguments],
)
_add_classifier("npov_hallucination", "has_hallucination")
_add_classifier("npov_coverage", "has_coverage_error")
add_mixtures("npov_errors", 1.0)
