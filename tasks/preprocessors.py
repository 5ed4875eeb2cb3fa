"""SeqIO preprocessors: `faith_jax.templates` as TensorFlow string operations.

Each function agrees with its namesake in `faith_jax.templates` on every text, white space of
all scripts included.
"""

from collections.abc import Mapping

import seqio
import tensorflow as tf

# What str.isspace calls white space.
_WHITE_SPACE = (
    r"[\x{9}-\x{d}\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


def clean_value(text: tf.Tensor) -> tf.Tensor:
    """Returns texts fit to stand between curly braces; string tensors of any shape."""
    text = tf.strings.regex_replace(one_space(text), r"\{", "(")
    return tf.strings.regex_replace(text, r"\}", ")")


def curly_braces(pairs: list[tuple[str, tf.Tensor]]) -> tf.Tensor:
    """Returns the pairs as `{key: value} {key: value}`; values are scalars."""
    fields = [tf.strings.join(["{", key, ": ", clean_value(value), "}"]) for key, value in pairs]
    return tf.strings.join(fields, separator=" ")


def one_space(text: tf.Tensor) -> tf.Tensor:
    """Returns texts with single spaces and none around them; string tensors of any shape."""
    text = tf.strings.regex_replace(text, _WHITE_SPACE, " ")
    return tf.strings.regex_replace(text, "^ | $", "")


def clean_tagged(text: tf.Tensor) -> tf.Tensor:
    """Returns texts fit to stand behind a tag; string tensors of any shape."""
    text = tf.strings.regex_replace(one_space(text), "<", "(")
    return tf.strings.regex_replace(text, ">", ")")


def dialogue_inputs(knowledge: tf.Tensor, history: tf.Tensor, last: int = 3) -> tf.Tensor:
    """Returns a dialogue generator's input: a scalar, from a scalar and a string [utterances]."""
    shown = history[-last:] if last else history[:0]
    from_end = tf.range(tf.size(shown), 0, -1)
    speakers = tf.where(from_end % 2 == 1, "<seeker> ", "<wizard> ")
    knowledge = clean_tagged(knowledge)
    given = tf.where(tf.strings.length(knowledge) > 0, ["<knowledge> " + knowledge], [""])
    given = tf.boolean_mask(given, tf.strings.length(given) > 0)
    parts = tf.concat([given, speakers + clean_tagged(shown)], axis=0)
    return tf.strings.reduce_join(parts, separator=" ")


def knowledge_response_inputs(knowledge: tf.Tensor, response: tf.Tensor) -> tf.Tensor:
    """Returns a critic's input, a scalar."""
    return curly_braces([("knowledge", knowledge), ("response", response)])


def attribution_inputs(knowledge: tf.Tensor, message: tf.Tensor, response: tf.Tensor) -> tf.Tensor:
    """Returns BEGIN's input, a scalar."""
    return curly_braces([("knowledge", knowledge), ("message", message), ("response", response)])


def label_text(label: tf.Tensor, texts: Mapping[int, str]) -> tf.Tensor:
    """Returns the text of an integer label, a scalar; labels count from 0."""
    return tf.constant([texts[i] for i in range(len(texts))])[label]


def _perspective(arguments: tf.Tensor) -> tf.Tensor:
    return tf.strings.reduce_join(clean_value(arguments), separator=" ")


def npov_generate_inputs(
    query: tf.Tensor, pro_arguments: tf.Tensor, con_arguments: tf.Tensor
) -> tf.Tensor:
    """Returns the generator's input: a scalar, from a scalar and two string tensors [arguments]."""
    return curly_braces(
        [
            ("query", query),
            ("pro", _perspective(pro_arguments)),
            ("con", _perspective(con_arguments)),
        ]
    )


def npov_classifier_inputs(
    query: tf.Tensor, response: tf.Tensor, pro_arguments: tf.Tensor, con_arguments: tf.Tensor
) -> tf.Tensor:
    """Returns an error classifier's input, a scalar."""
    return curly_braces(
        [
            ("query", query),
            ("response", response),
            ("pro", _perspective(pro_arguments)),
            ("con", _perspective(con_arguments)),
        ]
    )


def npov_classifier_targets(label: tf.Tensor) -> tf.Tensor:
    """Returns an error classifier's target, a scalar."""
    return curly_braces([("label", label)])


def npov_generate_targets(response: tf.Tensor) -> tf.Tensor:
    """Returns the generator's target, a scalar."""
    return curly_braces([("response", response)])


@seqio.map_over_dataset
def npov_generate(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Adds `inputs` and `targets` to an example of `procon_npov`; its fields stay."""
    return {
        **example,
        "inputs": npov_generate_inputs(
            example["query"], example["pro_arguments"], example["con_arguments"]
        ),
        "targets": npov_generate_targets(example["response"]),
    }
