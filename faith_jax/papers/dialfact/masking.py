"""Which words of a claim are masked: those that a verifier needs to find it supported.

Gupta 2022 (section 4.1.1) has a masker of Shah 2020, a network that "predicts the tokens which upon
masking are likely to cause a label flip from SUPPORTED to NEI". The label of the masked claim is
asked for itself here, of a classifier of natural language inference.
"""

from collections.abc import Sequence

import numpy as np

from faith_jax.core.labels import DialFactLabel
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.augmentation.tagging import TaggedText
from faith_jax.papers.dialfact.claim_mutation import (
    MOST_MASKS,
    Span,
    content_spans,
    without,
)
from faith_jax.scoring.claims import ClaimVerifier


def neutral_spans(
    verifier: ClaimVerifier, claims: Sequence[TaggedText], evidence: Sequence[tuple[str, str]]
) -> list[list[Span]]:
    """Returns the pieces of claims without which a verifier no longer finds them supported.

    Entities and words are ordered by P(neutral) of the claim without each of them. The fewest of
    the first three are masked without which the verdict is NOT ENOUGH INFO; none where it is
    another already, or stays. `evidence` has the title and the sentence that support each claim.
    """

    def verdicts(texts: Sequence[tuple[int, str]]) -> list[tuple[DialFactLabel, float]]:
        """Returns labels and P(neutral) of texts in place of the claims of these numbers."""
        rows = []
        for number, text in texts:
            title, sentence = evidence[number]
            grounding = Grounding((sentence,), (title,))
            rows.append(verifier.read(GroundedExample(str(number), grounding, (), text)))
        return [(verdict.label, verdict.probabilities[2]) for verdict in verifier.verdicts(rows)]

    spans = [content_spans(claim) for claim in claims]
    claim_verdicts = verdicts([(number, claim.text) for number, claim in enumerate(claims)])
    left_out = [
        (number, span)
        for number, (label, _) in enumerate(claim_verdicts)
        if label is DialFactLabel.SUPPORTS
        for span in spans[number]
    ]
    judged = verdicts([(n, without(claims[n].text, [span])) for n, span in left_out])
    neutral: dict[int, list[float]] = {}
    for (number, _), (_, share) in zip(left_out, judged, strict=True):
        neutral.setdefault(number, []).append(share)
    tried: list[tuple[int, list[Span]]] = []
    for number, shares in neutral.items():
        order = np.argsort(-np.array(shares), kind="stable")[:MOST_MASKS]
        best = [spans[number][place] for place in order]
        tried += [(number, sorted(best[:count])) for count in range(1, len(best) + 1)]
    spans_by_claim: list[list[Span]] = [[] for _ in claims]
    flipped = verdicts([(n, without(claims[n].text, pieces)) for n, pieces in tried])
    for (number, pieces), (label, _) in zip(tried, flipped, strict=True):
        if label is DialFactLabel.NOT_ENOUGH_INFO and not spans_by_claim[number]:
            spans_by_claim[number] = pieces
    return spans_by_claim
