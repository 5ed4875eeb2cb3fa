import collections
import csv
import json
import math
import re
import string
import sys
import tracemalloc

import pytest
import sacrebleu
import spacy
from hypothesis import given
from hypothesis import strategies as st
from rouge_score import rouge_scorer
from sklearn import metrics

from faith_jax.core.errors import ConfigError
from faith_jax.statistics.classification import best_threshold
from faith_jax.statistics.texts import text_metrics as tm
from tests.paths import REAL, needs_shared

WORDS = st.lists(st.sampled_from(["tea", "Coffee", "calms", "the", "sleep.", "don't"]), max_size=8)
TEXTS = WORDS.map(" ".join)


def test_true_normalisation():
    assert tm.f1_words("The U.S. man, in our WELL-known\ta town's an") == [
        "us", "man", "wellknown", "towns",
    ]  # fmt: skip


@given(st.text(st.sampled_from("ane thiour\u201c\u2014\u00e9.,")))
def test_words_next_to_other_than_ascii_are_dropped_as_in_the_published_code(text):
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    assert tm.f1_words(text) == re.sub(r"\b(a|an|the|in|our)\b", " ", bare).split()
    assert tm.f1_words(text, "squad") == re.sub(r"\b(a|an|the)\b", " ", bare).split()


def token_f1(response, reference):
    return tm.token_overlap(response, reference).f1


def test_token_overlap_by_hand():
    # Response: cat sat cat; reference: cat sat on mat. Two of the words match (cat once).
    overlap = tm.token_overlap("The cat sat, cat!", "A cat sat on our mat.")
    assert overlap == (2 / 3, 2 / 4, 2 * 2 / (3 + 4))


def test_undefined_is_nan_and_disagreement_is_zero():
    assert all(map(math.isnan, tm.token_overlap("", "the")))
    empty = tm.token_overlap("", "tea")
    assert (math.isnan(empty.precision), empty.recall, empty.f1) == (True, 0.0, 0.0)
    assert tm.token_overlap("tea", "coffee") == (0.0, 0.0, 0.0)


@given(TEXTS, TEXTS)
def test_token_overlap_invariants(a, b):
    forward, backward = tm.token_overlap(a, b), tm.token_overlap(b, a)
    assert str(forward.precision) == str(backward.recall)
    assert str(forward.f1) == str(backward.f1)
    if tm.f1_words(a):
        assert tm.token_overlap(a, a) == (1.0, 1.0, 1.0)
        assert 0 <= forward.precision <= 1
    shared = collections.Counter(tm.f1_words(a)) & collections.Counter(tm.f1_words(b))
    if tm.f1_words(a):
        assert forward.precision == sum(shared.values()) / len(tm.f1_words(a))


def test_match_words_takes_first_occurrences():
    assert tm.match_words(["x", "y", "x", "x"], ["x", "z", "x"]) == (True, False, True, False)
    assert tm.match_words([], ["x"]) == ()


def test_rouge_by_hand():
    scores = tm.rouge("the cat sat on the mat", "the cat lay on a mat")
    # Unigrams: the, cat, on, mat. Bigrams: "the cat". Longest common subsequence: the cat on mat.
    assert scores["rouge1"] == (4 / 6, 4 / 6, pytest.approx(4 / 6))
    assert scores["rouge2"] == (1 / 5, 1 / 5, pytest.approx(1 / 5))
    assert scores["rougeL"] == (4 / 6, 4 / 6, pytest.approx(4 / 6))
    assert tuple(scores) == tm.ROUGE_TYPES


def test_rouge_stemming_is_an_option():
    assert tm.rouge("he walked", "he walks")["rouge1"].recall == 1 / 2
    assert tm.rouge("he walked", "he walks", use_stemmer=True)["rouge1"].recall == 1.0


def test_rouge_undefined():
    one_word = tm.rouge("tea", "tea")
    assert one_word["rougeL"] == (1.0, 1.0, 1.0)
    assert all(map(math.isnan, one_word["rouge2"]))
    empty = tm.rouge("", "black tea")
    assert math.isnan(empty["rouge2"].precision)
    assert (empty["rouge2"].recall, empty["rouge2"].f1) == (0.0, 0.0)
    assert all(math.isnan(value) for scores in tm.rouge("?", "").values() for value in scores)


LETTERS = st.text("abcd", max_size=70)


@given(LETTERS, LETTERS)
def test_the_longest_common_subsequence_is_that_of_the_table(a, b):
    row = [0] * (len(b) + 1)
    for letter in a:
        before, row = row, [0] * (len(b) + 1)
        for place, letter_b in enumerate(b):
            same = before[place] + 1
            row[place + 1] = same if letter == letter_b else max(row[place], before[place + 1])
    assert tm.common_subsequence(a, b) == row[-1]


@given(TEXTS, TEXTS, st.booleans())
def test_rouge_is_the_packages(response, reference, stem):
    published = rouge_scorer.RougeScorer(tm.ROUGE_TYPES, stem).score(reference, response)
    for name, overlap in tm.rouge(response, reference, stem).items():
        for ours, published_value in zip(overlap, published[name], strict=True):
            assert ours == published_value or (math.isnan(ours) and published_value == 0)


def test_rouge_of_long_texts_takes_little_memory():
    words = [f"w{number * number % 9973}" for number in range(20_000)]
    text, reverse = " ".join(words), " ".join(reversed(words))
    tracemalloc.start()
    try:
        overlap = tm.rouge(text, reverse, kinds=("rougeL",))["rougeL"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert tm.rouge(text, text, kinds=("rougeL",))["rougeL"] == (1.0, 1.0, 1.0)
    assert 0 < overlap.precision == overlap.recall < 1
    assert peak < 100e6  # the package's table has 20,000 x 20,000 numbers


def test_words_that_no_text_has_are_compared_by_stem_and_numbers_as_written():
    texts = ["Regulation of the 1990s cost 10,000 pounds.", "COP26"]
    words = tm.words_in_none("It regulates PJ in 1990 for 10,000 and 100; pound, cop26!", texts)
    assert [word.text for word in words] == ["PJ", "1990", "100"]
    assert [word.start for word in words] == [13, 19, 39]
    assert tm.words_in_none("", texts) == ()
    assert [word.text for word in tm.words_in_none("Tea, tea.", [])] == ["Tea", "tea"]


def test_content_words_are_stemmed_and_keep_their_place():
    text = "They don\N{RIGHT SINGLE QUOTATION MARK}t regulate_cities: it's REGULATION!"
    words = tm.content_words(text)
    assert [(w.text, w.stem) for w in words] == [
        ("regulate", "regul"),
        ("cities", "citi"),
        ("REGULATION", "regul"),
    ]
    assert [text[w.start : w.end] for w in words] == [w.text for w in words]


ARGUMENTS = {"pro": ["Tea calms people.", "It is cheap."], "con": ["Tea stains teeth."]}


def test_argument_overlap_by_hand():
    overlap = tm.argument_overlap("Supporters say that tea is cheap; tea, tea stained.", ARGUMENTS)
    words = [w.text for w in overlap.response_words]
    assert words == ["Supporters", "say", "tea", "cheap", "tea", "tea", "stained"]
    # The arguments hold "tea" twice: the third "tea" of the response is not matched.
    assert overlap.response_matched == (False, False, True, True, True, False, True)
    assert overlap.precision == 4 / 7
    # pro: tea, (calms), (people), cheap; con: tea, stains, (teeth).
    assert overlap.argument_matched["pro"] == ((True, False, False), (True,))
    assert overlap.recall_by_perspective == {"pro": 2 / 4, "con": 2 / 3}
    assert overlap.recall == 2 / 4
    assert overlap.argument_words["con"][0][1].text == "stains"


def test_argument_overlap_extremes():
    covered = tm.argument_overlap("Tea calms people and is cheap. Tea stains teeth.", ARGUMENTS)
    assert (covered.precision, covered.recall) == (1.0, 1.0)
    silent = tm.argument_overlap("It is what it is.", ARGUMENTS)
    assert math.isnan(silent.precision)
    assert silent.recall == 0.0
    one_sided = tm.argument_overlap("Tea calms people.", {"pro": ["Tea calms."], "con": []})
    assert math.isnan(one_sided.recall_by_perspective["con"])
    assert math.isnan(one_sided.recall)
    assert math.isnan(tm.argument_overlap("Tea.", {}).recall)


@given(TEXTS, st.lists(TEXTS, max_size=3), st.lists(TEXTS, max_size=3))
def test_argument_overlap_invariants(response, pro, con):
    overlap = tm.argument_overlap(response, {"pro": pro, "con": con})
    swapped = tm.argument_overlap(response, {"con": con, "pro": pro})
    assert str(overlap.precision) == str(swapped.precision)
    assert str(overlap.recall) == str(swapped.recall)
    for name, texts in {"pro": pro, "con": con}.items():
        assert [len(m) for m in overlap.argument_matched[name]] == [
            len(tm.content_words(text)) for text in texts
        ]
    # The perspectives' matches together never fall short of the response's.
    matches = sum(m for side in overlap.argument_matched.values() for text in side for m in text)
    assert matches >= sum(overlap.response_matched)


def roc_auc(rows):
    """Area under the ROC curve in percent, ties counted half."""
    positive = [score for score, label in rows if label]
    negative = [score for score, label in rows if not label]
    wins = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    return 100 * wins / (len(positive) * len(negative))


@needs_shared
def test_token_f1_meets_the_published_figure_of_qags():
    rows = []
    with open(REAL / "qags" / "mturk_cnndm.jsonl", encoding="utf-8") as file:
        for row in map(json.loads, file):
            sentences = row["summary_sentences"]
            votes = [[r["response"] == "yes" for r in s["responses"]] for s in sentences]
            label = all(sum(v) * 2 > len(v) for v in votes)
            summary = " ".join(s["sentence"] for s in sentences)
            rows.append((token_f1(summary, row["article"]), label))
    assert len(rows) == 235
    assert round(roc_auc(rows), 1) == 63.8  # Honovich 2022, table 1


@needs_shared
def test_stop_words_are_nltks():
    path = REAL / "resources" / "nltk_english_stopwords_179.txt"
    assert set(path.read_text(encoding="utf-8").split()) == tm.ENGLISH_STOP_WORDS


LETTERS = st.lists(st.sampled_from("abcd"), max_size=12)


def published(response, knowledge):
    """Grusky 2018, figure 3, step by step."""
    fragments, i = [], 0
    while i < len(response):
        best, j = 0, 0
        while j < len(knowledge):
            if response[i] == knowledge[j]:
                k = 0
                while (
                    i + k < len(response)
                    and j + k < len(knowledge)
                    and response[i + k] == knowledge[j + k]
                ):
                    k += 1
                best, j = max(best, k), j + k
            else:
                j += 1
        if best:
            fragments.append((i, best))
        i += max(best, 1)
    return fragments


@given(LETTERS, LETTERS)
def test_fragments_are_those_of_the_published_procedure(response, knowledge):
    assert tm.extractive_fragments(response, knowledge) == published(response, knowledge)


@given(LETTERS, LETTERS)
def test_fragments_are_copied_spans_that_do_not_overlap(response, knowledge):
    joined, end = "".join(knowledge), 0
    for start, length in tm.extractive_fragments(response, knowledge):
        assert start >= end
        assert "".join(response[start : start + length]) in joined
        end = start + length
    covered = sum(length for _, length in tm.extractive_fragments(response, knowledge))
    # A word is outside only where the knowledge does not have it at all.
    assert covered == sum(word in knowledge for word in response)


@pytest.mark.parametrize(
    ("response", "knowledge", "coverage", "density"),
    [
        ("a b c", "a b c", 1, 3),
        ("a b x", "a b c", 2 / 3, 4 / 3),
        ("x y", "a b c", 0, 0),
        ("A, b!", "a - B", 1, 2),
        ("a b a b", "a b", 1, 2),
    ],
)
def test_closed_forms(response, knowledge, coverage, density):
    figures = tm.extractiveness(response, knowledge)
    assert figures == pytest.approx((coverage, density))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The cat's toy, a red ball!", ["cat", "toy", "red", "ball"]),
        ("It doesn't RAIN in our town.", ["rain", "town"]),
        ("Two  cats", [" ", "cats"]),  # "two" is a stop word, a second space a token
        ("In the of; it!", []),
    ],
)
def test_tokens_that_carry_content(text, tokens):
    assert tm.content_tokens(text) == tokens


@pytest.mark.parametrize(
    ("response", "knowledge", "value"),
    [
        # cat, red, ball of cat, toy, red, ball.
        ("A red ball of the cat", "The cat's toy, a red ball!", 2 * 3 / (3 + 4)),
        # Multisets: tea twice of three times, and hot.
        ("Tea, tea and hot", "Hot tea is tea: tea!", 2 * 3 / (3 + 4)),
        ("It is in the", "It is in the", 0.0),  # nothing but stop words, here NaN is 0
        ("", "Tea", 0.0),
        # The knowledge alone is in lower case before it is split: "Mt." is a token, "mt." two.
        ("Mt. Fuji", "Mt. Fuji", 2 * 1 / (2 + 2)),
        ("mt. Fuji", "Mt. Fuji", 1.0),
    ],
)
def test_f1_by_hand(response, knowledge, value):
    assert tm.q2_baseline_token_f1(response, knowledge) == pytest.approx(value)


def test_it_is_not_trues_f1():
    """Texts that share only stop words: TRUE removes only five words."""
    response, knowledge = "It is what I have", "It is what they have in the hills"
    assert token_f1(response, knowledge) == pytest.approx(2 * 4 / (5 + 6))
    assert tm.q2_baseline_token_f1(response, knowledge) == 0.0


def test_bleu_is_of_the_lower_cased_knowledge_and_all_four_orders():
    knowledge = "The Cat sat on the mat"
    assert tm.q2_baseline_bleu("the cat sat on the mat", knowledge) == pytest.approx(100)
    # All six words but "The" and "Cat"; bigrams 3 of 5, trigrams 2 of 4, one of 3 by four.
    expected = 100 * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert tm.q2_baseline_bleu("The Cat sat on the mat", knowledge) == pytest.approx(expected)
    assert tm.q2_baseline_bleu("the cat sat", knowledge) == 0.0
    assert sacrebleu.sentence_bleu("the cat sat", [knowledge.lower()]).score > 0


def test_without_spacy_there_is_no_other_function(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    tm.english_tokenizer.cache_clear()
    with pytest.raises(ConfigError, match=r"spaCy, .* extra: pip install 'faith_jax\[augmentat"):
        tm.q2_baseline_token_f1("Tea", "Tea")
    monkeypatch.undo()
    assert tm.q2_baseline_token_f1("Tea", "Tea") == 1.0


@pytest.mark.slow
@needs_shared
def test_real_rows_have_the_f1_and_bleu_of_spacys_tokens_and_of_sacrebleu():
    """q-squared's overlap and BLEU baselines, on BEGIN's development part and on Q2's responses."""
    pairs = []
    for source in ("wow", "cmu", "tc"):
        path = REAL / "begin" / f"begin_dev_{source}.tsv"
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            pairs += [(row["response"], row["knowledge"]) for row in rows]
    with open(REAL / "q2" / "cross_annotation.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            pairs += [(row[f"{name}_response"], row["knowledge"]) for name in ("dodeca", "memnet")]
    assert len(pairs) == 1229 + 1088
    # Its models have the same tokens, stop words and punctuation as the bare language.
    english = spacy.blank("en")

    def bag(text):
        tokens = (token for token in english(text) if not (token.is_stop or token.is_punct))
        return collections.Counter(token.text.lower() for token in tokens)

    for response, knowledge in pairs:
        response_bag, knowledge_bag = bag(response), bag(knowledge.lower())
        sizes = response_bag.total() + knowledge_bag.total()
        expected = 2 * (response_bag & knowledge_bag).total() / sizes if sizes else 0
        assert tm.q2_baseline_token_f1(response, knowledge) == pytest.approx(expected)
        bleu = sacrebleu.corpus_bleu([response], [[knowledge.lower()]]).score
        assert tm.q2_baseline_bleu(response, knowledge) == pytest.approx(bleu)


@pytest.mark.slow
@needs_shared
def test_begins_development_part_tells_which_f1_the_paper_prints():
    """Nandwani 2023, table 1, F1-U on test: recall 78.5, precision 40.1, accuracy 67.7.

    Their test part is not at hand; on the development part this function has their shape, high
    recall at low precision, and TRUE's has not.
    """
    rows = []
    for source in ("wow", "cmu", "tc"):
        path = REAL / "begin" / f"begin_dev_{source}.tsv"
        with open(path, encoding="utf-8", newline="") as file:
            rows += csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    labels = [int(row["begin_label"].lower().startswith("fully")) for row in rows]
    assert (len(rows), sum(labels)) == (1229, 313)
    figures = {}
    for metric in (tm.q2_baseline_token_f1, token_f1):
        scores = [metric(row["response"], row["knowledge"]) for row in rows]
        calls = [score >= best_threshold(scores, labels) for score in scores]
        measures = metrics.precision_score, metrics.recall_score, metrics.accuracy_score
        figures[metric] = [measure(labels, calls) for measure in measures]
    assert figures[tm.q2_baseline_token_f1] == pytest.approx([0.439, 0.786, 0.690], abs=1e-3)
    assert figures[token_f1] == pytest.approx([0.549, 0.572, 0.771], abs=1e-3)
