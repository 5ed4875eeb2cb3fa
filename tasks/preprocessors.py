"""SeqIO preprocessors: `faith_jax.templates` as TensorFlow string operations.

Each function agrees with its namesake in `faith_jax.templates` on every text, white space of
all scripts included.
"""

import seqio
import tensorflow as tf

# What str.isspace calls white space.
_WHITE_SPACE = (
    r"[\x{9}-\x{d}\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


def clean_value(text: tf.Tensor) -> tf.Tensor:
    """Returns texts fit to stand between curly braces; string tensors of any shape."""
    text = tf.strings.regex_replace(text, _WHITE_SPACE, " ")
    text = tf.strings.regex_replace(text, "^ | $", "")
    text = tf.strings.regex_replace(text, r"\{", "(")
    return tf.strings.regex_replace(text, r"\}", ")")


def curly_braces(pairs: list[tuple[str, tf.Tensor]]) -> tf.Tensor:
    """Returns the pairs as `{key: value} {key: value}`; values are scalars."""
    fields = [tf.strings.join(["{", key, ": ", clean_value(value), "}"]) for key, value in pairs]
    return tf.strings.join(fields, separator=" ")


def npov_generate_inputs(
    query: tf.Tensor, pro_arguments: tf.Tensor, con_arguments: tf.Tensor
) -> tf.Tensor:
    """Returns the generator's input: a scalar, from a scalar and two string tensors [arguments]."""

    def perspective(arguments: tf.Tensor) -> tf.Tensor:
        return tf.strings.reduce_join(clean_value(arguments), separator=" ")

    return curly_braces(
        [
            ("query", query),
            ("pro", perspective(pro_arguments)),
            ("con", perspective(con_arguments)),
        ]
    )


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
