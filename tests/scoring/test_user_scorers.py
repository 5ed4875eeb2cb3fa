"""Scorers of users, in Python and through the commands."""

import json
import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.types import GroundedExample, Score, WordScore
from faith_jax.scoring import registry
from faith_jax.scoring.base import BaseScorer
from faith_jax.scoring.registry import (
    load_scorer,
    scorer_card,
    scorer_names,
    scorer_options,
    takes_words,
)
from faith_jax.scoring.user_scorers import scorer

pytestmark = pytest.mark.usefixtures("own_scorers")


def define(judge, **options):
    scorer("length_share", "Share of a hundred characters.", **options)(judge)
    return load_scorer("length_share")


def test_a_function_is_a_scorer():
    def judge(example, of: int = 100):
        return None if example.response == "none" else len(example.response) / of

    define(judge)
    assert "length_share" in scorer_names()
    assert scorer_options("length_share") == ["of"]
    assert scorer_card("length_share").high == 1
    scores = load_scorer("length_share", of=10).score(["Tea."] * 3, ["Yes.", "none", ""])
    assert scores[0].value == 0.4
    assert (math.isnan(scores[1].value), scores[1].undefined) == (True, "the scorer returned None")
    assert math.isnan(scores[2].value)
    # A cell that runs twice replaces the scorer.
    replaced = define(lambda example: Score(0.5))
    assert replaced.score(["Tea."], ["Yes."])[0].value == 0.5


@pytest.mark.parametrize(
    "returned", [np.float32(0.5), np.array(0.5), jnp.float32(0.5), Score(jnp.float32(0.5)), True]
)
def test_scalars_of_numpy_and_jax_are_numbers(returned):
    score = define(lambda example: returned).score(["Tea."], ["Yes."])[0]
    assert (score.value, type(score.value)) == (1.0 if returned is True else 0.5, float)


def test_a_score_keeps_its_words_and_says_why_it_is_undefined():
    words = (WordScore("Yes.", 0, 4, 0.5),)
    assert define(lambda example: Score(0.5, words)).score(["Tea."], ["Yes."])[0].words == words
    for reason, expected in (("no words", "no words"), ("", "the scorer returned NaN")):
        outcome = Score(math.nan, undefined=reason)
        score = define(lambda example, outcome=outcome: outcome).score(["Tea."], ["Yes."])[0]
        assert (math.isnan(score.value), score.undefined) == (True, expected)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (lambda example: 1.5, "scorer length_share: example '0': the score 1.5 is outside of its "),
        (lambda example: np.array([0.5]), r"example '0': expected a number or None, got array"),
        (lambda example: [][1], r"example '0': it failed \(IndexError: list index out of range\)"),
    ],
)
def test_what_a_function_returns_is_checked(judge, message):
    with pytest.raises(InputError, match=message):
        define(judge).score(["Tea."], ["Yes."])


def test_names_and_options_that_cannot_be():
    with pytest.raises(ConfigError, match="There is a scorer 'token_f1' already"):
        scorer("token_f1", "Mine.")(lambda example: 0.0)
    define(lambda example, least=1: 0.0)
    with pytest.raises(ConfigError, match=r"length_share has no option 'last'\. Did you mean 'lea"):
        load_scorer("length_share", last=2)
    with pytest.raises(ConfigError, match="length_share: missing a required argument: 'least'"):
        define(lambda example, least: 0.0)

    def typed(example, least: int = 1):
        return 0.0

    define(typed)
    with pytest.raises(ConfigError, match=r"write @faith_jax\.scorer\(NAME, DESCRIPTION\)"):

        @scorer
        def bare(example):
            return 1.0

    with pytest.raises(
        ConfigError, match="length_share: least: expected a whole number, got 'two'"
    ):
        load_scorer("length_share", least="two")
    with pytest.raises(ConfigError, match="One of your own needs --scorer-module=FILE"):
        load_scorer("my_length")


@pytest.mark.parametrize("example_type", ["GroundedExample", "UnknownHere"])
def test_annotations_may_be_strings(example_type):
    """The annotation of examples may name a type that only type checkers import."""
    names = {"Sequence": Sequence, "GroundedExample": GroundedExample}
    exec(
        "from __future__ import annotations\n"
        f"def judge(example: {example_type}, least: int = 1, words: Sequence[str] = ()): ...",
        names,
    )
    define(names["judge"])
    score = load_scorer("length_share", least=2).score(["Tea."], ["Yes."])[0]
    assert score.undefined == "the scorer returned None"
    with pytest.raises(
        ConfigError, match="length_share: least: expected a whole number, got 'two'"
    ):
        load_scorer("length_share", least="two")
    assert takes_words("length_share", "least") is None
    if example_type == "GroundedExample":
        assert takes_words("length_share", "words") is list


def test_a_registered_factory_may_have_strings_too(monkeypatch):
    names = {"BaseScorer": BaseScorer}
    exec(
        "from __future__ import annotations\n"
        "def make(cue: str = '', size: int | None = None) -> BaseScorer: ...",
        names,
    )
    monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))
    registry.register_scorer("of_strings", names["make"])
    assert (takes_words("of_strings", "cue"), takes_words("of_strings", "size")) == (str, None)


MODULE = """
import faith_jax

@faith_jax.scorer("vowels", "Share of vowels.")
def vowels(example, model="letters"):  # a name, no checkpoint
    return sum(letter in "aeiou" for letter in example.response) / len(example.response)
"""


def test_commands_take_a_file(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_vowels.py").write_text(MODULE)
    rows = [{"id": f"r{n}", "grounding": "Tea.", "response": text} for n, text in enumerate("aeb")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--scorers=vowels", "--input=rows.jsonl", "--output=s.jsonl")
    assert "There is no scorer 'vowels'" in command.refuses("score", *options)
    module = "--scorer-module=my_vowels.py"
    command.succeeds("score", *options, module, "--scorer-option=vowels.model=gpt-4")
    scored = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert [row["scores"]["vowels"] for row in scored] == [1, 1, 0]
    assert "Share of vowels." in command.succeeds("scorers", module)
    listed = command.succeeds("scorers", "vowels", "groundedness", module)
    assert "Share of vowels." in listed
    assert "model (mini_nli)" in listed
    assert "token_f1" not in listed
    assert "Did you mean 'vowels'" in command.refuses("scorers", "vowel", module)
    error = command.refuses("scorers", "--scorer-module=missing.py")
    assert "--scorer-module = 'missing.py': there is no such file." in error


def test_evaluate_knows_the_range_of_a_users_scorer(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_consonants.py").write_text(MODULE.replace("vowels", "consonants"))
    rows = [{"id": f"r{n}", "generated_text": "a", "scores": {"consonants": 0.5}} for n in range(2)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "consonants < 0.5" not in command.succeeds("evaluate", "s.jsonl")
    module = "--scorer-module=my_consonants.py"
    assert "consonants < 0.5" in command.succeeds("evaluate", "s.jsonl", module)
    assert command.succeeds("report", "s.jsonl", module, "--output=r.html") == "r.html\n"
