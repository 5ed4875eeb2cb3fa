"""Text to text: inputs and targets as they stand in the user's own files.

- `text_to_text`: what `tools/make_mini_corpus.py` writes, or any JSON lines of that form; the
  embedded base model is trained on it (`gin_configs/mini_pretrain.gin`).

`text_to_text_sample` is over the embedded sample.
"""

import tensorflow as tf

from faith_jax.tasks import metrics
from faith_jax.tasks.registering import add_text_task, raw_source


def _as_it_is(dataset: tf.data.Dataset) -> tf.data.Dataset:
    return dataset


for _suffix, _config in {"": "full", "_sample": "sample"}.items():
    add_text_task(
        f"text_to_text{_suffix}",
        raw_source("text_to_text", _config),
        _as_it_is,
        postprocess=metrics.response_postprocess,
        metric_fns=[metrics.token_f1, metrics.rouge],
    )
