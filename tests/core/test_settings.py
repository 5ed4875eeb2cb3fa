import dataclasses
from typing import Literal

import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import (
    NotNegativeNumber,
    Number,
    Positive,
    PositiveShare,
    Settings,
    TokenId,
    TokenIds,
    from_text,
)


def test_numbers_of_a_command_line_may_begin_with_the_point():
    assert (from_text(".5", PositiveShare), from_text("-.25", Number)) == (0.5, -0.25)
    for text in (".", "5.", "a.5", "1.5.", ". 5"):
        with pytest.raises(ValueError, match="expected a number, got"):
            from_text(text, Number)


@dataclasses.dataclass(frozen=True)
class Inner(Settings):
    share: PositiveShare = 0.5


@dataclasses.dataclass(frozen=True)
class Outer(Settings):
    size: Positive = 1
    number: Number = 0.0
    rate: NotNegativeNumber | None = None
    ends: TokenId | TokenIds | None = None
    mode: bool | Literal["never"] = False
    order: Literal["first", "last"] = "first"
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("size", 0, "a positive whole number, got 0"),
        ("size", True, "a positive whole number, got True"),
        ("size", 10**400, "a number of 64 bits, got one of 1,329"),
        ("number", float("nan"), "a number, got nan"),
        ("number", "3", "a number, got '3'"),
        ("rate", -0.1, "0 or a positive number or None, got -0.1"),
        ("ends", [1, -1], "a token id, several or None, got [1, -1]"),
        ("mode", 1, "True or False or 'never', got 1"),
        ("order", "middle", "one of first, last, got 'middle'"),
        ("inner", {"share": 1}, "a Inner or None, got {'share': 1}"),
        ("size", np.array([3]), "a positive whole number, got array([3])"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_field(field, value, expected):
    with pytest.raises(ConfigError) as caught:
        Outer(**{field: value})
    assert str(caught.value) == f"Outer.{field}: expected {expected}."


def test_a_random_key_is_no_number():
    key = jax.random.key(0)
    with pytest.raises(
        ConfigError, match=r"^Outer\.size: expected a positive whole number, got Arr"
    ):
        Outer(size=key)
    assert Outer(size=jax.numpy.int32(3)).size == 3


def test_right_values_stay_and_lists_become_tuples():
    inner = Inner(share=1)
    outer = Outer(2, -1e30, 0, [3, 4], "never", "last", inner)
    assert dataclasses.astuple(outer)[:6] == (2, -1e30, 0, (3, 4), "never", "last")
    assert outer.inner is inner
    assert hash(outer) == hash(dataclasses.replace(outer))


def test_a_class_made_from_settings_of_a_subclass_is_right_too():
    @dataclasses.dataclass(frozen=True)
    class Special(Inner):
        pass

    assert Outer(inner=Special()).inner == Special()
