"""DECODE (Nie 2021): dialogues whose last turn may contradict earlier turns of its speaker."""

from typing import Annotated

import msgspec

from faith_jax.core.errors import field_error
from faith_jax.core.labels import DecodeLabel
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text, Whole
from faith_jax.datasets.raw_dataset import Examples, each_row, load_card


class _Turn(msgspec.Struct):
    """An utterance of one of the two speakers."""

    turn_id: Whole
    text: Text


class _Dialogue(msgspec.Struct):
    """A dialogue; the listed indices of contradicted turns end with the last turn itself."""

    record_id: Text
    turns: Annotated[list[_Turn], msgspec.Meta(min_length=2)]
    is_contradiction: bool
    aggregated_contradiction_indices: list[Whole] = []


def _build_example(row: _Dialogue, place: str) -> Examples:
    label = DecodeLabel.CONTRADICTION if row.is_contradiction else DecodeLabel.NOT_CONTRADICTION
    contradicted: list[str] = []
    if row.is_contradiction:
        text_by_id = {turn.turn_id: turn.text for turn in row.turns}
        named = row.aggregated_contradiction_indices
        if not named or not set(named) <= text_by_id.keys():
            expected = f"turn_ids of turns ({', '.join(map(str, text_by_id))})"
            raise field_error(place, "aggregated_contradiction_indices", expected, named)
        contradicted = [text_by_id[turn] for turn in named if turn != row.turns[-1].turn_id]
    yield {
        "id": row.record_id,
        "history": [turn.text for turn in row.turns[:-1]],
        "response": row.turns[-1].text,
        "contradicted": contradicted,
        "label": label.value,
    }


DECODE = load_card("decode", each_row(read_jsonl, _Dialogue, _build_example))
