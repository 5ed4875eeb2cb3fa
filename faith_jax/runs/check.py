"""Checks claims in responses: can one be verified, what is the evidence, is it supported.

A response's sentences are its claims. Evidence is found for each in a knowledge base (Gupta 2022,
section 5.2), and a verifier says whether it supports or refutes the claim (section 5.3). A claim
that has few of its words in any sentence of evidence is called not verifiable, by the lexical
overlap of section 5.1.
"""

import atexit
import collections
import dataclasses
import functools
import itertools
import logging
import math
import pathlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Unpack

import msgspec

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import (
    append_rows,
    check_outputs,
    count_whole_rows,
    partial_output,
    stamp,
    write_jsonl,
    write_text,
)
from faith_jax.core.files.staging import stands
from faith_jax.core.files.stores import path_of
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.core.words import split_sentences
from faith_jax.datasets.grounded_rows import ExampleRow
from faith_jax.datasets.raw.dialfact import Evidence, select_evidence
from faith_jax.datasets.samples import ENCYCLOPEDIA, SAMPLE
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.export.scored_rows import ScoredRow
from faith_jax.input.score_input import ScoreInput
from faith_jax.report.claims import claims_page
from faith_jax.retrieval.index import build
from faith_jax.retrieval.knowledge_base import KnowledgeBase
from faith_jax.runs.data.evidence import ClaimRow, Finder, read_claims
from faith_jax.runs.options import CheckOptions, FindingOptions
from faith_jax.runs.score import score
from faith_jax.scoring.claims import LABELS, NLI, ClaimVerifier, Verdict
from faith_jax.scoring.pair_classifier import ClassifierOptions
from faith_jax.statistics.text_metrics import lexical_overlap

NOT_VERIFIABLE = "NOT VERIFIABLE"
OVERLAP = "lexical_overlap"
SCORERS = ("claim_supports", "claim_refutes", "claim_not_enough_info")
_BATCH = 32  # responses whose evidence is found together


class Checked(NamedTuple):
    """What is found about a claim.

    Attributes:
      claim: a sentence of the response.
      verdict: "SUPPORTS", "REFUTES", "NOT ENOUGH INFO" or "NOT VERIFIABLE".
      probabilities: of the first three, by name.
      evidence: sentences with title, URL and score, best first.
      decisive: the one that the probabilities are of; None = all or none.
    """

    claim: str
    verdict: str
    probabilities: dict[str, float]
    evidence: list[Evidence]
    decisive: Evidence | None


class FactChecker:
    """Checks what responses claim against a knowledge base.

    Args:
      knowledge_base: a folder of `faith-jax index`, or "sample", the package's encyclopedia.
      model: the verifier, see `ClaimVerifier`; "mini_nli" is in the package.
      form: "nli" or "dialfact", likewise.
      labels: likewise.
      verifiable: claims with a smaller share of their words in a sentence of evidence are called
        not verifiable.
      finding: how evidence is found.
      **options: of the verifier.

    Raises:
      ConfigError: no knowledge base or model, and for wrong options.

    >>> checker = FactChecker()  # doctest: +SKIP
    >>> checker("Tea is a hot drink from leaves.")[0].verdict  # doctest: +SKIP
    'SUPPORTS'
    """

    def __init__(
        self,
        knowledge_base: str | pathlib.Path = SAMPLE,
        model: str = "mini_nli",
        form: str = NLI,
        labels: str | Sequence[str] | None = None,
        verifiable: float = CheckOptions.verifiable,
        finding: FindingOptions | None = None,
        **options: Unpack[ClassifierOptions],
    ):
        self._verifier = ClaimVerifier(model, form, labels, **options)
        self._verifiable = verifiable
        self._finder = Finder(open_base(knowledge_base), finding or FindingOptions())

    def __call__(self, response: str, history: Sequence[str] = ()) -> list[Checked]:
        """Returns what is found about each sentence of a response; see `check_all`."""
        return self.check_all([response], [history])[0]

    def check_all(
        self, responses: Sequence[str], histories: Sequence[Sequence[str]] | None = None
    ) -> list[list[Checked]]:
        """Returns what is found about each sentence of each response.

        Args:
          responses: texts.
          histories: what was said before each, oldest first; None = nothing.
        """
        said = histories or [()] * len(responses)
        pairs = enumerate(zip(responses, said, strict=True))
        rows = [ClaimRow(str(number), text, list(history)) for number, (text, history) in pairs]
        grounded = list(_grounded(rows, self._finder))
        examples = [row.example() for row in grounded]
        verdicts = self._verifier.verdicts([self._verifier.read(example) for example in examples])
        found: list[list[Checked]] = [[] for _ in responses]
        for row, it in zip(grounded, verdicts, strict=True):
            found[int(row.response_id)].append(self._checked(row, it))
        return found

    def _checked(self, row: "GroundedClaim", found: Verdict) -> Checked:
        probabilities = dict(zip((it.value for it in LABELS), found.probabilities, strict=True))
        overlap = lexical_overlap(row.claim, row.grounding)
        verdict = verdict_of(overlap, found.probabilities, self._verifiable)
        places = zip(row.perspectives, row.urls, row.grounding, row.scores, strict=True)
        evidence = [Evidence(*place) for place in places]
        is_one = found.decisive is not None and not self._verifier.reads_all
        decisive = evidence[found.decisive or 0] if is_one else None
        return Checked(row.claim, verdict, probabilities, evidence, decisive)


def verdict_of(overlap: float, probabilities: Sequence[float], verifiable: float) -> str:
    """Returns the verdict on a claim.

    Args:
      overlap: the largest share of its words that a sentence of evidence has; NaN = it has none.
      probabilities: of SUPPORTS, REFUTES and NOT ENOUGH INFO.
      verifiable: the least overlap of a claim that can be verified.

    >>> verdict_of(0.5, (0.1, 0.7, 0.2), 0.2), verdict_of(0.1, (0.1, 0.7, 0.2), 0.2)
    ('REFUTES', 'NOT VERIFIABLE')
    """
    if not overlap >= verifiable:
        return NOT_VERIFIABLE
    return LABELS[max(range(len(LABELS)), key=lambda place: probabilities[place])].value


class GroundedClaim(msgspec.Struct):
    """A claim with its evidence; the lists are of its sentences."""

    id: str
    response_id: str
    claim: str
    history: list[str]
    grounding: list[str]
    perspectives: list[str]
    urls: list[str]
    scores: list[float]

    def example(self) -> GroundedExample:
        """Returns it as scorers read it."""
        grounding = Grounding(tuple(self.grounding), tuple(self.perspectives))
        return GroundedExample(self.id, grounding, tuple(self.history), self.claim)


def open_base(folder: str | pathlib.Path) -> KnowledgeBase:
    """Opens a knowledge base; "sample" is made of the package's encyclopedia.

    Raises:
      ConfigError: there is none.
    """
    if str(folder) != SAMPLE or pathlib.Path(folder).exists():
        return KnowledgeBase.open(folder)
    return _sample_base()


@functools.cache
def _sample_base() -> KnowledgeBase:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return build(str(ENCYCLOPEDIA), f"{folder}/{SAMPLE}", 0)


def _grounded(rows: Sequence[ClaimRow], finder: Finder) -> Iterator[GroundedClaim]:
    """Yields the claims of responses with their evidence."""
    claims = [
        (row, number, sentence, [*row.context, *sentences[:number]])
        for row in rows
        for sentences in [split_sentences(row.response)]
        for number, sentence in enumerate(sentences)
    ]
    found = finder([(sentence, said) for _, _, sentence, said in claims])
    for (row, number, sentence, said), (_, best) in zip(claims, found, strict=True):
        evidence = select_evidence(best)
        yield GroundedClaim(
            f"{row.id}#{number}",
            row.id,
            sentence,
            said,
            [it.sentence for it in evidence],
            [it.title for it in evidence],
            [it.url for it in evidence],
            [it.score for it in evidence],
        )


class _Claims(ScoreInput):
    """Claims with their evidence, from the file that `_find` writes."""

    def _part(self, part: int, bad_rows: BadRows, first: int) -> Iterator[ExampleRow]:
        claims = (claim for row in read_jsonl(self.input[part]) for claim in row.fields["claims"])
        for number, told in enumerate(claims):
            if number >= first:
                claim = msgspec.convert(told, GroundedClaim)
                fields = {"response_id": claim.response_id, "evidence_urls": claim.urls}
                yield ExampleRow(claim.example(), self.corpus, fields, place=(0, number))


def check(options: CheckOptions) -> Iterator[str]:
    """Checks a response, or those of a file, and yields lines about them; a stopped run resumes.

    Raises:
      InputError: for missing or bad rows.
      ConfigError: for wrong options, no knowledge base or model, and an output that exists.
    """
    check_outputs([options.input], {"--html": options.html})
    if options.claim:
        logging.getLogger("faith_jax").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        target = path_of(options.output or f"{folder}/checked.jsonl")
        source = options.input
        if options.claim:
            source = f"{folder}/claim.jsonl"
            row = {"id": "claim", "response": options.claim, "context": list(options.history)}
            write_jsonl(source, [row])
        if stands(target):
            raise ConfigError(f"--output: {target} exists already; remove it or name another.")
        responses, base = list(read_claims(source)), open_base(options.knowledge_base)
        ClaimVerifier(options.model, options.form, options.labels)  # says what is wrong before work
        # What is found is kept beside the output until that is there.
        beside = target.with_name(f"{target.name}.evidence")
        with partial_output(beside, _finding(source, base, options), options.restart) as kept:
            _find(responses, base, kept / "rows.jsonl", options)
            _verify(kept / "rows.jsonl", target, options)
        if options.html:
            rows = read_scored_rows(target)
            write_text(options.html, claims_page("Claims and evidence", rows, SCORERS))
        yield from _lines(read_scored_rows(target), options)


def _finding(source: str, base: KnowledgeBase, options: CheckOptions) -> dict[str, Any]:
    """Returns what decides the evidence."""
    run = {field.name: getattr(options, field.name) for field in dataclasses.fields(FindingOptions)}
    # The sample is made anew each time, from the same text.
    made = SAMPLE if options.knowledge_base == SAMPLE else msgspec.structs.asdict(base.manifest)
    read = stamp([source]) if options.input else [options.claim, *options.history]
    return run | {"knowledge_base": made, "read": read}


def _find(
    rows: Sequence[ClaimRow], base: KnowledgeBase, kept: pathlib.Path, options: CheckOptions
) -> None:
    """Writes the claims of responses with their evidence, those that are not there yet."""
    finder, done = Finder(base, options), count_whole_rows(kept)
    progress = Progress("response", len(rows), done)
    while batch := rows[done : done + _BATCH]:
        found = [msgspec.to_builtins(claim) for claim in _grounded(batch, finder)]
        by_response = itertools.groupby(found, key=lambda claim: claim["response_id"])
        claims = {name: list(own) for name, own in by_response}
        append_rows(kept, [{"id": row.id, "claims": claims.get(row.id, [])} for row in batch])
        done += len(batch)
        progress.update(done)


def _verify(evidence: pathlib.Path, target: pathlib.Path, options: CheckOptions) -> None:
    """Writes the scored claims with their verdicts."""
    model = {"model": options.model, "form": options.form, "labels": options.labels}

    def with_verdict(row: ScoredRow) -> ScoredRow:
        scores = {name: math.nan if it is None else it for name, it in row["scores"].items()}
        probabilities = [scores[name] for name in SCORERS]
        verdict = verdict_of(scores[OVERLAP], probabilities, options.verifiable)
        return {**row, "fields": {**row["fields"], "verdict": verdict}}

    score(
        _Claims(input=(str(evidence),), corpus="claims"),
        {**{name: model for name in SCORERS}, OVERLAP: {}},
        str(target),
        batch_size=options.batch_size,
        restart=options.restart,
        finish=with_verdict,
    )


def _lines(rows: Iterable[ScoredRow], options: CheckOptions) -> Iterator[str]:
    """Yields a response's claims with verdicts and evidence; of a file the counts of verdicts."""
    counts = collections.Counter[str]()
    for row in rows:
        verdict = row["fields"]["verdict"]
        counts[verdict] += 1
        if options.claim:
            told = ", ".join(
                f"{label.value.lower()} {row['scores'][name]:.2f}"
                for label, name in zip(LABELS, SCORERS, strict=True)
            )
            yield f"{verdict}: {row['generated_text']} ({told})"
            for title, text in zip(row["perspectives"], row["grounding"], strict=True):
                yield f"  {title}: {text}"
    if options.input:
        yield from (f"{count:6,}  {verdict}" for verdict, count in counts.most_common())
