import pytest

from faith_jax.core import fields
from faith_jax.core.errors import InputError


def test_field_errors_name_place_field_expected_got_and_remedy():
    with pytest.raises(InputError) as caught:
        fields.list_field(
            {"pro": []}, "pro", "topics.jsonl:12", "argument", "add an argument or drop the topic"
        )
    assert str(caught.value) == (
        "topics.jsonl:12: field 'pro': expected a list of at least one argument, got []; "
        "add an argument or drop the topic."
    )


def test_text_fields():
    row = {"a": " text\n", "b": None}
    assert fields.text_field(row, "a", "f:1") == "text"
    assert fields.text_field(row, "b", "f:1", default="none") == "none"
    for value in ("", "  ", 3, None, ["text"], "\ud800"):
        with pytest.raises(InputError, match="f:1: field 'a': expected a text"):
            fields.text_field({"a": value}, "a", "f:1")


def test_a_missing_field_names_the_nearest():
    with pytest.raises(InputError, match=r"field 'question' is missing\. Did you mean 'queston'"):
        fields.text_field({"queston": "Why?"}, "question", "f:1")


def test_list_fields():
    assert fields.list_field({}, "a", "f:1", minimum=0) == []
    assert fields.list_field({"a": None}, "a", "f:1", minimum=0) == []
    with pytest.raises(InputError, match='expected a list with an item each, got "text"'):
        fields.list_field({"a": "text"}, "a", "f:1")


def test_index_lists():
    assert fields.index_list_field({"a": [2, 0]}, "a", "f:1", 3) == (2, 0)
    for values in ([3], [-1], [True], [1.0], ["1"]):
        with pytest.raises(InputError, match=r"field 'a\[0\]': expected an index from 0 to 2"):
            fields.index_list_field({"a": values}, "a", "f:1", 3)
    with pytest.raises(InputError, match=r"expected distinct indices, got \[1, 1\]"):
        fields.index_list_field({"a": [1, 1]}, "a", "f:1", 3)


def test_choices():
    labels = ["supported", "refuted"]
    assert fields.choice_field({"a": " refuted\n"}, "a", "f:1", labels) == "refuted"
    with pytest.raises(InputError) as caught:
        fields.choice_field({"a": "suported"}, "a", "f:1", labels, "use the labels of the paper")
    assert str(caught.value) == (
        "f:1: field 'a': expected one of supported, refuted, got \"suported\"; "
        "use the labels of the paper. Did you mean 'supported' or 'refuted'?"
    )
    for value in (None, 3, ["refuted"], "", "Refuted", "refuted supported", "refuted\0"):
        with pytest.raises(InputError, match="f:1: field 'a': expected one of supported, refuted"):
            fields.choice_field({"a": value}, "a", "f:1", labels)
    with pytest.raises(InputError, match=r"f:1: field 'label' is missing\. Did you mean 'lable'"):
        fields.choice_field({"lable": "refuted"}, "label", "f:1", labels)


def test_texts():
    assert fields.texts_field({}, "a", "f:1") == []
    assert fields.texts_field({"a": [" x "]}, "a", "f:1") == ["x"]
    with pytest.raises(InputError, match=r"f:1: field 'a\[1\]': expected a text that is not empty"):
        fields.texts_field({"a": ["x", ""]}, "a", "f:1")
    with pytest.raises(InputError, match="expected a list of at least one text"):
        fields.texts_field({"a": []}, "a", "f:1", minimum=1)


def test_long_values_are_cut_in_messages():
    assert fields.shown("x" * 100) == '"' + "x" * 56 + "..."


def test_optional_texts():
    row = {"a": " text ", "b": None, "c": " \t", "d": 3}
    assert [fields.optional_text(row, name, "f:1") for name in "abcx"] == ["text", "", "", ""]
    with pytest.raises(InputError, match="f:1: field 'd': expected a text"):
        fields.optional_text(row, "d", "f:1")


def test_integer_fields():
    row = {"a": 3, "b": True, "c": None}
    assert [fields.integer_field(row, name, "f:1") for name in "ab"] == [3, 1]
    assert [fields.integer_field(row, name, "f:1", default=7) for name in "acx"] == [3, 7, 7]
    for value in (1.0, "3", None, 2**63, -(2**63) - 1):
        with pytest.raises(InputError, match="f:1: field 'a': expected a whole number of 64 bits"):
            fields.integer_field({"a": value}, "a", "f:1")
    assert fields.integer_field({"a": -(2**63)}, "a", "f:1") == -(2**63)


def test_object_fields():
    assert fields.object_field({"a": {"b": 1}}, "a", "f:1") == {"b": 1}
    assert fields.object_field({"a": None}, "a", "f:1", optional=True) == {}
    with pytest.raises(InputError, match="f:1: field 'a' is missing"):
        fields.object_field({}, "a", "f:1")
    for optional in (False, True):
        with pytest.raises(InputError, match="f:1: field 'a': expected an object"):
            fields.object_field({"a": []}, "a", "f:1", optional=optional)


def test_blank_texts():
    assert [fields.is_blank(value) for value in ("", " \n", "x", None, 0)] == [True] * 2 + [
        False
    ] * 3
