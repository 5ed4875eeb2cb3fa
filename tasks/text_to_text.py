"""Text to text: what a model reads and should write, in the user's own files.

- `text_to_text`: JSON lines of `inputs` and `targets`, which stay as they are (such as those of
  `tools/make_mini_corpus.py`, on which the embedded base model is trained), or rows as those that
  `infer` responds to, with the `response` to learn.

`text_to_text_sample` is over the embedded sample.
"""

from collections.abc import Mapping
from typing import Any

from faith_jax.core import templates
from faith_jax.tasks import metrics
from faith_jax.tasks.registering import add_with_sample


def postprocess(
    text: str, example: Mapping[str, Any] | None = None, is_target: bool = False
) -> str | dict[str, Any]:
    """Returns the response in a text, which responses to arguments have in the format of these."""
    return metrics.response_postprocess(templates.npov_response(text), example, is_target)


add_with_sample(
    "text_to_text",
    lambda dataset: dataset,
    postprocess=postprocess,
    metric_fns=[metrics.token_f1, metrics.rouge],
)
