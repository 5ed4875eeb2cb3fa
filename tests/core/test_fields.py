import pytest

from faith_jax.core import fields
from faith_jax.core.errors import InputError


def test_text_fields():
    assert fields.text_field({"a": " text\n"}, "a", "f:1") == "text"
    for value in ("", "  ", 3, None, ["text"], "\ud800"):
        with pytest.raises(InputError, match="f:1: field 'a': expected a text"):
            fields.text_field({"a": value}, "a", "f:1")
    with pytest.raises(InputError, match=r"field 'question' is missing\. Did you mean 'queston'"):
        fields.text_field({"queston": "Why?"}, "question", "f:1")


def test_optional_texts():
    for row in ({}, {"a": None}, {"a": " \n"}):
        assert fields.optional_text(row, "a", "f:1") == ""
    assert fields.optional_text({"a": " x "}, "a", "f:1") == "x"
    with pytest.raises(InputError, match="f:1: field 'a': expected a text"):
        fields.optional_text({"a": 3}, "a", "f:1")
