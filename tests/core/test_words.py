import pytest

from faith_jax.core.words import first_person_count, lower_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat's 2 kittens - asleep!", ["the", "cat's", "2", "kittens", "asleep"]),
        ("I\u2019m here; 'quoted'", ["i\u2019m", "here", "quoted"]),
        ("Äpfel\nund Öl", ["äpfel", "und", "öl"]),
        ("... !", []),
    ],
)
def test_words(text, words):
    assert lower_words(text) == words


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("I do.", 1),
        ("so do i", 1),
        ("I'm, i\u2019ve", 2),
        ("It is MINE! By myself (me).", 3),
        ("my-my", 2),
        ("", 0),
        ("It is mined, i.e. dug; I.E. found, i. e. ours.", 0),
        ("we, us, our, Mimi's", 0),
    ],
)
def test_first_person_pronouns(text, count):
    assert first_person_count(text) == count


def test_the_pronoun_i_alone():
    assert first_person_count("I'm sure that I lost my hat.", {"i"}) == 2
