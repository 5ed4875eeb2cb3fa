"""Verification of claims by evidence: supported, refuted, or not enough information.

The grounding's texts are sentences of evidence; its perspectives are the titles of their articles,
if known.

Reference: Gupta 2022, section 5.3.
"""

from collections.abc import Sequence
from typing import NamedTuple, Unpack

import numpy as np

from faith_jax.core import templates
from faith_jax.core.cutting import CutTokens, sum_cuts
from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import DecodeLabel, DialFactLabel, NliLabel
from faith_jax.core.settings import check_value
from faith_jax.core.types import GroundedExample
from faith_jax.inference.texts.text_pairs import NLI_FORM, LabelForm, PairRow
from faith_jax.scoring.base import Judgement, ModelScorer
from faith_jax.scoring.model_cards import CARDS, CLAIM_SCORERS
from faith_jax.scoring.nli import nli_label_numbers
from faith_jax.scoring.pair_classifier import ClassifierOptions, pair_classifier

LABELS = tuple(DialFactLabel)
# The NLI classes that correspond to LABELS.
_OF_NLI = (NliLabel.ENTAILMENT, NliLabel.CONTRADICTION, NliLabel.NEUTRAL)
# The classes of DECODE (Nie 2021), which Gupta 2022 reads as SUPPORTS and REFUTES.
_OF_DECODE = (DecodeLabel.NOT_CONTRADICTION.value, DecodeLabel.CONTRADICTION.value)
NLI, DIALFACT, CLAIM_ONLY = FORMS = "nli", "dialfact", "claim_only"
_DIALFACT_FORM = LabelForm(tuple(label.value for label in LABELS), NLI_FORM.inputs)


class ClaimRows(NamedTuple):
    """The input rows of a claim: one for each sentence of evidence, or a single one for all."""

    rows: tuple[PairRow, ...]
    cut: CutTokens


class Verdict(NamedTuple):
    """The probabilities of a claim's labels, given its evidence.

    Attributes:
      probabilities: the probabilities of SUPPORTS, REFUTES and NOT ENOUGH INFO.
      decisive: the number of the row that they come from; None = there is no evidence.
    """

    probabilities: tuple[float, float, float]
    decisive: int | None

    @property
    def label(self) -> DialFactLabel:
        """The most probable label."""
        return LABELS[int(np.argmax(self.probabilities))]


def verdict(probabilities: np.ndarray) -> Verdict:
    """Returns the verdict of several sentences on a claim, which is that of the most decisive one.

    Args:
      probabilities: [sentences, 3], probabilities of SUPPORTS, REFUTES and NOT ENOUGH INFO.

    >>> verdict(np.array([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1]])).label.value
    'SUPPORTS'
    """
    if not len(probabilities):
        return Verdict((0.0, 0.0, 1.0), None)
    # The most decisive sentence is the least likely to lack information. Ties, usual with DECODE's
    # two classes, go to the sentence that refutes most.
    decisive = int(np.lexsort((-probabilities[:, 1], probabilities[:, 2]))[0])
    supports, refutes, not_enough = probabilities[decisive].tolist()
    return Verdict((supports, refutes, not_enough), decisive)


class ClaimVerifier:
    """Decides whether the evidence for claims supports or refutes them.

    `reads_all` is whether the model reads all evidence at once, `writes_labels` whether it
    generates the label as text, like T5, instead of having a classification head.

    Args:
      model: a folder of an NLI classifier, of a classifier trained on DECODE (contradiction =
        REFUTES, else SUPPORTS), or of one trained on `dialfact_verify_…`.
      form: "nli": each sentence is a premise of the claim; "dialfact": the claim, after its
        context, is read with at most five sentences at once, as in the tasks `dialfact_verify_…`;
        "claim_only": it is read without evidence (the paper's ablation Aug-WoW-claimonly).
      context: whether the turns before the claim are read; not for "nli", which reads none.
      labels: see `nli_label_numbers`; only for "nli".
      **options: see `ClassifierOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """

    def __init__(
        self,
        model: str | None = None,
        form: str = NLI,
        labels: str | Sequence[str] | None = None,
        context: bool = True,
        **options: Unpack[ClassifierOptions],
    ):
        if form not in FORMS:
            raise ConfigError(f"form: expected one of {', '.join(FORMS)}, got {form!r}.")
        if labels is not None and form != NLI:
            raise ConfigError(f"labels: goes with form={NLI}.")
        if not check_value("context", context, bool) and form == NLI:
            raise ConfigError(f"context: goes with form={DIALFACT} or {CLAIM_ONLY}.")
        self.reads_all, self._reads_none = form != NLI, form == CLAIM_ONLY
        self._turns = context

        def order(names: tuple[str, ...]) -> list[int]:
            if not self.reads_all:
                cleaned = [name.strip().lower() for name in names]
                if labels is None and sorted(cleaned) == sorted(_OF_DECODE):
                    return [cleaned.index(label) for label in _OF_DECODE]
                label_numbers = nli_label_numbers(names, labels)
                return [label_numbers[label] for label in _OF_NLI]
            label_names = [name.upper().replace("_", " ") for name in names]
            if sorted(label_names) != sorted(label.value for label in LABELS):
                raise ConfigError(
                    f"the model's classes are {', '.join(names)}; expected DialFact's: "
                    f"{', '.join(LABELS)}."
                )
            return [label_names.index(label.value) for label in LABELS]

        read = _DIALFACT_FORM if self.reads_all else NLI_FORM
        self._classify = pair_classifier(model, read, order, **options)
        self._order = order(self._classify.label_names)
        self.writes_labels = self._classify.encode.form is not None

    def read(self, example: GroundedExample) -> ClaimRows:
        """Returns the rows of a claim."""
        encode, name, evidence = self._classify.encode, f"example {example.id!r}", example.grounding
        titles = evidence.perspectives or ("",) * len(evidence.texts)
        turns = example.history if self._turns else ()
        if self._reads_none:
            rows = [encode.claim(example.response, turns, (), (), name)]
        elif self.reads_all and evidence.texts:
            rows = [encode.claim(example.response, turns, titles, evidence.texts, name)]
        else:
            rows = [
                encode(templates.evidence_text(t, s) if t else s, example.response, name)
                for t, s in zip(titles, evidence.texts, strict=True)
            ]
        return ClaimRows(tuple(rows), sum_cuts(row.cut for row in rows))

    def texts(self, row: ClaimRows) -> dict[str, str]:
        """Returns a claim's first input."""
        return self._classify.show_first(row, "input")

    def choose_shapes(self, rows: Sequence[ClaimRows], window: int, total: int) -> None:
        """Chooses the shapes of a job of `total` claims by a sample; see `PairClassifier`."""
        self._classify.choose_shapes([claim.rows for claim in rows], window, total)

    def verdicts(self, rows: Sequence[ClaimRows]) -> list[Verdict]:
        """Returns the verdict of the evidence on each claim."""
        # A model with two classes, such as DECODE's, never answers NOT ENOUGH INFO.
        missing = len(LABELS) - len(self._order)
        return [
            verdict(np.pad(classes[:, self._order], ((0, 0), (0, missing))))
            for classes in self._classify.by_example(rows)
        ]


class ClaimScorer(ModelScorer[ClaimRows]):
    """The probability of one of DialFact's labels.

    Args:
      name: "claim_supports", "claim_refutes" or "claim_not_enough_info".
      **options: see `ClaimVerifier`.
    """

    def __init__(
        self,
        name: str,
        model: str | None = None,
        form: str = NLI,
        labels: str | Sequence[str] | None = None,
        context: bool = True,
        **options: Unpack[ClassifierOptions],
    ):
        self.card, self._place = CARDS[name], CLAIM_SCORERS.index(name)
        self._verifier = ClaimVerifier(model, form, labels, context, **options)

    def read(self, example: GroundedExample) -> ClaimRows:
        return self._verifier.read(example)

    def choose_shapes(self, rows: Sequence[ClaimRows], window: int, total: int) -> None:
        self._verifier.choose_shapes(rows, window, total)

    def texts(self, row: ClaimRows) -> dict[str, str]:
        """Returns the first input."""
        return self._verifier.texts(row)

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[ClaimRows]
    ) -> list[Judgement]:
        verdicts = self._verifier.verdicts(rows)
        return [Judgement(verdict.probabilities[self._place]) for verdict in verdicts]
