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


def test_one_text_is_not_several():
    message = r'^Grounding\.texts: expected .* text "Tea\."; give a tuple of one, \("Tea\.",\)\.$'
    with pytest.raises(ValueError, match=message):
        Grounding("Tea.")
    with pytest.raises(
        ValueError, match=r'^Grounding\.perspectives: .*; give a tuple of one, \("p'
    ):
        Grounding(("Tea.",), "p")
    with pytest.raises(ValueError, match=r'^GroundedExample\.history: .* of one, \("Hi",\)\.$'):
        GroundedExample("1", Grounding(()), history="Hi")


def test_one_is_faithful_and_no_is_an_error():
    example = GroundedExample("1", Grounding(("a",)), label=Faithfulness.FAITHFUL)
    assert example.label == 1
    assert (ErrorLabel.NO_ERROR, ErrorLabel.ERROR) == ("YES", "NO")
