import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core import templates
from faith_jax.core.cutting import parse
from faith_jax.core.errors import ConfigError
from faith_jax.core.templates import CANDIDATES, PUBLISHED, Notation, check_label, choose_notation

NOTATIONS = [Notation(*pair) for pair in itertools.product(CANDIDATES["braces"], ("<>", "[]"))]
TEXTS = st.text(st.sampled_from("ab .[]{}()<>:⁇é\n"), max_size=12)


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
    turns, arguments = ["Hi.", "Who are {you}?", "I am Ada."], (["Ada"], ["Ada is a name."])
    inputs = templates.dialfact_inputs(turns, "It is a name.", *arguments)
    assert inputs == (
        "{context: Who are (you)? [EOT] I am Ada.} {claim: It is a name.} "
        "{evidence: title: Ada content: Ada is a name.}"
    )
    claim = templates.dialfact_claim_inputs(turns, "It is a name.")
    assert claim == "{context: Who are (you)? [EOT] I am Ada.} {claim: It is a name.}"
    assert templates.dialfact_claim_inputs(turns[:1], "x") == "{context: Hi.} {claim: x}"
    assert templates.dialfact_claim_inputs([], "x") == "{context: } {claim: x}"


@pytest.mark.parametrize("notation", NOTATIONS, ids=str)
@given(query=TEXTS, pro=st.lists(TEXTS, max_size=2), turns=st.lists(TEXTS, min_size=1, max_size=3))
def test_writing_and_reading_agree_with_the_published_form(notation, query, pro, turns):
    """All texts of a format survive, and so do the positions of its parts."""
    values = query.replace("[", "(").replace("]", ")")  # what a chosen bracket becomes in a value
    for text in (
        templates.npov_generate_inputs(query, pro, ["c"]),
        templates.dialogue_inputs(query, turns),
        templates.dialfact_claim_inputs(turns, query),
    ):
        written = notation.to_model_notation(text)
        assert len(written) == len(text)
        assert [p[:] for p in parse(written, notation)] == [p[:] for p in parse(text)]
        assert notation.to_model_notation(written) == written
    response = templates.npov_generate_targets(values)
    read = templates.npov_response(notation.to_model_notation(response))
    if notation.braces in ("{}", "[]"):
        assert read == templates.npov_response(response)


def test_extra_ids_are_no_tags():
    text = "<extra_id_99> <extra_id_4> <knowledge> Tea <seeker> Hi!"
    written = Notation("[]", "[]").to_model_notation(text)
    assert written == "<extra_id_99> <extra_id_4> [knowledge] Tea [seeker] Hi!"
    assert Notation("[]", "[]").to_published_notation(written) == text


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        ("", PUBLISHED),
        ("{", Notation("[]", "<>")),
        ("{<", Notation("[]", "[]")),
        ("{[<", Notation("()", "()")),
        ("}])>", Notation("", "")),
    ],
)
def test_the_first_pair_that_is_written_is_chosen(lacking, expected):
    assert choose_notation(lambda text: not set(lacking) & set(text)) == expected


def test_without_any_pair_only_formats_are_an_error():
    nothing = Notation("", "")
    assert nothing.to_model_notation("premise: a hypothesis: b") == "premise: a hypothesis: b"
    for text in ("{query: a}", "<seeker> Hi!"):
        with pytest.raises(ConfigError, match=r"none of the delimiters \{\} \[\] \(\) <>"):
            nothing.to_model_notation(text)


def test_a_label_must_not_contain_a_delimiter():
    check_label("error_label", "NO", Notation("[]", "[]"))
    with pytest.raises(ConfigError, match=r"error_label = 'N\]O': it contains \]"):
        check_label("error_label", "N]O", Notation("[]", "[]"))
