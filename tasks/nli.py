"""Natural language inference: premise and hypothesis in, a label out.

- `nli_anli`: ANLI, its three rounds together (from TFDS).
- `nli_anli_augmented`: every instance twice, unchanged and with a dialogue phrase before the
  hypothesis (Steen 2023), which depends on the instance's id. `nli.augmentation.phrases` replaces
  the paper's ten phrases.
- `nli_mnli`: MultiNLI (from TFDS); validation is the matched part, test the mismatched part.
- `nli_all`: the mixture of `nli_anli` and `nli_mnli`.
- `nli_dnli`: Dialogue NLI (Welleck 2019).
- `nli_decode`: DECODE (Nie 2021) as pairs of turns, with two classes, `contradiction` and
  `not_contradiction`, as FaithDial's authors use it to train a critic; see `_turn_pairs`.
- `nli_decode_dialogue`: DECODE with the whole history as the premise, Nie 2021's unstructured
  form; the same classes.

Each has a `_sample` over the embedded sample.
"""

import functools
from collections.abc import Callable, Sequence

import gin
import seqio
import tensorflow as tf

from faith_jax.core import templates
from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import DecodeLabel, NliLabel
from faith_jax.datasets.augmentation.dialogue_phrases import PHRASES, with_random_phrase
from faith_jax.tasks.metrics import CLASSIFICATION
from faith_jax.tasks.preprocessors import apply_template, label_text
from faith_jax.tasks.registering import Example, add_mixtures, add_text_task, add_with_sample

PHRASE_SEED = 0


@seqio.map_over_dataset
def _infer(example: Example) -> Example:
    """Adds inputs, and the label's name as the target."""
    texts = (example["premise"], example["hypothesis"])
    inputs = apply_template(templates.nli_inputs, *texts)
    return {**example, "inputs": inputs, "targets": example["label"]}


@seqio.map_over_dataset
def _from_tfds(example: Example) -> Example:
    """Renames the fields of an instance of ANLI or MultiNLI.

    The new names are id, premise, hypothesis, label and source (its data set).
    """
    premise = example["context"] if "context" in example else example["premise"]
    names = dict(enumerate(label.value for label in NliLabel))
    return {
        "id": example["uid"] if "uid" in example else tf.constant(""),
        "premise": premise,
        "hypothesis": example["hypothesis"],
        "label": label_text(example["label"], names),
        "source": example["source"],
    }


def augmentation(phrases: Sequence[str] | None = None) -> tuple[str, ...]:
    """Returns the phrases for hypotheses: gin's, or all of Steen 2023's table 6.

    Raises:
      ConfigError: if they are not texts, or there are none.
    """
    if phrases is None:
        return PHRASES
    texts = not isinstance(phrases, str) and all(isinstance(p, str) and p.strip() for p in phrases)
    if not texts or not phrases:
        raise ConfigError(f"nli.augmentation.phrases: expected a list of texts, got {phrases!r}.")
    return tuple(phrases)


# For the same reason as npov.error_labels.
with gin.unlock_config():
    augmentation = gin.configurable(augmentation, module="faith_jax.tasks.nli")


def _augmented(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns all instances unchanged, then all instances marked to get a dialogue phrase."""
    plain, marked = (
        dataset.map(lambda example, is_marked=is_marked: {**example, "augmented": is_marked})
        for is_marked in (tf.constant(False), tf.constant(True))
    )
    return plain.concatenate(marked)


def _add_phrases(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Puts the configured phrases before the hypotheses of marked instances.

    This runs after the offline cache, so the cache does not depend on the phrases.
    """
    phrases = augmentation()

    def phrased(hypothesis: str, identifier: str) -> str:
        return with_random_phrase(hypothesis, identifier, PHRASE_SEED, phrases)

    def add(example: Example) -> Example:
        hypothesis = tf.cond(
            example["augmented"],
            lambda: apply_template(phrased, example["hypothesis"], example["id"]),
            lambda: example["hypothesis"],
        )
        inputs = apply_template(templates.nli_inputs, example["premise"], hypothesis)
        return {**example, "hypothesis": hypothesis, "inputs": inputs}

    return dataset.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def _turn_pairs(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns pairs of an earlier turn as the premise and the last turn as the hypothesis.

    A contradiction gives a pair for each contradicted turn. Any other dialogue gives one pair, with
    the third to last turn (by the same speaker, if speakers alternate), or the second to last if
    there are at most three turns. This follows Dziri 2022's code; the paper does not mention it.
    """

    def pairs(example: Example) -> tf.data.Dataset:
        history = example["history"]
        place = tf.where(tf.size(history) > 2, -2, -1) + tf.size(history)
        is_contradiction = example["label"] == DecodeLabel.CONTRADICTION.value
        premises = tf.cond(
            is_contradiction, lambda: example["contradicted"], lambda: history[place : place + 1]
        )
        fields = {n: example[n] for n in ("id", "label")} | {"hypothesis": example["response"]}
        dataset = tf.data.Dataset.from_tensor_slices(premises)
        return dataset.map(lambda premise: {**fields, "premise": premise})

    return dataset.flat_map(pairs)


@seqio.map_over_dataset
def _whole_dialogue(example: Example) -> Example:
    """Returns the history, joined by spaces, as the premise, and the last turn as hypothesis."""
    return {
        "id": example["id"],
        "label": example["label"],
        "premise": tf.strings.reduce_join(example["history"], separator=" "),
        "hypothesis": example["response"],
    }


def _chained(dataset: tf.data.Dataset, steps: tuple) -> tf.data.Dataset:
    for step in steps:
        dataset = step(dataset)
    return dataset


def _add(name: str, steps: tuple, **more: Callable) -> None:
    options = CLASSIFICATION | more
    from_source = functools.partial(_chained, steps=(_from_tfds, *steps))
    add_text_task(name, from_source, **options)
    add_text_task(f"{name}_sample", functools.partial(_chained, steps=steps), **options)


_add("nli_anli", (_infer,))
_add("nli_anli_augmented", (_augmented, _infer), uncached=_add_phrases)
_add("nli_mnli", (_infer,))
add_mixtures("nli_all", seqio.mixing_rate_num_examples)
add_with_sample("nli_dnli", _infer, **CLASSIFICATION)
for _name, _step in (("nli_decode", _turn_pairs), ("nli_decode_dialogue", _whole_dialogue)):
    _preprocess = functools.partial(_chained, steps=(_step, _infer))
    add_with_sample(_name, _preprocess, **CLASSIFICATION)
