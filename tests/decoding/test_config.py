import dataclasses

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.decoding.config import DecodingConfig, PMIConfig

NAN = float("nan")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_length", 0),
        ("max_length", "3"),
        ("temperature", -1.0),
        ("temperature", NAN),
        ("top_k", -1),
        ("top_p", 0.0),
        ("eos_id", (1, 2.0)),
        ("eos_id", -2),
        ("pad_id", -1),
        ("num_beams", 0),
        ("length_penalty", None),
        ("length_penalty", float("inf")),
        ("early_stopping", "always"),
        ("min_length", -1),
        ("min_length", 65),
        ("num_return", 0),
        ("pmi", 0.25),
        ("speculation", "small"),
        ("draft_length", 64),
    ],
)
def test_settings_out_of_range_are_errors_that_name_them(field, value):
    with pytest.raises(ConfigError) as caught:
        DecodingConfig(**{field: value})
    message = str(caught.value)
    assert message.startswith(f"DecodingConfig.{field}: expected ")
    assert message.endswith(f"got {value!r}.")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("temperature", {"num_beams": 2, "temperature": 0.7}),
        ("top_k", {"num_beams": 2, "top_k": 3}),
        ("top_p", {"num_beams": 2, "top_p": 0.9}),
        ("num_return", {"num_beams": 2, "num_return": 3}),
        ("num_return", {"num_return": 2}),
        ("top_k", {"top_k": 3}),
        ("top_p", {"top_p": 0.9}),
    ],
)
def test_settings_that_contradict_each_other_are_errors(field, options):
    with pytest.raises(ConfigError, match=rf"{field}: expected .*, got {options[field]}"):
        DecodingConfig(**options)


@pytest.mark.parametrize(("field", "value"), [("alpha", -0.1), ("alpha", NAN), ("p", 0.0)])
def test_pmi_settings_out_of_range_are_errors_that_name_them(field, value):
    with pytest.raises(ConfigError, match=rf"PMIConfig\.{field}: expected .*, got {value!r}"):
        PMIConfig(**{field: value})


def test_alpha_and_p_may_be_the_ends_of_their_ranges():
    assert dataclasses.astuple(PMIConfig(0, 1)) == (0, 1)
    assert dataclasses.astuple(PMIConfig(1.0, 1e-3)) == (1.0, 1e-3)


def test_the_defaults_of_pmi_are_the_papers():
    assert dataclasses.astuple(PMIConfig()) == (0.25, 0.6)


def test_what_is_left_to_the_model_is_filled_from_it():
    free = DecodingConfig(max_length=5)
    assert free.for_model(eos_id=3, pad_id=7) == DecodingConfig(max_length=5, eos_id=3, pad_id=7)
    fixed = DecodingConfig(eos_id=[4, 5], pad_id=0)
    assert fixed.for_model(eos_id=3, pad_id=7) == fixed
    assert fixed.end_ids == (4, 5)
    assert hash(fixed) == hash(DecodingConfig(eos_id=(4, 5), pad_id=0))


def test_a_model_without_padding_is_padded_with_its_first_end_token():
    assert DecodingConfig().for_model(eos_id=(9, 2), pad_id=-1).padding == 9
    assert DecodingConfig(eos_id=6).for_model(eos_id=9, pad_id=-1).padding == 6
    assert DecodingConfig(eos_id=-1).for_model(eos_id=9, pad_id=-1).padding == 0


def test_rows_of_an_example():
    assert DecodingConfig().copies == 1
    assert DecodingConfig(num_beams=4, num_return=2).copies == 4
    assert DecodingConfig(temperature=1.0, num_return=3).copies == 3
