"""The tasks of FaithDial (Dziri 2022); each has a `_sample` of the same form.

- `faithdial_generate`: knowledge and the last 3 utterances in, the faithful response out.
- `faithdial_generate_wow`: the same inputs; targets are Wizard of Wikipedia's responses, before
  any edit.
- `faithdial_generate_wow_then_faithdial`: in each epoch, first all examples of
  `faithdial_generate_wow`, then all of `faithdial_generate`; read it without shuffling (the task
  itself does not shuffle).
- `faithdial_generate_infonce`: as `faithdial_generate`, with up to 8 unfaithful responses to
  contrast with (`negatives`, int32 [texts, length]; some examples have none).
- `faithdial_generate_ctrl`: as `faithdial_generate`, with control tokens before the inputs, which
  are extra ids of the vocabulary if it has some; `faithdial.steering.control_tokens` replaces them.
- `faith_critic`: knowledge and a response in, `faithful` or `unfaithful` out, on the sets of the
  authors' code; `faith_critic_all_edits` has edited responses in validation and test too.
"""

from collections.abc import Sequence

import gin
import seqio
import tensorflow as tf

from faith_jax.core import templates
from faith_jax.core.labels import CriticLabel, Faithfulness
from faith_jax.datasets.augmentation.control_tokens import check_control_tokens, extra_id_texts
from faith_jax.tasks.metrics import CLASSIFICATION, GENERATION
from faith_jax.tasks.preprocessors import apply_template, label_text
from faith_jax.tasks.registering import Example, add_with_sample
from faith_jax.tokenizers.vocabularies import default_vocabulary

LAST_UTTERANCES = 3
MOST_NEGATIVES = 8
CRITIC_TARGETS = {
    Faithfulness.UNFAITHFUL: CriticLabel.UNFAITHFUL.value,
    Faithfulness.FAITHFUL: CriticLabel.FAITHFUL.value,
}


def with_inputs(example: Example, response: tf.Tensor, last: int = LAST_UTTERANCES) -> Example:
    """Adds inputs with the last utterances, and a response as the target."""
    texts = (example["knowledge"], example["history"])
    inputs = apply_template(templates.dialogue_inputs, *texts, last=last)
    return {**example, "inputs": inputs, "targets": apply_template(templates.one_space, response)}


@seqio.map_over_dataset
def generate(example: Example) -> Example:
    """Adds inputs, and FaithDial's response as the target."""
    return with_inputs(example, example["response"])


@seqio.map_over_dataset
def _generate_wow(example: Example) -> Example:
    """Adds inputs, and the response before any edit as the target."""
    edited = tf.strings.length(example["original_response"]) > 0
    return with_inputs(example, tf.where(edited, example["original_response"], example["response"]))


@seqio.map_over_dataset
def generate_infonce(example: Example) -> Example:
    """Does the same as `generate`, and adds the texts of the negatives."""
    negatives = example.pop("negatives")[:MOST_NEGATIVES]
    example = {**example, "negatives_pretokenized": negatives}
    return with_inputs(example, example["response"])


@seqio.map_over_dataset
def generate_ctrl(example: Example) -> Example:
    """Does the same as `generate`, with control tokens before the inputs."""
    texts = (example["control_tokens"], example["knowledge"], example["history"])
    inputs = apply_template(templates.controlled_dialogue_inputs, *texts, last=LAST_UTTERANCES)
    targets = apply_template(templates.one_space, example["response"])
    return {**example, "inputs": inputs, "targets": targets}


def steering(control_tokens: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """Returns the control tokens, one of each kind, that gin sets for all examples.

    None = the examples' own; in the test split, they ask for a faithful response.

    Raises:
      ConfigError: for unknown control tokens.
    """
    if control_tokens is None:
        return None
    check_control_tokens(control_tokens)
    return tuple(control_tokens)


# For the same reason as npov.error_labels.
with gin.unlock_config():
    steering = gin.configurable(steering, module="faith_jax.tasks.faithdial")


def steer(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Replaces the control tokens of inputs by those of gin, written as the vocabulary requires."""
    tokens = steering()
    replacements = {} if tokens is None else {r"^(<[a-z-]+> ){3}": " ".join(tokens) + " "}
    replacements |= extra_id_texts(default_vocabulary().extra_ids)

    def replace(example: Example) -> Example:
        inputs = example["inputs"]
        for pattern, text in replacements.items():
            inputs = tf.strings.regex_replace(inputs, pattern, text)
        asked = {} if tokens is None else {"control_tokens": tf.constant(tokens)}
        return {**example, **asked, "inputs": inputs}

    return dataset.map(replace, num_parallel_calls=tf.data.AUTOTUNE)


def _generate_wow_then_faithdial(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns all examples with Wizard of Wikipedia's responses, then all with FaithDial's."""
    return _generate_wow(dataset).concatenate(generate(dataset))


@seqio.map_over_dataset
def criticise(example: Example) -> Example:
    """Adds inputs and the text of the label as the target."""
    texts = (example["knowledge"], example["response"])
    inputs = apply_template(templates.knowledge_response_inputs, *texts)
    targets = label_text(example["label"], CRITIC_TARGETS)
    return {**example, "inputs": inputs, "targets": targets}


add_with_sample("faithdial_generate", generate, **GENERATION)
add_with_sample("faithdial_generate_wow", _generate_wow, **GENERATION)
add_with_sample(
    "faithdial_generate_wow_then_faithdial",
    _generate_wow_then_faithdial,
    shuffle_buffer_size=None,
    **GENERATION,
)
add_with_sample(
    "faithdial_generate_infonce",
    generate_infonce,
    candidates={"negatives": MOST_NEGATIVES},
    **GENERATION,
)
add_with_sample("faithdial_generate_ctrl", generate_ctrl, uncached=steer, **GENERATION)
for _name in ("faith_critic", "faith_critic_all_edits"):
    add_with_sample(_name, criticise, **CLASSIFICATION)
