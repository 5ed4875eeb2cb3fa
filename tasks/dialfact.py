"""The tasks of DialFact (Gupta 2022); each has a `_sample` of the same form.

- `dialfact_verifiable`: context and claim in, `factual` or `personal` out.
- `dialfact_evidence`: context, claim and a sentence in, `relevant` or `irrelevant` out;
  `dialfact_evidence_claim_only` without the context.
- `dialfact_dense`: the last two turns and the claim in, the relevant sentence out, to train an
  encoder that retrieves it; `dialfact_dense_claim_only` without the turns.
- `dialfact_verify_oracle`: context, claim and the annotators' evidence in, `SUPPORTS`, `REFUTES`
  or `NOT ENOUGH INFO` out; `dialfact_verify_retrieved` with a retriever's evidence,
  `dialfact_verify_claim_only` without evidence,
  `dialfact_verify_augmented` with claims that `faith-jax mutate-claims` made,
  `dialfact_verify_augmented_claim_only` with these claims, without evidence,
  `dialfact_verify_augmented_no_context` with these claims, without the context.
- the same six with `_2way`: `SUPPORTS` or `NOT SUPPORTED` out.

Tasks to train verifiers on claims without a dialogue, in the same form: `vitaminc_verify`,
`fever_verify`, `colloquial_claims_verify`, and the mixture `fact_verify` of the first two; all also
with `_2way`.
"""

import functools

import seqio
import tensorflow as tf

from faith_jax.core import templates
from faith_jax.core.labels import NOT_SUPPORTED, DialFactLabel, DialFactType, EvidenceLabel
from faith_jax.tasks.metrics import CLASSIFICATION
from faith_jax.tasks.preprocessors import apply_template, label_text
from faith_jax.tasks.registering import Example, add_mixtures, add_with_sample

EVIDENCE_TARGETS = {0: EvidenceLabel.IRRELEVANT.value, 1: EvidenceLabel.RELEVANT.value}


@seqio.map_over_dataset
def verifiable(example: Example) -> Example:
    """Adds a claim with its context, and its type as the target."""
    texts = (example["context"], example["response"])
    inputs = apply_template(templates.dialfact_claim_inputs, *texts)
    return {**example, "inputs": inputs, "targets": example["type_label"]}


@seqio.map_over_dataset
def _verify(example: Example, ways: int, evidence: bool = True, context: bool = True) -> Example:
    """Adds a claim with its context, and `faith_jax.core.labels.verification_label` as the target.

    Args:
      example: an example of DialFact.
      ways: number of labels, 3 or 2.
      evidence: show the evidence.
      context: show the turns before the claim.
    """
    titles, sentences = example["evidence_titles"], example["evidence"]
    claim = [example["context"] if context else example["context"][:0], example["response"]]
    if evidence:
        inputs = apply_template(templates.dialfact_inputs, *claim, titles, sentences)
    else:
        inputs = apply_template(templates.dialfact_claim_inputs, *claim)
        titles, sentences = titles[:0], sentences[:0]
    premise, hypothesis = (
        apply_template(
            lambda *texts, place=place: templates.dialfact_pair(*texts)[place],
            *claim,
            titles,
            sentences,
        )
        for place in (0, 1)
    )
    personal = example["type_label"] == DialFactType.PERSONAL.value
    label = tf.where(personal, DialFactLabel.NOT_ENOUGH_INFO.value, example["response_label"])
    if ways == 2:
        label = tf.where(label == DialFactLabel.SUPPORTS.value, label, NOT_SUPPORTED)
    texts = {"premise": premise, "hypothesis": hypothesis, "inputs": inputs, "targets": label}
    return {**example, **texts}


@seqio.map_over_dataset
def _select(example: Example, context: bool) -> Example:
    """Adds a claim with a sentence, and the relevance of the sentence as the target.

    As in the authors' code, encoders read the claim first, and the sentence without its title.

    Args:
      example: an example of `dialfact_evidence`.
      context: show the last utterances too.
    """
    claim = (example["context"] if context else example["context"][:0], example["response"])
    titles, sentences = example["evidence_title"][None], example["evidence"][None]
    return {
        **example,
        "claim": apply_template(templates.dialfact_claim, *claim),
        "sentence": apply_template(templates.clean_value, example["evidence"]),
        "inputs": apply_template(templates.dialfact_inputs, *claim, titles, sentences),
        "targets": label_text(example["label"], EVIDENCE_TARGETS),
    }


def _find(dataset: tf.data.Dataset, context: bool) -> tf.data.Dataset:
    """Keeps relevant sentences; adds the query as `inputs`, the sentence as `targets`, and `title`.

    Args:
      dataset: the examples of `dialfact_evidence`.
      context: the query also has the last two turns.
    """

    @seqio.map_over_dataset
    def add(example: Example) -> Example:
        utterances = example["context"][-2:] if context else example["context"][:0]
        return {
            **example,
            "title": example["evidence_title"],
            "inputs": apply_template(templates.dense_query, utterances, example["response"]),
            "targets": example["evidence"],
        }

    return add(dataset.filter(lambda example: example["label"] == 1))


add_with_sample("dialfact_verifiable", verifiable, **CLASSIFICATION)
for _suffix, _context in (("", True), ("_claim_only", False)):
    add_with_sample(
        f"dialfact_evidence{_suffix}",
        functools.partial(_select, context=_context),
        **CLASSIFICATION,
    )
    add_with_sample(f"dialfact_dense{_suffix}", functools.partial(_find, context=_context))
_SHOWN = {
    "oracle": {},
    "retrieved": {},
    "augmented": {},
    "claim_only": {"evidence": False},
    "augmented_claim_only": {"evidence": False},
    "augmented_no_context": {"context": False},
}
for _name, _options in _SHOWN.items():
    for _suffix, _ways in (("", 3), ("_2way", 2)):
        add_with_sample(
            f"dialfact_verify_{_name}{_suffix}",
            functools.partial(_verify, ways=_ways, **_options),
            **CLASSIFICATION,
        )
for _suffix, _ways in (("", 3), ("_2way", 2)):
    for _name in ("vitaminc", "fever", "colloquial_claims"):
        add_with_sample(
            f"{_name}_verify{_suffix}", functools.partial(_verify, ways=_ways), **CLASSIFICATION
        )
    add_mixtures(f"fact_verify{_suffix}", seqio.mixing_rate_num_examples)
