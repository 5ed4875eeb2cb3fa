import math

import numpy as np
import pytest

from faith_jax.scoring.registry import load_scorer
from tests.scoring import reference
from tests.tokenizers.published_tokenizers import SAME_PIECES

FIXTURES = reference.stored_scores()
DOCUMENTS, RESPONSES = list(reference.DOCUMENTS), list(reference.RESPONSES)


def by_hand(use_contradiction):
    """The mean over response sentences of the maxima, from Transformers' probabilities."""
    means, pairs = [], iter(np.array(FIXTURES["nli_sentences"]))
    for documents, responses in reference.SENTENCES:
        scores = []
        for _ in responses:
            part = np.array([next(pairs) for _ in documents])
            scores.append(part[:, 2].max() - (part[:, 0].max() if use_contradiction else 0))
        means.append(np.mean(scores))
    return means


@SAME_PIECES
@pytest.mark.parametrize("use_contradiction", [False, True])
def test_the_largest_entailment_of_each_sentence(nli, use_contradiction):
    scorer = load_scorer(
        "summac_zs", model=nli, keep_short=True, use_contradiction=use_contradiction
    )
    values = [score.value for score in scorer.score(DOCUMENTS, RESPONSES)]
    np.testing.assert_allclose(values, by_hand(use_contradiction), atol=1e-5)
    assert (scorer.card.low, scorer.card.high) == (-1.0 if use_contradiction else 0.0, 1.0)


def test_texts_of_a_grounding_are_split_each(nli):
    scorer = load_scorer("summac_zs", model=nli)
    whole = scorer.score([DOCUMENTS[0]], [RESPONSES[0]])
    assert scorer.score([reference.SENTENCES[0][0]], [RESPONSES[0]]) == whole


def test_words_have_their_sentences_score(nli):
    scorer = load_scorer("summac_zs", model=nli, keep_short=True)
    response = " A leaf  grows. Does it?"
    score = scorer.score([DOCUMENTS[0]], [response])[0]
    assert [word.word for word in score.words] == ["A", "leaf", "grows.", "Does", "it?"]
    assert all(response[word.start : word.end] == word.word for word in score.words)
    assert score.words[0].score == score.words[2].score != score.words[3].score
    assert score.value == pytest.approx((score.words[0].score + score.words[3].score) / 2)


def test_sentences_of_ten_characters_are_left_out(nli):
    scorer = load_scorer("summac_zs", model=nli)
    document, response = DOCUMENTS[0], "A leaf grows slowly in the shade."
    score = scorer.score([document], [response])[0]
    for texts in ((document, f"{response} Ten chars."), (f"{document} Ten chars.", response)):
        assert scorer.score([texts[0]], [texts[1]])[0].value == score.value
    eleven = scorer.score([document], [f"{response} Eleven chr."])[0]
    assert len(eleven.words) == len(score.words) + 2
    for texts in (("Tea.", response), (document, "Yes.")):
        assert scorer.score([texts[0]], [texts[1]])[0] == scorer.score(["Tea."], ["No."])[0]
    assert scorer.score(["Tea."], ["No."])[0].value == 0


def test_without_sentences_it_is_undefined(nli):
    scores = load_scorer("summac_zs", model=nli).score(["Tea.", " "], [" ", "Tea."])
    assert all(math.isnan(score.value) for score in scores)
