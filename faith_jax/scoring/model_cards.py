"""What the scorers that need a model declare about themselves, without opening one."""

import math

from faith_jax.core.types import ScorerCard

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

NLI = {
    card.name: card
    for card in (
        ScorerCard(
            name="nli_entailment",
            description="Probability that the grounding entails the response.",
            low=0.0,
            high=1.0,
            source="Honovich 2022, section 3.1",
            calibrated=True,
            needs_model=True,
        ),
        ScorerCard(
            name="nli_e_minus_c",
            description="Probability of entailment less that of contradiction (e-c).",
            low=-1.0,
            high=1.0,
            source="Steen 2023, section 5.2",
            needs_model=True,
        ),
    )
}
FAITH_CRITIC = ScorerCard(
    name="faith_critic",
    description="Probability that the knowledge supports the response, by FaithDial's critic.",
    low=0.0,
    high=1.0,
    source="Dziri 2022, section 5.1",
    calibrated=True,
    needs_model=True,
)
FAITH_CRITIC_CALL = ScorerCard(
    name="faith_critic_call",
    description="1 where FaithDial's critic calls the response faithful, 0 where it does not.",
    low=0.0,
    high=1.0,
    source="Nandwani 2023, section 5.1",
    needs_model=True,
)
SUMMAC_ZS = ScorerCard(
    name="summac_zs",
    description=(
        "Mean over the response's sentences of the largest entailment by a sentence of the "
        "grounding."
    ),
    low=0.0,
    high=1.0,
    source="Laban 2022, section 3.2",
    needs_model=True,
)
Q2 = {
    card.name: card
    for card in (
        ScorerCard(
            name="q2_f1",
            description=(
                "Mean over questions about the response of the token F1 between its own answer "
                "and the grounding's; without a valid question 1, 0.5 or 0 by inference."
            ),
            low=0.0,
            high=1.0,
            source="Honovich 2021, section 2",
            needs_model=True,
        ),
        ScorerCard(
            name="q2_f1_no_fallback",
            description="As q2_f1, but undefined without a valid question.",
            low=0.0,
            high=1.0,
            source="Honovich 2021, section 2",
            needs_model=True,
        ),
        ScorerCard(
            name="q2_nli",
            description="As q2_f1, where inference decides whether differing answers agree.",
            low=0.0,
            high=1.0,
            source="Honovich 2021, section 2.4",
            needs_model=True,
        ),
    )
}
BERTSCORE = ScorerCard(
    name="bertscore",
    description="Greedy matching of the response's and the grounding's contextual embeddings.",
    low=-1.0,
    high=1.0,
    source="Zhang 2020, section 3",
    needs_model=True,
)
SALIENCE = {
    card.name: card
    for card in (
        ScorerCard(
            name="salience_hallucination",
            description=(
                "Mean over the response's content words of the largest share of their gradients "
                "that a word of the grounding has."
            ),
            low=0.0,
            high=1.0,
            source="Chang 2024, section 3.2 and appendix C",
            needs_model=True,
            word_level=True,
        ),
        ScorerCard(
            name="salience_coverage",
            description=(
                "Mean over the grounding's content words of the largest share that they have in a "
                "word of the response, of the perspective that has the smallest."
            ),
            low=0.0,
            high=1.0,
            source="Chang 2024, section 3.2 and appendix C",
            needs_model=True,
            word_level=True,
        ),
    )
}
NPOV_LABELS = {
    card.name: card
    for card in (
        ScorerCard(
            name="npov_hallucination",
            description=(
                "Probability that the response tells nothing but the given arguments, by a "
                "classifier."
            ),
            low=0.0,
            high=1.0,
            source="Chang 2024, section 3.3",
            calibrated=True,
            needs_model=True,
        ),
        ScorerCard(
            name="npov_coverage",
            description=(
                "Probability that the response leaves no given argument out, by a classifier."
            ),
            low=0.0,
            high=1.0,
            source="Chang 2024, section 3.3",
            calibrated=True,
            needs_model=True,
        ),
    )
}
