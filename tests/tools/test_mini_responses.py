import collections
import random
import re
import sys

from faith_jax.core.words import lower_words
from faith_jax.statistics.texts.argument_coverage import tell_arguments
from tests.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools"))
import judge_mini
import mini_responses
import mini_texts

sys.path.remove(str(REPOSITORY / "tools"))

SENTENCES = [
    f"{subject} {verb} the {noun} {where}."
    for subject, verb, noun, where in (
        ("Boats", "leave", "harbour", "early"),
        ("Gulls", "follow", "trawlers", "home"),
        ("Children", "paint", "fences", "green"),
        ("Bakers", "sell", "harbour rolls", "warm"),
        ("Trains", "cross", "valleys", "slowly"),
        ("Poets", "praise", "harbour rivers", "often"),
        ("The pilots", "know", "harbour", "well"),
        ("Sailors", "fear", "the storms", "there"),
    )
] * 3
PIECES = ["\u2581centre", "\u2581ost", "lich", "ard"]
SHARING = mini_texts.sentences_by_word(SENTENCES)
TEXT = mini_texts.Text(
    SENTENCES, SENTENCES, ["Who keeps the keys?"], frozenset({"the"}), (), SHARING, list(SHARING),
    PIECES,
)  # fmt: skip


def fields_of(text):
    return dict(re.findall(r"\{(\w+): (.*?)\}", text))


def test_a_response_tells_all_arguments_once_and_says_whose_they_are():
    for seed in range(60):
        example = mini_responses.respond(TEXT, random.Random(seed))
        fields, response = fields_of(example.inputs), fields_of(example.targets)["response"]
        keys = [key for key in fields if key not in mini_responses.QUERY_KEYS]
        assert len(keys) == 2
        arguments = [fields[key] for key in keys if fields[key]]
        assert tell_arguments(response, arguments).precision(0.95) == 1, (arguments, response)
        argument_words, words = (
            collections.Counter(lower_words(text)) for text in (" ".join(arguments), response)
        )
        assert argument_words <= words
        assert not judge_mini.NUMBERS & (set(words) - set(lower_words(example.inputs)))
        if len(arguments) == 2:
            assert (
                judge_mini._PRO.search(response).start() < judge_mini._CON.search(response).start()
            )
