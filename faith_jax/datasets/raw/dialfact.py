"""DialFact (Gupta 2022): claims in dialogues, with evidence and labels.

`dialfact/retrieved` has the claims with evidence found by a retriever instead of the annotators'.
`dialfact_evidence` has pairs for training sentence selection (section 5.2), derived from Wizard of
Wikipedia: a response with the sentence that the Wizard used, with a sentence that the Wizard was
shown but did not use, and with a sentence from another dialogue.
"""

import collections
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from faith_jax.core.errors import InputError, field_error
from faith_jax.core.labels import DialFactLabel, DialFactType
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.schema import Text, read_as
from faith_jax.datasets.augmentation.draws import draw
from faith_jax.datasets.raw.wizard_of_wikipedia import WIZARD_OF_WIKIPEDIA
from faith_jax.datasets.raw_dataset import Examples, Paths, each_file, load_card

_ADDED = "gt_evidence_added"
MOST_EVIDENCE = 5
_SEED = 0


class _Claim(msgspec.Struct):
    """A claim; each item of its evidence is a list of title, URL, sentence and id, left unchanged.

    The authors left some sentences empty. A fifth item marks evidence of the original utterance
    that was added to a claim without evidence.
    """

    id: Text
    context_id: Text
    response: Text
    response_label: DialFactLabel
    type_label: DialFactType
    data_type: Literal["written", "generated"]
    context: list[Text] = []
    evidence_list: list[Annotated[list[str], msgspec.Meta(min_length=4, max_length=5)]] = []


def read_claims(path: pathlib.Path, bad_rows: BadRows) -> Examples:
    """Yields the claims of a file; see `DIALFACT.features`."""
    return read_as(_Claim, read_jsonl(path, bad_rows), _build_example, bad_rows, strip=False)


def evidence_features(evidence: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """Returns the features of evidence, given as lists of title, URL, sentence and id."""
    names = ("evidence_titles", "evidence_urls", "evidence", "evidence_ids")
    parts = list(evidence)
    return {name: [part[number] for part in parts] for number, name in enumerate(names)}


def _build_example(row: _Claim, place: str) -> Examples:
    yield {
        "id": row.id.strip(),
        "context_id": row.context_id.strip(),
        "context": [text.strip() for text in row.context],
        "response": row.response.strip(),
        **evidence_features(row.evidence_list),
        "evidence_added": int(any(part[4:] == [_ADDED] for part in row.evidence_list)),
        "response_label": row.response_label.value,
        "type_label": row.type_label.value,
        "data_type": row.data_type,
        "label": int(row.response_label.faithfulness),
    }


DIALFACT = load_card("dialfact", each_file(read_claims))
DIALFACT_AUGMENTED = load_card("dialfact", each_file(read_claims), part="augmented")

# A dialogue's number, the title of an article, and a sentence of the article.
PoolEntry = tuple[int, str, str]


def evidence_pairs(turn: Mapping[str, Any], pool: Sequence[PoolEntry], seed: int = 0) -> Examples:
    """Yields a turn of `wizard_of_wikipedia` with relevant and with irrelevant evidence.

    `kind` is "used" (label 1), "shown" (from the articles that the Wizard was shown) or "random"
    (used in another dialogue); the latter two have the label 0, and are left out if there is no
    such sentence. The draw depends only on the turn, the seed and the pool (the split's sentences).
    """
    used = (turn["knowledge_title"], turn["knowledge"])
    unused = [
        pair
        for pair in zip(turn["passage_titles"], turn["passage_sentences"], strict=True)
        if pair[1] != turn["knowledge"]
    ]
    pairs: dict[str, tuple[str, str] | None] = {"used": used}
    pairs["shown"] = unused[draw(len(unused), seed, turn["id"], "shown")] if unused else None
    pairs["random"] = from_elsewhere(turn, pool, seed)
    for kind, pair in pairs.items():
        if pair is not None:
            yield {
                "id": f"{turn['id']}-{kind}",
                "context": list(turn["history"]),
                "response": turn["response"],
                "evidence_title": pair[0],
                "evidence": pair[1],
                "kind": kind,
                "label": int(kind == "used"),
            }


def from_elsewhere(
    turn: Mapping[str, Any], pool: Sequence[PoolEntry], seed: int
) -> tuple[str, str] | None:
    """Returns a title and a sentence of another dialogue; None if the pool has no other.

    Takes the first one from a drawn place on, wrapping around at the end of the pool.
    """
    if not pool:
        return None
    start = draw(len(pool), seed, turn["id"], "random")
    for step in range(len(pool)):
        dialogue, title, sentence = pool[(start + step) % len(pool)]
        if dialogue != turn["dialogue"] and sentence != turn["knowledge"]:
            return title, sentence
    return None


def _read_pairs(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    # Reads the file twice: the dialogues do not fit into memory, but the used sentences do.
    turns = WIZARD_OF_WIKIPEDIA.examples(paths, split, BadRows(skip=True))
    pool = [(t["dialogue"], t["knowledge_title"], t["knowledge"]) for t in turns if t["knowledge"]]
    for turn in WIZARD_OF_WIKIPEDIA.examples(paths, split, bad_rows):
        if turn["knowledge"]:
            yield from evidence_pairs(turn, pool, _SEED)


DIALFACT_EVIDENCE = load_card("dialfact_evidence", _read_pairs)


class Evidence(NamedTuple):
    """A retrieved sentence; a score above 0 means relevant."""

    title: str
    url: str
    sentence: str
    score: float


def select_evidence(candidates: Sequence[Evidence], most: int = MOST_EVIDENCE) -> list[Evidence]:
    """Returns the relevant ones among the `most` best, best first (Gupta 2022, section 5.2)."""
    best = sorted(candidates, key=lambda evidence: -evidence.score)[:most]
    return [evidence for evidence in best if evidence.score > 0]


class _Retrieved(msgspec.Struct):
    """The retrieved evidence for a claim, each item as [title, URL, sentence, ..., score]."""

    id: Text
    evidence: list[Annotated[list[str | int | float], msgspec.Meta(min_length=4)]] = []


def read_retrieved(path: pathlib.Path, bad_rows: BadRows) -> dict[str, list[Evidence]]:
    """Returns the selected evidence of each claim by its id, from JSON lines of `_Retrieved`.

    A claim may have several lines, for example one for each sentence.
    """
    retrieved = collections.defaultdict[str, list[Evidence]](list)
    rows = read_jsonl(path, bad_rows)
    for claim_id, sentences in read_as(_Retrieved, rows, _read_evidence, bad_rows, strip=False):
        retrieved[claim_id] += sentences
    return {claim_id: select_evidence(sentences) for claim_id, sentences in retrieved.items()}


def _read_evidence(row: _Retrieved, place: str) -> Iterator[tuple[str, list[Evidence]]]:
    retrieved = []
    for number, (title, url, sentence, *_, score) in enumerate(row.evidence):
        texts = all(isinstance(text, str) for text in (title, url, sentence))
        if not texts or isinstance(score, str) or not abs(score) < sys.float_info.max:
            expected = "three texts first and a number last"
            raise field_error(place, f"evidence[{number}]", expected, row.evidence[number])
        retrieved.append(Evidence(str(title), str(url), str(sentence), float(score)))
    yield row.id.strip(), [evidence for evidence in retrieved if evidence.sentence.strip()]


def _read_with_retrieved(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    claims, source = paths.values()
    retrieved = read_retrieved(source, bad_rows)
    for claim in read_claims(claims, bad_rows):
        if claim["id"] not in retrieved:
            bad_rows.add(InputError(f"{source}: has no evidence of the claim {claim['id']}."))
            continue
        ranked = enumerate(retrieved[claim["id"]])
        evidence = ((s.title, s.url, s.sentence, str(rank)) for rank, s in ranked)
        yield claim | evidence_features(evidence) | {"evidence_added": 0}


DIALFACT_RETRIEVED = load_card("dialfact", _read_with_retrieved, part="retrieved")
