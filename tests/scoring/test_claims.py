import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import DialFactLabel
from faith_jax.core.templates import dialfact_claim_inputs, dialfact_inputs
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference.texts.text_pairs import LabelForm
from faith_jax.scoring.claims import ClaimVerifier, verdict
from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.scoring.registry import load_scorer
from tests.scoring import reference, tiny_models

TITLES = ("Tea", "Lake")
EVIDENCE = ("Tea is a leaf.", "The lake freezes in winter.")
CLAIM = GroundedExample("1", Grounding(EVIDENCE, TITLES), ("Hi.", "Tea?"), "It grows on a hill.")
NO_EVIDENCE = GroundedExample("2", Grounding(()), (), "It is hot.")
NAMES = ("claim_supports", "claim_refutes", "claim_not_enough_info")


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    return reference.write_models(tmp_path_factory.mktemp("models"))["nli"]


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return tiny_models.write_t5(tmp_path_factory.mktemp("models") / "t5")


def scores(model, examples, **options):
    scorers = [load_scorer(name, model=model, **options) for name in NAMES]
    return np.array([[s.value for s in scorer.score(examples)] for scorer in scorers]).T


def test_the_most_decisive_sentence_decides():
    found = verdict(np.array([[0.3, 0.1, 0.6], [0.2, 0.5, 0.3], [0.45, 0.15, 0.4]]))
    assert found == ((0.2, 0.5, 0.3), 1)
    assert found.label is DialFactLabel.REFUTES
    assert verdict(np.zeros((0, 3))) == ((0.0, 0.0, 1.0), None)


def test_sentences_are_premises_behind_their_titles(nli):
    premises = ["title: Tea content: Tea is a leaf.", f"title: Lake content: {EVIDENCE[1]}"]
    probabilities, _ = pair_classifier(nli)([(it, CLAIM.response) for it in premises])
    contradicts, neutral, entails = probabilities.T  # reference.NLI_LABELS
    best = int(np.argmin(neutral))
    (found,) = scores(nli, [CLAIM])
    expected = (entails[best], contradicts[best], neutral[best])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_critic_of_decode_refutes_what_it_contradicts(tmp_path):
    """Its other class supports; the sentence that contradicts most decides (Gupta 2022)."""
    names = ("contradiction", "not_contradiction")
    decode = tiny_models.write_model(tmp_path / "decode", "roberta", label_names=names)
    probabilities, _ = pair_classifier(decode)([(text, CLAIM.response) for text in EVIDENCE])
    bare = GroundedExample("1", Grounding(EVIDENCE), (), CLAIM.response)
    contradicts = probabilities[:, 0].max()
    expected = (1 - contradicts, contradicts, 0)
    np.testing.assert_allclose(scores(decode, [bare])[0], expected, atol=1e-6)
    assert scores(decode, [NO_EVIDENCE])[0].tolist() == [0, 0, 1]


def test_without_titles_sentences_are_premises_as_they_are(nli):
    probabilities, _ = pair_classifier(nli)([(EVIDENCE[0], CLAIM.response)])
    bare = GroundedExample("1", Grounding(EVIDENCE[:1]), (), CLAIM.response)
    np.testing.assert_allclose(scores(nli, [bare])[0], probabilities[0, [2, 0, 1]], atol=1e-6)


def test_neither_order_nor_other_claims_change_a_verdict(nli):
    turned = GroundedExample("3", Grounding(EVIDENCE[::-1], TITLES[::-1]), (), CLAIM.response)
    found = scores(nli, [CLAIM, NO_EVIDENCE, turned])
    np.testing.assert_allclose(found[0], scores(nli, [CLAIM])[0], atol=1e-6)
    np.testing.assert_allclose(found[0], found[2], atol=1e-6)
    assert found[1].tolist() == [0, 0, 1]


def test_a_model_of_dialfacts_tasks_reads_all_evidence_at_once(t5):
    words = tuple(label.value for label in DialFactLabel)
    text = dialfact_inputs(CLAIM.history, CLAIM.response, TITLES, EVIDENCE)
    expected, _ = pair_classifier(t5, LabelForm(words, lambda *_: text))([("", "")])
    found = scores(t5, [CLAIM, NO_EVIDENCE], form="dialfact")
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    assert found[1].tolist() == [0, 0, 1]
    verifier = ClaimVerifier(t5, form="dialfact")
    (shown,) = verifier.texts(verifier.read(CLAIM)).values()
    assert "title: Tea content: Tea is a leaf." in shown


def test_without_evidence_or_context_a_model_reads_the_claim_alone(t5):
    words = tuple(label.value for label in DialFactLabel)

    def expected(text):
        found, _ = pair_classifier(t5, LabelForm(words, lambda *_: text))([("", "")])
        return found[0]

    blind = scores(t5, [CLAIM, NO_EVIDENCE], form="claim_only")
    alone = expected(dialfact_claim_inputs(CLAIM.history, CLAIM.response))
    np.testing.assert_allclose(blind[0], alone, atol=1e-6)
    alone = expected(dialfact_claim_inputs((), NO_EVIDENCE.response))
    np.testing.assert_allclose(blind[1], alone, atol=1e-6)
    (short,) = scores(t5, [CLAIM], form="dialfact", context=False)
    text = dialfact_inputs((), CLAIM.response, TITLES, EVIDENCE)
    np.testing.assert_allclose(short, expected(text), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "fever"}, "form: expected one of nli, dialfact, claim_only"),
        ({"form": "dialfact"}, "expected DialFact's: SUPPORTS, REFUTES, NOT ENOUGH INFO"),
        ({"context": False}, "context: goes with form=dialfact or claim_only"),
        ({"form": "dialfact", "labels": "a,b,c"}, "labels: goes with form=nli"),
    ],
)
def test_wrong_options(nli, options, message):
    with pytest.raises(ConfigError, match=message):
        ClaimVerifier(nli, **options)
