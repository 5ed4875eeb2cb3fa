import importlib.util
import random
import re

import pytest

from tests.paths import REPOSITORY

_SPEC = importlib.util.spec_from_file_location(
    "make_mini_corpus", REPOSITORY / "tools" / "make_mini_corpus.py"
)
corpus = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(corpus)
checks = corpus.mini_checks

# No word is in two sentences, so that a word says which sentence it is of.
SENTENCES = [
    f"{subject} {verb} the {thing} {where}."
    for subject, verb, thing, where in (
        ("Boats", "leave", "harbour", "early"),
        ("Gulls", "follow", "trawlers", "home"),
        ("Children", "paint", "fences", "green"),
        ("Bakers", "sell", "rolls", "warm"),
        ("Trains", "cross", "valleys", "slowly"),
        ("Poets", "praise", "rivers", "often"),
    )
]
WORDS = [f"w{chr(97 + i)}{chr(97 + j)}" for i in range(10) for j in range(10)]
TEXT = corpus.Text(SENTENCES, SENTENCES, ["Who keeps keys?"], frozenset(), WORDS)


def fields_of(example):
    """The question and the fields of an example, by key."""
    question, _, rest = example.inputs.partition(" ")
    return question, dict(re.findall(r"\{([\w ]+): (.*?)\}", rest))


@pytest.mark.parametrize("seed", range(40))
def test_a_word_in_a_list(seed):
    question, fields = fields_of(checks.has_word(TEXT, random.Random(seed)))
    answer = checks.has_word(TEXT, random.Random(seed)).targets
    word = fields.pop("word")
    (words,) = fields.values()
    assert question == "has"
    assert (word in words.split()) == (answer == "yes")


@pytest.mark.parametrize("seed", range(40))
def test_two_lists(seed):
    example = checks.same_words(TEXT, random.Random(seed))
    first, second = (words.split() for words in fields_of(example)[1].values())
    assert len(first) == len(second) >= 2
    assert (sorted(first) == sorted(second)) == (example.targets == "yes")


@pytest.mark.parametrize("make", ["check_passages", "check_parts"])
@pytest.mark.parametrize("seed", range(60))
def test_what_is_told_and_what_was_given(make, seed):
    example = getattr(checks, make)(TEXT, random.Random(seed))
    question, fields = fields_of(example)
    (telling,) = (value for key, value in fields.items() if key in checks._TOLD)
    given = " ".join(
        value
        for key, value in fields.items()
        if key not in checks._TOLD and key not in corpus.mini_texts.TITLES
    )
    marks = {w for s in SENTENCES for w in re.findall(r"\w+", s)} - {"the"}
    told_words, given_words = (
        {w for w in re.findall(r"\w+", part) if w in marks} for part in (telling, given)
    )
    added, missing = told_words - given_words, given_words - told_words
    errors = {"only": added, "all": missing, "same": added | missing}[question]
    assert (not errors) == (example.targets == "yes")


def test_answers_and_questions_are_balanced():
    rng = random.Random(0)
    drawn = [checks.make_check(TEXT, rng) for _ in range(2000)]
    assert 0.45 < sum(example.targets == "yes" for example in drawn) / len(drawn) < 0.55
    questions = {fields_of(example)[0] for example in drawn}
    assert questions == {"has", "same", "only", "all"}


def test_two_frequent_words_are_enough():
    text = TEXT._replace(frequent=["on", "in"])
    for seed in range(20):
        assert checks.has_word(text, random.Random(seed)).targets in ("yes", "no")
        assert checks.same_words(text, random.Random(seed)).targets == "yes"
