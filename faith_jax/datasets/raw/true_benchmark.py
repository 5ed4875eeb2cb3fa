"""The corpora of TRUE (Honovich 2022), each read from its authors' files into one schema.

Labels are derived as in TRUE; 1 = consistent. If there is a file `true_<corpus>.csv` in TRUE's own
form, it is read instead of the authors' files.
"""

import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec

from faith_jax.core.errors import InputError
from faith_jax.core.labels import DialFactLabel, DialFactType
from faith_jax.core.rows import BadRows, Row, read_jsonl
from faith_jax.core.schema import Schema, Text, Texts, Whole, columns_of, convert_row, read_as
from faith_jax.datasets.benchmarks.described_rows import OtherTexts, source_of, text_finder
from faith_jax.datasets.delimited import read_csv, read_tsv
from faith_jax.datasets.json_items import read_array
from faith_jax.datasets.raw import begin, dialfact
from faith_jax.datasets.raw.fact_verification import VitamincClaim
from faith_jax.datasets.raw_dataset import (
    Examples,
    Paths,
    RawDataset,
    Reader,
    each_file,
    each_row,
    load_card,
)


def _make_row(
    number: int | str, source_id: str, grounding: str, generated_text: str, label: int
) -> dict[str, Any]:
    """Returns an example; `_build_corpus` adds its name.

    `number` is unique in the corpus; rows of one document or dialogue share `source_id`.
    """
    return {
        "id": number,
        "source_id": source_id,
        "grounding": grounding,
        "generated_text": generated_text,
        "label": int(label),
    }


def all_pass(votes: Iterable[Iterable[bool]]) -> int:
    """Returns 1 if the rounded mean of every group of votes is 1, else 0, as in TRUE.

    A tie rounds to the even number, so a mean of one half gives 0.
    """
    for group in votes:
        counted = [int(vote) for vote in group]
        if not counted or round(sum(counted) / len(counted)) == 0:
            return 0
    return 1


def _extract_line_number(place: str) -> str:
    return place.rpartition(":")[2]


def _rows_of(
    read: Callable[..., Iterator[Row]],
    schema: type[Schema],
    make: Callable[[Schema, str], Iterable[dict[str, Any]]],
) -> Reader:
    """Returns a reader of CSV or TSV files with the columns of a schema."""
    return each_row(functools.partial(read, columns=columns_of(schema)), schema, make)


class _TrueRow(msgspec.Struct):
    """A row of TRUE's own form, in its column order; the unnamed column is TRUE's row number."""

    grounding: Text
    generated_text: Text
    label: Literal["0", "1"]
    number: str = msgspec.field(name="", default="")
    id: str = ""


def _build_corpus(name: str, read: Reader) -> RawDataset:
    """Returns a corpus; its file in TRUE's own form takes precedence over the authors' files."""

    def true_example(row: _TrueRow, place: str) -> Examples:
        number = row.number or _extract_line_number(place)
        yield _make_row(number, row.id or number, row.grounding, row.generated_text, int(row.label))

    def read_either(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
        read_true = _rows_of(read_csv, _TrueRow, true_example)
        examples = (read_true if f"true_{name}.csv" in paths else read)(paths, split, bad_rows)
        for example in examples:
            yield {**example, "id": f"{name}-{example['id']}", "corpus": name}

    return load_card("true_benchmark", read_either, part=name)


# Summaries: FRANK, MNBM, SummEval, QAGS-C and QAGS-X.


class _FrankSummary(msgspec.Struct):
    """A summary with each annotator's error types for each sentence ("NoE" = no error)."""

    hash: Text
    model_name: Text
    article: Text
    summary: Text
    summary_sentences_annotations: Annotated[list[dict[str, Texts]], msgspec.Meta(min_length=1)]


def _frank_rows(path: pathlib.Path, bad_rows: BadRows) -> Iterator[Row]:
    rows = read_array(path, bad_rows=bad_rows)
    return (frank_row for frank_row in rows if frank_row.fields.get("split", "valid") == "valid")


def _frank_example(summary: _FrankSummary, place: str) -> Examples:
    sentences = summary.summary_sentences_annotations
    votes = [[types[0] == "NoE" for types in sentence.values()] for sentence in sentences]
    number = f"{summary.hash}-{summary.model_name}"
    yield _make_row(number, summary.hash, summary.article, summary.summary, all_pass(votes))


class _QagsResponse(msgspec.Struct):
    response: Literal["yes", "no"]


class _QagsSentence(msgspec.Struct):
    sentence: Text
    responses: Annotated[list[_QagsResponse], msgspec.Meta(min_length=1)]


class _QagsSummary(msgspec.Struct):
    """A summary with votes for each sentence on whether the article supports it."""

    article: Text
    summary_sentences: Annotated[list[_QagsSentence], msgspec.Meta(min_length=1)]


def _qags_example(summary: _QagsSummary, place: str) -> Examples:
    sentences = summary.summary_sentences
    votes = [[vote.response == "yes" for vote in sentence.responses] for sentence in sentences]
    text = " ".join(sentence.sentence for sentence in sentences)
    source = source_of(summary.article)
    yield _make_row(_extract_line_number(place), source, summary.article, text, all_pass(votes))


# The articles that two corpora refer to; `tools/make_true_articles.py` writes them.
_ARTICLES = OtherTexts(ending="_articles.jsonl", key="id", text="article")


class _MnbmVote(msgspec.Struct):
    """The judgement of a summary by one of three workers."""

    bbcid: Text
    system: Text
    summary: Text
    hallucination_type: Literal["intrinsic", "extrinsic", "NULL", ""]
    worker_id: Literal["wid_0", "wid_1", "wid_2"]


def _read_mnbm(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    """Yields MNBM's summaries; a worker's last row counts, and no row means no hallucination."""
    article_of = text_finder(_ARTICLES, [paths["mnbm_articles.jsonl"]])
    path = paths["hallucination_annotations_xsum_summaries.csv"]
    rows = read_csv(path, columns_of(_MnbmVote), bad_rows)
    votes: dict[tuple[str, str], dict[str, tuple[_MnbmVote, str]]] = {}
    for vote, place in read_as(_MnbmVote, rows, lambda vote, place: [(vote, place)], bad_rows):
        by_worker = votes.setdefault((vote.bbcid, vote.system), {})
        by_worker.pop(vote.worker_id, None)
        by_worker[vote.worker_id] = vote, place
    for (document, system), by_worker in votes.items():
        last, place = list(by_worker.values())[-1]
        try:
            article = article_of(document, place)
        except InputError as error:
            bad_rows.add(error)
            continue
        passes = [vote.hallucination_type in ("NULL", "") for vote, _ in by_worker.values()]
        passes += [True] * (3 - len(passes))
        yield _make_row(f"{document}-{system}", document, article, last.summary, all_pass([passes]))


class _Consistency(msgspec.Struct):
    consistency: Annotated[int, msgspec.Meta(ge=1, le=5)]


class _SummevalSummary(msgspec.Struct):
    """A summary with the marks of three experts; the best mark is 5."""

    id: Text
    decoded: Text
    expert_annotations: Annotated[list[_Consistency], msgspec.Meta(min_length=3, max_length=3)]


def _read_summeval(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    article_of = text_finder(_ARTICLES, [paths["summeval_articles.jsonl"]])

    def example(summary: _SummevalSummary, place: str) -> Examples:
        document = summary.id.replace("dm-test-", "").replace("cnn-test-", "")
        label = all(mark.consistency == 5 for mark in summary.expert_annotations)
        article = article_of(document, place)
        yield _make_row(_extract_line_number(place), document, article, summary.decoded, label)

    rows = read_jsonl(paths["model_annotations.aligned.jsonl"], bad_rows)
    return read_as(_SummevalSummary, rows, example, bad_rows)


# Dialogue: BEGIN (its first release), Q2 and DialFact.


def _read_begin(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    for example in begin.BEGIN_2021.examples(paths, "validation", bad_rows):
        number, knowledge = example["id"].rpartition("-")[2], example["knowledge"]
        yield _make_row(number, knowledge, knowledge, example["response"], example["label"])


class _Q2Turn(msgspec.Struct):
    """The responses of two models in one turn; label 1 = inconsistent."""

    episode_idx: str
    round: str
    knowledge: Text
    dodeca_response: Text
    dodeca_label: Literal["0", "1"]
    memnet_response: Text
    memnet_label: Literal["0", "1"]


def _q2_examples(turn: _Q2Turn, place: str) -> Examples:
    turn_id = f"{turn.episode_idx}-{turn.round}"
    for model, response, label in (
        ("dodeca", turn.dodeca_response, turn.dodeca_label),
        ("memnet", turn.memnet_response, turn.memnet_label),
    ):
        yield _make_row(f"{turn_id}-{model}", turn_id, turn.knowledge, response, label == "0")


def _dialfact_examples(path: pathlib.Path, bad_rows: BadRows) -> Examples:
    for claim in dialfact.read_claims(path, bad_rows):
        grounding, source = " ".join(claim["evidence"]), claim["context_id"]
        if claim["type_label"] == DialFactType.FACTUAL and grounding:
            yield _make_row(claim["id"], source, grounding, claim["response"], claim["label"])


# Paraphrases and fact verification: PAWS, FEVER and VitaminC.

_FEVER_ITEMS, _FEVER_LABELS = "dev_fitems.jsonl", "shared_task_dev.jsonl"


class _PawsPair(msgspec.Struct):
    """Two sentences; label 1 = paraphrases."""

    id: Text
    sentence1: Text
    sentence2: Text
    label: Literal["0", "1"]


class _FeverClaim(msgspec.Struct):
    id: Whole | Text
    label: DialFactLabel


class _FeverItem(msgspec.Struct):
    """A claim with its id and its evidence."""

    cid: Whole | Text
    query: Text
    context: Text


def _read_fever(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    """Yields FEVER's items with the labels of their claims; skips items without a context."""
    claims = (
        convert_row(fields, at, _FeverClaim) for at, fields in read_jsonl(paths[_FEVER_LABELS])
    )
    verdicts = {str(claim.id): claim.label for claim in claims}

    def example(item: _FeverItem, place: str) -> Examples:
        claim = str(item.cid)
        if claim not in verdicts:
            raise InputError(f"{place}: field 'cid': {_FEVER_LABELS} has no claim {claim}.")
        yield _make_row(claim, claim, item.context, item.query, verdicts[claim].faithfulness)

    items = (r for r in read_jsonl(paths[_FEVER_ITEMS], bad_rows) if r.fields.get("context") != "")
    return read_as(_FeverItem, items, example, bad_rows)


def _vitaminc_example(claim: VitamincClaim, place: str) -> Examples:
    source, label = str(claim.case_id or claim.unique_id), claim.label.faithfulness
    yield _make_row(claim.unique_id, source, claim.evidence, claim.claim, label)


_QAGS = each_row(read_jsonl, _QagsSummary, _qags_example)
_READERS: dict[str, Reader] = {
    "frank": each_row(_frank_rows, _FrankSummary, _frank_example),
    "mnbm": _read_mnbm,
    "summeval": _read_summeval,
    "qags_c": _QAGS,
    "qags_x": _QAGS,
    "begin": _read_begin,
    "q2": _rows_of(read_csv, _Q2Turn, _q2_examples),
    "dialfact": each_file(_dialfact_examples),
    "paws": _rows_of(
        read_tsv,
        _PawsPair,
        lambda pair, _: [
            _make_row(pair.id, pair.id, pair.sentence1, pair.sentence2, int(pair.label))
        ],
    ),
    "fever": _read_fever,
    "vitaminc": each_row(read_jsonl, VitamincClaim, _vitaminc_example),
}
# All corpora by name, in the order of TRUE's tables.
CORPORA = {name: _build_corpus(name, read) for name, read in _READERS.items()}
# TRUE's averages (`statistics.auc_table`) leave out corpora that many models were trained on.
AVERAGED = tuple(name for name in CORPORA if name not in ("fever", "vitaminc"))
