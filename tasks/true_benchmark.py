"""The tasks of TRUE (Honovich 2022): grounding and text in, `1` (consistent) or `0` out.

`true_<corpus>` for each of the eleven corpora, and the mixture `true_all` of the nine that TRUE
averages; each has a `_sample` of the same form. All have one split, `test`.
"""

import seqio

from faith_jax.datasets.raw.true_benchmark import CORPORA
from faith_jax.tasks import metrics, preprocessors
from faith_jax.tasks.registering import Example, add_mixtures, add_with_sample


@seqio.map_over_dataset
def judge(example: Example) -> Example:
    """Adds grounding and text as premise and hypothesis, and the label as the target."""
    inputs = preprocessors.nli_inputs(example["grounding"], example["generated_text"])
    targets = preprocessors.label_text(example["label"], {0: "0", 1: "1"})
    return {**example, "inputs": inputs, "targets": targets}


for _corpus in CORPORA:
    add_with_sample(
        f"true_{_corpus}",
        judge,
        postprocess=metrics.label_postprocess,
        metric_fns=[metrics.classification],
    )
add_mixtures("true_all", seqio.mixing_rate_num_examples)
