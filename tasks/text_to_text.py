"""Text to text: inputs and targets as they stand in the user's own files.

- `text_to_text`: what `tools/make_mini_corpus.py` writes, or any JSON lines of that form; the
  embedded base model is trained on it (`gin_configs/mini_pretrain.gin`).

`text_to_text_sample` is over the embedded sample.
"""

from faith_jax.tasks import metrics
from faith_jax.tasks.registering import add_with_sample

add_with_sample(
    "text_to_text",
    lambda dataset: dataset,
    postprocess=metrics.response_postprocess,
    metric_fns=[metrics.token_f1, metrics.rouge],
)
