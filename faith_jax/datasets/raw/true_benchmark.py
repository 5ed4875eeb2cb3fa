"""The corpora of TRUE (Honovich 2022), each read from its authors' files into one schema.

Labels are derived as TRUE derives them; 1 = consistent. A file `true_<corpus>.csv` in TRUE's own
form is read instead of the authors' files where it is at hand.
"""

import functools
import hashlib
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from faith_jax.core.errors import InputError
from faith_jax.core.json_items import read_array
from faith_jax.core.labels import DialFactType
from faith_jax.core.rows import BadRows, Row, read_jsonl
from faith_jax.core.schema import Text, Texts, Whole, columns_of, converted, read_as
from faith_jax.datasets.delimited import read_csv, read_tsv
from faith_jax.datasets.raw import begin, dialfact
from faith_jax.datasets.raw_dataset import (
    RawDataset,
    RawFile,
    Reader,
    each_row,
    files_by_name,
    integers,
    texts,
)

_RAW = "https://raw.githubusercontent.com"
SPLIT = "test"
FEATURES = texts("id", "corpus", "source_id", "grounding", "generated_text") | integers("label")
HOMEPAGE = "https://github.com/google-research/true"
_CITATION = """
@inproceedings{honovich2022true,
  title = {{TRUE}: Re-evaluating Factual Consistency Evaluation},
  author = {Honovich, Or and Aharoni, Roee and Herzig, Jonathan and Taitelbaum, Hagai and
            Kukliansy, Doron and Cohen, Vered and Scialom, Thomas and Szpektor, Idan and
            Hassidim, Avinatan and Matias, Yossi},
  booktitle = {Proceedings of the 2022 Conference of the North American Chapter of the
               Association for Computational Linguistics},
  year = {2022},
}
"""


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


def corpus(
    name: str, files: Iterable[RawFile], read: Reader, description: str, licence: str, by_hand: str
) -> RawDataset:
    """Returns a corpus; a file `true_<name>.csv` in TRUE's own form is read instead if at hand."""
    instead = f"true_{name}.csv"
    named = files_by_name(*files)
    rows = functools.partial(read_csv, columns=columns_of(TrueRow))
    read_own = each_row(rows, TrueRow, functools.partial(_true_example, name=name))

    def read_either(
        paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
    ) -> Iterator[dict[str, Any]]:
        if instead in paths:
            return read_own(paths, split, bad_rows)
        return read(paths, split, bad_rows)

    return RawDataset(
        name="true_benchmark",
        splits={SPLIT: tuple(named)},
        files=named,
        features=FEATURES,
        read=read_either,
        description=f"{description} Label 1 = consistent, as TRUE derives it.",
        homepage=HOMEPAGE,
        licence=licence,
        citation=_CITATION,
        by_hand=f"{by_hand} Or put TRUE's own CSV file there as {instead}.",
        instead=instead,
    )


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
    articles = read_articles(paths[_MNBM_ARTICLES])
    rows = read_csv(paths[_MNBM_FILE.name], columns_of(MnbmVote), bad_rows)
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
    articles = read_articles(paths[_SUMMEVAL_ARTICLES])

    def example(found: SummevalSummary, place: str) -> Iterator[dict[str, Any]]:
        document = found.id.replace("dm-test-", "").replace("cnn-test-", "")
        label = all(mark.consistency == _BEST for mark in found.expert_annotations)
        grounding = _article(articles, document, place)
        yield row("summeval", _line(place), document, grounding, found.decoded, label)

    rows = read_jsonl(paths[_SUMMEVAL_FILE.name], bad_rows)
    return read_as(SummevalSummary, rows, example, bad_rows)


_FRANK_URL = f"{_RAW}/artidoro/frank/80a88fb12cc0bfc17ff6ee2c5ebb0c4f4dd8a5f4/data"
_FRANK_FILE = RawFile(
    "human_annotations_sentence.json",
    f"{_FRANK_URL}/human_annotations_sentence.json",
    "git-blob:c1a7c01676a308e52eb71e63fee1eb25082b4676",
)
_QAGS_URL = f"{_RAW}/W4ngatang/qags/47798e9b63344e2d3fb4df2def6edc18e9402d30/data"
_QAGS_BLOBS = {
    "cnndm": "0ef914c86c7c86a1a1a9c620e25fd4b5a3063bf8",
    "xsum": "12b7ba677f2b6df42326f5ad394c2cb223abb3cb",
}
_MNBM_FILE = RawFile(
    "hallucination_annotations_xsum_summaries.csv",
    f"{_RAW}/google-research-datasets/xsum_hallucination_annotations/"
    "4abdbb2c807cb93c1df1188a1992d20a55cdcc34/hallucination_annotations_xsum_summaries.csv",
    "git-blob:679fe69eebed5d9d78142842588d5ff59af3c98d",
)
_MNBM_ARTICLES = "mnbm_articles.jsonl"
_SUMMEVAL_FILE = RawFile("model_annotations.aligned.jsonl")
_SUMMEVAL_ARTICLES = "summeval_articles.jsonl"
_MAKE_ARTICLES = "Make {} with `python tools/make_true_articles.py {} --raw=FOLDER`."

FRANK = corpus(
    "frank",
    [_FRANK_FILE],
    each_row(_frank_rows, FrankSummary, _frank_example),
    "Summaries of CNN/DM and XSum articles with error types for each sentence, the part `valid`; "
    "consistent = each sentence is without error for most annotators.",
    "none stated",
    "Get data/human_annotations_sentence.json from https://github.com/artidoro/frank.",
)
MNBM = corpus(
    "mnbm",
    [_MNBM_FILE, RawFile(_MNBM_ARTICLES)],
    _read_mnbm,
    "XSum summaries with hallucinated spans (Maynez 2020); consistent = most of three workers "
    "found none.",
    "CC BY 4.0; articles: XSum's",
    _MAKE_ARTICLES.format(_MNBM_ARTICLES, "mnbm"),
)
SUMMEVAL = corpus(
    "summeval",
    [_SUMMEVAL_FILE, RawFile(_SUMMEVAL_ARTICLES)],
    _read_summeval,
    "CNN/DM summaries of 16 systems; consistent = all three experts gave 5 of 5.",
    "MIT; articles: CNN/DM's",
    "Get model_annotations.aligned.jsonl from https://github.com/Yale-LILY/SummEval. "
    + _MAKE_ARTICLES.format(_SUMMEVAL_ARTICLES, "summeval"),
)


def _qags(name: str, source: str, texts: str) -> RawDataset:
    file = f"mturk_{source}.jsonl"
    return corpus(
        name,
        [RawFile(file, f"{_QAGS_URL}/{file}", f"git-blob:{_QAGS_BLOBS[source]}")],
        each_row(read_jsonl, QagsSummary, functools.partial(_qags_example, name=name)),
        f"Summaries of {texts} articles with votes for each sentence (Wang 2020); consistent = "
        "most voters say yes to each sentence.",
        "none stated",
        f"Get data/{file} from https://github.com/W4ngatang/qags.",
    )


QAGS_C = _qags("qags_c", "cnndm", "CNN/DM")
QAGS_X = _qags("qags_x", "xsum", "XSum")


# Dialogue: BEGIN (its first release), Q2 and DialFact.

_Q2_URL = (
    "https://raw.githubusercontent.com/orhonovich/q-squared/"
    "cab6027dc9a50cf73d80caf0858da05c2323c433/third_party/data/cross_annotation.csv"
)
_Q2_FILE = RawFile(
    "cross_annotation.csv", _Q2_URL, "git-blob:969f9e1f8fd2e61c3878449d2daa04c9921854a8"
)
_BEGIN_FILE = begin.BEGIN_2021.files["dev_05_24_21.tsv"]
_DIALFACT_FILE = dialfact.DIALFACT.files["valid_split.jsonl"]


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


BEGIN = corpus(
    "begin",
    [_BEGIN_FILE],
    _read_begin,
    "Responses of GPT-2 and T5 to Wizard of Wikipedia: BEGIN's first release, its development "
    "part; consistent = entailment.",
    "CC BY 4.0",
    "Get dev_05_24_21.tsv of the first release from https://github.com/google/BEGIN-dataset.",
)
Q2 = corpus(
    "q2",
    [_Q2_FILE],
    each_row(functools.partial(read_csv, columns=columns_of(Q2Turn)), Q2Turn, _q2_examples),
    "Responses of two models to Wizard of Wikipedia, annotated for Q2 (Honovich 2021).",
    "MIT",
    "Get third_party/data/cross_annotation.csv from https://github.com/orhonovich/q-squared.",
)
DIALFACT = corpus(
    "dialfact",
    [_DIALFACT_FILE],
    _read_dialfact,
    "DialFact's validation claims that are factual and have evidence; consistent = SUPPORTS.",
    "BSD-3-Clause",
    "Get data/valid_split.jsonl from https://github.com/salesforce/DialFact.",
)


# Paraphrases and fact verification: PAWS, FEVER and VitaminC.

Verdict = Literal["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]
_SUPPORTS = "SUPPORTS"
_PAWS_FILE, _VITAMINC_FILE = "paws_wiki_dev.tsv", "vitaminc_dev.jsonl"
_FEVER_ITEMS, _FEVER_LABELS = "dev_fitems.jsonl", "shared_task_dev.jsonl"


class PawsPair(msgspec.Struct):
    """Two sentences; label 1 = paraphrases."""

    id: Text
    sentence1: Text
    sentence2: Text
    label: Literal["0", "1"]


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


PAWS = corpus(
    "paws",
    [RawFile(_PAWS_FILE)],
    each_row(functools.partial(read_tsv, columns=columns_of(PawsPair)), PawsPair, _paws_example),
    "Pairs of Wikipedia sentences with many words in common (Zhang 2019), the labelled "
    "development part; consistent = paraphrase.",
    "free for any purpose (google-research-datasets/paws)",
    "Get PAWS-Wiki Labeled (Final) from https://github.com/google-research-datasets/paws and put "
    f"its final/dev.tsv there as {_PAWS_FILE}.",
)
FEVER = corpus(
    "fever",
    [RawFile(_FEVER_ITEMS), RawFile(_FEVER_LABELS)],
    _read_fever,
    "FEVER's development claims with the evidence of NLI-FEVER (Nie 2019); consistent = SUPPORTS.",
    "CC BY-SA 3.0",
    f"Get {_FEVER_ITEMS} from nli_fever.zip (https://github.com/easonnie/combine-FEVER-NSMN) and "
    f"{_FEVER_LABELS} from https://fever.ai/dataset/fever.html.",
)
VITAMINC = corpus(
    "vitaminc",
    [RawFile(_VITAMINC_FILE)],
    each_row(read_jsonl, VitamincClaim, _vitaminc_example),
    "Claims with evidence from revisions of Wikipedia (Schuster 2021), the development part; "
    "consistent = SUPPORTS.",
    "MIT; Wikipedia's text: CC BY-SA 3.0",
    "Get vitaminc.zip from https://github.com/TalSchuster/VitaminC and put its vitaminc/dev.jsonl "
    f"there as {_VITAMINC_FILE}.",
)

# All corpora by name, in the order of TRUE's tables.
CORPORA = {
    "frank": FRANK,
    "mnbm": MNBM,
    "summeval": SUMMEVAL,
    "qags_c": QAGS_C,
    "qags_x": QAGS_X,
    "begin": BEGIN,
    "q2": Q2,
    "dialfact": DIALFACT,
    "paws": PAWS,
    "fever": FEVER,
    "vitaminc": VITAMINC,
}
# TRUE's averages leave out what many models were trained on.
AVERAGED = tuple(name for name in CORPORA if name not in ("fever", "vitaminc"))
