"""Tasks from text to text, with inputs and targets in the user's own files.

- `text_to_text`: JSON lines with `inputs` and `targets`, which are not changed (such as those of
  `tools/make_mini_corpus.py`, on which the embedded base model is trained), or rows in the format
  that `infer` reads, with a `response` to learn.

`text_to_text_sample` reads the embedded sample.
"""

from collections.abc import Mapping
from typing import Any

from faith_jax.core import templates
from faith_jax.tasks import metrics
from faith_jax.tasks.registering import add_with_sample


def postprocess(
    text: str, example: Mapping[str, Any] | None = None, is_target: bool = False
) -> str | dict[str, Any]:
    """Returns the response in a text, which may have the format of the NPOV tasks."""
    return metrics.response_postprocess(templates.npov_response(text), example, is_target)


add_with_sample(
    "text_to_text",
    lambda dataset: dataset,
    postprocess=postprocess,
    metric_fns=[metrics.token_f1, metrics.rouge],
)
