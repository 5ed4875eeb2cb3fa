"""Classifiers of responses that the user has labelled.

- `labelled_responses_classify`: knowledge and a response in, `faithful` or `unfaithful` out, of a
  table of the user's own; the inputs and targets are those of `faith_critic`, so that the scorer of
  this name reads what is trained on it (`gin_configs/classify_finetune.gin`).

`labelled_responses_classify_sample` is over the embedded sample.
"""

from faith_jax.tasks import metrics
from faith_jax.tasks.faithdial import criticise
from faith_jax.tasks.registering import add_with_sample

add_with_sample(
    "labelled_responses_classify",
    criticise,
    postprocess=metrics.label_postprocess,
    metric_fns=[metrics.classification],
)
