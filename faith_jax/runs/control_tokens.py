"""The run `control-tokens`: what each response of FaithDial's training data is like (CTRL).

Writes train_control-tokens.json and valid_control-tokens.json beside train.json and valid.json:
the same dialogues, with `control_tokens` in each turn.
"""

import collections
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from faith_jax.data.control_tokens import Terciles, control_tokens, lexical_precision, terciles
from faith_jax.data.fields import choice_field, text_field
from faith_jax.data.json_items import read_array
from faith_jax.data.jsonl import read_jsonl
from faith_jax.data.raw.faithdial import read_turns
from faith_jax.data.rows import BadRows
from faith_jax.errors import InputError
from faith_jax.labels import NliLabel
from faith_jax.scoring.nli import nli_label_numbers
from faith_jax.scoring.pair_classifier import ClassifierOptions, pair_classifier
from faith_jax.training.metrics import Progress

FILES = ("train.json", "valid.json")
_ROWS = 256  # classified between two lines of progress


def write_pairs(folder: str, target: str) -> pathlib.Path:
    """Writes all turns as pairs to classify elsewhere.

    Args:
      folder: of train.json and valid.json.
      target: JSON lines of `id`, `premise` (the knowledge) and `hypothesis` (the response).

    Returns:
      Its path.

    Raises:
      InputError: for a missing or bad file.
    """
    rows = [
        {"id": turn["id"], "premise": turn["knowledge"], "hypothesis": turn["response"]}
        for name in FILES
        for turn in _turns(pathlib.Path(folder) / name)
    ]
    path = pathlib.Path(target)
    _write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def read_labels(path: str) -> dict[str, str]:
    """Returns the labels of JSON lines of `id` and `label`, by id.

    Raises:
      InputError: for a missing or bad file.
    """
    return {
        text_field(fields, "id", place): choice_field(fields, "label", place, NliLabel)
        for place, fields in read_jsonl(pathlib.Path(path))
    }


def classified(
    folder: str,
    model: str,
    labels: str | None = None,
    **options: Unpack[ClassifierOptions],
) -> dict[str, str]:
    """Returns a model's label of each turn, the most probable of the three, by id.

    Args:
      folder: of train.json and valid.json.
      model: a folder of a natural language inference classifier.
      labels: the order of its classes, see `nli_label_numbers`.
      **options: see `ClassifierOptions`.

    Raises:
      InputError: for a missing or bad file.
      ConfigError: for a model that is none of three classes, and for a wrong option.
    """
    turns = [turn for name in FILES for turn in _turns(pathlib.Path(folder) / name)]
    classify = pair_classifier(model, **options)
    numbers = nli_label_numbers(classify.label_names, labels)
    by_number = {number: label.value for label, number in numbers.items()}
    found: dict[str, str] = {}
    progress = Progress("turn", len(turns))
    for start in range(0, len(turns), _ROWS):
        part = turns[start : start + _ROWS]
        probabilities, _ = classify([(turn["knowledge"], turn["response"]) for turn in part])
        calls = probabilities.argmax(axis=1)
        found |= {t["id"]: by_number[int(c)] for t, c in zip(part, calls, strict=True)}
        progress.update(len(found), force=len(found) == len(turns))
    return found


def add_control_tokens(folder: str, labels: Mapping[str, str]) -> list[str]:
    """Writes both files with `control_tokens` in each turn.

    Args:
      folder: of train.json and valid.json. The bounds of low, medium and high lexical precision
        are the terciles of train.json.
      labels: of natural language inference, by the turns' ids.

    Returns:
      Lines that say what was written, and how often each token stands in it.

    Raises:
      InputError: for a missing or bad file, a turn without a label, and fewer than three turns in
        train.json. Then nothing is written.
    """
    source = pathlib.Path(folder)
    bounds = _bounds(source / FILES[0])
    contents, lines = {}, []
    for name in FILES:
        tokens = _tokens(source / name, bounds, labels)
        rest = iter(tokens)
        dialogues = [_with_tokens(row.fields, rest) for row in read_array(source / name)]
        path = source / f"{pathlib.Path(name).stem}_control-tokens.json"
        contents[path] = json.dumps(dialogues, indent=1, ensure_ascii=False) + "\n"
        counts = collections.Counter(token for turn in tokens for token in turn)
        shares = ", ".join(f"{t} {n / len(tokens):.1%}" for t, n in sorted(counts.items()))
        lines.append(f"{path}: {len(tokens)} turns: {shares}")
    for path, content in contents.items():
        _write(path, content)
    return lines


def _bounds(path: pathlib.Path) -> Terciles:
    turns = _turns(path)
    if len(turns) < 3:
        raise InputError(
            f"{path}: has {len(turns)} turns; expected 3 or more, whose lexical precision falls "
            "into low, medium and high."
        )
    return terciles([lexical_precision(t["response"], t["knowledge"]) for t in turns])


def _turns(path: pathlib.Path) -> list[dict[str, Any]]:
    return list(read_turns(path, BadRows()))


def _tokens(path: pathlib.Path, bounds: Terciles, labels: Mapping[str, str]) -> Sequence[list[str]]:
    """Returns the tokens of a file's turns, in its order."""
    found = []
    for turn in _turns(path):
        if turn["id"] not in labels:
            raise InputError(f"{path}: there is no label of turn {turn['id']}; label all pairs.")
        tokens = control_tokens(turn["response"], turn["knowledge"], bounds, labels[turn["id"]])
        found.append([token.value for token in tokens])
    return found


def _with_tokens(dialogue: Mapping[str, Any], tokens: Iterator[list[str]]) -> dict[str, Any]:
    utterances = [u | {"control_tokens": next(tokens)} for u in dialogue["utterances"]]
    return {**dialogue, "utterances": utterances}


def _write(path: pathlib.Path, content: str) -> None:
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.write_text(content, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from None
