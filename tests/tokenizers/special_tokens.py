"""Rows as a model reads them."""


def encode_row(tokenizer, text, pair=None):
    """The ids that Transformers' `tokenizer(text, pair)` gives; an empty second text is one."""
    second = None if pair is None else tokenizer.encode(pair)
    return tokenizer.add_special_tokens(tokenizer.encode(text), second)
