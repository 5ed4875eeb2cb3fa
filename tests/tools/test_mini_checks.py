import collections
import random
import re

from tools import make_mini_corpus as corpus

checks = corpus.mini_checks

# No word is in two sentences, so that a word identifies its sentence.
SENTENCES = [
    f"{subject} {verb} the {noun} {where}."
    for subject, verb, noun, where in (
        ("Boats", "leave", "harbour", "early"),
        ("Gulls", "follow", "trawlers", "home"),
        ("Children", "paint", "fences", "green"),
        ("Bakers", "sell", "rolls", "warm"),
        ("Trains", "cross", "valleys", "slowly"),
        ("Poets", "praise", "rivers", "often"),
    )
]
WORDS = [f"w{chr(97 + i)}{chr(97 + j)}" for i in range(10) for j in range(10)]
# Each verse in other words, which begin with its number.
VERSES = [[f"{name}{n}a {name}{n}b {name}{n}c {name}{n}d." for name in "uv"] for n in range(30)]
# Each argument has several wordings too: p0u, p0v and p0w belong to the same argument.
TOPIC = corpus.Topic(
    "Who?", *([[f"{s}{n}{w} tells." for w in "uvw"] for n in range(4)] for s in "pc")
)
TEXT = corpus.Text(
    SENTENCES, SENTENCES, ["Who keeps keys?"], frozenset(), WORDS, versions=VERSES, topics=[TOPIC]
)


def parts_of(example):
    """The question, the told words and the given words of an example."""
    question, _, rest = example.inputs.partition(" ")
    fields = dict(re.findall(r"\{([\w ]+): (.*?)\}", rest))
    (telling,) = (value for key, value in fields.items() if key in checks._TOLD)
    source = " ".join(
        value
        for key, value in fields.items()
        if key not in checks._TOLD and key not in corpus.mini_texts.TITLES
    )
    return question, telling, source


def assert_right(example, words):
    """The answer follows from the words of both texts."""
    question, *texts = parts_of(example)
    told_words, given_words = (
        {w for w in re.findall(r"\w+", text) if w in words} for text in texts
    )
    errors = {"only": told_words - given_words, "all": given_words - told_words}[question]
    assert (not errors) == (example.targets == "yes")


def test_two_lists():
    for seed in range(60):
        example = checks.check_lists(TEXT, random.Random(seed))
        assert_right(example, set(WORDS))
        question, told_words, given_words = (part.split() for part in parts_of(example))
        for words in (told_words, given_words):
            assert 1 <= len(words) == len(set(words)) <= 10
        # For both answers, the text that is asked to be part of the other is not longer.
        part, whole = (
            (told_words, given_words) if question == ["only"] else (given_words, told_words)
        )
        assert len(part) <= len(whole)


def test_arguments_in_several_wordings():
    rng, disjoint, answers = random.Random(0), 0, collections.Counter()
    for _ in range(600):
        example = checks.check_wordings(TEXT, rng)
        question, _, rest = example.inputs.partition(" ")
        fields = dict(re.findall(r"\{(\w+): (.*?)\}", rest))
        telling = " ".join(value for key, value in fields.items() if key in checks._TOLD)
        source = " ".join(
            value for key, value in fields.items() if key not in (*checks._TOLD, "query")
        )
        told_keys, given_keys = (
            set(re.findall(r"\b([pc]\d)\w tells", text)) for text in (telling, source)
        )
        missing, added = given_keys - told_keys, told_keys - given_keys
        if question == "compare":
            kind, _, sentence = example.targets.partition(": ")
            assert (kind == "missing") == bool(missing)
            assert (kind == "added") == bool(added)
            assert sentence in {"missing": source, "added": telling, "same": ""}[kind]
            assert not sentence or {sentence[:2]} == missing | added
        else:
            assert example.targets == (
                "no" if (added if question == "only" else missing) else "yes"
            )
            answers[question, example.targets] += 1
        words = (set(re.findall(r"\b[pc]\d\w", text)) for text in (telling, source))
        disjoint += not set.intersection(*words)
    assert min(answers.values()) > 70
    assert disjoint > 400


def test_answers_and_questions_are_balanced():
    rng = random.Random(0)
    drawn = [checks.make_check(TEXT, rng, checks.MATERIALS) for _ in range(2000)]
    drawn = [example for example in drawn if not example.inputs.startswith("compare")]
    for question in checks.QUESTIONS:
        answers = [e.targets for e in drawn if parts_of(e)[0] == question]
        assert 0.43 < len(answers) / len(drawn) < 0.57
        assert 0.45 < sum(answer == "yes" for answer in answers) / len(answers) < 0.55
