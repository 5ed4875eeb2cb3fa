import pytest

from faith_jax.tokenizers.base import escape
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.tokenizers import published_tokenizers


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "\u2581the"),
        ("a\tb\n", "a\\tb\\n"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202eevil", "\\u202eevil"),
        ("<script>", "<script>"),  # who writes HTML escapes it
        ("x" * 24, "x" * 24),
        ("x" * 25, "x" * 23 + "\u2026"),
    ],
)
def test_nothing_is_shown_that_a_terminal_obeys(text, shown):
    assert escape(text) == shown


def test_pieces_of_the_embedded_vocabulary():
    vocabulary = load_vocabulary("english_4096")
    (the,) = vocabulary.encode("the")
    assert vocabulary.piece_text(the) == "\u2581the"
    assert vocabulary.piece_text(1) == "</s>"
    assert vocabulary.piece_text(vocabulary.vocab_size) == f"#{vocabulary.vocab_size}"
    assert vocabulary.piece_text(-1) == "#-1"


@pytest.mark.parametrize("family", ["gpt2", "gemma"])
def test_pieces_of_published_tokenizers(tmp_path, family):
    getattr(published_tokenizers, family)(tmp_path)
    vocabulary = load_vocabulary(tmp_path)
    texts = [vocabulary.piece_text(i) for i in range(vocabulary.vocab_size)]
    assert all(text.isprintable() and text for text in texts)
    # Pieces with a space in front show it, and bytes that stand for letters do not appear.
    assert any(text.startswith("\u2581") and text[1:].isalpha() for text in texts)
    assert not any("\u0120" in text[:1] for text in texts)
