import math
import sys

import pytest
import sacrebleu
from rouge_score import rouge_scorer
from sklearn.metrics import roc_auc_score

from faith_jax.core.errors import ConfigError
from faith_jax.core.rows import BadRows
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.raw.true_benchmark import CORPORA
from faith_jax.scoring.registry import load_scorer, scorer_card
from faith_jax.statistics.auc import roc_auc
from faith_jax.statistics.texts import text_metrics
from faith_jax.statistics.texts.text_metrics import lexical_overlap
from tests.paths import REAL, needs_shared

RESPONSE, GROUNDING = "The cat sat in our hat.", "A cat sat on the mat, our cat."


def value(name, response=RESPONSE, grounding=GROUNDING, **options):
    (score,) = load_scorer(name, **options).score([grounding], [response])
    return score.value


def test_tokens_by_hand():
    # TRUE: cat sat hat | cat sat on mat cat. SQuAD keeps "in" and "our".
    assert value("token_precision") == pytest.approx(2 / 3)
    assert value("token_recall") == pytest.approx(2 / 5)
    assert value("token_f1") == pytest.approx(4 / 8)
    assert value("token_precision", normalization="squad") == pytest.approx(3 / 5)
    assert value("token_recall", normalization="squad") == pytest.approx(3 / 6)
    assert value("token_f1", normalization="squad") == pytest.approx(6 / 11)


@pytest.mark.parametrize("stem", [False, True])
@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rougeL"])
def test_rouge_is_rouge_scores(kind, stem):
    scorer = rouge_scorer.RougeScorer([kind], use_stemmer=stem)
    expected = scorer.score("Cats were sitting on the mats", "The cat sat on mats, sitting")[kind]
    arguments = "The cat sat on mats, sitting", "Cats were sitting on the mats"
    for part, figure in zip(("precision", "recall", "f1"), expected, strict=True):
        assert value(f"{kind}_{part}", *arguments, use_stemmer=stem) == pytest.approx(figure)


def test_bleu_is_sacrebleus():
    assert value("bleu") == sacrebleu.sentence_bleu(RESPONSE, [GROUNDING]).score > 0
    assert value("bleu", "same text here now", "same text here now") == pytest.approx(100)


def test_the_baselines_of_q2_compare_with_the_lower_cased_grounding():
    grounding = ["Mt. Fuji is high.", "It is in Japan."]
    for name, expected in (
        ("q2_baseline_token_f1", 2 * 2 / (3 + 4)),  # fuji, high of mt., fuji, high; not "mt."
        ("q2_baseline_bleu", sacrebleu.corpus_bleu(["Mt. Fuji is high now"], [[
            "mt. fuji is high. it is in japan."]]).score),
    ):  # fmt: skip
        (score,) = load_scorer(name).score([grounding], ["Mt. Fuji is high now"])
        assert score.value == pytest.approx(expected), name


def test_a_scorer_that_needs_spacy_is_listed_without_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    text_metrics.english_tokenizer.cache_clear()
    assert "spaCy" in scorer_card("q2_baseline_token_f1").description
    with pytest.raises(ConfigError, match=r"q2_baseline_token_f1: spaCy, .* is not installed"):
        load_scorer("q2_baseline_token_f1")


def test_copied_spans():
    assert value("coverage", "the cat sat still", "so the cat sat") == 3 / 4
    assert value("density", "the cat sat still", "so the cat sat") == 9 / 4


def test_lexical_overlap_takes_the_best_sentence():
    scorer = load_scorer("lexical_overlap")
    sentences = ["Tea grows on hills.", "Tea calms the nerves!", "Nothing."]
    (score,) = scorer.score([sentences], ["Tea calms, and it calms you nicely."])
    assert score.value == 3 / 4  # of tea, calms, calms, nicely the second sentence has three
    assert lexical_overlap("Tea", []) == 0
    assert math.isnan(lexical_overlap("It is!", ["Tea"]))


def test_lexical_overlap_with_spacys_words():
    # Of spaCy's stop words, unlike of NLTK's: "really" and "made"; "Who's" is two tokens.
    spacy = load_scorer("lexical_overlap", normalization="spacy")
    claim, sentence = "Who's really made tea, mother-in-law?", "The tea of a mother"
    assert spacy.score([sentence], [claim])[0].value == 2 / 3  # of tea, mother, law
    assert load_scorer("lexical_overlap").score([sentence], [claim])[0].value == 2 / 5


def test_first_person_pronouns():
    """By default the scorer counts the words of Steen 2023's table; options add others."""
    assert value("first_person_count", "I'm sure my tea is mine.") == 1
    assert value("first_person_count", "I'm sure my tea is mine.", pronouns=["My", "mine"]) == 2


NPOV = Grounding(
    ("Tea calms people.", "Tea stains teeth.", "It costs money."), ("pro", "con", "con")
)


def test_npov_detectors_score_words_where_they_stand():
    example = GroundedExample("1", NPOV, response="Teas calm; they stain glasses.")
    (hallucination,) = load_scorer("npov_rouge1_hallucination").score([example])
    assert [(w.word, w.score) for w in hallucination.words] == [
        ("Teas", 1),
        ("calm", 1),
        ("stain", 1),
        ("glasses", 0),
    ]
    assert hallucination.value == 3 / 4
    (coverage,) = load_scorer("npov_rouge1_coverage").score([example])
    # Pro: tea, calms, people: two of three. Con: tea, stains, teeth, costs, money: two of five.
    assert coverage.value == 2 / 5
    assert [(w.text, w.word, w.score) for w in coverage.words] == [
        (0, "Tea", 1),
        (0, "calms", 1),
        (0, "people", 0),
        (1, "Tea", 1),
        (1, "stains", 1),
        (1, "teeth", 0),
        (2, "costs", 0),
        (2, "money", 0),
    ]


def test_arguments_of_perspectives_may_be_mixed():
    texts, names = NPOV.texts, NPOV.perspectives
    mixed = Grounding((texts[1], texts[0], texts[2]), (names[1], names[0], names[2]))
    examples = [GroundedExample("1", g, response="It costs people.") for g in (NPOV, mixed)]
    first, second = load_scorer("npov_rouge1_coverage").score(examples)
    assert first.value == second.value
    renumbered = {0: 1, 1: 0, 2: 2}
    assert sorted((w.text, w.start, w.score) for w in second.words) == sorted(
        (renumbered[w.text], w.start, w.score) for w in first.words
    )


def test_what_is_undefined_is_nan():
    assert math.isnan(value("npov_rouge1_hallucination", "the", "Tea."))
    assert math.isnan(value("npov_rouge1_coverage", "Tea.", "the"))
    (score,) = load_scorer("token_precision").score(["Tea."], ["The."])
    assert math.isnan(score.value)
    assert score.undefined == "there are no words to compare"
    assert value("token_f1", "The.", "Tea.") == 0  # as published


@needs_shared
@pytest.mark.parametrize(
    ("corpus", "file", "area"),
    [("q2", "q2/cross_annotation.csv", 65.9), ("summeval", "summeval/true_summeval.csv", 61.4)],
)
def test_token_f1_on_real_rows(corpus, file, area):
    path = REAL / file
    dataset = CORPORA[corpus]
    name = dataset.instead if path.name.startswith("true_") else path.name
    rows = list(dataset.examples({name: path}, "test", BadRows()))
    scores = load_scorer("token_f1").score(
        [row["grounding"] for row in rows], [row["generated_text"] for row in rows]
    )
    values, labels = [score.value for score in scores], [row["label"] for row in rows]
    assert round(100 * roc_auc(values, labels), 1) == area
    assert roc_auc(values, labels) == pytest.approx(roc_auc_score(labels, values), abs=1e-9)


def test_told_and_missing_arguments():
    arguments = {"pro": ["Tea calms people."], "con": ["Tea stains teeth.", "It costs money."]}
    response = "Views differ. Some say that tea calms people. It costs money. Cats sleep."
    (recall,) = load_scorer("argument_recall").score([arguments], [response])
    assert recall.value == pytest.approx(2 / 3)
    assert [(w.word, w.score, w.text) for w in recall.words] == [
        ("Tea calms people.", 1, 0), ("Tea stains teeth.", 0, 1), ("It costs money.", 1, 2),
    ]  # fmt: skip
    (precision,) = load_scorer("argument_precision").score([arguments], [response])
    assert precision.value == pytest.approx(2 / 3)
    assert [(response[w.start : w.end], w.score) for w in precision.words] == [
        ("Some say that tea calms people.", 1), ("It costs money.", 1), ("Cats sleep.", 0),
    ]  # fmt: skip
    (all_of_it,) = load_scorer("argument_recall", threshold=0.3).score([arguments], [response])
    assert all_of_it.value == 1
