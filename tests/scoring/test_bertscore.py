import math

import numpy as np
import pytest

from faith_jax.core.errors import FaithJaxError
from faith_jax.scoring.bertscore import _document_frequencies
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.scoring import reference

FIXTURES = reference.stored_scores()
DOCUMENTS, RESPONSES = list(reference.DOCUMENTS), list(reference.RESPONSES)


@pytest.fixture(scope="module")
def encoder(models):
    return models["encoder"]


def values(encoder, documents=DOCUMENTS, responses=RESPONSES, **options):
    scorer = load_scorer("bertscore", model=encoder, layer=reference.LAYER, **options)
    return [score.value for score in scorer.score(documents, responses)]


@pytest.mark.parametrize("part", ["precision", "recall", "f1"])
def test_equals_bert_score(encoder, part):
    np.testing.assert_allclose(values(encoder, part=part), FIXTURES["bertscore"][part], atol=1e-5)
    np.testing.assert_allclose(
        values(encoder, part=part, idf=DOCUMENTS), FIXTURES["bertscore_idf"][part], atol=1e-5
    )


def test_frequencies_by_hand(encoder):
    tokens = load_vocabulary(encoder)
    idf = _document_frequencies(tokens, ["tea", "tea lake", "lake"])
    assert idf[None] == pytest.approx(math.log(4))
    assert idf[tokens.prefix_ids[0]] == 0.0  # stands in every text
    first = tokens.encode("tea")[0]
    count = sum(first in tokens.encode(text) for text in ("tea", "tea lake", "lake"))
    assert idf[first] == pytest.approx(math.log(4 / (count + 1)))


def test_undefined_where_no_token_has_a_weight(encoder):
    for part, count in (("precision", 0), ("recall", 3), ("f1", 3)):
        bert_scores = values(encoder, [DOCUMENTS[0]] * 3, part=part, idf=[DOCUMENTS[0]])
        assert sum(map(math.isnan, bert_scores)) == count  # tokens of all texts say nothing


def test_idf_of_a_file(encoder, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join([*DOCUMENTS, ""]), encoding="utf-8")
    assert values(encoder, idf=str(tmp_path / "texts.txt")) == values(encoder, idf=DOCUMENTS)


def test_baseline_rescaling(encoder, tmp_path):
    path = tmp_path / "baseline.tsv"
    path.write_text("LAYER,P,R,F\n0,0.3,0.3,0.3\n2,0.5,0.6,0.8\n")
    for part, baseline in (("precision", 0.5), ("recall", 0.6), ("f1", 0.8)):
        expected = (np.array(values(encoder, part=part)) - baseline) / (1 - baseline)
        bert_scores = values(encoder, part=part, baseline=str(path))
        np.testing.assert_allclose(bert_scores, expected, rtol=1e-6)


def test_the_grounding_alone_may_be_in_lower_case(encoder):
    lower = [text.lower() for text in DOCUMENTS]
    expected = values(encoder, lower)
    assert values(encoder, lower_grounding=True) == expected
    assert values(encoder) != expected


def test_the_same_text_is_1_and_batches_change_nothing(encoder):
    np.testing.assert_allclose(values(encoder, DOCUMENTS, DOCUMENTS), [1, 1, 1], atol=1e-5)
    bert_scores = values(encoder, tokens_per_batch=64)
    alone = [values(encoder, [d], [r])[0] for d, r in zip(DOCUMENTS, RESPONSES, strict=True)]
    np.testing.assert_allclose(bert_scores, alone, atol=1e-5)


def test_undefined_and_cut(encoder):
    scorer = load_scorer("bertscore", model=encoder, layer=2, max_length=16)
    scores = scorer.score(["", "Tea.", "tea " * 30], ["Tea.", "  ", "Tea."])
    assert [math.isnan(score.value) for score in scores] == [True, True, False]
    tokens = load_vocabulary(encoder)
    assert dict(scores[2].cut) == {"knowledge": len(tokens.encode(("tea " * 30).strip())) - 14}
    (swapped,) = scorer.score(["Tea."], ["tea " * 30])
    assert dict(swapped.cut) == {"response": scores[2].cut_tokens}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("L,P\n1,2\n", "expected rows"),
        ("LAYER,P,R,F\n3,0,0,0\n", "there is no row"),
        ("LAYER,P,R,F\n2,0.5,1,0.5\n", "layer 2: expected numbers below 1"),
    ],
)
def test_other_baseline_files(encoder, tmp_path, text, message):
    path = tmp_path / "baseline.tsv"
    path.write_text(text)
    with pytest.raises(FaithJaxError, match=rf"baseline\.tsv: {message}"):
        load_scorer("bertscore", model=encoder, layer=2, baseline=str(path))
