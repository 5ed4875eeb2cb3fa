"""Generation from knowledge on four more dialogue data sets; each has a `_sample`.

- `wizard_of_wikipedia_generate`, `cmu_dog_generate`: knowledge and the last 3 utterances in, the
  response out.
- `multidoc2dial_generate`, as Nandwani 2023 has it: every turn of the agent, from the passages that
  it refers to, if there are any, and the last 5 utterances (3 exchanges without the response).
  `multidoc2dial_generate_short_history` likewise with the last 3 (2 exchanges without the
  response), from which their code responds.
- `multidoc2dial_generate_spans`: the turns of the agent that answer the user from spans of a
  document, with these spans and the last 3 utterances.
- `topical_chat_generate`, as Nandwani 2023 has it, over the reading sets that the authors' script
  makes: knowledge and the last 3 utterances in; not the turns that open a conversation.
  `topical_chat_generate_pre_build` likewise over those that their repository ships, with
  Wikipedia's sections alone.
- `topical_chat_generate_with_openings`: as the former, with the opening turns too.
- `wizard_of_wikipedia_generate_ctrl`: as the first, with control tokens before the inputs; see
  `faithdial_generate_ctrl`, whose `steering` it shares.
- `wizard_of_wikipedia_infill`: as the first, with the response behind the inputs, words of it
  masked; the whole response out. It trains the infiller of `faith-jax mutate-claims` (Gupta 2022,
  section 4.1.1).

But for `multidoc2dial_generate` and its short history, turns without knowledge are left out; of
Topical-Chat also those that draw on personal knowledge (Nandwani 2023, section 5.2).
"""

import functools

import seqio
import tensorflow as tf

from faith_jax.datasets.raw.topical_chat import PERSONAL
from faith_jax.tasks.faithdial import generate, generate_ctrl, steer, with_inputs
from faith_jax.tasks.metrics import GENERATION
from faith_jax.tasks.registering import Example, add_with_sample

# Nandwani 2023's code shows 2 * max_history - 1 utterances; by default max_history is 3 in training
# and 2 where it responds.
PASSAGE_UTTERANCES = 2 * 3 - 1
SHORT_HISTORY = 2 * 2 - 1


def _generate_from_knowledge(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Adds inputs and targets to the turns that have knowledge, and drops the others."""
    return generate(dataset.filter(lambda example: tf.strings.length(example["knowledge"]) > 0))


@seqio.map_over_dataset
def _generate_from_passages(example: Example, last: int) -> Example:
    """Adds inputs with the last utterances, and with the knowledge where there is some."""
    return with_inputs(example, example["response"], last)


def _generate_with_openings(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """As `_generate_from_knowledge`, without turns that draw on what the speaker knew before."""
    impersonal = dataset.filter(lambda e: tf.reduce_all(e["knowledge_sources"] != PERSONAL))
    return _generate_from_knowledge(impersonal)


def _generate_replies(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """As `_generate_with_openings`, without turns that open a conversation."""
    return _generate_with_openings(dataset.filter(lambda example: tf.size(example["history"]) > 0))


MASKED = 0.3  # the share of a response's words; the paper only says "at random positions"


def _infill(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Adds the masked response behind the inputs of `_generate_from_knowledge`, its targets.

    Words next to each other share a mask. Which ones are masked follows from the example's id.
    """

    @seqio.map_over_dataset
    def add_masked(example: Example) -> Example:
        words = tf.strings.split(example["targets"])
        count = tf.size(words)
        seed = tf.stack([tf.strings.to_hash_bucket_fast(example["id"], 2**31 - 1), 0])
        draws = tf.random.stateless_uniform([count], seed)
        # At least one word: that of the smallest draw.
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
