import collections
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.papers.dialfact.negation_rules import NEGATION_RULES, RuleClass, negations


def test_there_are_the_42_rules_of_the_paper_and_two_of_ours():
    counts = collections.Counter(rule.rule_class for rule in NEGATION_RULES)
    assert counts[RuleClass.SIMPLE] + counts[RuleClass.COMPLEX] == 42
    assert counts[RuleClass.AUXILIARY] == 2
    assert len({rule.name for rule in NEGATION_RULES}) == 44


# Claims, each followed by the negations of the rules, written by hand.
NEGATED = """
Oslo is a town.
 is_a_not: Oslo is not a town.
 is_a_definitely: Oslo is definitely not a town.
 is_a_certainly: Oslo is certainly not a town.
 complex_is_a_does_not_exist: There does not exist a town called Oslo.
 complex_is_a_exists_no: There exists no town called Oslo.
 complex_is_a_name: There exists no town that goes by the name of Oslo.
Oslo is an old town.
 is_a_contraction: Oslo isn't an old town.
 complex_is_a_is_not: There is not an old town called Oslo.
Rex was a dog.
 was_a_not: Rex was not a dog.
 was_a_contraction: Rex wasn't a dog.
 was_a_definitely: Rex was definitely not a dog.
 was_a_certainly: Rex was certainly not a dog.
 complex_was_a_did_not_exist: There did not exist a dog called Rex.
 complex_was_a_existed_no: There existed no dog called Rex.
 complex_was_a_was_not: There was not a dog called Rex.
 complex_was_a_name: There existed no dog that went by the name of Rex.
Kites was directed by J. Lee
 directed_not: Kites was not directed by J. Lee
Kites is directed by J. Lee
 directed_contraction: Kites isn't directed by J. Lee
Elk was directed by Lee.
 directed_definitely: Elk was definitely not directed by Lee.
 complex_directed_film: There is a film called Elk which was not directed by Lee.
 complex_directed_director: There is a director, Lee, who was not involved in the production of Elk.
Kites is directed by Lee.
 directed_certainly: Kites is certainly not directed by Lee.
 complex_directed_film_contraction: There is a film called Kites which isn't directed by Lee.
Lee stars in Kites.
 starred_not: Lee did not star in Kites.
Lee starred in Kites.
 starred_contraction: Lee didn't star in Kites.
 complex_starred_star: There is a person, Lee, that did not star in Kites.
 complex_starred_appear: There is a person, Lee, that did not appear in Kites.
 complex_starred_role: There is a person, Lee, that had no role in Kites.
 complex_starred_leading: There is a person, Lee, that did not take a leading acting role in Kites.
Lee was born in Oslo.
 born_not: Lee was not born in Oslo.
 complex_born_not_the_place: There exists a place, Oslo, that was not the birthplace of Lee.
 complex_born_elsewhere: Lee was born in some other place than Oslo.
Lee died on 3 May 1931.
 died_not: Lee has not died on 3 May 1931.
Lee died in Oslo.
 died_alive: Lee is still alive.
 complex_died_not_the_place: There exists a place, Oslo, that was not the place of death of Lee.
 complex_died_elsewhere: Lee died in some other place than Oslo.
Lee is an American actor.
 american_canadian: Lee is a Canadian actor.
Lee was an American actor.
 complex_american_outside: Lee was an actor that originated from outside the United States.
Lee was born in 1931.
 complex_born_time: 1931 is not the approximate time at which Lee was born.
Lee was born on 3 May 1931.
 complex_born_other_time: Lee was born at some other time than 3 May 1931.
Lee died in 1931.
 complex_died_time: 1931 is not the approximate time at which Lee died.
 complex_died_other_time: Lee died at some other time than 1931.
Cats can swim well.
 auxiliary_not: Cats can not swim well.
Cats are small
 auxiliary_never: Cats are never small
"""


def expected():
    """Yields claim, rule and negation."""
    claim = ""
    for line in NEGATED.strip().splitlines():
        if line.startswith(" "):
            yield claim, *line.strip().split(": ", 1)
        else:
            claim = line


@pytest.mark.parametrize(("claim", "name", "negated"), expected())
def test_each_rule(claim, name, negated):
    assert dict(negations(claim))[name] == negated


def test_each_rule_has_its_case():
    assert {name for _, name, _ in expected()} == {rule.name for rule in NEGATION_RULES}


@pytest.mark.parametrize(
    "claim", ["I love tea!", "", "Cats are not small.", "Lee died.", "Oslo is."]
)
def test_claims_that_no_rule_matches(claim):
    assert list(negations(claim)) == []


def test_of_several_sentences_the_first_auxiliary_is_negated():
    negated = dict(negations("Oh! Oslo is a town. Ann was a baker."))
    assert negated["auxiliary_not"] == "Oh! Oslo is not a town. Ann was a baker."
    assert set(negated) == {"auxiliary_not", "auxiliary_never"}
    assert "is_a_not" in dict(negations("J. R. Lee is a baker."))


def test_the_last_place_parts_subject_and_rest():
    negated = dict(negations("A bear that is a pet is a risk."))
    assert negated["is_a_not"] == "A bear that is a pet is not a risk."


NAMES = ["Oslo", "is", "a", "an", "was", "town.", "1931", "born", "in", "J.", "not"]
WORDS = st.lists(st.sampled_from(NAMES), max_size=8)


@given(WORDS)
def test_a_negation_keeps_the_end_and_differs(words):
    claim = " ".join(words)
    for name, negated in negations(claim):
        assert negated != claim.strip(), name
        assert negated.endswith(re.search(r"\.*$", claim).group())
