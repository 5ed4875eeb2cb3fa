"""Rules that negate a claim, from the FEVER 2.0 baseline (Thorne 2019), which DialFact uses.

A rule is a pattern of a one-clause claim and a template of its negation. The patterns are for
encyclopaedic claims ("X is a Y", "X starred in Y"), so few turns of a dialogue match them; our own
rules, of the class AUXILIARY, negate the first auxiliary of any claim. Unlike in the baseline, full
stops inside a claim are kept.
"""

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple


class RuleClass(enum.StrEnum):
    """Kinds of rules: insert a negation, rephrase the claim, or negate the first auxiliary."""

    SIMPLE = "simple"
    COMPLEX = "complex"
    AUXILIARY = "auxiliary"


class NegationRule(NamedTuple):
    r"""A rule: a pattern of a claim without full stop, and a template with groups (`\g<x>`)."""

    name: str
    rule_class: RuleClass
    pattern: re.Pattern[str]
    template: str


# Greedy: if a pattern's words occur several times, the last occurrence ends the subject.
_PATTERNS = {
    "is_a": r"(?P<x>.+) (?P<be>is) (?P<a>an?) (?P<y>.+)",
    "was_a": r"(?P<x>.+) (?P<be>was) (?P<a>an?) (?P<y>.+)",
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
_NEGATED = {
    "not": r"\g<be> not",
    "contraction": r"\g<be>n't",
    "definitely": r"\g<be> definitely not",
    "certainly": r"\g<be> certainly not",
}
_SIMPLE = {
    "is_a": {name: rf"\g<x> {negated} \g<a> \g<y>" for name, negated in _NEGATED.items()},
    "was_a": {name: rf"\g<x> {negated} \g<a> \g<y>" for name, negated in _NEGATED.items()},
    "directed": {name: rf"\g<x> {negated} directed by \g<y>" for name, negated in _NEGATED.items()},
    "starred": {
        "not": r"\g<x> did not star in \g<y>",
        "contraction": r"\g<x> didn't star in \g<y>",
    },
    "born": {"not": r"\g<x> was not born \g<p> \g<y>"},
    "died": {"not": r"\g<x> has not died \g<p> \g<y>", "alive": r"\g<x> is still alive"},
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
# Templates for births and deaths; digits distinguish a time from a place.
_PLACE = {
    "not_the_place": r"There exists a place, \g<y>, that was not the {noun} of \g<x>",
    "elsewhere": r"\g<x> {past} in some other place than \g<y>",
}
_TIME = {
    "time": r"\g<y> is not the approximate time at which \g<x> {past}",
    "other_time": r"\g<x> {past} at some other time than \g<y>",
}
_EVENTS = {"born": ("was born", "birthplace"), "died": ("died", "place of death")}


def _build_negation_rules() -> Iterator[NegationRule]:
    for rule_class, start, table in (
        (RuleClass.SIMPLE, "", _SIMPLE),
        (RuleClass.COMPLEX, "complex_", _COMPLEX),
    ):
        for key, templates in table.items():
            pattern = re.compile(_PATTERNS[key])
            for name, template in templates.items():
                yield NegationRule(f"{start}{key}_{name}", rule_class, pattern, template)
    for key, (past, noun) in _EVENTS.items():
        for templates, figures in ((_PLACE, r"(?!.*\d)"), (_TIME, r"(?=.*\d)")):
            pattern = re.compile(_PATTERNS[key].replace("(?P<y>", rf"{figures}(?P<y>"))
            for name, template in templates.items():
                filled = template.format(past=past, noun=noun)
                yield NegationRule(f"complex_{key}_{name}", RuleClass.COMPLEX, pattern, filled)
    pattern = re.compile(_PATTERNS["auxiliary"])
    for word in ("not", "never"):
        template = rf"\g<x> \g<be> {word} \g<y>"
        yield NegationRule(f"auxiliary_{word}", RuleClass.AUXILIARY, pattern, template)


NEGATION_RULES = tuple(_build_negation_rules())
_SENTENCE_END = re.compile(r"(?<!\b[A-Z])[.!?]['\")]*\s")  # not after an initial


def negations(claim: str) -> Iterator[tuple[str, str]]:
    """Yields the name of each matching rule, and the negated claim.

    A final full stop is kept. In a claim of several sentences, AUXILIARY negates the first sentence
    that it can; the other classes negate only claims of a single sentence.

    >>> dict(negations("Oslo is a town."))["is_a_not"]
    'Oslo is not a town.'
    """
    sentence = claim.strip()
    body = sentence.rstrip(".")
    has_several = _SENTENCE_END.search(body) is not None
    for rule in NEGATION_RULES:
        if has_several and rule.rule_class is not RuleClass.AUXILIARY:
            continue
        if match := rule.pattern.fullmatch(body):
            template = rule.template
            if match["y"][0].lower() in "aeiou":
                template = template.replace(r" a \g<y>", r" an \g<y>")
            yield rule.name, match.expand(template) + sentence[len(body) :]
