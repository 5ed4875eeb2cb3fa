"""The label enums: one place that says which class means what.

`1` is faithful everywhere. Scores follow: higher = more faithful.
"""

import enum


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
