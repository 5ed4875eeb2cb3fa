import math

import pytest

import faith_jax
from faith_jax.core.errors import ConfigError
from faith_jax.scoring.registry import load_scorer

TEXTS = ["Tea is a leaf. It grows in the hills.", "The lake freezes in winter."], "It is a leaf."


def test_a_verdict_is_that_of_the_cards_threshold(models):
    name = "minicheck_flan_t5_large"
    (found,) = faith_jax.judge([TEXTS[0]], [TEXTS[1]], judge=name, model=models[name])
    (score,) = load_scorer(name, model=models[name]).score([TEXTS[0]], [TEXTS[1]])
    assert found.score == pytest.approx(score.value, abs=1e-6)
    assert found.supported is (score.value > 0.5)
    assert found.evidence == tuple(TEXTS[0])  # one chunk of two texts
    assert (found.cut_tokens, found.undefined) == (0, "")


def test_scores_on_both_sides_of_a_threshold(models, tmp_path):
    name = "minicheck_flan_t5_large"
    (found,) = faith_jax.judge([TEXTS[0]], [TEXTS[1]], model=models[name])
    card = (
        'what = "Ours."\narchitectures = ["t5"]\nsize = "1"\ncheckpoint = "ours"\n'
        'licence = "none"\nsource = "https://example.org"\nmax_length = 2048\n'
        'threshold = LIMIT\nthreshold_source = "ours"\n[input]\n'
        'text = "predict: {grounding}</s>{response}"\nspecial_tokens = ["</s>"]\n'
        '[reads]\nform = "words"\nwords = ["1", "0"]\n'
    )
    path = tmp_path / "mine.toml"
    for limit, expected in ((found.score - 0.01, True), (found.score + 0.01, False)):
        path.write_text(card.replace("LIMIT", str(limit)))
        (mine,) = faith_jax.judge([TEXTS[0]], [TEXTS[1]], judge=str(path), model=models[name])
        assert mine.score == pytest.approx(found.score, abs=1e-6)
        assert mine.supported is expected


def test_without_a_threshold_or_a_score_there_is_no_verdict(models):
    (found,) = faith_jax.judge(
        [TEXTS[0]], [TEXTS[1]], judge="unieval_fact", model=models["unieval_fact"]
    )
    assert found.supported is None
    assert 0 < found.score < 1
    (found,) = faith_jax.judge([TEXTS[0]], [""], model=models["minicheck_flan_t5_large"])
    assert found.supported is None
    assert math.isnan(found.score)
    assert found.undefined == "the response is empty"


def test_what_is_no_judge(models):
    with pytest.raises(ConfigError, match=r"judge: 'token_f1' is no judge\. .* There are: alig"):
        faith_jax.judge(["a"], ["b"], judge="token_f1", model=models["unieval_fact"])
    with pytest.raises(ConfigError, match="minicheck_flan_t5_large: needs a model"):
        faith_jax.judge(["a"], ["b"])
    with pytest.raises(ValueError, match="Expected as many of each"):
        faith_jax.judge(["a"], ["b", "c"], model=models["minicheck_flan_t5_large"])
