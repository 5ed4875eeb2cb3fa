"""Text to text: inputs and targets as they stand in the user's own files.

- `text_to_text`: what `tools/make_mini_corpus.py` writes, or any JSON lines of that form; the
  embedded base model is trained on it (`gin_configs/mini_pretrain.gin`).

`text_to_text_sample` is over the embedded sample.
"""

import tensorflow as tf

from faith_jax.tasks import metrics
from faith_jax.tasks.registering import add_with_sample


def _as_it_is(dataset: tf.data.Dataset) -> tf.data.Dataset:
    return dataset


add_with_sample(
    "text_to_text",
    _as_it_is,
    postprocess=metrics.response_postprocess,
    metric_fns=[metrics.token_f1, metrics.rouge],
)
