"""Tasks of generation from knowledge on four more dialogue data sets; each has a `_sample`.

- `wizard_of_wikipedia_generate`, `cmu_dog_generate`: knowledge and the last 3 utterances in, the
  response out.
- `multidoc2dial_generate`, as in Nandwani 2023: all turns of the agent, from the passages that the
  turn refers to, if there are any, and the last 5 utterances (3 exchanges without the response).
  `multidoc2dial_generate_short_history`: the same with the last 3 utterances (2 exchanges without
  the response), which the authors' code uses when it responds.
- `multidoc2dial_generate_spans`: the turns of the agent that answer the user from spans of a
  document, with these spans and the last 3 utterances.
- `topical_chat_generate`, as in Nandwani 2023, with the reading sets that the authors' script
  makes: knowledge and the last 3 utterances in, without the turns that open a conversation.
  `topical_chat_generate_pre_build`: the same with the reading sets in the authors' repository,
  which only have Wikipedia's sections.
- `topical_chat_generate_with_openings`: as `topical_chat_generate`, with the opening turns too.
- `wizard_of_wikipedia_generate_ctrl`: as `wizard_of_wikipedia_generate`, with control tokens before
  the inputs; shares `steering` with `faithdial_generate_ctrl`.
- `wizard_of_wikipedia_infill`: as `wizard_of_wikipedia_generate`, with the response, some words of
  it masked, after the inputs; the whole response out. It trains the infiller of
  `faith-jax mutate-claims` (Gupta 2022, section 4.1.1).

Except in `multidoc2dial_generate` and its short history, turns without knowledge are left out, and
in Topical-Chat also turns that use personal knowledge (Nandwani 2023, section 5.2).
"""

import functools

import seqio
import tensorflow as tf

from faith_jax.datasets.raw.topical_chat import PERSONAL
from faith_jax.tasks.faithdial import generate, generate_ctrl, steer, with_inputs
from faith_jax.tasks.metrics import GENERATION
from faith_jax.tasks.registering import Example, add_with_sample

# Nandwani 2023's code shows 2 * max_history - 1 utterances; by default max_history is 3 in training
# and 2 when responding.
PASSAGE_UTTERANCES = 2 * 3 - 1
SHORT_HISTORY = 2 * 2 - 1


def _generate_from_knowledge(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Adds inputs and targets to turns with knowledge, and drops the others."""
    return generate(dataset.filter(lambda example: tf.strings.length(example["knowledge"]) > 0))


@seqio.map_over_dataset
def _generate_from_passages(example: Example, last: int) -> Example:
    """Adds inputs with the last utterances, and with the knowledge if there is any."""
    return with_inputs(example, example["response"], last)


def _generate_with_openings(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Does the same as `_generate_from_knowledge`, without turns that use personal knowledge."""
    impersonal = dataset.filter(lambda e: tf.reduce_all(e["knowledge_sources"] != PERSONAL))
    return _generate_from_knowledge(impersonal)


def _generate_replies(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Does the same as `_generate_with_openings`, without turns that open a conversation."""
    return _generate_with_openings(dataset.filter(lambda example: tf.size(example["history"]) > 0))


MASKED = 0.3  # the share of a response's words; the paper only says "at random positions"


def _infill(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Adds the masked targets after the inputs of `_generate_from_knowledge`.

    Adjacent masked words share a mask. The example's id determines which words are masked.
    """

    @seqio.map_over_dataset
    def add_masked(example: Example) -> Example:
        words = tf.strings.split(example["targets"])
        count = tf.size(words)
        seed = tf.stack([tf.strings.to_hash_bucket_fast(example["id"], 2**31 - 1), 0])
        draws = tf.random.stateless_uniform([count], seed)
        # At least one word is masked: the one with the smallest draw.
        is_masked = draws <= tf.maximum(tf.reduce_min(draws), MASKED)
        begins = is_masked & ~tf.concat([[False], is_masked], 0)[:-1]
        numbers = tf.strings.as_string(tf.cumsum(tf.cast(begins, tf.int32)) - 1)
        marks = tf.strings.join(["<extra_id_", numbers, ">"])
        pieces = tf.boolean_mask(tf.where(begins, marks, words), begins | ~is_masked)
        masked = tf.strings.reduce_join(pieces, separator=" ")
        return {**example, "inputs": tf.strings.join([example["inputs"], masked], " ")}

    return add_masked(_generate_from_knowledge(dataset))


_TASKS = {
    "wizard_of_wikipedia_generate": _generate_from_knowledge,
    "wizard_of_wikipedia_infill": _infill,
    "multidoc2dial_generate": functools.partial(_generate_from_passages, last=PASSAGE_UTTERANCES),
    "multidoc2dial_generate_short_history": functools.partial(
        _generate_from_passages, last=SHORT_HISTORY
    ),
    "multidoc2dial_generate_spans": _generate_from_knowledge,
    "topical_chat_generate": _generate_replies,
    "topical_chat_generate_with_openings": _generate_with_openings,
    "topical_chat_generate_pre_build": _generate_replies,
    "cmu_dog_generate": _generate_from_knowledge,
}
for _name, _preprocess in _TASKS.items():
    add_with_sample(_name, _preprocess, **GENERATION)
add_with_sample("wizard_of_wikipedia_generate_ctrl", generate_ctrl, uncached=steer, **GENERATION)
