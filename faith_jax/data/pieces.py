"""Vocabulary pieces as people read them: spaces shown, nothing that a terminal would obey."""

from faith_jax.data.huggingface_vocabulary import HuggingFaceVocabulary
from faith_jax.data.sentencepiece_vocabulary import SentencePieceVocabulary

SPACE = "\u2581"
_LONGEST = 24
# What a tokenizer of bytes decodes a part of a character to.
_NO_TEXT = "\ufffd"


def piece_text(vocabulary: SentencePieceVocabulary | HuggingFaceVocabulary, token: int) -> str:
    """Returns the text of a token, with ▁ for a space and escapes for what cannot be printed.

    Args:
      vocabulary: of the token.
      token: an id; one that the vocabulary does not have is shown as "#id".
    """
    if not 0 <= token < vocabulary.vocab_size:
        return f"#{token}"
    if isinstance(vocabulary, SentencePieceVocabulary):
        return escaped(vocabulary.tokenizer.id_to_piece(token))
    stored = vocabulary.tokenizer.id_to_token(token)
    if stored is None:
        return f"#{token}"
    decoded = vocabulary.tokenizer.decode([token], skip_special_tokens=False)
    # SentencePiece's kind loses the space in front when it is decoded; that of bytes stores
    # letters in place of bytes.
    shown = stored if SPACE in stored or not decoded or _NO_TEXT in decoded else decoded
    return escaped(shown)


def escaped(text: str) -> str:
    r"""Returns a text in one line without control characters, cut to what a table has room for.

    >>> escaped(" a\n\x1b[31m")
    '▁a\\n\\x1b[31m'
    """
    found = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text.replace(" ", SPACE)
    )
    return found if len(found) <= _LONGEST else found[: _LONGEST - 1] + "\u2026"
