"""The labels of each data set and their meanings; 1 always means faithful."""

import contextlib
import enum
from collections.abc import Iterable, Mapping
from typing import Any


class Faithfulness(enum.IntEnum):
    """Whether a response says only what its grounding supports."""

    UNFAITHFUL = 0
    FAITHFUL = 1


class ErrorLabel(enum.StrEnum):
    """The text targets of the NPOV error classifiers (Chang 2024, section 3.3)."""

    NO_ERROR = "YES"
    ERROR = "NO"


def labels_line(labels: Mapping[str, str]) -> str:
    """Explains the texts of a classifier's labels to readers, since YES means no error.

    >>> labels_line({"no_error": "YES", "error": "NO"})
    'labels: YES = the response is free of the error, NO = it has the error'
    """
    return (
        f"labels: {labels['no_error']} = the response is free of the error, {labels['error']} = it "
        "has the error"
    )


class CriticLabel(enum.StrEnum):
    """The text targets of critics: whether a response says only what its knowledge supports."""

    FAITHFUL = "faithful"
    UNFAITHFUL = "unfaithful"


class _FirstIsFaithful(enum.StrEnum):
    """Labels of a benchmark in which only the first label is faithful."""

    @property
    def faithfulness(self) -> Faithfulness:
        """The binary label that the benchmark derives from this one."""
        return Faithfulness(self is next(iter(type(self))))


class BeginLabel(_FirstIsFaithful):
    """The labels of BEGIN's second release (Nandwani 2023)."""

    FULLY_ATTRIBUTABLE = "Fully attributable"
    NOT_FULLY_ATTRIBUTABLE = "Not fully attributable"
    GENERIC = "Generic"


class Begin2021Label(_FirstIsFaithful):
    """The five-way labels of BEGIN's first release, as used by TRUE."""

    ENTAILMENT = "entailment"
    HALLUCINATION = "hallucination"
    GENERIC = "generic"
    OFF_TOPIC = "off-topic"
    CONTRADICTION = "contradiction"


class WizardLabel(enum.StrEnum):
    """The labels of FaithDial's annotators for a Wizard of Wikipedia response, one or several."""

    ENTAILMENT = "Entailment"
    HALLUCINATION = "Hallucination"
    GENERIC = "Generic"
    UNCOOPERATIVE = "Uncooperative"


def begin_class(labels: Iterable[str]) -> str:
    """Returns a response's single class in FaithDial's figures; "" without labels (Dziri 2022).

    >>> begin_class(["Entailment", "Hallucination"]), begin_class(["Entailment", "Uncooperative"])
    ('Partial Hallucination', 'Uncooperative')
    """
    labels = set(labels)
    entailment, hallucination, generic, uncooperative = WizardLabel
    if {entailment, hallucination} <= labels:
        return "Partial Hallucination"
    order = (hallucination, uncooperative, generic, entailment)
    return next((label.value for label in order if label in labels), "")


def critic_label(labels: Iterable[str]) -> Faithfulness | None:
    """Returns FaithCritic's label of a response; None = not used (Dziri 2022, section 5.1).

    A response that is partly hallucinated counts as hallucinated.

    >>> critic_label(["Entailment", "Hallucination"]).name
    'UNFAITHFUL'
    """
    labels = set(labels)
    if WizardLabel.HALLUCINATION in labels:
        return Faithfulness.UNFAITHFUL
    return Faithfulness.FAITHFUL if WizardLabel.ENTAILMENT in labels else None


class DialFactLabel(_FirstIsFaithful):
    """The verdict of evidence on a claim (Gupta 2022); in TRUE only SUPPORTS is faithful."""

    SUPPORTS = "SUPPORTS"
    REFUTES = "REFUTES"
    NOT_ENOUGH_INFO = "NOT ENOUGH INFO"


NOT_VERIFIABLE = "NOT VERIFIABLE"
VERDICTS = (*(label.value for label in DialFactLabel), NOT_VERIFIABLE)
UNSUPPORTED = "UNSUPPORTED"  # a label for all verdicts except SUPPORTS


# Verdicts by their names, including those in other data sets.
_VERDICTS = {name: name for name in (*VERDICTS, UNSUPPORTED)} | {
    "SUPPORTED": DialFactLabel.SUPPORTS.value,
    "ENTAILMENT": DialFactLabel.SUPPORTS.value,
    "REFUTED": DialFactLabel.REFUTES.value,
    "CONTRADICTION": DialFactLabel.REFUTES.value,
    "NEUTRAL": DialFactLabel.NOT_ENOUGH_INFO.value,
    "NEI": DialFactLabel.NOT_ENOUGH_INFO.value,
}


def label_text(value: Any) -> str:
    """Returns a label in lower case, or a number in its shortest form; "" = no label.

    >>> label_text(" Yes"), label_text(1.0), label_text("0,0"), label_text(None)
    ('yes', '1', '0', '')
    """
    text = "" if value is None else str(value).strip().lower()
    with contextlib.suppress(ValueError):
        return str(parse_number(text.replace(",", "."))).removesuffix(".0")
    return text


def parse_number(text: str) -> float:
    """Returns the number that a cell holds.

    Raises:
      ValueError: it holds none, or has underscores, which only Python allows in numbers.
    """
    if "_" in text:
        raise ValueError(f"There is an underscore in {text!r}.")
    return float(text)


def parse_verdict(text: str) -> str | None:
    """Returns the verdict of `VERDICTS`, or UNSUPPORTED, that a text means in any case, or None.

    >>> parse_verdict(" not_enough info"), parse_verdict("entailment"), parse_verdict("true")
    ('NOT ENOUGH INFO', 'SUPPORTS', None)
    """
    return _VERDICTS.get(" ".join(text.replace("_", " ").split()).upper())


def response_verdict(verdicts: Iterable[str]) -> str:
    """Returns the verdict on a response, given the verdicts on its claims (of `VERDICTS`).

    One refuted claim refutes the response. Otherwise one claim with NOT ENOUGH INFO decides, and
    otherwise the response is supported. Claims that cannot be verified only count if there are no
    others. An UNSUPPORTED claim (a label of some data sets) makes the response UNSUPPORTED.

    >>> response_verdict(["SUPPORTS", "NOT VERIFIABLE"]), response_verdict([])
    ('SUPPORTS', 'NOT VERIFIABLE')
    >>> response_verdict(["SUPPORTS", "NOT ENOUGH INFO", "REFUTES"])
    'REFUTES'
    """
    distinct = set(verdicts)
    if UNSUPPORTED in distinct:
        return UNSUPPORTED
    decisive = (DialFactLabel.REFUTES, DialFactLabel.NOT_ENOUGH_INFO, DialFactLabel.SUPPORTS)
    return next((label.value for label in decisive if label.value in distinct), NOT_VERIFIABLE)


class DialFactType(enum.StrEnum):
    """Whether a claim can be verified; `personal` claims cannot."""

    FACTUAL = "factual"
    PERSONAL = "personal"


class EvidenceLabel(enum.StrEnum):
    """The text targets of sentence selection: whether a sentence is evidence for a claim."""

    RELEVANT = "relevant"
    IRRELEVANT = "irrelevant"


NOT_SUPPORTED = "NOT SUPPORTED"


def verification_label(response_label: str, type_label: str, ways: int = 3) -> str:
    """Returns the label of claim verification with 3 or 2 classes (Gupta 2022, section 5.3).

    A claim that cannot be verified counts as NOT ENOUGH INFO. With two classes, all claims that are
    not supported are NOT SUPPORTED.

    >>> verification_label("REFUTES", "factual", ways=2)
    'NOT SUPPORTED'
    """
    label = DialFactLabel(response_label)
    if DialFactType(type_label) is DialFactType.PERSONAL:
        label = DialFactLabel.NOT_ENOUGH_INFO
    if ways == 2 and label is not DialFactLabel.SUPPORTS:
        return NOT_SUPPORTED
    return label.value


class NliLabel(enum.StrEnum):
    """The labels of natural language inference, in the order of TFDS's classes."""

    ENTAILMENT = "entailment"
    NEUTRAL = "neutral"
    CONTRADICTION = "contradiction"


class DialogueNliLabel(enum.StrEnum):
    """The labels in Dialogue NLI's files (Welleck 2019): whether two sentences agree."""

    POSITIVE = "positive"
    NEUTRAL = "neutral"
    NEGATIVE = "negative"

    @property
    def nli(self) -> NliLabel:
        """The corresponding label of natural language inference."""
        return dict(zip(DialogueNliLabel, NliLabel, strict=True))[self]


class DecodeLabel(enum.StrEnum):
    """The text targets of DECODE (Nie 2021): whether a turn contradicts an earlier one."""

    CONTRADICTION = "contradiction"
    NOT_CONTRADICTION = "not_contradiction"
