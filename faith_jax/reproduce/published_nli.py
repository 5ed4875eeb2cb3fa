"""Figures of "With a Little Push" (Steen 2023, tables 1, 2, 4 and 5), by our names.

AUCs in per cent; `average` is over the nine corpora.
"""

from typing import NamedTuple

from faith_jax.statistics.published import Published

AVERAGE = "average"
_CORPORA = (
    "frank", "mnbm", "summeval", "qags_x", "qags_c", "begin", "dialfact", "q2", "paws", AVERAGE,
)  # fmt: skip
_MODELS = (
    "of other models than these: Base is a DeBERTa-large fine-tuned for NLI, All the same trained "
    "on the augmented ANLI, T5 an 11B model"
)


def _row(*values: float) -> dict[str, float]:
    return dict(zip(_CORPORA, values, strict=True))


# By method: AUC by corpus.
METHODS = Published(
    f"Published: Steen 2023, table 1, {_MODELS}.",
    {
        ("q2",): _row(87.8, 68.7, 78.8, 70.9, 83.5, 79.7, 86.1, 80.9, 89.7, 80.7),
        ("summac_zs",): _row(89.1, 71.3, 81.7, 78.1, 80.9, 82.0, 84.1, 77.4, 88.2, 81.4),
        ("t5_anli",): _row(89.4, 77.9, 80.5, 83.8, 82.1, 82.6, 77.7, 72.7, 86.4, 81.5),
        ("base",): _row(85.6, 74.6, 72.8, 81.6, 74.1, 80.4, 81.8, 79.8, 87.8, 79.8),
        ("no_mc",): _row(86.6, 73.5, 75.2, 82.2, 78.4, 78.5, 91.8, 88.8, 89.0, 82.7),
        ("all",): _row(87.7, 74.5, 76.1, 81.1, 78.0, 79.3, 92.5, 89.4, 90.0, 83.2),
        ("e_orig",): _row(91.2, 76.6, 82.9, 84.8, 87.7, 86.2, 90.4, 82.8, 91.2, 86.0),
        ("e_our",): _row(91.5, 76.4, 83.0, 83.8, 86.7, 84.7, 94.5, 88.5, 92.3, 86.8),
    },
)
# By method: what it adds to Base's AUC, by corpus.
DIFFERENCES = Published(
    f"Published: Steen 2023, table 2, {_MODELS}.",
    {
        ("base_e_minus_c",): _row(0.3, -0.8, 1.0, 0.3, 1.2, -1.1, 9.1, 6.5, 0.4, 1.9),
        ("base_mc",): _row(0.9, 2.1, 1.2, -0.2, -0.1, 0.6, 1.3, 0.0, 1.3, 0.8),
        ("augmented",): _row(1.0, 0.0, 1.6, 0.9, 3.5, -1.0, 3.3, 4.2, 0.9, 1.6),
    },
)


class Cost(NamedTuple):
    """A row of table 4: average AUC, and the parameters of each model in millions."""

    auc: float
    millions: tuple[float, ...]


COSTS = {
    "summac_zs": Cost(80.7, (355,)),
    "t5_anli": Cost(81.5, (11_000,)),
    "q2": Cost(81.4, (220, 355, 355)),
    "no_mc": Cost(82.7, (350,)),
    "all": Cost(83.2, (350,)),
}
COSTS_NOTE = (
    f"Published: Steen 2023, table 4, {_MODELS}; there SummaC-ZS has 80.7 and Q2 81.4, in its "
    "table 1 it is the other way round. It measures no speed."
)


class Draws(NamedTuple):
    """A row of table 5; the difference is from All."""

    average: float
    difference: float
    deviation: float
    lowest: float
    highest: float
    no_augmentation: float


# Table 5 spells MNBM "MBNM".
PHRASES = {
    "frank": Draws(86.7, -1.0, 0.4, 85.8, 87.6, 86.2),
    "mnbm": Draws(74.4, -0.1, 0.4, 73.7, 74.9, 75.1),
    "summeval": Draws(75.2, -0.9, 0.5, 74.5, 76.0, 74.3),
    "qags_x": Draws(81.6, 0.5, 0.5, 80.8, 82.4, 80.7),
    "qags_c": Draws(76.4, -1.6, 0.8, 74.7, 77.9, 75.2),
    "dialfact": Draws(92.1, -0.4, 0.2, 91.5, 92.3, 91.2),
    "begin": Draws(79.6, 0.3, 0.5, 79.0, 80.6, 80.9),
    "q2": Draws(88.8, -0.6, 0.3, 88.1, 89.2, 86.3),
    "paws": Draws(89.7, -0.3, 0.1, 89.5, 90.0, 89.3),
    AVERAGE: Draws(82.7, -0.5, 0.2, 82.3, 82.9, 82.1),
}
PHRASES_NOTE = (
    "Published: Steen 2023, table 5, of another model (its Base is a DeBERTa-large fine-tuned for "
    "NLI)."
)
