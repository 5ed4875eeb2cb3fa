"""Fact-checking of responses: whether each claim can be verified and is supported, and by what.

A response's sentences are its claims. Evidence for each claim is found in a knowledge base (Gupta
2022, section 5.2), and a verifier decides whether it supports or refutes the claim (section 5.3).
If a claim names its subject, only sentences about that subject count; and a sentence counts only if
it has enough of the claim's words, by the lexical overlap of section 5.1. If no sentence that was
found has enough of its words, the claim is not verifiable.
"""

import dataclasses
import itertools
import logging
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Unpack, get_type_hints

from faith_jax.checkpoints import embedded
from faith_jax.core.cutting import by_name
from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.labels import NOT_VERIFIABLE, DialFactLabel, response_verdict
from faith_jax.core.settings import Share, check_value
from faith_jax.core.types import GroundedExample, Grounding, Score
from faith_jax.core.words import comparable, split_sentences
from faith_jax.datasets.raw.dialfact import Evidence, select_evidence
from faith_jax.datasets.samples import SAMPLE
from faith_jax.gin_files.run_settings import read_settings
from faith_jax.retrieval.sentence_ranking import about
from faith_jax.runs.data.find_evidence import Finder
from faith_jax.runs.data.knowledge import open_base
from faith_jax.runs.options import CheckOptions, FindingOptions
from faith_jax.statistics.texts.passages import PassageFinder
from faith_jax.statistics.texts.text_metrics import lexical_overlap
from faith_jax.tokenizers.unknown import UnknownTokens, counting_unknown

if TYPE_CHECKING:  # wrong options and files are reported before JAX is imported
    from faith_jax.scoring.claims import ClaimRows, Verdict
    from faith_jax.scoring.pair_classifier import ClassifierOptions

logger = logging.getLogger("faith_jax")

MINI_NLI, OVERLAP = "mini_nli", "lexical_overlap"
LABELS = tuple(DialFactLabel)
# Markdown headings, list marks and blank lines, which end a paragraph.
_BLOCKS = re.compile(
    r"^[ \t]*#{1,6}[ \t].*$|^[ \t]*(?:[-*•+>]|\d{1,2}[.)])[ \t]+|^[ \t]*$", re.MULTILINE
)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+")
_EMPHASIS = re.compile(r"\*\*|(?<!\w)__(?=\w)|(?<=\w)__(?!\w)|`")
_TASKS = "_verify"  # part of the names of tasks with claims in the form "dialfact"


class Checked(NamedTuple):
    """The verdict on a claim, with its evidence.

    Attributes:
      claim: a sentence of the response.
      verdict: "SUPPORTS", "REFUTES", "NOT ENOUGH INFO" or "NOT VERIFIABLE".
      probabilities: of the first three verdicts, by name; NaN if no sentence was judged.
      evidence: sentences with title, URL and score, best first.
      decisive: the sentence that decides the verdict; None = none of them, or all together.
      overlap: the largest share of the claim's words that a found sentence has; undefined without
        evidence.
      cut: how many tokens of claim and evidence the model could not read, by part.
    """

    claim: str
    verdict: str
    probabilities: dict[str, float]
    evidence: list[Evidence]
    decisive: Evidence | None
    overlap: Score
    cut: Mapping[str, int]


class _ReadClaim(NamedTuple):
    """A claim with the utterances before it, and the evidence to judge it by; see `Checked`.

    Attributes:
      read: the sentences of the evidence that the verifier reads.
      row: these sentences as rows of the verifier.
    """

    claim: tuple[str, Sequence[str]]
    evidence: list[Evidence]
    overlap: Score
    read: list[Evidence]
    row: "ClaimRows"


class CheckedResponse(NamedTuple):
    """The verdict on a response (see `response_verdict`), and its checked claims."""

    verdict: str
    claims: list[Checked]


class FactChecker:
    """Checks the claims of responses against a knowledge base.

    Args:
      knowledge_base: a folder of `faith-jax index`, or "sample", the package's encyclopedia; None =
        the evidence is in the groundings passed to `check_all`.
      model: the verifier, see `ClaimVerifier`; "mini_nli" is in the package.
      form: "nli" or "dialfact", see `ClaimVerifier`.
      labels: the order of the model's classes, see `ClaimVerifier`.
      verifiable: a share from 0 to 1; a claim is not verifiable if no sentence of evidence has at
        least this share of its words.
      finding: how evidence is found, such as `FindingOptions(retrievers=("bm25",), sentences=3)` of
        `faith_jax.runs.options`; its fields are the options of `faith-jax evidence`.
      **options: `ClassifierOptions` of the verifier's model, such as `vocabulary`, `max_length` and
        `dtype`.

    Raises:
      ConfigError: the knowledge base or the model is missing, or an option is wrong.

    >>> checker = FactChecker()  # doctest: +SKIP
    >>> checker("The piano has black and white keys.").verdict  # doctest: +SKIP
    'SUPPORTS'
    """

    def __init__(
        self,
        knowledge_base: str | pathlib.Path | None = SAMPLE,
        model: str = MINI_NLI,
        form: str = CheckOptions.form,
        labels: str | Sequence[str] | None = None,
        verifiable: float = CheckOptions.verifiable,
        finding: FindingOptions | None = None,
        **options: "Unpack[ClassifierOptions]",
    ):
        form = check_value("form", form, get_type_hints(CheckOptions)["form"])
        verifiable = check_value("verifiable", verifiable, Share)
        finding = check_value("finding", finding or FindingOptions(), FindingOptions)
        if options:
            from faith_jax.scoring.pair_classifier import ClassifierOptions

            names = list(ClassifierOptions.__annotations__)
            of_finding = [field.name for field in dataclasses.fields(FindingOptions)]
            for name in options:
                if name in of_finding:
                    raise ConfigError(f"{name}: give it as finding=FindingOptions({name}=…).")
                if name not in names:
                    further = "knowledge_base", "model", "form", "labels", "verifiable", "finding"
                    raise ConfigError(
                        f"there is no option {name!r}.{did_you_mean(name, (*further, *names))}"
                    )
        embedded.check_is_there(model)
        self.base = None if knowledge_base is None else open_base(knowledge_base)
        self._finder = Finder(self.base, finding) if self.base else None
        self._sentences = finding.sentences
        from faith_jax.scoring.claims import ClaimVerifier
        from faith_jax.scoring.registry import load_scorer

        self._verifier = ClaimVerifier(model, form, labels, **options)
        if self._verifier.writes_labels:
            _check_form(model, form)
        self._verifiable, self._overlap = verifiable, load_scorer(OVERLAP)
        self.unknown = UnknownTokens()  # counts over all texts that the verifier has read

    def __call__(self, response: str, history: Sequence[str] = ()) -> CheckedResponse:
        """Checks a response; see `check_all`."""
        return self.check_all([response], [history])[0]

    def check_all(
        self,
        responses: Sequence[str],
        histories: Sequence[Sequence[str]] | None = None,
        groundings: Sequence[Grounding] | None = None,
    ) -> list[CheckedResponse]:
        """Checks each response and each of its sentences.

        Args:
          responses: texts.
          histories: the utterances before each, oldest first; None, also for one = no utterances.
          groundings: the texts that each response was made from, if there is no knowledge base.

        Raises:
          ConfigError: a text is given instead of a list, a response is not a text, lengths differ,
            or there are both groundings and a knowledge base, or neither.
        """
        if (groundings is None) != (self.base is not None):
            raise ConfigError("groundings: give them without a knowledge base, and only then.")
        lists = {"responses": responses, "histories": histories, "groundings": groundings}
        for name, values in lists.items():
            if isinstance(values, str):
                raise ConfigError(f"{name}: expected a list, got a text: {values[:80]!r}.")
            if values is not None and len(values) != len(responses):
                count = len(responses)
                raise ConfigError(
                    f"{name}: expected {count}, one for each response, got {len(values)}."
                )
        # Compares with None, because series and arrays have no truth value.
        dialogues = [None] * len(responses) if histories is None else histories
        dialogues = [() if history is None else history for history in dialogues]
        for response, history in zip(responses, dialogues, strict=True):
            if not isinstance(response, str):
                raise ConfigError(f"response: expected a text, got {response!r:.80}.")
            if isinstance(history, str):
                raise ConfigError(
                    f"history: expected a list of turns, got a text: {history[:80]!r}."
                )
        sentences = [claims_of(response) for response in responses]
        read = self._read_claims(sentences, dialogues, groundings, self.unknown)
        verdicts = self._verifier.verdicts([claim.row for claim in read])
        checked = map(self._check_claim, read, verdicts)
        by_response = [list(itertools.islice(checked, len(own_claims))) for own_claims in sentences]
        return [
            CheckedResponse(response_verdict(claim.verdict for claim in b), b) for b in by_response
        ]

    def prepare(
        self,
        responses: Sequence[str],
        histories: Sequence[Sequence[str]],
        groundings: Sequence[Grounding] | None,
        window: int,
        total: int,
    ) -> None:
        """Chooses the shapes of the models' batches for a job of `total` responses by a sample.

        `window` responses are checked at once; the sample is given as in `check_all`.
        """
        sentences = [claims_of(response) for response in responses]
        each = sum(map(len, sentences)) / len(sentences)
        window, total = math.ceil(each * window), math.ceil(each * total)
        if self._finder:
            self._finder.prepare(_with_history(sentences, histories), total)
        read = self._read_claims(sentences, histories, groundings, UnknownTokens())
        self._verifier.choose_shapes([claim.row for claim in read], window, total)

    def _read_claims(
        self,
        sentences: Sequence[Sequence[str]],
        dialogues: Sequence[Sequence[str]],
        groundings: Sequence[Grounding] | None,
        unknown: UnknownTokens,
    ) -> "list[_ReadClaim]":
        """Returns the sentences of each response with their evidence; adds to `unknown`."""
        claims = _with_history(sentences, dialogues)
        if self._finder:
            base, finds = self._finder.base, list(self._finder(claims))
            ranked = [select_evidence(find.evidence) for find in finds]
            about_subjects = [
                about(base, find.subjects, best) for find, best in zip(finds, ranked, strict=True)
            ]
        else:
            finders = [PassageFinder(grounding.texts) for grounding in groundings or ()]
            # Passages that share words with a claim, best first, by the share of its content words.
            # Sorting is stable: a sentence stays before a longer passage with the same share.
            passages = [
                dict.fromkeys(Evidence("", "", *p) for p in finder(claim, self._sentences - 1))
                for finder, own_claims in zip(finders, sentences, strict=True)
                for claim in own_claims
            ]
            ranked = [select_evidence(list(group), self._sentences) for group in passages]
            about_subjects = ranked
        # Whether a claim is verifiable depends on all sentences found, not only on its subject's.
        overlaps = self._overlap.score(
            [claim_example(*pair) for pair in zip(claims, ranked, strict=True)]
        )
        # Sentences with few of a claim's words must not decide; a model that reads all weighs them.
        read = [
            [
                sentence
                for sentence in evidence
                if self._verifier.reads_all
                or lexical_overlap(comparable(claim), [comparable(sentence.sentence)])
                >= self._verifiable
            ]
            for (claim, _), evidence in zip(claims, about_subjects, strict=True)
        ]
        with counting_unknown(unknown):
            rows = [
                self._verifier.read(claim_example(*pair)) for pair in zip(claims, read, strict=True)
            ]
        return list(map(_ReadClaim, claims, about_subjects, overlaps, read, rows))

    def _check_claim(self, claim: "_ReadClaim", judgement: "Verdict") -> Checked:
        (text, _), evidence, overlap, read, row = claim
        verdict = verdict_of(overlap.value, judgement.probabilities, self._verifiable)
        values = judgement.probabilities if read else (math.nan,) * len(LABELS)
        probabilities = dict(zip((label.value for label in LABELS), values, strict=True))
        is_one = judgement.decisive is not None and not self._verifier.reads_all
        decisive = read[judgement.decisive or 0] if is_one else None
        cut = by_name(row.cut)
        return Checked(text, verdict, probabilities, evidence, decisive, overlap, cut)


def claims_of(response: str) -> list[str]:
    """Returns the sentences of a response.

    Markdown headings and marks are dropped, as is text without letters or digits outside URLs.

    >>> claims_of("1. Tea is **hot**. It is a drink. https://example.org/tea")
    ['Tea is hot.', 'It is a drink.']
    """
    blocks = _BLOCKS.split(_EMPHASIS.sub("", response))
    sentences = (sentence for block in blocks for sentence in split_sentences(block))
    return [text for text in sentences if any(map(str.isalnum, _ADDRESS.sub("", text)))]


def _with_history(
    sentences: Sequence[Sequence[str]], dialogues: Sequence[Sequence[str]]
) -> list[tuple[str, Sequence[str]]]:
    """Returns the sentences of all responses, each with the utterances before it."""
    return [
        (claim, (*before, *own_claims[:place]))
        for own_claims, before in zip(sentences, dialogues, strict=True)
        for place, claim in enumerate(own_claims)
    ]


def claim_example(
    claim: tuple[str, Sequence[str]], evidence: Sequence[Evidence], name: str = "claim"
) -> GroundedExample:
    """Returns a claim, the utterances before it and its evidence as an example for scorers."""
    titles = tuple(e.title for e in evidence)
    grounding = Grounding(tuple(e.sentence for e in evidence), titles if any(titles) else ())
    return GroundedExample(name, grounding, tuple(claim[1]), claim[0])


def verdict_of(overlap: float, probabilities: Sequence[float], verifiable: float) -> str:
    """Returns the verdict on a claim, from probabilities of SUPPORTS, REFUTES and NOT ENOUGH INFO.

    `overlap` is the largest share of the claim's words that a sentence of evidence has, NaN = no
    evidence. A claim with an overlap below `verifiable` is not verifiable.

    >>> verdict_of(0.5, (0.1, 0.7, 0.2), 0.2), verdict_of(0.1, (0.1, 0.7, 0.2), 0.2)
    ('REFUTES', 'NOT VERIFIABLE')
    """
    if not overlap >= verifiable:
        return NOT_VERIFIABLE
    return LABELS[max(range(len(LABELS)), key=lambda place: probabilities[place])].value


def _check_form(model: str, form: str) -> None:
    """Raises a ConfigError if a model that writes labels was trained for another form."""
    is_dialfact = form == "dialfact"
    needed = "dialfact_verify_…" if is_dialfact else "NLI"
    path = embedded.checkpoint_path(model)
    if str(model) in embedded.embedded_models() and (is_dialfact or model != MINI_NLI):
        advice = "docs/dialfact.md says how to train a verifier"
        raise ConfigError(
            f"form: {model} was not trained on {needed}; --model={MINI_NLI} with --form=nli is the "
            f"package's verifier, and {advice}."
        )
    settings = read_settings(embedded.model_dir_of(path)) or {}
    task = settings.get("dataset.mixture_or_task_name")
    if task is None:
        if model != MINI_NLI:
            logger.warning("%s: whether it was trained on %s cannot be seen in it.", path, needed)
    elif is_dialfact != (_TASKS in str(task.value)):
        right = "nli" if is_dialfact else "dialfact"
        raise ConfigError(
            f"form: {path} was trained on {task.value}, which --form={form} does not fit; give "
            f"--form={right}, or another model."
        )
    elif not is_dialfact and "nli" not in str(task.value):
        logger.warning("%s was trained on %s, which does not look like NLI.", path, task.value)
