"""DECODE (Nie 2021): dialogues whose last turn contradicts what its speaker said, or does not."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from faith_jax.core.errors import field_error
from faith_jax.core.labels import DecodeLabel
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text, Whole
from faith_jax.datasets.raw_dataset import (
    RawDataset,
    RawFile,
    each_row,
    files_by_name,
    text_lists,
    texts,
)

_ARCHIVE = "https://parl.ai/downloads/decode/decode_v0.1.zip"
_SHA256 = "sha256:084aab98652a04ce4a78c1a63d91575f5ab416a0c474b962ca1f4508a56b7484"


class Turn(msgspec.Struct):
    """What one of the two speakers says."""

    turn_id: Whole
    text: Text


class Dialogue(msgspec.Struct):
    """A dialogue; the last one of the contradicted turns is the last turn itself."""

    record_id: Text
    turns: Annotated[list[Turn], msgspec.Meta(min_length=2)]
    is_contradiction: bool
    aggregated_contradiction_indices: list[Whole] = []


def _example(row: Dialogue, place: str) -> Iterator[dict[str, Any]]:
    label = DecodeLabel.CONTRADICTION if row.is_contradiction else DecodeLabel.NOT_CONTRADICTION
    yield {
        "id": row.record_id,
        "history": [turn.text for turn in row.turns[:-1]],
        "response": row.turns[-1].text,
        "contradicted": _contradicted(row, place) if row.is_contradiction else [],
        "label": label.value,
    }


def _contradicted(row: Dialogue, place: str) -> list[str]:
    said = {turn.turn_id: turn.text for turn in row.turns}
    named = row.aggregated_contradiction_indices
    if not named or not set(named) <= said.keys():
        expected = f"turn_ids of turns ({', '.join(map(str, said))})"
        raise field_error(place, "aggregated_contradiction_indices", expected, named)
    return [said[turn_id] for turn_id in named if turn_id != row.turns[-1].turn_id]


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
    features=texts("id", "response", "label") | text_lists("history", "contradicted"),
    read=each_row(read_jsonl, Dialogue, _example),
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
