"""Rows of a task, a model's responses to them and their scores, each kept in a file.

What a file has is not made again, so that a table goes on where it was stopped.
"""

import json
import logging
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.data.grounded_rows import Columns
from faith_jax.data.jsonl import read_jsonl
from faith_jax.decoding.config import DecodingConfig
from faith_jax.errors import ConfigError
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.runs.outputs import write_text
from faith_jax.runs.score import score
from faith_jax.runs.score_input import ScoreInput, dataset_rows

logger = logging.getLogger("faith_jax")

# What `infer` calls its settings, and what commands do.
_OPTIONS = {
    "MAX_INPUT_LENGTH": "--max-input-length",
    "DECODE_LENGTH": "--max-length",
    "VOCABULARY": "--vocabulary",
    "CHECKPOINT_PATH": "--model",
}


def read_rows(
    path: pathlib.Path, task: str, split: str, limit: int = 0, prefix: str = ""
) -> dict[str, Any]:
    """Returns the rows to respond to by id, from the file or from the task, which it keeps.

    Args:
      path: JSON lines of `id`, `inputs`, `response`, `knowledge` and `history`.
      task: of a dialogue grounded in knowledge.
      split: of the task.
      limit: only the first ones; 0 = all.
      prefix: text in front of all inputs.

    Raises:
      InputError: where the data is not at hand.
    """
    if not path.exists():
        lines = []
        for _, fields in dataset_rows(task, "", split):
            row = {
                "id": fields["id"],
                "inputs": prefix + fields["inputs_pretokenized"],
                "response": fields["targets_pretokenized"],
                "knowledge": fields["knowledge"],
                "history": fields["history"],
            }
            lines.append(json.dumps(row, ensure_ascii=False) + "\n")
            if len(lines) == limit:
                break
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(lines))
    return {row["id"]: row for _, row in read_jsonl(str(path))}


def respond(
    rows: pathlib.Path,
    path: pathlib.Path,
    model: str,
    vocabulary: str,
    decoding: DecodingConfig,
    max_input_length: int = 512,
    batch_size: int = 16,
    seed: int = 0,
) -> None:
    """Decodes, and writes the responses beside what they are judged by.

    Args:
      rows: see `read_rows`.
      path: JSON lines of `id`, `knowledge`, `history`, `generated_text`, `gold`, `log_prob` and
        `inputs_cut_tokens`; what `infer` writes goes to the folder of this name without its ending.
      model: the checkpoint.
      vocabulary: where its tokenizer is.
      decoding: how tokens are picked.
      max_input_length: tokens of an input at most; the rest is cut at its end.
      batch_size: rows decoded at once.
      seed: of sampling.

    Raises:
      FaithJaxError: see `infer`.
    """
    from faith_jax.runs.infer import infer

    if path.exists():
        logger.info("%s is kept", path)
        return
    folder = path.with_suffix("")
    if not (folder / "predictions.jsonl").exists():
        logger.info("responding: %s", folder)
        try:
            infer(
                model,
                str(folder),
                input_file=str(rows),
                max_input_length=max_input_length,
                batch_size=batch_size,
                decoding=decoding,
                seed=seed,
                formats=("jsonl",),
                vocabulary=vocabulary,
            )
        except ConfigError as error:
            told = str(error)
            for macro, option in _OPTIONS.items():
                told = told.replace(macro, option)
            raise ConfigError(told) from None
    known = {row["id"]: row for _, row in read_jsonl(str(rows))}
    lines = []
    for _, made in read_jsonl(str(folder / "predictions.jsonl")):
        row = known[made["id"]]
        found = {
            "id": made["id"],
            "knowledge": row["knowledge"],
            "history": row["history"],
            "generated_text": made["prediction"],
            "gold": row["response"],
            "log_prob": made["log_prob"],
            "inputs_cut_tokens": made["inputs_cut_tokens"],
        }
        lines.append(json.dumps(found, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def scored_path(responses: pathlib.Path, scorer: str) -> pathlib.Path:
    """Returns where the scores of responses by a scorer are kept."""
    return responses.with_name(f"{responses.stem}_{scorer}.jsonl")


def scored(
    responses: pathlib.Path,
    scorers: Mapping[str, Mapping[str, Any]],
    grounding: str,
    corpus: str,
) -> dict[str, list[float]]:
    """Returns the scores of responses, NaN where undefined; scores what is not scored yet.

    Responses to turns without a grounding (MultiDoc2Dial has some) are not scored against it.

    Args:
      responses: what `respond` wrote.
      scorers: options by name; the file of scores has the first one's name.
      grounding: the column that they compare responses with: "knowledge" or "gold".
      corpus: the name of the data in the scored file.
    """
    path = scored_path(responses, next(iter(scorers)))
    rows = [fields for _, fields in read_jsonl(str(responses))]
    if not path.exists():
        grounded = [row for row in rows if row[grounding].strip()]
        file = responses
        if len(grounded) < len(rows):
            file = responses.with_name(f"{responses.stem}_with_{grounding}.jsonl")
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in grounded)
            write_text(file, "".join(lines))
        columns = Columns(grounding=grounding, response="generated_text", id="id")
        given = ScoreInput(file=str(file), columns=columns, corpus=corpus)
        score(given, scorers, str(path))
    found = {row["id"]: row["scores"] for row in read_scored_rows(path)}
    return {name: [_number(found.get(row["id"], {}).get(name)) for row in rows] for name in scorers}


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def texts(responses: pathlib.Path) -> tuple[Sequence[str], Sequence[str]]:
    """Returns the responses and the gold ones."""
    made = [fields for _, fields in read_jsonl(str(responses))]
    return [m["generated_text"] for m in made], [m["gold"] for m in made]


def cut_rows(responses: pathlib.Path) -> int:
    """Returns how many inputs were too long and were cut."""
    return sum(fields["inputs_cut_tokens"] > 0 for _, fields in read_jsonl(str(responses)))
