import collections

from faith_jax.datasets.augmentation import dialogue_phrases
from faith_jax.datasets.augmentation.dialogue_phrases import PHRASES


def test_the_first_letter_becomes_small_and_nothing_else_changes():
    assert dialogue_phrases.with_phrase("NASA flew.", "I believe") == "I believe nASA flew."
    assert dialogue_phrases.with_phrase("Ça va.", "yep. Also") == "yep. Also ça va."
    assert dialogue_phrases.with_phrase("", "I think") == "I think "


def test_phrases_depend_on_the_id_and_the_seed():
    def phrases(seed):
        return [dialogue_phrases.with_random_phrase("x", str(i), seed) for i in range(2000)]

    assert phrases(0) == phrases(0) != phrases(1)
    counts = collections.Counter(text.removesuffix(" x") for text in phrases(0))
    assert set(counts) == set(PHRASES)
    assert all(abs(count - 200) < 70 for count in counts.values())


def test_draws_of_five():
    draws = [dialogue_phrases.phrase_draw(number) for number in range(10)]
    assert all(len(set(phrases)) == 5 for phrases in draws)
    assert all(list(phrases) == sorted(phrases, key=PHRASES.index) for phrases in draws)
    assert len(set(draws)) > 5
