"""What the scorers that need a model declare about themselves, without opening one."""

import math

from faith_jax.types import ScorerCard

_SUMMED = {"sum": "Sum", "mean": "Mean"}


def _pmi_faith(unconditional: bool, kind: str) -> ScorerCard:
    given = "" if unconditional else " and history"
    without = "alone" if unconditional else "given the history alone"
    form = "unconditional_" if unconditional else ""
    return ScorerCard(
        name=f"pmi_faith_{form}{kind}",
        description=(
            f"{_SUMMED[kind]} over the response's tokens of the log-probability given document"
            f"{given}, less that of the response {without}."
        ),
        low=-math.inf,
        high=math.inf,
        source="Nandwani 2023, section 4.1",
        needs_model=True,
        word_level=True,
    )


_PMI_CARDS = [_pmi_faith(u, kind) for u in (False, True) for kind in ("sum", "mean")]
PMI_FAITH = {card.name: card for card in _PMI_CARDS}
