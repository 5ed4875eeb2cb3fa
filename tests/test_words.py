import pytest

from faith_jax.words import lower_words


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
