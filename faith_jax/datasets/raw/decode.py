"""DECODE (Nie 2021): dialogues whose last turn contradicts what its speaker said, or does not."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.fields import field_error, integer_field, list_field, required, text_field
from faith_jax.core.jsonl import read_jsonl
from faith_jax.core.labels import DecodeLabel
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.raw_dataset import TEXT, TEXTS, RawDataset, RawFile, files_by_name

_ARCHIVE = "https://parl.ai/downloads/decode/decode_v0.1.zip"
_SHA256 = "sha256:084aab98652a04ce4a78c1a63d91575f5ab416a0c474b962ca1f4508a56b7484"


def read_dialogues(path: pathlib.Path, bad_rows: BadRows) -> Iterator[dict[str, Any]]:
    """Yields the dialogues of a file; see `DECODE.features`.

    Args:
      path: train.jsonl, …
      bad_rows: what to do with a bad dialogue.
    """
    return parsed(read_jsonl(path, bad_rows), _dialogue, bad_rows)


def _dialogue(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    turns = _turns(row, place)
    is_contradiction = required(row, "is_contradiction", place)
    if not isinstance(is_contradiction, bool):
        raise field_error(place, "is_contradiction", "true or false", is_contradiction)
    label = DecodeLabel.CONTRADICTION if is_contradiction else DecodeLabel.NOT_CONTRADICTION
    return {
        "id": text_field(row, "record_id", place),
        "history": [turn["text"] for turn in turns[:-1]],
        "response": turns[-1]["text"],
        "contradicted": _contradicted(row, place, turns) if is_contradiction else [],
        "label": label.value,
    }


def _turns(row: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    found = []
    turns = list_field(row, "turns", place, of="turn")
    for number, turn in enumerate(turns):
        where = f"{place}: turns[{number}]"
        if not isinstance(turn, dict):
            raise field_error(place, f"turns[{number}]", "an object", turn)
        found.append(
            {
                "id": integer_field(turn, "turn_id", where),
                "text": text_field(turn, "text", where),
            }
        )
    if len(found) < 2:
        raise field_error(place, "turns", "a turn and one before it", turns)
    return found


def _contradicted(row: Mapping[str, Any], place: str, turns: list[dict[str, Any]]) -> list[str]:
    """Returns the turns that the last one contradicts; the authors' list has it too."""
    field = "aggregated_contradiction_indices"
    texts = {turn["id"]: turn["text"] for turn in turns}
    found = []
    for number, turn_id in enumerate(list_field(row, field, place, of="turn_id")):
        if not isinstance(turn_id, int) or turn_id not in texts:
            expected = f"the turn_id of a turn ({', '.join(map(str, texts))})"
            raise field_error(place, f"{field}[{number}]", expected, turn_id)
        if turn_id != turns[-1]["id"]:
            found.append(texts[turn_id])
    return found


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        yield from read_dialogues(path, bad_rows)


_SPLITS = {
    "train": ("train.jsonl",),
    "validation": ("dev.jsonl",),
    "test": ("test.jsonl",),
    "test_human_bot": ("human-bot.jsonl",),
    "test_a2t": ("a2t.jsonl",),
    "test_rct": ("rct.jsonl",),
}

DECODE = RawDataset(
    name="decode",
    splits=_SPLITS,
    files=files_by_name(
        *(
            RawFile(name, _ARCHIVE, _SHA256, member=f"decode_v0.1/{name}")
            for (name,) in _SPLITS.values()
        )
    ),
    features={
        "id": TEXT,
        "history": TEXTS,
        "response": TEXT,
        "contradicted": TEXTS,
        "label": TEXT,
    },
    read=_read,
    description=(
        "Dialogues between two speakers whose last turn, the response, contradicts an earlier one "
        "or does not; `contradicted` are the turns that annotators found contradicted. "
        "`test_human_bot` are dialogues of people with bots, `test_a2t` and `test_rct` are "
        "dialogues of test that the authors transformed."
    ),
    homepage="https://parl.ai/projects/contradiction/",
    licence="see the home page",
    citation="""
@inproceedings{nie2021fish,
  title = {I like fish, especially dolphins: Addressing Contradictions in Dialogue Modeling},
  author = {Nie, Yixin and Williamson, Mary and Bansal, Mohit and Kiela, Douwe and Weston, Jason},
  booktitle = {Proceedings of the 59th Annual Meeting of the Association for Computational
               Linguistics},
  year = {2021},
}
""",
    by_hand=f"Get {_ARCHIVE} and unpack it.",
)
