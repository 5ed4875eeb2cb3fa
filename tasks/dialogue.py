"""Generation from knowledge on four more dialogue data sets; each has a `_sample`.

- `wizard_of_wikipedia_generate`, `multidoc2dial_generate`, `cmu_dog_generate`: knowledge and the
  last 3 utterances in, the response out.
- `topical_chat_generate` likewise, over the reading sets that the authors' script makes;
  `topical_chat_generate_pre_build` over those that their repository ships, with Wikipedia's
  sections alone.
- `wizard_of_wikipedia_generate_ctrl`: as the first, with control tokens before the inputs; see
  `faithdial_generate_ctrl`, whose `steering` it shares.

Turns without knowledge are left out, and Topical-Chat's turns that draw on personal knowledge
(Nandwani 2023, section 4).
"""

import tensorflow as tf

from faith_jax.data.raw.topical_chat import PERSONAL
from faith_jax.tasks import metrics
from faith_jax.tasks.faithdial import generate, generate_ctrl, steer
from faith_jax.tasks.registering import (
    Example,
    add_official_and_sample,
    add_text_task,
    raw_source,
)


def generate_from_knowledge(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Adds inputs and targets to the turns that have knowledge, and drops the others."""
    return generate(dataset.filter(_has_knowledge))


def generate_without_personal_knowledge(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """As `generate_from_knowledge`, without turns that draw on what the speaker knew before."""

    def impersonal(example: Example) -> tf.Tensor:
        return tf.reduce_all(example["knowledge_sources"] != PERSONAL)

    return generate_from_knowledge(dataset.filter(impersonal))


def _has_knowledge(example: Example) -> tf.Tensor:
    return tf.strings.length(example["knowledge"]) > 0


# The name of each task: its builder, its config, that of its sample, its preprocessor.
_TASKS = {
    "wizard_of_wikipedia_generate": (
        ("wizard_of_wikipedia", "WizardOfWikipedia", "official", "sample"),
        generate_from_knowledge,
    ),
    "multidoc2dial_generate": (
        ("multidoc2dial", "Multidoc2dial", "official", "sample"),
        generate_from_knowledge,
    ),
    "topical_chat_generate": (
        ("topical_chat", "TopicalChat", "post_build", "post_build_sample"),
        generate_without_personal_knowledge,
    ),
    "topical_chat_generate_pre_build": (
        ("topical_chat", "TopicalChat", "official", "sample"),
        generate_without_personal_knowledge,
    ),
    "cmu_dog_generate": (("cmu_dog", "CmuDog", "official", "sample"), generate_from_knowledge),
}
_GENERATION = {
    "postprocess": metrics.response_postprocess,
    "metric_fns": [metrics.token_f1, metrics.rouge, metrics.knowledge_f1],
}
for _name, ((_module, _builder, *_configs), _preprocess) in _TASKS.items():
    for _suffix, _config in zip(("", "_sample"), _configs, strict=True):
        add_text_task(
            f"{_name}{_suffix}",
            raw_source(_module, _builder, _config, name=_module),
            _preprocess,
            **_GENERATION,
        )
add_official_and_sample(
    "wizard_of_wikipedia_generate_ctrl",
    "wizard_of_wikipedia",
    "WizardOfWikipedia",
    generate_ctrl,
    part="control_tokens",
    uncached=steer,
    **_GENERATION,
)
