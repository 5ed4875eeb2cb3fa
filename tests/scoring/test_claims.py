import numpy as np

from faith_jax.core.labels import DialFactLabel
from faith_jax.core.templates import dialfact_claim_inputs, dialfact_inputs
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference.texts.text_pairs import LabelForm
from faith_jax.scoring.claims import ClaimVerifier, verdict
from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.scoring.registry import load_scorer
from tests.scoring import tiny_models

TITLES = ("Tea", "Lake")
EVIDENCE = ("Tea is a leaf.", "The lake freezes in winter.")
CLAIM = GroundedExample("1", Grounding(EVIDENCE, TITLES), ("Hi.", "Tea?"), "It grows on a hill.")
NO_EVIDENCE = GroundedExample("2", Grounding(()), (), "It is hot.")
NAMES = ("claim_supports", "claim_refutes", "claim_not_enough_info")


def scores(model, examples, **options):
    scorers = [load_scorer(name, model=model, **options) for name in NAMES]
    return np.array([[s.value for s in scorer.score(examples)] for scorer in scorers]).T


def test_the_most_decisive_sentence_decides():
    decision = verdict(np.array([[0.3, 0.1, 0.6], [0.2, 0.5, 0.3], [0.45, 0.15, 0.4]]))
    assert decision == ((0.2, 0.5, 0.3), 1)
    assert decision.label is DialFactLabel.REFUTES
    assert verdict(np.zeros((0, 3))) == ((0.0, 0.0, 1.0), None)


def test_sentences_are_premises_behind_their_titles(nli):
    premises = ["title: Tea content: Tea is a leaf.", f"title: Lake content: {EVIDENCE[1]}"]
    probabilities, _ = pair_classifier(nli)([(premise, CLAIM.response) for premise in premises])
    contradicts, neutral, entails = probabilities.T  # reference.NLI_LABELS
    best = int(np.argmin(neutral))
    (claim_scores,) = scores(nli, [CLAIM])
    expected = (entails[best], contradicts[best], neutral[best])
    np.testing.assert_allclose(claim_scores, expected, atol=1e-6)


def test_a_critic_of_decode_refutes_what_it_contradicts(tmp_path):
    """The other class supports; the most contradicting sentence decides (Gupta 2022)."""
    names = ("contradiction", "not_contradiction")
    decode = tiny_models.write_model(tmp_path / "decode", "roberta", label_names=names)
    probabilities, _ = pair_classifier(decode)([(text, CLAIM.response) for text in EVIDENCE])
    bare = GroundedExample("1", Grounding(EVIDENCE), (), CLAIM.response)
    contradicts = probabilities[:, 0].max()
    expected = (1 - contradicts, contradicts, 0)
    np.testing.assert_allclose(scores(decode, [bare])[0], expected, atol=1e-6)
    assert scores(decode, [NO_EVIDENCE])[0].tolist() == [0, 0, 1]


def test_neither_order_nor_other_claims_change_a_verdict(nli):
    turned = GroundedExample("3", Grounding(EVIDENCE[::-1], TITLES[::-1]), (), CLAIM.response)
    claim_scores = scores(nli, [CLAIM, NO_EVIDENCE, turned])
    np.testing.assert_allclose(claim_scores[0], scores(nli, [CLAIM])[0], atol=1e-6)
    np.testing.assert_allclose(claim_scores[0], claim_scores[2], atol=1e-6)


def said_of(t5, text):
    """The probabilities of DialFact's labels after a text."""
    words = tuple(label.value for label in DialFactLabel)
    probabilities, _ = pair_classifier(t5, LabelForm(words, lambda *_: text))([("", "")])
    return probabilities[0]


def test_a_model_of_dialfacts_tasks_reads_all_evidence_at_once(t5):
    text = dialfact_inputs(CLAIM.history, CLAIM.response, TITLES, EVIDENCE)
    claim_scores = scores(t5, [CLAIM, NO_EVIDENCE], form="dialfact")
    np.testing.assert_allclose(claim_scores[0], said_of(t5, text), atol=1e-6)
    assert claim_scores[1].tolist() == [0, 0, 1]
    verifier = ClaimVerifier(t5, form="dialfact")
    (verifier_text,) = verifier.texts(verifier.read(CLAIM)).values()
    assert "title: Tea content: Tea is a leaf." in verifier_text


def test_without_evidence_or_context_a_model_reads_the_claim_alone(t5):
    blind = scores(t5, [CLAIM, NO_EVIDENCE], form="claim_only")
    for probs, claim in zip(blind, (CLAIM, NO_EVIDENCE), strict=True):
        alone = said_of(t5, dialfact_claim_inputs(claim.history, claim.response))
        np.testing.assert_allclose(probs, alone, atol=1e-6)
    (short,) = scores(t5, [CLAIM], form="dialfact", context=False)
    text = dialfact_inputs((), CLAIM.response, TITLES, EVIDENCE)
    np.testing.assert_allclose(short, said_of(t5, text), atol=1e-6)
