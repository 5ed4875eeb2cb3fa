import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core import templates
from faith_jax.core.cutting import parse
from faith_jax.core.errors import ConfigError
from faith_jax.core.notation import CANDIDATES, PUBLISHED, Notation, check_label, choose_notation

NOTATIONS = [Notation(*pair) for pair in itertools.product(CANDIDATES["braces"], ("<>", "[]"))]
TEXTS = st.text(st.sampled_from("ab .[]{}()<>:⁇é\n"), max_size=12)


@pytest.mark.parametrize("notation", NOTATIONS, ids=str)
@given(query=TEXTS, pro=st.lists(TEXTS, max_size=2), turns=st.lists(TEXTS, min_size=1, max_size=3))
def test_writing_and_reading_agree_with_the_published_form(notation, query, pro, turns):
    """All of a format survives, and so do the places of its parts."""
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


def test_turns_keep_their_published_separator():
    text = templates.dialfact_claim_inputs(["Hi [1].", "Tea?"], "It is hot.")
    written = Notation("[]", "[]").to_model_notation(text)
    assert written == "[context: Hi (1). [EOT] Tea?] [claim: It is hot.]"
    assert Notation("[]", "[]").to_published_notation(written) == text.replace("[1]", "(1)")


def test_extra_ids_are_no_tags():
    text = "<extra_id_99> <extra_id_4> <knowledge> Tea <seeker> Hi!"
    written = Notation("[]", "[]").to_model_notation(text)
    assert written == "<extra_id_99> <extra_id_4> [knowledge] Tea [seeker] Hi!"
    assert Notation("[]", "[]").to_published_notation(written) == text


@pytest.mark.parametrize("text", ["premise: a [1] {b} hypothesis: c", "Is a < b [2]?", "", "{}"])
def test_texts_of_no_format_stay(text):
    assert (
        Notation("[]", "[]").to_model_notation(text)
        == text
        == Notation("[]", "[]").to_published_notation(text)
    )


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
