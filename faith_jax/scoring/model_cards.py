"""Cards of the scorers that need a model, available without opening one."""

import functools
import math

from faith_jax.core.types import Direction, ScorerCard

_card = functools.partial(ScorerCard, low=0.0, high=1.0, needs_model=True)


def _pmi_faith(unconditional: bool, kind: str) -> ScorerCard:
    condition = "" if unconditional else " and history"
    without = "alone" if unconditional else "given the history alone"
    form = "unconditional_" if unconditional else ""
    return _card(
        f"pmi_faith_{form}{kind}",
        f"{kind.capitalize()} over the response's tokens of the log-probability given document"
        f"{condition}, less that of the response {without}.",
        low=-math.inf,
        high=math.inf,
        source="Nandwani 2023, section 4.1",
        word_level=True,
    )


_CLAIM = "Gupta 2022, section 5.3"

# Cards by the factory of their scorers; a factory of several scorers takes the scorer's name.
MODEL_SCORERS: dict[str, tuple[ScorerCard, ...]] = {
    "pmi_faith.PMIFaithScorer": (
        *(_pmi_faith(u, kind) for u in (False, True) for kind in ("sum", "mean")),
    ),
    "nli.nli_scorer": (
        _card(
            "nli_entailment",
            "Probability that the grounding entails the response.",
            source="Honovich 2022, section 3.1",
        ),
        _card(
            "nli_e_minus_c",
            "Probability of entailment less that of contradiction (e-c).",
            low=-1.0,
            source="Steen 2023, section 5.2",
        ),
        _card(
            "nli_neutral",
            "Probability that the grounding neither entails nor contradicts the response; it is "
            "high where they are unrelated.",
            source="Gupta 2022, section 5.1",
            direction=Direction.NONE,
        ),
    ),
    "nli.faith_critic_scorer": (
        _card(
            "faith_critic",
            "Probability that the knowledge supports the response, by FaithDial's critic.",
            source="Dziri 2022, section 5.1",
        ),
        _card(
            "faith_critic_call",
            "1 where FaithDial's critic calls the response faithful, 0 where it does not.",
            source="Nandwani 2023, section 5.1",
        ),
    ),
    "sentences.summac.SummaCScorer": (
        _card(
            "summac_zs",
            "Mean over the response's sentences of the largest entailment by a sentence of the "
            "grounding.",
            source="Laban 2022, section 3.2",
        ),
    ),
    "sentences.groundedness.GroundednessScorer": (
        _card(
            "groundedness",
            "How far the grounding supports the response: by content words, numbers, pairs of "
            "words, and inference from the passages that have most of each sentence's words; also "
            "for each word.",
            source="faith_jax.scoring.sentences.groundedness",
            word_level=True,
        ),
    ),
    "fluency.FluencyScorer": (
        _card(
            "fluency",
            "Mean log-probability of the response's tokens by themselves.",
            low=-math.inf,
            high=0.0,
            source="Gupta 2022, section 4.1.1",
            direction=Direction.NONE,
        ),
    ),
    "claims.ClaimScorer": (
        _card("claim_supports", "Probability that the evidence supports the claim.", source=_CLAIM),
        _card(
            "claim_refutes",
            "Probability that the evidence refutes the claim.",
            source=_CLAIM,
            direction=Direction.NONE,
        ),
        _card(
            "claim_not_enough_info",
            "Probability that the evidence neither supports nor refutes the claim.",
            source=_CLAIM,
            direction=Direction.NONE,
        ),
    ),
    "sentences.matched_sentences.MatchedSentenceScorer": (
        _card(
            "npov_nli_hallucination",
            "How far a sentence and the argument that it is matched with entail each other, for "
            "the response's worst sentence; 0 where no argument is left for it.",
            source="after Laban 2022, section 3, and Chang 2024, section 3.1",
            word_level=True,
        ),
        _card(
            "npov_nli_coverage",
            "How far an argument and the sentence that it is matched with entail each other, for "
            "the worst argument; 0 where no sentence is left for it.",
            source="after Laban 2022, section 3, and Chang 2024, section 3.1",
            word_level=True,
        ),
    ),
    "q2.q2_scorer": (
        _card(
            "q2_f1",
            "Mean over questions about the response of the token F1 between its own answer and the "
            "grounding's; without a valid question 1, 0.5 or 0 by inference.",
            source="Honovich 2021, section 2",
        ),
        _card(
            "q2_f1_no_fallback",
            "As q2_f1, but undefined without a valid question.",
            source="Honovich 2021, section 2",
        ),
        _card(
            "q2_nli",
            "As q2_f1, where inference decides whether differing answers agree.",
            source="Honovich 2021, section 2.4",
        ),
    ),
    "bertscore.BERTScorer": (
        _card(
            "bertscore",
            "Greedy matching of the response's and the grounding's contextual embeddings.",
            low=-1.0,
            source="Zhang 2020, section 3",
        ),
    ),
    "salience.scorers.SalienceScorer": (
        _card(
            "salience_hallucination",
            "Mean over the response's content words of the largest share of their gradients that "
            "a word of the grounding has.",
            source="Chang 2024, section 3.2 and appendix C",
            word_level=True,
        ),
        _card(
            "salience_coverage",
            "Mean over the grounding's content words of the largest share that they have in a word "
            "of the response, of the perspective that has the smallest.",
            source="Chang 2024, section 3.2 and appendix C",
            word_level=True,
        ),
    ),
    "npov_error_classifier.NpovErrorClassifier": (
        _card(
            "npov_hallucination",
            "Probability that the response tells nothing but the given arguments, by a classifier.",
            source="Chang 2024, section 3.3",
        ),
        _card(
            "npov_coverage",
            "Probability that the response leaves no given argument out, by a classifier.",
            source="Chang 2024, section 3.3",
        ),
    ),
}
CARDS = {card.name: card for cards in MODEL_SCORERS.values() for card in cards}
CLAIM_SCORERS = tuple(card.name for card in MODEL_SCORERS["claims.ClaimScorer"])
