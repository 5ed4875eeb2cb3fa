import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import faith_jax
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.scoring.base import BaseScorer
from faith_jax.scoring.registry import (
    load_scorer,
    register_scorer,
    scorer_card,
    scorer_names,
    scorer_options,
)

NAMES = [
    "argument_precision",
    "argument_recall",
    "bleu",
    "coverage",
    "density",
    "content_word_precision",
    "first_person_count",
    "lexical_overlap",
    "npov_rouge1_coverage",
    "npov_rouge1_hallucination",
    "q2_baseline_bleu",
    "q2_baseline_token_f1",
    *(f"rouge{kind}_{part}" for kind in "12L" for part in ("f1", "precision", "recall")),
    "rougeL_f1_stemmed",
    *(f"token_{part}" for part in ("f1", "precision", "recall")),
]
SAMPLE = ["Tea", "tea.", "is", "the", "I'm", "hot,", "root?", "☕", "don't"]
WORDS = st.lists(st.sampled_from(SAMPLE), max_size=7)
TEXTS = WORDS.map(" ".join) | st.text(max_size=10)


def test_the_names():
    lexical = [name for name in scorer_names() if not scorer_card(name).needs_model]
    assert lexical == sorted(NAMES)
    assert scorer_names() == sorted(scorer_names())
    assert faith_jax.load_scorer is load_scorer


def test_cards():
    for name in NAMES:
        card = load_scorer(name).card
        assert card.name == name
        assert card.description.endswith("."), name
        assert card.low < card.high, name
        assert card.source, name
        assert not card.needs_model, name


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(TEXTS, min_size=1, max_size=3), TEXTS), max_size=4))
def test_every_scorer_keeps_its_range_and_knows_no_neighbours(rows):
    groundings, responses = [row[0] for row in rows], [row[1] for row in rows]
    for name in NAMES:
        scorer = load_scorer(name)
        scores = scorer.score(groundings, responses)
        alone = [scorer.score([g], [r])[0] for g, r in zip(groundings, responses, strict=True)]
        assert list(map(repr, scores)) == list(map(repr, alone))
        for score, grounding, response in zip(scores, groundings, responses, strict=True):
            in_range = scorer.card.low <= score.value <= scorer.card.high + 1e-9
            assert math.isnan(score.value) or in_range
            assert score.cut == {}
            assert scorer.card.word_level or not score.words
            for word in score.words:
                text = response if word.text is None else grounding[word.text]
                assert text[word.start : word.end] == word.word


def test_both_forms_of_examples_give_the_same():
    scorer = load_scorer("token_f1")
    example = GroundedExample("1", Grounding(("Tea is hot.", "It grows.")), response="Hot tea")
    expected = scorer.score([example])
    assert scorer.score([["Tea is hot.", "It grows."]], ["Hot tea"]) == expected
    assert scorer.score([example.grounding], ["Hot tea"], [["Hi."]]) == expected
    assert scorer.score(["Tea is hot. It grows."], ["Hot tea"]) == expected
    assert scorer.score([]) == scorer.score([], []) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Tea.", "Tea."), "are lists, also of a single one"),
        ((["a"], ["b", "c"]), "Expected as many of each, got 1 groundings, 2 responses\\.$"),
        ((["a"],), "Item 0 is no GroundedExample; groundings come with responses"),
        (([["a", 3]], ["b"]), "Grounding 0: expected a text, got 3"),
        ((["a"], ["b"], [3]), "History 0: expected a list of texts, got 3"),
    ],
)
def test_bad_examples(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_scorer("token_f1").score(*arguments)


def test_options_that_scorers_share_are_listed_after_their_own():
    shared = ["vocabulary", "max_length", "cut_policy", "dtype", "tokens_per_batch"]
    shared += ["num_partitions"]
    shared += ["label_words", "dropout_passes", "seed", "dropout_rate"]
    assert scorer_options("nli_entailment") == ["model", "labels", "premise", *shared]
    assert scorer_options("faith_critic") == ["model", "faithful_label", "form", *shared]
    own_options = ["keep_short", "use_contradiction"]
    assert scorer_options("summac_zs") == ["model", "labels", *own_options, *shared]
    assert scorer_options("q2_baseline_bleu") == []


def test_what_rouge_cannot_read_is_said():
    assert "ASCII letters and digits" in load_scorer("rouge2_f1").card.description
    (score,) = load_scorer("rouge1_precision").score(["Чай"], ["Чай"])
    assert math.isnan(score.value)


def test_a_scorer_of_ones_own(monkeypatch):
    class Length(BaseScorer):
        def __init__(self, unit="words"):
            self.unit = unit

        def score_examples(self, examples):
            return []

    monkeypatch.setattr("faith_jax.scoring.registry._FACTORIES", {})
    register_scorer("length", Length)
    assert load_scorer("length", unit="letters").unit == "letters"
    with pytest.raises(ValueError, match="There is a scorer 'length' already"):
        register_scorer("length", Length)
