"""The tasks of BEGIN (Dziri 2021): a response and its knowledge in, its label out.

`begin_classify` is the second release with three labels, `begin_2021_classify` the first one
with five; each has a `_sample` of the same form, and the targets are the authors' labels.
"""

import seqio

from faith_jax.tasks import metrics, preprocessors
from faith_jax.tasks.registering import Example, add_with_sample


@seqio.map_over_dataset
def classify(example: Example) -> Example:
    """Adds inputs, and the authors' label as the target."""
    inputs = preprocessors.attribution_inputs(
        example["knowledge"], example["message"], example["response"]
    )
    return {**example, "inputs": inputs, "targets": example["begin_label"]}


_CLASSIFICATION = {
    "postprocess": metrics.label_postprocess,
    "metric_fns": [metrics.classification],
}
add_with_sample("begin_classify", classify, **_CLASSIFICATION)
add_with_sample("begin_2021_classify", classify, **_CLASSIFICATION)
