"""Evidence for DialFact's claims (Gupta 2022, section 5.2): choosing it, and what was chosen.

`dialfact_evidence` has pairs to train sentence selection on, derived from Wizard of Wikipedia: a
response with the sentence that the Wizard used, with one of those that it was shown and did not
use, and with one from another dialogue. `dialfact/retrieved` has DialFact's claims with the
evidence that a retriever found in place of the annotators'.
"""

import dataclasses
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import InputError
from faith_jax.core.fields import field_error, list_field, text_field
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.augmentation.draws import draw
from faith_jax.datasets.raw.dialfact import DIALFACT, read_claims
from faith_jax.datasets.raw.wizard_of_wikipedia import WIZARD_OF_WIKIPEDIA
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, TEXTS, RawFile, files_by_name

MOST_EVIDENCE = 5
_SEED = 0

# A dialogue's number, the title of an article, one of its sentences.
PoolEntry = tuple[int, str, str]


def evidence_pairs(
    turn: Mapping[str, Any], pool: Sequence[PoolEntry], seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yields a turn with relevant evidence, and with irrelevant evidence of two kinds.

    Args:
      turn: of `wizard_of_wikipedia`, with knowledge.
      pool: the sentences that were used anywhere in the split.
      seed: another seed is another choice; an example's does not change with those around it, the
        pool apart.

    Yields:
      `kind` is "used" (label 1), "shown" (from the articles that the Wizard was shown) or "random"
      (used in another dialogue); the latter two have the label 0, and are left out where there is
      no such sentence.
    """
    used = (turn["knowledge_title"], turn["knowledge"])
    shown = [
        pair
        for pair in zip(turn["passage_titles"], turn["passage_sentences"], strict=True)
        if pair[1] != turn["knowledge"]
    ]
    chosen: dict[str, tuple[str, str] | None] = {"used": used}
    chosen["shown"] = shown[draw(len(shown), seed, turn["id"], "shown")] if shown else None
    chosen["random"] = _from_elsewhere(turn, pool, seed)
    for kind, pair in chosen.items():
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


def _from_elsewhere(
    turn: Mapping[str, Any], pool: Sequence[PoolEntry], seed: int
) -> tuple[str, str] | None:
    """Returns a sentence of another dialogue: the first behind a drawn place, round the pool."""
    if not pool:
        return None
    start = draw(len(pool), seed, turn["id"], "random")
    for step in range(len(pool)):
        dialogue, title, sentence = pool[(start + step) % len(pool)]
        if dialogue != turn["dialogue"] and sentence != turn["knowledge"]:
            return title, sentence
    return None


def _read_pairs(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    # Twice through the file: its dialogues do not fit into memory, the sentences used do.
    turns = WIZARD_OF_WIKIPEDIA.examples(paths, split, BadRows(skip=True))
    pool = [(t["dialogue"], t["knowledge_title"], t["knowledge"]) for t in turns if t["knowledge"]]
    for turn in WIZARD_OF_WIKIPEDIA.examples(paths, split, bad_rows):
        if turn["knowledge"]:
            yield from evidence_pairs(turn, pool, _SEED)


DIALFACT_EVIDENCE = dataclasses.replace(
    WIZARD_OF_WIKIPEDIA,
    name="dialfact_evidence",
    folder="wizard_of_wikipedia",
    features={
        "id": TEXT,
        "context": TEXTS,
        "response": TEXT,
        "evidence_title": TEXT,
        "evidence": TEXT,
        "kind": TEXT,
        "label": INTEGER,
    },
    read=_read_pairs,
    description=(
        "Responses of Wizard of Wikipedia with a sentence each: the one that the Wizard used "
        "(label 1), one that it was shown and did not use, and one from another dialogue "
        "(label 0). DialFact's sentence selection is trained on these."
    ),
)


class Evidence(NamedTuple):
    """A sentence that was retrieved; `score` > 0 means relevant."""

    title: str
    url: str
    sentence: str
    score: float


def select_evidence(found: Sequence[Evidence], most: int = MOST_EVIDENCE) -> list[Evidence]:
    """Returns the relevant ones among the best, best first (Gupta 2022, section 5.2).

    Args:
      found: in any order; of equal scores the earlier comes first.
      most: how many of the best are looked at.
    """
    best = sorted(found, key=lambda evidence: -evidence.score)[:most]
    return [evidence for evidence in best if evidence.score > 0]


def read_retrieved(path: pathlib.Path, bad_rows: BadRows) -> dict[str, list[Evidence]]:
    """Returns the selected evidence of each claim by its id.

    Args:
      path: JSON lines of `id` and `evidence`, a list of [title, URL, sentence, …, score], as the
        authors' sentence selection returns them.
      bad_rows: what to do with a bad row.
    """
    return dict(parsed(read_jsonl(path, bad_rows), _retrieved, bad_rows))


def _retrieved(row: Mapping[str, Any], place: str) -> tuple[str, list[Evidence]]:
    found = []
    for number, entry in enumerate(list_field(row, "evidence", place, minimum=0)):
        field = f"evidence[{number}]"
        if not isinstance(entry, list) or len(entry) < 4:
            raise field_error(place, field, "a list of title, URL, sentence and score", entry)
        title, url, sentence, *_, score = entry
        if not all(isinstance(t, str) for t in entry[:3]) or not _is_number(score):
            raise field_error(place, field, "three texts first and a number last", entry)
        found.append(Evidence(title, url, sentence, float(score)))
    sentences = [evidence for evidence in found if evidence.sentence.strip()]
    return text_field(row, "id", place), select_evidence(sentences)


def _is_number(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < math.inf  # which no NaN is


def _read_with_retrieved(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    claims, source = paths.values()
    retrieved = read_retrieved(source, bad_rows)
    for claim in read_claims(claims, bad_rows):
        if claim["id"] not in retrieved:
            bad_rows.add(InputError(f"{source}: has no evidence of the claim {claim['id']}."))
            continue
        evidence = retrieved[claim["id"]]
        yield claim | {
            "evidence_titles": [found.title for found in evidence],
            "evidence_urls": [found.url for found in evidence],
            "evidence": [found.sentence for found in evidence],
            "evidence_ids": [str(rank) for rank in range(len(evidence))],
            "evidence_added": 0,
        }


_RETRIEVED = {"validation": "valid_evidence.jsonl", "test": "test_evidence.jsonl"}

DIALFACT_RETRIEVED = dataclasses.replace(
    DIALFACT,
    splits={split: (*DIALFACT.splits[split], name) for split, name in _RETRIEVED.items()},
    files={**DIALFACT.files, **files_by_name(*map(RawFile, _RETRIEVED.values()))},
    read=_read_with_retrieved,
    description=f"{DIALFACT.description} The evidence is what a retriever found.",
    by_hand=(
        "valid_evidence.jsonl and test_evidence.jsonl are your retriever's: JSON lines of a "
        "claim's id and its evidence, a list of [title, URL, sentence, score]."
    ),
)
