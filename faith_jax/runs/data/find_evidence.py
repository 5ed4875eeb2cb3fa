"""The run `evidence`: finds documents and sentences for claims, and measures their recall.

Documents are found by `retrieval.documents`, and their sentences ranked by
`retrieval.sentence_ranking`.
"""

import dataclasses
import itertools
import logging
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, pluralize
from faith_jax.core.files import (
    check_outputs,
    move_output,
    output_locks,
    resumable_output,
    stamp,
    write_json,
    write_jsonl,
)
from faith_jax.core.labels import EvidenceLabel
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.schema import convert_row
from faith_jax.core.settings import check_value
from faith_jax.core.table import Table, figure_text
from faith_jax.datasets.augmentation.tagging import load_tagger
from faith_jax.datasets.raw.dialfact import Evidence
from faith_jax.datasets.samples import SAMPLE, sample_folder
from faith_jax.input.score_input import Responses, ScoreInput
from faith_jax.report.table_pages import render_table
from faith_jax.retrieval import sentence_ranking as ranking
from faith_jax.retrieval.documents import (
    BM25,
    ENTITIES,
    Bm25,
    Entities,
    Query,
    Retriever,
    fuse_rankings,
)
from faith_jax.retrieval.knowledge_base import KnowledgeBase
from faith_jax.retrieval.recall import gold_share, recall
from faith_jax.runs.data.knowledge import open_base
from faith_jax.runs.options import ClaimColumns, EvidenceOptions, FindingOptions
from faith_jax.runs.shards import append_in_batches, keep_whole_batches
from faith_jax.statistics.bootstrap import EQUAL_RESAMPLES

if TYPE_CHECKING:
    from faith_jax.inference.texts.text_pairs import PairRow
    from faith_jax.scoring.pair_classifier import PairClassifier

logger = logging.getLogger("faith_jax")

Row = TypeVar("Row")

ROWS = "rows.jsonl"
_DENSE, FUSED, SENTENCES = "dense", "fused", "sentences"
_BATCH = 32  # claims that are looked up together
_SHAPED = 32  # claims or responses in the sample that decides the shapes of the models' batches
_RELEVANT = (EvidenceLabel.RELEVANT.value, "label_1")


class _ClaimRow(NamedTuple):
    """A claim, the utterances before it, and the sentences of its gold evidence."""

    id: str
    claim: str
    context: Sequence[str]
    gold: list[str]


class _GoldEvidence(msgspec.Struct):
    """Gold evidence in DialFact's form: lists of title, URL, sentence and more."""

    evidence_list: list[list[str]] = []


def evidence(options: EvidenceOptions) -> Iterator[str]:
    """Writes the evidence of claims, and yields lines with its recall; a stopped run resumes."""
    target = pathlib.Path(options.output).expanduser()
    claims_file = pathlib.Path(options.claims).expanduser()
    if options.claims == SAMPLE:
        claims_file = sample_folder("dialfact") / "test_split.jsonl"
    outputs = {"--output": str(target), "--json": options.json}
    check_outputs([options.claims, options.knowledge_base], outputs)
    base = open_base(options.knowledge_base)
    bad_rows = BadRows(skip=options.skip_bad_rows)
    claims = list(read_claims(claims_file, options, bad_rows))
    finder = Finder(base, options)
    run = dataclasses.asdict(options)
    for name in ("output", "json", "restart"):
        del run[name]
    run["read"] = [stamp([claims_file]), msgspec.structs.asdict(base.manifest)]
    further = {"--json": options.json}
    with output_locks(further), resumable_output(target, run, options.restart) as folder:
        rows = folder / ROWS
        done = keep_whole_batches(rows, len(claims), _BATCH)
        if done:
            logger.info("%d of %d claims are done already", done, len(claims))
        progress = Progress("claim", len(claims), done)
        if done < len(claims) > _BATCH:
            sample = spread(claims, len(claims))
            finder.prepare([(row.claim, row.context) for row in sample], len(claims))
        append_in_batches(
            rows, claims[done:], _BATCH, lambda batch: _evidence_rows(batch, finder), progress
        )
        evidence_rows = [dict(row.fields) for row in read_jsonl(rows)]
        recalled = [row.pop("recall") for row in evidence_rows]
        write_jsonl(folder / "made", evidence_rows)
        move_output(folder / "made", target)
        # The table is empty if no claim has gold evidence.
        names = [*options.retrievers, *([FUSED] if len(options.retrievers) > 1 else []), SENTENCES]
        cells, tidy = [], []
        for name in names:
            estimate = recall(
                [math.nan if (share := row[name]) is None else share for row in recalled]
            )
            if estimate.claims:
                max_evidence = options.sentences if name == SENTENCES else options.documents
                value, low, high = (100 * figure for figure in (estimate.value, *estimate.interval))
                cells.append(
                    (name, max_evidence, figure_text(value, (low, high), 1), estimate.claims)
                )
                tidy.append(
                    (name, max_evidence, estimate.value, *estimate.interval, estimate.claims)
                )
        columns = ("what", "at most", "recall %", "claims")
        plain = Table("", ("what", "at_most", "recall", "low", "high", "claims"), tuple(tidy))
        table = Table(
            "Gold evidence that was found", columns, tuple(cells), (EQUAL_RESAMPLES,), plain
        )
        if options.json:
            write_json(options.json, {"rows": table.records()})
    yield f"{target}: evidence of {pluralize(len(evidence_rows), 'claim')}"
    if table.rows:
        yield render_table(table)
    yield from bad_rows.describe_skipped()


def spread(rows: Iterable[Row], count: int) -> list[Row]:
    """Returns a few of `count` rows at equal distances, including the first one.

    The sample depends only on the job, not on the place where a stopped run resumes.
    """
    return list(itertools.islice(rows, 0, None, -(-count // _SHAPED)))


def responses_of(
    files: Sequence[str], options: ClaimColumns, grounding_column: str = ""
) -> ScoreInput:
    """Returns a reader of responses or claims in files and, with a column, their groundings."""
    reader = ScoreInput if grounding_column else Responses
    return reader(
        input=tuple(files),
        grounding_column=grounding_column,
        input_format=options.input_format,
        perspective_column="",
        response_column=options.response_column,
        history_column=options.history_column,
        label_column="",
        id_column=options.id_column,
    )


def read_claims(
    path: str | pathlib.Path, options: ClaimColumns, bad_rows: BadRows
) -> Iterator[_ClaimRow]:
    """Yields the claims of a file."""
    for row in responses_of([str(path)], options).rows(bad_rows):
        example, place = row.example, f"{path}, row {row.place[1] + 1}"
        try:
            gold_parts = convert_row(row.fields, place, _GoldEvidence).evidence_list
        except InputError as error:
            bad_rows.add(error)
            continue
        gold = [part[2] for part in gold_parts if len(part) > 2]
        yield _ClaimRow(example.id, example.response, example.history, gold)


class Found(NamedTuple):
    """The articles and sentences that were found for a claim."""

    # Numbers of articles, best first, by retriever, and "fused" over all retrievers.
    rankings: Mapping[str, Sequence[int]]
    evidence: Sequence[Evidence]  # the best sentences
    subjects: Sequence[str]  # names of articles that the claim is about


class Finder:
    """Finds documents and sentences for claims in a knowledge base."""

    def __init__(self, base: KnowledgeBase, options: FindingOptions):
        self.base, self._options = base, options
        self._entities = Entities(base, load_tagger(options.tagger))
        make: dict[str, Callable[[], Retriever]] = {
            ENTITIES: lambda: self._entities,
            BM25: lambda: Bm25(base),
            _DENSE: lambda: _open_dense_retriever(options, base),
        }
        for name in check_value("retrievers", options.retrievers, tuple[str, ...]):
            if name not in make:
                raise ConfigError(
                    f"--retrievers: there is no {name!r}.{did_you_mean(name, make)} There are: "
                    f"{', '.join(make)}."
                )
        if not options.retrievers:
            raise ConfigError(f"--retrievers: name at least one of {', '.join(make)}.")
        self._retrievers = {name: make[name]() for name in options.retrievers}
        self._ranker: ranking.Ranker
        if options.evidence_model:
            from faith_jax.core.templates import nli_inputs  # only marks the form as one text
            from faith_jax.inference.texts.text_pairs import LabelForm
            from faith_jax.scoring.pair_classifier import pair_classifier

            form = LabelForm(tuple(label.value for label in EvidenceLabel), nli_inputs)
            model, vocabulary = options.evidence_model, options.evidence_vocabulary
            classifier = pair_classifier(model, form, relevant_class, vocabulary=vocabulary)
            self._ranker = ClassifierRanker(classifier)
        else:
            self._ranker = ranking.LexicalRanker(base)

    def __call__(self, claims: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Found]:
        """Yields articles and sentences for claims; each claim is paired with its history."""
        for query, rankings, candidates in self._retrieve(claims):
            best = ranking.rank_sentences(query, candidates, self._ranker, self._options.sentences)
            yield Found(rankings, best, self._entities.subjects(query))

    def prepare(self, claims: Sequence[tuple[str, Sequence[str]]], total: int) -> None:
        """Chooses the batch shapes for a job of `total` claims from a sample of its claims."""
        if isinstance(self._ranker, ClassifierRanker):
            sample = [(query, sentences) for query, _, sentences in self._retrieve(claims)]
            self._ranker.choose_shapes(sample, total)

    def _retrieve(
        self, claims: Sequence[tuple[str, Sequence[str]]]
    ) -> Iterator[tuple[Query, dict[str, Sequence[int]], list[ranking.Candidate]]]:
        """Yields the query of each claim, its articles by retriever, and their sentences."""
        options, turns = self._options, self._options.context_turns
        queries = [
            Query(claim, tuple(dialogue[-turns:] if turns else ())) for claim, dialogue in claims
        ]
        lists = {
            name: retrieve(queries, options.documents)
            for name, retrieve in self._retrievers.items()
        }
        for place, query in enumerate(queries):
            rankings = {name: by_claim[place] for name, by_claim in lists.items()}
            together = fuse_rankings(list(rankings.values()), options.documents)
            yield query, {**rankings, FUSED: together}, ranking.candidates(self.base, together)


def _open_dense_retriever(options: FindingOptions, base: KnowledgeBase) -> Retriever:
    from faith_jax.retrieval.approximate import Approximate
    from faith_jax.retrieval.dense import VECTORS, Dense, TextVectors, Vectors

    if not options.vectors:
        raise ConfigError("--vectors: the retriever dense needs the folder of faith-jax embed.")
    vectors = Vectors.open(options.vectors, base)
    index, parameters = None, options.dense_search
    if parameters != "exact":
        file = pathlib.Path(options.vectors).expanduser() / VECTORS
        index = Approximate.open(file, "" if parameters == "faiss" else parameters)
    encode = TextVectors.open(options.question_model or vectors.model, queries=True)
    return Dense(vectors, encode, index)


class ClassifierRanker:
    """Ranks sentences with a classifier of claims and sentences: 2 P(relevant) - 1, from -1 to 1.

    Reference: Gupta 2022, section 5.2, whose model learns -1 for irrelevant and 1 for relevant.
    """

    def __init__(self, classifier: "PairClassifier"):
        self._classifier, self._relevant = classifier, relevant_class(classifier.label_names)

    def __call__(self, query: Query, candidates: Sequence[ranking.Candidate]) -> np.ndarray:
        """Returns the candidates' scores, float64 [candidates]."""
        rows = self._read(query, candidates)
        if not rows:
            return np.zeros(0)
        return 2 * self._classifier.probabilities(rows)[:, self._relevant] - 1

    def choose_shapes(
        self, claims: Sequence[tuple[Query, Sequence[ranking.Candidate]]], total: int
    ) -> None:
        """Chooses batch shapes for `total` claims; all candidates of a claim are one call."""
        self._classifier.choose_shapes([self._read(*claim) for claim in claims], 1, total)

    def _read(self, query: Query, candidates: Sequence[ranking.Candidate]) -> "list[PairRow]":
        return [
            self._classifier.encode.relevance(query.claim, query.context, title, sentence)
            for title, _, sentence in candidates
        ]


def relevant_class(names: Sequence[str]) -> int:
    """Returns the index of the class "relevant" or LABEL_1 among the classes of a model.

    Raises:
      ConfigError: the model has neither class.
    """
    for place, name in enumerate(names):
        if name.lower() in _RELEVANT:
            return place
    raise ConfigError(
        f"--evidence-model: has the classes {', '.join(names)}; expected one that is called "
        "relevant, or LABEL_1, as of a model that was trained on dialfact_evidence."
    )


def _evidence_rows(claims: Sequence[_ClaimRow], finder: Finder) -> Iterator[dict[str, Any]]:
    """Yields for each claim its evidence, the titles of its documents, and its recall."""
    results = finder([(row.claim, row.context) for row in claims])
    for row, (rankings, best, _) in zip(claims, results, strict=True):
        texts = {
            name: [" ".join(finder.base.article(number).paragraphs) for number in numbers]
            for name, numbers in rankings.items()
        }
        texts[SENTENCES] = [sentence.sentence for sentence in best if sentence.score > 0]
        shares = {name: gold_share(recalled, row.gold) for name, recalled in texts.items()}
        yield {
            "id": row.id,
            "evidence": [
                [*sentence[:3], str(rank), sentence.score] for rank, sentence in enumerate(best)
            ],
            "documents": [finder.base.article(number).title for number in rankings[FUSED]],
            "recall": {
                name: None if math.isnan(share) else share for name, share in shares.items()
            },
        }
