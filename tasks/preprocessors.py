"""SeqIO preprocessors: `faith_jax.core.templates` as TensorFlow string operations.

Each function agrees with its namesake in `faith_jax.core.templates` on every text, white space of
all scripts included.
"""

from collections.abc import Mapping, Sequence

import seqio
import tensorflow as tf

from faith_jax.tokenizers.vocabularies import default_vocabulary

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
    last_utterances = history[-last:] if last else history[:0]
    from_end = tf.range(tf.size(last_utterances), 0, -1)
    speakers = tf.where(from_end % 2 == 1, "<seeker> ", "<wizard> ")
    knowledge = clean_tagged(knowledge)
    knowledge_part = tf.where(tf.strings.length(knowledge) > 0, ["<knowledge> " + knowledge], [""])
    knowledge_part = tf.boolean_mask(knowledge_part, tf.strings.length(knowledge_part) > 0)
    parts = tf.concat([knowledge_part, speakers + clean_tagged(last_utterances)], axis=0)
    return tf.strings.reduce_join(parts, separator=" ")


def controlled_dialogue_inputs(
    control_tokens: tf.Tensor, knowledge: tf.Tensor, history: tf.Tensor, last: int = 3
) -> tf.Tensor:
    """Returns a controlled dialogue generator's input: a scalar; tokens are a string [tokens]."""
    parts = tf.concat([control_tokens, [dialogue_inputs(knowledge, history, last)]], axis=0)
    return tf.strings.strip(_joined(parts))


def knowledge_response_inputs(knowledge: tf.Tensor, response: tf.Tensor) -> tf.Tensor:
    """Returns a critic's input, a scalar."""
    return curly_braces([("knowledge", knowledge), ("response", response)])


def attribution_inputs(knowledge: tf.Tensor, message: tf.Tensor, response: tf.Tensor) -> tf.Tensor:
    """Returns BEGIN's input, a scalar."""
    return curly_braces([("knowledge", knowledge), ("message", message), ("response", response)])


def nli_inputs(premise: tf.Tensor, hypothesis: tf.Tensor) -> tf.Tensor:
    """Returns an entailment model's input, a scalar."""
    return tf.strings.join(
        ["premise: ", one_space(premise), " hypothesis: ", one_space(hypothesis)]
    )


def dialfact_inputs(
    context: tf.Tensor,
    claim: tf.Tensor,
    titles: tf.Tensor,
    sentences: tf.Tensor,
    last: int = 2,
    most_evidence: int = 5,
) -> tf.Tensor:
    """Returns the input of DialFact's classifiers: a scalar, from string tensors [entries]."""
    evidence = _evidence(titles, sentences, most_evidence)
    return curly_braces([*_claim_pairs(context, claim, last), ("evidence", evidence)])


def dialfact_pair(
    context: tf.Tensor,
    claim: tf.Tensor,
    titles: tf.Tensor,
    sentences: tf.Tensor,
    last: int = 2,
    most_evidence: int = 5,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the two texts that encoders read side by side: evidence, and context and claim."""
    return _evidence(titles, sentences, most_evidence), dialfact_claim(context, claim, last)


def dialfact_claim(context: tf.Tensor, claim: tf.Tensor, last: int = 2) -> tf.Tensor:
    """Returns a claim behind its context, as encoders read it, a scalar."""
    utterances = tf.concat([context[-last:] if last else context[:0], claim[None]], 0)
    return _joined(clean_value(utterances), " [EOT] ")


def dense_query(context: tf.Tensor, claim: tf.Tensor) -> tf.Tensor:
    """Returns the text that DPR's encoder reads of a claim and the turns before it, a scalar."""
    turns = _joined(context, " [eot] ")
    return tf.where(tf.strings.length(turns) > 0, tf.strings.join([turns, claim], " [SEP] "), claim)


def _evidence(titles: tf.Tensor, sentences: tf.Tensor, max_sentences: int) -> tf.Tensor:
    there = tf.strings.length(sentences) > 0
    titles = tf.boolean_mask(titles, there)[:max_sentences]
    sentences = tf.boolean_mask(sentences, there)[:max_sentences]
    return _joined(
        tf.strings.join(["title: ", clean_value(titles), " content: ", clean_value(sentences)])
    )


def dialfact_claim_inputs(context: tf.Tensor, claim: tf.Tensor, last: int = 2) -> tf.Tensor:
    """Returns the input of a classifier that sees no evidence, a scalar."""
    return curly_braces(_claim_pairs(context, claim, last))


def _claim_pairs(context: tf.Tensor, claim: tf.Tensor, last: int) -> list[tuple[str, tf.Tensor]]:
    utterances = context[-last:] if last else context[:0]
    return [("context", _joined(clean_value(utterances), " [EOT] ")), ("claim", claim)]


def _joined(texts: tf.Tensor, separator: str = " ") -> tf.Tensor:
    return tf.strings.reduce_join(texts, separator=separator)


def encode_candidates(
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    sequence_length: Mapping[str, Sequence[int]] | None = None,
    *,
    name: str,
    max_texts: int,
) -> tf.data.Dataset:
    """Adds the tokens of the field `<name>_pretokenized`, a string [texts]: int32 [texts, length].

    They are padded with 0. Each text ends with EOS, which is kept where the text is cut.
    `sequence_length` may have the most texts and the most tokens of each; else the texts are at
    most `max_texts`.
    """
    vocabulary = output_features[name].vocabulary
    texts, tokens = (sequence_length or {}).get(name) or (max_texts, None)

    def add(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        encoded = vocabulary.encode_tf(one_space(example[f"{name}_pretokenized"][:texts]))
        if tokens is not None:
            encoded = encoded[:, : tokens - 1]
        ends = tf.fill([encoded.nrows(), 1], vocabulary.eos_id)
        return {**example, name: tf.concat([encoded, ends], axis=1).to_tensor(0)}

    return dataset.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def write_notation(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Writes inputs and targets with the delimiters of the run's vocabulary.

    See `faith_jax.core.templates`; a cache of texts has the published ones. If the vocabulary can
    write none, they stay, and whoever reads these texts raises an error: encoders of pairs do not.
    """
    forms = [form for form in default_vocabulary().notation.forms if form.writing]
    if not forms:
        return dataset

    def written(text: tf.Tensor) -> tf.Tensor:
        result = text
        for form in reversed(forms):
            replaced = text
            for pattern, replacement in form.writing:
                replaced = tf.strings.regex_replace(replaced, pattern, replacement)
            is_of_form = tf.strings.regex_full_match(text, f"(?s)(?:{form.start}).*")
            result = tf.where(is_of_form, replaced, result)
        return result

    def add(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {**example, **{name: written(example[name]) for name in ("inputs", "targets")}}

    return dataset.map(add, num_parallel_calls=tf.data.AUTOTUNE)


def label_text(label: tf.Tensor, texts: Mapping[int, str]) -> tf.Tensor:
    """Returns the text of an integer label, a scalar; labels count from 0."""
    return tf.constant([texts[i] for i in range(len(texts))])[label]


def _perspective(arguments: tf.Tensor) -> tf.Tensor:
    return _joined(clean_value(arguments))


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
