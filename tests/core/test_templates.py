import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core import templates


def test_generate_inputs_and_targets():
    inputs = templates.npov_generate_inputs("Should it?", ["A one.", "A two."], ["B one."])
    assert inputs == "{query: Should it?} {pro: A one. A two.} {con: B one.}"
    assert templates.npov_generate_targets("Views differ.") == "{response: Views differ.}"


def test_braces_and_white_space_cannot_break_the_format():
    inputs = templates.npov_generate_inputs("a {con: b}\n c", [" d  e "], ["{"])
    assert inputs == "{query: a (con: b) c} {pro: d e} {con: (}"


@given(st.text())
def test_a_response_survives_the_round_trip(text):
    cleaned = templates.clean_value(text)
    assert templates.npov_response(templates.npov_generate_targets(text)) == cleaned


@pytest.mark.parametrize(
    ("generated", "response"),
    [
        ("{response: cut before its e", "cut before its e"),
        ("no format at all", "no format at all"),
        (" Use {x} or {y}. ", " Use {x} or {y}. "),
        ("{label: NO}", "{label: NO}"),
        ("noise {response: found} tail {response: not this}", "found"),
        ("", ""),
    ],
)
def test_what_a_model_may_generate_instead(generated, response):
    assert templates.npov_response(generated) == response


def test_turns_of_a_context_are_joined_by_a_separator():
    """As salesforce/DialFact's run_fever_scoringctx.py joins them."""
    turns, given = ["Hi.", "Who are {you}?", "I am Ada."], (["Ada"], ["Ada is a name."])
    inputs = templates.dialfact_inputs(turns, "It is a name.", *given)
    assert inputs == (
        "{context: Who are (you)? [EOT] I am Ada.} {claim: It is a name.} "
        "{evidence: title: Ada content: Ada is a name.}"
    )
    claim = templates.dialfact_claim_inputs(turns, "It is a name.", last=3)
    assert claim == "{context: Hi. [EOT] Who are (you)? [EOT] I am Ada.} {claim: It is a name.}"
    assert templates.dialfact_claim_inputs(turns[:1], "x") == "{context: Hi.} {claim: x}"
    assert templates.dialfact_claim_inputs(turns, "x", last=0) == "{context: } {claim: x}"
