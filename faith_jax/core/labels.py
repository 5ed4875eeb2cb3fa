"""The label enums: one place that says which class means what.

`1` is faithful everywhere. Scores follow: higher = more faithful.
"""

import enum
from collections.abc import Iterable


class Faithfulness(enum.IntEnum):
    """Whether a response says only what its grounding supports."""

    UNFAITHFUL = 0
    FAITHFUL = 1


class ErrorLabel(enum.StrEnum):
    """The text targets of the NPOV error classifiers (Chang 2024, section 3.3).

    `YES` means "no error", `NO` means "a full error".
    """

    NO_ERROR = "YES"
    ERROR = "NO"


class CriticLabel(enum.StrEnum):
    """The text targets of critics: whether a response says only what its knowledge supports."""

    FAITHFUL = "faithful"
    UNFAITHFUL = "unfaithful"


class BeginLabel(enum.StrEnum):
    """The labels of BEGIN's second release; only the first one is faithful (Nandwani 2023)."""

    FULLY_ATTRIBUTABLE = "Fully attributable"
    NOT_FULLY_ATTRIBUTABLE = "Not fully attributable"
    GENERIC = "Generic"

    @property
    def faithfulness(self) -> Faithfulness:
        """The label of the benchmark."""
        return Faithfulness(self is BeginLabel.FULLY_ATTRIBUTABLE)


class Begin2021Label(enum.StrEnum):
    """The five-way labels of BEGIN's first release; only the first one is faithful (TRUE)."""

    ENTAILMENT = "entailment"
    HALLUCINATION = "hallucination"
    GENERIC = "generic"
    OFF_TOPIC = "off-topic"
    CONTRADICTION = "contradiction"

    @property
    def faithfulness(self) -> Faithfulness:
        """The label of the benchmark."""
        return Faithfulness(self is Begin2021Label.ENTAILMENT)


class WizardLabel(enum.StrEnum):
    """What annotators of FaithDial say of a Wizard of Wikipedia response; several may hold."""

    ENTAILMENT = "Entailment"
    HALLUCINATION = "Hallucination"
    GENERIC = "Generic"
    UNCOOPERATIVE = "Uncooperative"


def critic_label(labels: Iterable[str]) -> Faithfulness | None:
    """Returns what FaithCritic takes a response with these labels for (Dziri 2022, section 5.1).

    A response that is partly hallucinated counts as hallucinated. None = it is not used.

    >>> critic_label(["Entailment", "Hallucination"]).name
    'UNFAITHFUL'
    """
    labels = set(labels)
    if WizardLabel.HALLUCINATION in labels:
        return Faithfulness.UNFAITHFUL
    return Faithfulness.FAITHFUL if WizardLabel.ENTAILMENT in labels else None


class DialFactLabel(enum.StrEnum):
    """What evidence says of a claim (Gupta 2022)."""

    SUPPORTS = "SUPPORTS"
    REFUTES = "REFUTES"
    NOT_ENOUGH_INFO = "NOT ENOUGH INFO"

    @property
    def faithfulness(self) -> Faithfulness:
        """The label of TRUE: only a supported claim is faithful."""
        return Faithfulness(self is DialFactLabel.SUPPORTS)


class DialFactType(enum.StrEnum):
    """Whether a claim can be verified: `personal` ones cannot."""

    FACTUAL = "factual"
    PERSONAL = "personal"


class EvidenceLabel(enum.StrEnum):
    """The text targets of sentence selection: whether a sentence is evidence for a claim."""

    RELEVANT = "relevant"
    IRRELEVANT = "irrelevant"


NOT_SUPPORTED = "NOT SUPPORTED"


def verification_label(response_label: str, type_label: str, ways: int = 3) -> str:
    """Returns the label of claim verification (Gupta 2022, section 5.3).

    A claim that cannot be verified counts as NOT ENOUGH INFO; with two ways, whatever is not
    supported is NOT SUPPORTED.

    Args:
      response_label: of `DialFactLabel`.
      type_label: of `DialFactType`.
      ways: 3 or 2.

    >>> verification_label("REFUTES", "factual", ways=2)
    'NOT SUPPORTED'
    """
    if ways not in (2, 3):
        raise ValueError(f"Verification has 2 or 3 ways, not {ways}.")
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
        """The label of natural language inference that the authors mean by it."""
        return {
            DialogueNliLabel.POSITIVE: NliLabel.ENTAILMENT,
            DialogueNliLabel.NEUTRAL: NliLabel.NEUTRAL,
            DialogueNliLabel.NEGATIVE: NliLabel.CONTRADICTION,
        }[self]


class DecodeLabel(enum.StrEnum):
    """The text targets of DECODE (Nie 2021): whether a turn contradicts an earlier one."""

    CONTRADICTION = "contradiction"
    NOT_CONTRADICTION = "not_contradiction"
