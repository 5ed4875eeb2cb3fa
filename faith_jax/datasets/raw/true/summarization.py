"""TRUE's summarization corpora: FRANK, MNBM, SummEval, QAGS-C and QAGS-X."""

import hashlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.fields import choice_field, field_error, list_field, text_field
from faith_jax.core.json_items import read_array
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.delimited import read_csv
from faith_jax.datasets.raw.true.schema import all_pass, corpus, row
from faith_jax.datasets.raw_dataset import RawDataset, RawFile

_RAW = "https://raw.githubusercontent.com"
_NO_ERROR = "NoE"
_FRANK_SPLIT = "valid"
_EXPERTS = 3
_BEST = 5
_WORKERS = ("wid_0", "wid_1", "wid_2")
_HALLUCINATIONS = ("intrinsic", "extrinsic")


def _read_frank(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        rows = (r for r in read_array(path, bad_rows=bad_rows) if _in_frank_split(r.fields))
        yield from parsed(rows, _frank_example, bad_rows)


def _in_frank_split(fields: Mapping[str, Any]) -> bool:
    return fields.get("split", _FRANK_SPLIT) == _FRANK_SPLIT


def _frank_example(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    name = "summary_sentences_annotations"
    sentences = list_field(fields, name, place, of="sentence")
    votes = []
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, dict) or not all(
            isinstance(tags, list) and tags for tags in sentence.values()
        ):
            expected = "an object with a list of error types for each annotator"
            raise field_error(place, f"{name}[{number}]", expected, sentence)
        votes.append([tags[0] == _NO_ERROR for tags in sentence.values()])
    document, model = (text_field(fields, field, place) for field in ("hash", "model_name"))
    return row(
        "frank",
        f"{document}-{model}",
        document,
        text_field(fields, "article", place),
        text_field(fields, "summary", place),
        all_pass(votes),
    )


def _read_qags(name: str) -> Callable[..., Iterator[dict[str, Any]]]:
    def example(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
        sentences = list_field(fields, "summary_sentences", place, of="sentence")
        votes, texts = [], []
        for number, sentence in enumerate(sentences):
            inner = f"{place}: summary_sentences[{number}]"
            if not isinstance(sentence, dict):
                raise field_error(place, f"summary_sentences[{number}]", "an object", sentence)
            texts.append(text_field(sentence, "sentence", inner))
            responses = list_field(sentence, "responses", inner, of="response")
            votes.append([_is_yes(response, inner) for response in responses])
        article = text_field(fields, "article", place)
        line = place.rpartition(":")[2]
        return row(name, line, _text_id(article), article, " ".join(texts), all_pass(votes))

    def read(
        paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
    ) -> Iterator[dict[str, Any]]:
        for path in paths.values():
            yield from parsed(read_jsonl(path, bad_rows), example, bad_rows)

    return read


def _is_yes(response: Any, place: str) -> bool:
    if not isinstance(response, dict):
        raise field_error(place, "responses", "objects with a 'response'", response)
    return choice_field(response, "response", place, ("yes", "no")) == "yes"


def _text_id(text: str) -> str:
    """Returns a short id of a text whose source has none."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_articles(path: pathlib.Path) -> dict[str, str]:
    """Returns the articles that a corpus refers to, by id.

    Args:
      path: JSON lines with `id` and `article`, which `tools/make_true_articles.py` writes.
    """
    articles = {}
    for place, fields in read_jsonl(path):
        articles[text_field(fields, "id", place)] = text_field(fields, "article", place)
    return articles


def _article(articles: Mapping[str, str], identifier: str, place: str) -> str:
    if identifier not in articles:
        raise InputError(
            f"{place}: the article {identifier!r} is not among the articles; make them again with "
            "tools/make_true_articles.py."
        )
    return articles[identifier]


def _read_mnbm(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    """A worker's last row on a summary counts; a worker without a row found no hallucination."""
    articles = read_articles(paths[_MNBM_ARTICLES])
    columns = ("bbcid", "system", "summary", "hallucination_type", "worker_id")
    rows = parsed(read_csv(paths[_MNBM_FILE.name], columns, bad_rows), _mnbm_vote, bad_rows)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for vote in rows:
        key = vote["document"], vote["system"]
        summary = found.setdefault(key, {"votes": dict.fromkeys(_WORKERS, True)})
        summary["votes"][vote["worker"]] = vote["passes"]
        summary |= {"text": vote["summary"], "place": vote["place"]}
    for (document, system), summary in found.items():
        try:
            article = _article(articles, document, summary["place"])
        except InputError as error:
            bad_rows.add(error)
            continue
        label = all_pass([summary["votes"].values()])
        yield row("mnbm", f"{document}-{system}", document, article, summary["text"], label)


def _mnbm_vote(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    kinds = (*_HALLUCINATIONS, "NULL", "")
    kind = choice_field(fields, "hallucination_type", place, kinds)
    return {
        "document": text_field(fields, "bbcid", place),
        "system": text_field(fields, "system", place),
        "summary": text_field(fields, "summary", place),
        "worker": choice_field(fields, "worker_id", place, _WORKERS),
        "passes": kind not in _HALLUCINATIONS,
        "place": place,
    }


def _read_summeval(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    articles = read_articles(paths[_SUMMEVAL_ARTICLES])

    def example(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
        identifier = text_field(fields, "id", place)
        document = identifier.replace("dm-test-", "").replace("cnn-test-", "")
        experts = list_field(fields, "expert_annotations", place, of="annotation")
        scores = [e.get("consistency") if isinstance(e, dict) else None for e in experts]
        if len(scores) != _EXPERTS or not all(score in range(1, _BEST + 1) for score in scores):
            expected = f"{_EXPERTS} annotations with a consistency from 1 to {_BEST}"
            raise field_error(place, "expert_annotations", expected, experts)
        line = place.rpartition(":")[2]
        grounding = _article(articles, document, place)
        summary = text_field(fields, "decoded", place)
        return row("summeval", line, document, grounding, summary, scores == [_BEST] * _EXPERTS)

    path = paths[_SUMMEVAL_FILE.name]
    return parsed(read_jsonl(path, bad_rows), example, bad_rows)


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
    _read_frank,
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
        _read_qags(name),
        f"Summaries of {texts} articles with votes for each sentence (Wang 2020); consistent = "
        "most voters say yes to each sentence.",
        "none stated",
        f"Get data/{file} from https://github.com/W4ngatang/qags.",
    )


QAGS_C = _qags("qags_c", "cnndm", "CNN/DM")
QAGS_X = _qags("qags_x", "xsum", "XSum")
