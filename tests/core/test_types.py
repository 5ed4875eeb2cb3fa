import pytest

from faith_jax.core.labels import ErrorLabel, Faithfulness
from faith_jax.core.types import GroundedExample, Grounding


def test_a_groundings_perspectives_keep_their_order():
    grounding = Grounding(("a", "b", "c"), ("pro", "con", "pro"))
    assert grounding.of("pro") == ("a", "c")
    assert grounding.of("con") == ("b",)


def test_texts_and_perspectives_must_be_as_many():
    with pytest.raises(ValueError, match="2 texts but 1 perspectives"):
        Grounding(("a", "b"), ("pro",))


def test_one_is_faithful_and_no_is_an_error():
    example = GroundedExample("1", Grounding(("a",)), label=Faithfulness.FAITHFUL)
    assert example.label == 1
    assert (ErrorLabel.NO_ERROR, ErrorLabel.ERROR) == ("YES", "NO")
