"""Pictures of given texts through the Python interface."""

import gc
import weakref

import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.inference import load_model
from faith_jax.runs.scores.explain import explain
from tests.scoring import tiny_models

SIDES = {"query": "Is tea better?", "pro": "Tea calms.", "con": ["It keeps people awake."]}
RESPONSE = "Tea calms, and saves money."


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bart") / "m"
    return tiny_models.write_model(folder, "bart", max_positions=512)


def test_texts_without_sides(model):
    plain = explain(model, RESPONSE, knowledge=["Tea calms."], history="Hi!", threshold=0.0)
    assert plain.query == "Hi!"
    assert [argument.title for argument in plain.arguments] == ["grounding 1"]
    assert plain.unsupported_words == ()


@pytest.mark.slow
def test_a_loaded_model_is_explained_as_its_path(model):
    opened = load_model(model)
    assert str(explain(opened, RESPONSE, **SIDES)) == str(explain(model, RESPONSE, **SIDES))
    # It is not kept beyond the caller's own reference.
    alive = weakref.ref(opened)
    del opened
    gc.collect()
    assert alive() is None
    moved = load_model(model)
    moved.path = None
    with pytest.raises(ConfigError, match="opened from no folder with a tokenizer"):
        explain(moved, RESPONSE, **SIDES)
    text = str(explain(moved, RESPONSE, vocabulary=model, **SIDES))
    assert text == str(explain(model, RESPONSE, **SIDES))
    with pytest.raises(ConfigError, match="dtype: the model is open already; give it to load_mod"):
        explain(moved, RESPONSE, dtype="bfloat16", **SIDES)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"query": "?"}, InputError, "explain: give both pro and con, or knowledge"),
        ({"pro": "Tea calms."}, InputError, "explain: give both pro and con, or knowledge"),
        ({**SIDES, "knowledge": "a"}, InputError, "explain: give both pro and con, or knowledge"),
        ({"knowledge": ["Tea.", " "]}, InputError, "a text of the knowledge is empty"),
        ({**SIDES, "threshold": 2}, ConfigError, r"threshold: expected a share in \[0, 1\], got 2"),
    ],
)
def test_what_is_wrong_is_named(model, given, error, message):
    with pytest.raises(error, match=message):
        explain(model, RESPONSE, **given)
