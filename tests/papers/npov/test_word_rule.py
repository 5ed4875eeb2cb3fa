"""Rules in place of annotators."""

import pytest

from faith_jax.papers.npov.word_rule import ErrorFreeRule, retold_spans

QUERY = "Should tea replace coffee?"
GIVEN = ["Tea calms nervous people.", "Coffee stains white teeth."]
UNUSED = ["Tea is cheap and easy to brew."]
GOOD = (
    "People discuss whether tea should replace coffee. Tea calms nervous people, yet coffee stains "
    "white teeth."
)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (GOOD, ""),
        # "white" is left out: 3 of 4 stems, less than 0.8.
        (GOOD.replace("white ", ""), "left out"),
        ("Tea calms nervous people.", "left out"),
        # Of cheap, easi and brew two are told.
        (GOOD + " It is cheap and easy.", "unused told"),
        (GOOD + " It is cheap.", ""),
        # 11 of the response's words are known; of 20, that is 0.55.
        (GOOD + " One two three four five six seven eight nine ten.", "other words"),
        ("It is so.", "empty"),
        ("", "empty"),
    ],
)
def test_reasons(response, error):
    assert ErrorFreeRule().error(response, QUERY, GIVEN, UNUSED) == error


def test_thresholds():
    response = GOOD.replace("white ", "")
    assert ErrorFreeRule(recall=0.75).error(response, QUERY, GIVEN, UNUSED) == ""
    assert ErrorFreeRule(unused=0.3).error(GOOD + " Cheap.", QUERY, GIVEN, UNUSED) == "unused told"
    assert ErrorFreeRule(precision=0.99).error(GOOD, QUERY, GIVEN, UNUSED) == "other words"
    # A response cannot be shown to tell an unused argument without words of its own.
    assert ErrorFreeRule().error(GOOD, QUERY, GIVEN, ["Tea calms."]) == ""


def spans(response, argument, other_arguments=()):
    return [response[start:end] for start, end in retold_spans(response, argument, other_arguments)]


def test_spans_are_the_stretch_from_the_first_word_to_the_last():
    assert spans(GOOD, GIVEN[1]) == ["coffee stains white teeth"]
    # "Coffee" is the query's too, so it does not count.
    assert spans(GOOD, GIVEN[1], [QUERY]) == ["stains white teeth"]
    assert spans(GOOD, GIVEN[0], [QUERY, GIVEN[1]]) == ["calms nervous people"]


def test_each_sentence_of_the_argument_has_its_own():
    response = "Some say coffee stains teeth. It is dear, others say."
    assert spans(response, "Coffee stains teeth. It is dear.") == ["coffee stains teeth", "dear"]
    assert spans(response, "Nothing alike here.") == []
    assert spans("", "Coffee stains.") == []
    # All its words occur in other texts, so they count nevertheless.
    assert spans(response, "It is dear.", ["So dear."]) == ["dear"]
