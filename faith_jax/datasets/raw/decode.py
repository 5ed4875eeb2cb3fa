"""DECODE (Nie 2021): dialogues whose last turn contradicts what its speaker said, or does not."""

from typing import Annotated

import msgspec

from faith_jax.core.errors import field_error
from faith_jax.core.labels import DecodeLabel
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text, Whole
from faith_jax.datasets.raw_dataset import Examples, each_row, load_card


class Turn(msgspec.Struct):
    """An utterance of one of the two speakers."""

    turn_id: Whole
    text: Text


class Dialogue(msgspec.Struct):
    """A dialogue; the last one of the contradicted turns is the last turn itself."""

    record_id: Text
    turns: Annotated[list[Turn], msgspec.Meta(min_length=2)]
    is_contradiction: bool
    aggregated_contradiction_indices: list[Whole] = []


def _build_example(row: Dialogue, place: str) -> Examples:
    label = DecodeLabel.CONTRADICTION if row.is_contradiction else DecodeLabel.NOT_CONTRADICTION
    yield {
        "id": row.record_id,
        "history": [turn.text for turn in row.turns[:-1]],
        "response": row.turns[-1].text,
        "contradicted": _contradicted_turns(row, place) if row.is_contradiction else [],
        "label": label.value,
    }


def _contradicted_turns(row: Dialogue, place: str) -> list[str]:
    text_by_id = {turn.turn_id: turn.text for turn in row.turns}
    named = row.aggregated_contradiction_indices
    if not named or not set(named) <= text_by_id.keys():
        expected = f"turn_ids of turns ({', '.join(map(str, text_by_id))})"
        raise field_error(place, "aggregated_contradiction_indices", expected, named)
    return [text_by_id[turn_id] for turn_id in named if turn_id != row.turns[-1].turn_id]


DECODE = load_card("decode", each_row(read_jsonl, Dialogue, _build_example))
