"""The corpora of TRUE (Honovich 2022), each read from its authors' files into one schema.

Labels are derived as TRUE derives them; 1 = consistent. A file `true_<corpus>.csv` in TRUE's own
form is read instead of the authors' files where it is at hand.
"""

import functools
import hashlib
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from faith_jax.core.errors import InputError
from faith_jax.core.json_items import read_array
from faith_jax.core.labels import DialFactType
from faith_jax.core.rows import BadRows, Row, read_jsonl
from faith_jax.core.schema import Schema, Text, Texts, Whole, columns_of, converted, read_as
from faith_jax.datasets.delimited import read_csv, read_tsv
from faith_jax.datasets.raw import begin, dialfact
from faith_jax.datasets.raw_dataset import RawDataset, Reader, described, each_row


def row(
    corpus: str, number: int | str, source_id: str, grounding: str, generated_text: str, label: int
) -> dict[str, Any]:
    """Returns an example of the schema.

    Args:
      corpus: its name.
      number: what makes the id, `<corpus>-<number>`.
      source_id: shared by the rows that stem from one document or dialogue.
      grounding: what the text may say.
      generated_text: the text to judge.
      label: 1 = consistent.
    """
    return {
        "id": f"{corpus}-{number}",
        "corpus": corpus,
        "source_id": source_id,
        "grounding": grounding,
        "generated_text": generated_text,
        "label": int(label),
    }


def all_pass(votes: Iterable[Iterable[bool]]) -> int:
    """Returns 1 where in each group of votes the rounded mean is 1, as TRUE has it.

    A tie rounds to the even number, so half of two votes is 0.
    """
    for group in votes:
        counted = [int(vote) for vote in group]
        if not counted or round(sum(counted) / len(counted)) == 0:
            return 0
    return 1


class TrueRow(msgspec.Struct):
    """TRUE's own form, in its order; an unnamed first column is TRUE's row number."""

    grounding: Text
    generated_text: Text
    label: Literal["0", "1"]
    number: str = msgspec.field(name="", default="")
    id: str = ""


def _true_example(found: TrueRow, place: str, name: str) -> Iterator[dict[str, Any]]:
    number = found.number or _line(place)
    yield row(
        name, number, found.id or number, found.grounding, found.generated_text, int(found.label)
    )


def _line(place: str) -> str:
    return place.rpartition(":")[2]


def _rows_of_csv(
    schema: type[Schema], make: Callable[[Schema, str], Iterator[dict[str, Any]]]
) -> Reader:
    return each_row(functools.partial(read_csv, columns=columns_of(schema)), schema, make)


def _corpus(name: str, read: Reader) -> RawDataset:
    """Returns a corpus; its file in TRUE's own form is read instead if it is at hand."""
    read_own = _rows_of_csv(TrueRow, functools.partial(_true_example, name=name))

    def read_either(
        paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
    ) -> Iterator[dict[str, Any]]:
        own = f"true_{name}.csv" in paths
        return (read_own if own else read)(paths, split, bad_rows)

    return described("true_benchmark", read_either, part=name)


# Summaries: FRANK, MNBM, SummEval, QAGS-C and QAGS-X.

_NO_ERROR = "NoE"
_FRANK_SPLIT = "valid"
_WORKERS = 3
_BEST = 5


class FrankSummary(msgspec.Struct):
    """A summary with, for each sentence, each annotator's error types."""

    hash: Text
    model_name: Text
    article: Text
    summary: Text
    summary_sentences_annotations: Annotated[list[dict[str, Texts]], msgspec.Meta(min_length=1)]


def _frank_rows(path: pathlib.Path, bad_rows: BadRows) -> Iterator[Row]:
    for found in read_array(path, bad_rows=bad_rows):
        if found.fields.get("split", _FRANK_SPLIT) == _FRANK_SPLIT:
            yield found


def _frank_example(found: FrankSummary, place: str) -> Iterator[dict[str, Any]]:
    votes = [
        [types[0] == _NO_ERROR for types in sentence.values()]
        for sentence in found.summary_sentences_annotations
    ]
    identifier = f"{found.hash}-{found.model_name}"
    yield row("frank", identifier, found.hash, found.article, found.summary, all_pass(votes))


class QagsResponse(msgspec.Struct):
    """What a voter says of a sentence."""

    response: Literal["yes", "no"]


class QagsSentence(msgspec.Struct):
    """A sentence of a summary with its votes."""

    sentence: Text
    responses: Annotated[list[QagsResponse], msgspec.Meta(min_length=1)]


class QagsSummary(msgspec.Struct):
    """A summary of an article."""

    article: Text
    summary_sentences: Annotated[list[QagsSentence], msgspec.Meta(min_length=1)]


def _qags_example(found: QagsSummary, place: str, name: str) -> Iterator[dict[str, Any]]:
    sentences = found.summary_sentences
    votes = [[vote.response == "yes" for vote in one.responses] for one in sentences]
    text = " ".join(one.sentence for one in sentences)
    # The source has no ids of articles.
    source = hashlib.sha256(found.article.encode()).hexdigest()[:16]
    yield row(name, _line(place), source, found.article, text, all_pass(votes))


class Article(msgspec.Struct):
    """An article that a corpus refers to; `tools/make_true_articles.py` writes such rows."""

    id: Text
    article: Text


def read_articles(path: pathlib.Path) -> dict[str, str]:
    """Returns the articles that a corpus refers to, by id."""
    articles = (converted(fields, place, Article) for place, fields in read_jsonl(path))
    return {found.id: found.article for found in articles}


def _article(articles: Mapping[str, str], identifier: str, place: str) -> str:
    if identifier not in articles:
        raise InputError(
            f"{place}: the article {identifier!r} is not among the articles; make them again with "
            "tools/make_true_articles.py."
        )
    return articles[identifier]


class MnbmVote(msgspec.Struct):
    """What a worker says of a summary."""

    bbcid: Text
    system: Text
    summary: Text
    hallucination_type: Literal["intrinsic", "extrinsic", "NULL", ""]
    worker_id: Literal["wid_0", "wid_1", "wid_2"]


def _read_mnbm(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    """A worker's last row on a summary counts; a worker without a row found no hallucination."""
    articles = read_articles(paths["mnbm_articles.jsonl"])
    rows = read_csv(
        paths["hallucination_annotations_xsum_summaries.csv"], columns_of(MnbmVote), bad_rows
    )
    found: dict[tuple[str, str], dict[str, tuple[MnbmVote, str]]] = {}
    votes = read_as(MnbmVote, rows, lambda vote, place: [(vote, place)], bad_rows)
    for vote, place in votes:
        by_worker = found.setdefault((vote.bbcid, vote.system), {})
        by_worker.pop(vote.worker_id, None)
        by_worker[vote.worker_id] = vote, place
    for (document, system), by_worker in found.items():
        last, place = list(by_worker.values())[-1]
        try:
            article = _article(articles, document, place)
        except InputError as error:
            bad_rows.add(error)
            continue
        passes = [vote.hallucination_type in ("NULL", "") for vote, _ in by_worker.values()]
        passes += [True] * (_WORKERS - len(passes))
        yield row(
            "mnbm", f"{document}-{system}", document, article, last.summary, all_pass([passes])
        )


class Consistency(msgspec.Struct):
    """An expert's mark."""

    consistency: Annotated[int, msgspec.Meta(ge=1, le=5)]


class SummevalSummary(msgspec.Struct):
    """A summary with the marks of three experts."""

    id: Text
    decoded: Text
    expert_annotations: Annotated[list[Consistency], msgspec.Meta(min_length=3, max_length=3)]


def _read_summeval(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    articles = read_articles(paths["summeval_articles.jsonl"])

    def example(found: SummevalSummary, place: str) -> Iterator[dict[str, Any]]:
        document = found.id.replace("dm-test-", "").replace("cnn-test-", "")
        label = all(mark.consistency == _BEST for mark in found.expert_annotations)
        grounding = _article(articles, document, place)
        yield row("summeval", _line(place), document, grounding, found.decoded, label)

    rows = read_jsonl(paths["model_annotations.aligned.jsonl"], bad_rows)
    return read_as(SummevalSummary, rows, example, bad_rows)


# Dialogue: BEGIN (its first release), Q2 and DialFact.


def _read_begin(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    examples = begin.BEGIN_2021.examples(paths, "validation", bad_rows)
    for example in examples:
        knowledge = example["knowledge"]
        yield row(
            "begin",
            example["id"].rpartition("-")[2],
            knowledge,
            knowledge,
            example["response"],
            example["label"],
        )


class Q2Turn(msgspec.Struct):
    """Two models' responses in one turn; label 1 = inconsistent."""

    episode_idx: str
    round: str
    knowledge: Text
    dodeca_response: Text
    dodeca_label: Literal["0", "1"]
    memnet_response: Text
    memnet_label: Literal["0", "1"]


def _q2_examples(found: Q2Turn, place: str) -> Iterator[dict[str, Any]]:
    turn = f"{found.episode_idx}-{found.round}"
    for model, response, label in (
        ("dodeca", found.dodeca_response, found.dodeca_label),
        ("memnet", found.memnet_response, found.memnet_label),
    ):
        yield row("q2", f"{turn}-{model}", turn, found.knowledge, response, label == "0")


def _read_dialfact(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        for claim in dialfact.read_claims(path, bad_rows):
            grounding = " ".join(claim["evidence"])
            if claim["type_label"] == DialFactType.FACTUAL and grounding:
                yield row(
                    "dialfact",
                    claim["id"],
                    claim["context_id"],
                    grounding,
                    claim["response"],
                    claim["label"],
                )


# Paraphrases and fact verification: PAWS, FEVER and VitaminC.

Verdict = Literal["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]
_SUPPORTS = "SUPPORTS"
_FEVER_ITEMS, _FEVER_LABELS = "dev_fitems.jsonl", "shared_task_dev.jsonl"


class PawsPair(msgspec.Struct):
    """Two sentences; label 1 = paraphrases."""

    id: Text
    sentence1: Text
    sentence2: Text
    label: Literal["0", "1"]


_paws_rows = functools.partial(read_tsv, columns=columns_of(PawsPair))


def _paws_example(found: PawsPair, place: str) -> Iterator[dict[str, Any]]:
    label = int(found.label)
    yield row("paws", found.id, found.id, found.sentence1, found.sentence2, label)


class FeverClaim(msgspec.Struct):
    """A claim's verdict."""

    id: Whole | Text
    label: Verdict


class FeverItem(msgspec.Struct):
    """A claim with its evidence."""

    cid: Whole | Text
    query: Text
    context: Text


def _read_fever(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    """Items without a context are left out; the label is the claim's, by its id."""
    claims = (converted(fields, at, FeverClaim) for at, fields in read_jsonl(paths[_FEVER_LABELS]))
    verdicts = {str(claim.id): claim.label for claim in claims}

    def example(item: FeverItem, place: str) -> Iterator[dict[str, Any]]:
        claim = str(item.cid)
        if claim not in verdicts:
            raise InputError(f"{place}: field 'cid': {_FEVER_LABELS} has no claim {claim}.")
        yield row("fever", claim, claim, item.context, item.query, verdicts[claim] == _SUPPORTS)

    items = (r for r in read_jsonl(paths[_FEVER_ITEMS], bad_rows) if r.fields.get("context") != "")
    return read_as(FeverItem, items, example, bad_rows)


class VitamincClaim(msgspec.Struct):
    """A claim with its evidence."""

    unique_id: Text
    claim: Text
    evidence: Text
    label: Verdict
    case_id: Whole | str = ""


def _vitaminc_example(found: VitamincClaim, place: str) -> Iterator[dict[str, Any]]:
    source, label = str(found.case_id or found.unique_id), found.label == _SUPPORTS
    yield row("vitaminc", found.unique_id, source, found.evidence, found.claim, label)


_READERS: dict[str, Reader] = {
    "frank": each_row(_frank_rows, FrankSummary, _frank_example),
    "mnbm": _read_mnbm,
    "summeval": _read_summeval,
    "qags_c": each_row(read_jsonl, QagsSummary, functools.partial(_qags_example, name="qags_c")),
    "qags_x": each_row(read_jsonl, QagsSummary, functools.partial(_qags_example, name="qags_x")),
    "begin": _read_begin,
    "q2": _rows_of_csv(Q2Turn, _q2_examples),
    "dialfact": _read_dialfact,
    "paws": each_row(_paws_rows, PawsPair, _paws_example),
    "fever": _read_fever,
    "vitaminc": each_row(read_jsonl, VitamincClaim, _vitaminc_example),
}
# All corpora by name, in the order of TRUE's tables.
CORPORA = {name: _corpus(name, read) for name, read in _READERS.items()}
# TRUE's averages leave out what many models were trained on.
AVERAGED = tuple(name for name in CORPORA if name not in ("fever", "vitaminc"))
