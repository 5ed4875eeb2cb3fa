"""Control tokens in the raw files of dialogues: what such a file is called, and what it holds."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from faith_jax.core.errors import InputError
from faith_jax.core.fields import choice_field, field_error, texts_field
from faith_jax.core.rows import BadRows
from faith_jax.datasets.control_tokens import CONTROL_TOKENS, FAITHFUL_TOKENS

SUFFIX = "_control-tokens"  # as FaithDial's authors' script names its files
ADD_TOKENS = "faith-jax control-tokens adds them"


def name_with_tokens(name: str) -> str:
    """Returns what a file is called once its turns have control tokens.

    >>> name_with_tokens("train.json")
    'train_control-tokens.json'
    """
    path = pathlib.PurePath(name)
    return f"{path.stem}{SUFFIX}{path.suffix}"


def control_tokens_field(row: Mapping[str, Any], place: str) -> list[str]:
    """Returns a turn's control tokens, one of each kind, or none where the file has none.

    Raises:
      InputError: for anything else.
    """
    tokens = texts_field(row, "control_tokens", place)
    if tokens and len(tokens) != len(CONTROL_TOKENS):
        raise field_error(place, "control_tokens", f"{len(CONTROL_TOKENS)} tokens", tokens)
    for position, (token, known) in enumerate(zip(tokens, CONTROL_TOKENS, strict=False)):
        field = f"control_tokens[{position}]"
        choice_field({field: token}, field, place, known)
    return tokens


def with_control_tokens(
    turns: Iterable[dict[str, Any]], path: pathlib.Path, split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    """Yields turns that have control tokens; those of a test split ask for faithful responses.

    Args:
      turns: with `id` and `control_tokens`.
      path: of their file, for errors.
      split: its name.
      bad_rows: what to do with a turn without them.
    """
    for turn in turns:
        if split.startswith("test"):
            turn["control_tokens"] = [token.value for token in FAITHFUL_TOKENS]
        if turn["control_tokens"]:
            yield turn
        else:
            problem = f"{path}: the turn {turn['id']} has no control_tokens; {ADD_TOKENS}."
            bad_rows.add(InputError(problem))
