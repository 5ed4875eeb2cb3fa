"""Pictures of texts that are given, as Python shows them."""

import gc
import html
import weakref

import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference import load_model
from faith_jax.report.salience import salience_picture
from faith_jax.runs.scores.explain import explain
from faith_jax.scoring.registry import load_scorer
from tests.report.salience_example import EXAMPLE, word_salience
from tests.scoring import tiny_models

SIDES = {"query": "Is tea better?", "pro": "Tea calms.", "con": ["It keeps people awake."]}
RESPONSE = "Tea calms, and saves money."


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bart") / "m"
    return tiny_models.write_model(folder, "bart", max_positions=512)


def test_a_picture_shows_itself():
    picture = salience_picture(EXAMPLE, word_salience(), 0.1)
    assert str(picture).splitlines()[:4] == [
        "query: Is tea better?",
        "pro 1: Tea calms.",
        "con 1: It keeps people [awake].",
        "response: Tea calms, and [saves*] [money*].",
    ]
    assert repr(picture) == str(picture)
    frame = picture._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert frame.count("<") == 2  # nothing of the page is the notebook's
    page = html.unescape(frame)
    assert "<h1>tea-1, query: Is tea better?</h1>" in page
    assert "saves" in page


def test_values_are_the_scorers(model):
    picture = explain(model, RESPONSE, **SIDES)
    example = GroundedExample(
        "x", Grounding(("Tea calms.", "It keeps people awake."), ("pro", "con")),
        ("Is tea better?",), RESPONSE,
    )  # fmt: skip
    assert list(picture.scores) == ["salience_hallucination", "salience_coverage"]
    for name, found in picture.scores.items():
        (score,) = load_scorer(name, model=model).score([example])
        assert found == pytest.approx(score.value, abs=1e-5)
    plain = explain(model, RESPONSE, knowledge=["Tea calms."], history="Hi!", threshold=0.0)
    assert plain.query == "Hi!"
    assert [shown.title for shown in plain.arguments] == ["grounding 1"]
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
    shown = str(explain(moved, RESPONSE, vocabulary=model, **SIDES))
    assert shown == str(explain(model, RESPONSE, **SIDES))
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
        ({**SIDES, "method": "x"}, ValueError, "method"),
        ({"knowledge": "It is."}, InputError, "the grounding has no content words"),
    ],
)
def test_what_is_wrong_is_named(model, given, error, message):
    with pytest.raises(error, match=message):
        explain(model, RESPONSE, **given)
