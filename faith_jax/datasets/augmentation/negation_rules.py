"""Rules that negate a claim: those of the FEVER 2.0 baseline (Thorne 2019), which DialFact uses.

A rule is a pattern of a one-clause claim and a template of its negation. The patterns are those of
encyclopaedic claims ("X is a Y", "X starred in Y"), so few turns of a dialogue match them; the
rules of the class AUXILIARY, which are ours, negate the first auxiliary of any claim. Unlike the
baseline's, full stops inside a claim are kept.
"""

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple


class RuleClass(enum.StrEnum):
    """What a rule does: insert a negation, rephrase as one, or negate the first auxiliary."""

    SIMPLE = "simple"
    COMPLEX = "complex"
    AUXILIARY = "auxiliary"


class NegationRule(NamedTuple):
    r"""A rule.

    Attributes:
      name: unique among the rules.
      rule_class: see `RuleClass`.
      pattern: of a claim without its full stop.
      template: with the pattern's groups as `\g<x>`.
    """

    name: str
    rule_class: RuleClass
    pattern: re.Pattern[str]
    template: str


# Greedy: of several places where a pattern's words stand, the last one parts subject and rest.
_PATTERNS = {
    "is_a": r"(?P<x>.+) is (?P<a>an?) (?P<y>.+)",
    "was_a": r"(?P<x>.+) was (?P<a>an?) (?P<y>.+)",
    "directed": r"(?P<x>.+?) (?P<be>is|was) directed by (?P<y>.+)",
    "starred": r"(?P<x>.+) (?:starred|stars) in (?P<y>.+)",
    "born": r"(?P<x>.+?) (?:was|is) born (?P<p>in|on) (?P<y>.+)",
    "died": r"(?P<x>.+) died (?P<p>in|on) (?P<y>.+)",
    "american": r"(?P<x>.+) (?P<be>is|was) an American (?P<y>.+)",
    "auxiliary": (
        r"(?P<x>.+?) (?P<be>is|are|was|were|can|could|will|would|should|has|have|had|does|do|did)"
        r" (?!not\b|n't\b|never\b|no\b)(?P<y>.+)"
    ),
}
_SIMPLE = {
    "is_a": {
        "not": r"\g<x> is not \g<a> \g<y>",
        "contraction": r"\g<x> isn't \g<a> \g<y>",
        "definitely": r"\g<x> is definitely not \g<a> \g<y>",
        "certainly": r"\g<x> is certainly not \g<a> \g<y>",
    },
    "was_a": {
        "not": r"\g<x> was not \g<a> \g<y>",
        "contraction": r"\g<x> wasn't \g<a> \g<y>",
        "definitely": r"\g<x> was definitely not \g<a> \g<y>",
        "certainly": r"\g<x> was certainly not \g<a> \g<y>",
    },
    "directed": {
        "not": r"\g<x> \g<be> not directed by \g<y>",
        "contraction": r"\g<x> \g<be>n't directed by \g<y>",
        "definitely": r"\g<x> \g<be> definitely not directed by \g<y>",
        "certainly": r"\g<x> \g<be> certainly not directed by \g<y>",
    },
    "starred": {
        "not": r"\g<x> did not star in \g<y>",
        "contraction": r"\g<x> didn't star in \g<y>",
    },
    "born": {"not": r"\g<x> was not born \g<p> \g<y>"},
    "died": {
        "not": r"\g<x> has not died \g<p> \g<y>",
        "alive": r"\g<x> is still alive",
    },
    "american": {"canadian": r"\g<x> \g<be> a Canadian \g<y>"},
}
_COMPLEX = {
    "is_a": {
        "does_not_exist": r"There does not exist \g<a> \g<y> called \g<x>",
        "exists_no": r"There exists no \g<y> called \g<x>",
        "is_not": r"There is not \g<a> \g<y> called \g<x>",
        "name": r"There exists no \g<y> that goes by the name of \g<x>",
    },
    "was_a": {
        "did_not_exist": r"There did not exist \g<a> \g<y> called \g<x>",
        "existed_no": r"There existed no \g<y> called \g<x>",
        "was_not": r"There was not \g<a> \g<y> called \g<x>",
        "name": r"There existed no \g<y> that went by the name of \g<x>",
    },
    "directed": {
        "film": r"There is a film called \g<x> which \g<be> not directed by \g<y>",
        "film_contraction": r"There is a film called \g<x> which \g<be>n't directed by \g<y>",
        "director": (
            r"There is a director, \g<y>, who was not involved in the production of \g<x>"
        ),
    },
    "starred": {
        "star": r"There is a person, \g<x>, that did not star in \g<y>",
        "appear": r"There is a person, \g<x>, that did not appear in \g<y>",
        "role": r"There is a person, \g<x>, that had no role in \g<y>",
        "leading": r"There is a person, \g<x>, that did not take a leading acting role in \g<y>",
    },
    "american": {"outside": r"\g<x> \g<be> a \g<y> that originated from outside the United States"},
}


def _rules() -> Iterator[NegationRule]:
    for rule_class, table in ((RuleClass.SIMPLE, _SIMPLE), (RuleClass.COMPLEX, _COMPLEX)):
        for pattern, templates in table.items():
            for name, template in templates.items():
                yield _rule(rule_class, pattern, name, template)
    yield from _places_and_times()
    for name, negated in (("not", r"\g<be> not"), ("never", r"\g<be> never")):
        yield _rule(RuleClass.AUXILIARY, "auxiliary", name, rf"\g<x> {negated} \g<y>")


def _places_and_times() -> Iterator[NegationRule]:
    """Yields the rules of birth and death; a time is told from a place by its figures."""
    for pattern, past, noun in (
        ("born", "was born", "birthplace"),
        ("died", "died", "place of death"),
    ):
        place = {
            "not_the_place": rf"There exists a place, \g<y>, that was not the {noun} of \g<x>",
            "elsewhere": rf"\g<x> {past} in some other place than \g<y>",
        }
        time = {
            "time": rf"\g<y> is not the approximate time at which \g<x> {past}",
            "other_time": rf"\g<x> {past} at some other time than \g<y>",
        }
        for names, figures in ((place, r"(?!.*\d)"), (time, r"(?=.*\d)")):
            for name, template in names.items():
                where = _PATTERNS[pattern].replace("(?P<y>", rf"{figures}(?P<y>")
                yield NegationRule(
                    f"complex_{pattern}_{name}", RuleClass.COMPLEX, re.compile(where), template
                )


def _rule(rule_class: RuleClass, pattern: str, name: str, template: str) -> NegationRule:
    full_name = f"{pattern}_{name}"
    if rule_class is RuleClass.COMPLEX:
        full_name = f"complex_{full_name}"
    return NegationRule(full_name, rule_class, re.compile(_PATTERNS[pattern]), template)


NEGATION_RULES = tuple(_rules())
_SENTENCE_END = re.compile(r"(?<!\b[A-Z])[.!?]['\")]*\s")  # not behind an initial


def negations(
    claim: str, classes: frozenset[RuleClass] = frozenset(RuleClass)
) -> Iterator[tuple[str, str]]:
    """Yields the name of each rule that matches a claim, and the negated claim.

    Kept are the claim's words apart from the rule's, and its full stop or the lack of one.

    Args:
      claim: a sentence; of several, only AUXILIARY negates the first that it can.
      classes: of the rules to try.

    >>> dict(negations("Oslo is a town."))["is_a_not"]
    'Oslo is not a town.'
    """
    sentence = claim.strip()
    body = sentence.rstrip(".")
    if _SENTENCE_END.search(body):
        classes &= {RuleClass.AUXILIARY}
    for rule in NEGATION_RULES:
        match = rule.pattern.fullmatch(body) if rule.rule_class in classes else None
        if match is not None:
            yield rule.name, _expanded(match, rule.template) + sentence[len(body) :]


def _expanded(match: re.Match[str], template: str) -> str:
    if match["y"][0].lower() in "aeiou":
        template = template.replace(r" a \g<y>", r" an \g<y>")
    return match.expand(template)
