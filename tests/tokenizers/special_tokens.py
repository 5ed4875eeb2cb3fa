"""Rows with special tokens, as a model reads them."""


def encode_row(tokenizer, text, pair=None):
    """The ids of Transformers' `tokenizer(text, pair)`; an empty `pair` is also a second text."""
    second = None if pair is None else tokenizer.encode(pair)
    return tokenizer.add_special_tokens(tokenizer.encode(text), second)
