"""Natural language inference: premise and hypothesis in, a label out.

- `nli_anli`: ANLI, its three rounds as one (from TFDS).
- `nli_anli_augmented`: every instance twice, as it is and with a dialogue phrase before the
  hypothesis (Steen 2023); which phrase depends on the instance's id. `nli.augmentation.phrases`
  sets others than the paper's ten.
- `nli_mnli`: MultiNLI (from TFDS); validation is its matched part, test its mismatched one.
- `nli_all`: the mixture of the first and the third.
- `nli_dnli`: Dialogue NLI (Welleck 2019).
- `nli_decode`: DECODE (Nie 2021) as pairs of turns, in two classes, `contradiction` and
  `not_contradiction`: as FaithDial's authors train a critic on it, see `_turn_pairs`.
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
    """Returns an instance of ANLI or MultiNLI with our names, and the data set it is from.

    The names are id, premise, hypothesis, label and source.
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
      ConfigError: where they are no texts, or none.
    """
    if phrases is None:
        return PHRASES
    texts = not isinstance(phrases, str) and all(isinstance(p, str) and p.strip() for p in phrases)
    if not texts or not phrases:
        raise ConfigError(f"nli.augmentation.phrases: expected a list of texts, got {phrases!r}.")
    return tuple(phrases)


# As npov.error_labels.
with gin.unlock_config():
    augmentation = gin.configurable(augmentation, module="faith_jax.tasks.nli")


def _augmented(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns every instance as it is, then every instance marked to get a dialogue phrase."""
    plain, marked = (
        dataset.map(lambda example, is_marked=is_marked: {**example, "augmented": is_marked})
        for is_marked in (tf.constant(False), tf.constant(True))
    )
    return plain.concatenate(marked)


def _add_phrases(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Puts phrases, as gin has them, before the hypotheses of marked instances.

    It stands behind the offline cache, which is thus the same whatever the phrases are.
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
    """Returns pairs of an earlier turn, the premise, and the last one, the hypothesis.

    A contradiction gives a pair for each turn that is contradicted. Any other dialogue gives one,
    with the turn before the last but one (the same speaker's, where they take turns), or the last
    but one where there are no more than three turns. So does the published code of Dziri 2022,
    whose paper does not say it.
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
    """Returns the history, its turns joined by spaces, as the premise of the last turn."""
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
