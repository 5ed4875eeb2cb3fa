"""The run `control-tokens`: adds control tokens, which describe responses, to data for CTRL.

The data is FaithDial's or Wizard of Wikipedia's. For each existing file of training and validation,
writes <file>_control-tokens.json beside it: the same dialogues, with `control_tokens` in each turn
with knowledge.
"""

import collections
import functools
import logging
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Unpack

import msgspec

from faith_jax.core.errors import InputError, field_error
from faith_jax.core.files import write_json, write_jsonl
from faith_jax.core.files.stores import path_of
from faith_jax.core.labels import NliLabel
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.schema import Text, convert_row
from faith_jax.datasets.augmentation.control_tokens import (
    control_tokens,
    lexical_precision,
    name_with_tokens,
    terciles,
)
from faith_jax.datasets.json_items import read_array
from faith_jax.datasets.raw import faithdial, wizard_of_wikipedia
from faith_jax.scoring.nli import nli_label_numbers
from faith_jax.scoring.pair_classifier import ClassifierOptions, pair_classifier

logger = logging.getLogger("faith_jax")

_ROWS = 256  # rows classified between two lines of progress


class Dialogues(NamedTuple):
    """The form of a data set's files."""

    files: tuple[str, ...]  # the training file first, then validation files
    read_turns: Callable[[pathlib.Path, BadRows], Iterator[dict[str, Any]]]
    utterances: str  # the field of a dialogue that lists its utterances


FAITHDIAL = Dialogues(("train.json", "valid.json"), faithdial.read_turns, "utterances")
WIZARD_OF_WIKIPEDIA = Dialogues(
    ("train.json", "valid_random_split.json", "valid_topic_split.json"),
    wizard_of_wikipedia.read_turns,
    "dialog",
)


class GroundedTurn(NamedTuple):
    """A response and its knowledge, without the passages that the readers' turns also have."""

    id: str
    knowledge: str
    response: str


def _dialogues_of(folder: pathlib.Path) -> Dialogues:
    """Returns which data set's files a folder has, judging by the validation files."""
    matching = [
        data
        for data in (FAITHDIAL, WIZARD_OF_WIKIPEDIA)
        if any((folder / name).exists() for name in data.files[1:])
    ]
    if len(matching) > 1:
        raise InputError(
            f"{folder}: holds valid.json (FaithDial) and valid_random_split.json or "
            "valid_topic_split.json (Wizard of Wikipedia); give each a folder of its own."
        )
    return matching[0] if matching else FAITHDIAL


def write_pairs(folder: str, target: str) -> pathlib.Path:
    """Writes all turns as pairs to classify elsewhere, and returns the path.

    Pairs are JSON lines of `id`, `premise` (the knowledge) and `hypothesis` (the response).
    """
    rows = [
        {"id": turn.id, "premise": turn.knowledge, "hypothesis": turn.response}
        for turns in _turns_of(path_of(folder)).values()
        for turn in turns
    ]
    write_jsonl(target, rows)
    _warn_of_missing_files(path_of(folder))
    return pathlib.Path(target)


class LabelRow(msgspec.Struct):
    """The label of a pair."""

    id: Text
    label: NliLabel


def read_labels(path: str) -> dict[str, str]:
    """Returns the labels of JSON lines of `id` and `label`, by id."""
    labels: dict[str, str] = {}
    for place, fields in read_jsonl(pathlib.Path(path)):
        row = convert_row(fields, place, LabelRow)
        if row.id in labels:
            raise field_error(place, "id", "an id of its own, as each turn has one label", row.id)
        labels[row.id] = row.label.value
    return labels


def classify_turns(
    folder: str, model: str, labels: str | None = None, **options: Unpack[ClassifierOptions]
) -> dict[str, str]:
    """Returns the most probable of the three labels for each turn, by id.

    `labels` is the order of the model's classes, see `nli_label_numbers`.
    """
    turns = [turn for part in _turns_of(path_of(folder)).values() for turn in part]
    order = functools.partial(nli_label_numbers, labels=labels)
    classify = pair_classifier(model, check_classes=order, **options)
    numbers = order(classify.label_names)
    by_number = {number: label.value for label, number in numbers.items()}
    label_by_id: dict[str, str] = {}
    progress = Progress("turn", len(turns))
    for start in range(0, len(turns), _ROWS):
        part = turns[start : start + _ROWS]
        probabilities, _ = classify([(turn.knowledge, turn.response) for turn in part])
        calls = probabilities.argmax(axis=1)
        label_by_id |= {t.id: by_number[int(c)] for t, c in zip(part, calls, strict=True)}
        progress.update(len(label_by_id), force=len(label_by_id) == len(turns))
    return label_by_id


def add_control_tokens(folder: str, labels: Mapping[str, str]) -> list[str]:
    """Writes all files with `control_tokens` in each turn with knowledge.

    The bounds of low, medium and high lexical precision are the terciles of each file. `labels` are
    natural language inference labels, by the turns' ids.

    Returns:
      Lines that say what was written, and the share of turns with each token.

    Raises:
      InputError: on a bad file, a turn without a label, and fewer than three turns in train.json;
        nothing is written then.
      ConfigError: if spaCy is not installed.
    """
    turns, data = _turns_of(path_of(folder)), _dialogues_of(path_of(folder))
    path, first = next(iter(turns.items()))
    if len(first) < 3:
        raise InputError(
            f"{path}: has {len(first)} turns; expected 3 or more, whose lexical precision falls "
            "into low, medium and high."
        )
    contents: dict[pathlib.Path, list[Any]] = {}
    lines = []
    for source, turns_of_file in turns.items():
        precisions = [lexical_precision(t.response, t.knowledge) for t in turns_of_file]
        # As in the authors' code, validation files have their own terciles.
        bounds = terciles(precisions)
        tokens = {}
        for turn, precision in zip(turns_of_file, precisions, strict=True):
            if turn.id not in labels:
                raise InputError(f"{source}: there is no label of turn {turn.id}; label all pairs.")
            three = control_tokens(turn.response, precision, bounds, labels[turn.id])
            tokens[turn.id] = list(three)
        path = source.with_name(name_with_tokens(source.name))
        contents[path] = []
        for position, row in enumerate(read_array(source)):
            # Ids in both data sets start with the dialogue's number, or else its index in the file.
            number = row.fields.get("dialog_idx")
            start = f"{source.stem}-{position if number is None else number}"
            utterances = [
                utterance | {"control_tokens": tokens[f"{start}-{place}"]}
                if f"{start}-{place}" in tokens
                else utterance
                for place, utterance in enumerate(row.fields[data.utterances])
            ]
            contents[path].append({**row.fields, data.utterances: utterances})
        counts = collections.Counter(token for turn in tokens.values() for token in turn)
        shares = ", ".join(f"{t} {n / len(tokens):.1%}" for t, n in sorted(counts.items()))
        lines.append(f"{path}: {len(tokens)} turns: {shares}")
    for path, dialogues in contents.items():
        write_json(path, dialogues)
    _warn_of_missing_files(path_of(folder))
    return lines


def _turns_of(folder: pathlib.Path) -> dict[pathlib.Path, list[GroundedTurn]]:
    """Returns each file's turns with knowledge; the training file comes first and must exist."""
    data = _dialogues_of(folder)
    return {
        folder / name: [
            GroundedTurn(turn["id"], turn["knowledge"], turn["response"])
            for turn in data.read_turns(folder / name, BadRows())
            if turn["knowledge"]
        ]
        for number, name in enumerate(data.files)
        if number == 0 or (folder / name).exists()
    }


def _warn_of_missing_files(folder: pathlib.Path) -> None:
    for name in _dialogues_of(folder).files:
        if not (folder / name).exists():
            logger.warning("%s: no such file; the others are made without it", folder / name)
