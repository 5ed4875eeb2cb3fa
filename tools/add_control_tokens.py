"""Adds the control tokens of CTRL (Rashkin 2021) to FaithDial's train.json and valid.json.

Two steps, with any natural language inference model of yours between them: the first writes each
turn's knowledge and response as premise and hypothesis, the second reads the model's labels as JSON
lines of `id` and `label` (entailment, neutral or contradiction) and writes
train_control-tokens.json and valid_control-tokens.json beside the others. The bounds of low, medium
and high lexical precision are the terciles of train.json.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.data.control_tokens import Terciles, control_tokens, lexical_precision, terciles
from faith_jax.data.fields import choice_field, text_field
from faith_jax.data.json_items import read_array
from faith_jax.data.jsonl import read_jsonl
from faith_jax.data.raw.faithdial import read_turns
from faith_jax.data.rows import BadRows
from faith_jax.errors import FaithJaxError, InputError
from faith_jax.labels import NliLabel

_FILES = ("train.json", "valid.json")
_EXAMPLE = """examples (the folder holds train.json and valid.json):
  python tools/add_control_tokens.py faithdial_files --pairs=pairs.jsonl
  python tools/add_control_tokens.py faithdial_files --nli=labels.jsonl
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the tool; returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=pathlib.Path, help="of train.json and valid.json")
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--pairs", type=pathlib.Path, metavar="FILE", help="write pairs to label")
    step.add_argument("--nli", type=pathlib.Path, metavar="FILE", help="labels of the pairs")
    options = parser.parse_args(arguments)
    try:
        if options.pairs:
            print(write_pairs(options.folder, options.pairs))
        else:
            print(*add(options.folder, options.nli), sep="\n")
    except FaithJaxError as error:
        print(f"add_control_tokens.py: {error}", file=sys.stderr)
        return 2
    return 0


def write_pairs(folder: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Writes `id`, `premise` and `hypothesis` of all turns as JSON lines; returns their path.

    Raises:
      InputError: for a missing or bad file.
    """
    rows = [
        {"id": turn["id"], "premise": turn["knowledge"], "hypothesis": turn["response"]}
        for name in _FILES
        for turn in _turns(folder / name)
    ]
    _write(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return target


def add(folder: pathlib.Path, labels: pathlib.Path) -> list[pathlib.Path]:
    """Writes both files with `control_tokens` in each turn, and returns their paths.

    Raises:
      InputError: for a missing or bad file, and for a turn without a label.
    """
    by_id = {}
    for place, fields in read_jsonl(labels):
        by_id[text_field(fields, "id", place)] = choice_field(fields, "label", place, NliLabel)
    bounds = terciles(
        [lexical_precision(t["response"], t["knowledge"]) for t in _turns(folder / _FILES[0])]
    )
    contents = {}
    for name in _FILES:
        tokens = _tokens(folder / name, bounds, by_id, labels)
        dialogues = [_with_tokens(row.fields, tokens) for row in read_array(folder / name)]
        contents[folder / f"{pathlib.Path(name).stem}_control-tokens.json"] = dialogues
    for path, dialogues in contents.items():
        _write(path, json.dumps(dialogues, indent=1, ensure_ascii=False) + "\n")
    return list(contents)


def _turns(path: pathlib.Path) -> list[dict[str, Any]]:
    return list(read_turns(path, BadRows()))


def _tokens(
    path: pathlib.Path, bounds: Terciles, labels: Mapping[str, str], source: pathlib.Path
) -> Iterator[list[str]]:
    """Yields the tokens of a file's turns, in its order."""
    for turn in _turns(path):
        if turn["id"] not in labels:
            raise InputError(f"{source}: has no label of {turn['id']}; label all pairs.")
        found = control_tokens(turn["response"], turn["knowledge"], bounds, labels[turn["id"]])
        yield [token.value for token in found]


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


if __name__ == "__main__":
    sys.exit(main())
