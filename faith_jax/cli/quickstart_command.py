"""The command `quickstart`: the main job on the embedded sample, step by step, in one process.

Its steps are command lines of the other commands, so the user can run each of them alone.
"""

import contextlib
import dataclasses
import logging
import pathlib
import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

from faith_jax.cli.shared import show
from faith_jax.core.errors import ConfigError, pluralize
from faith_jax.core.files import (
    has_contents,
    read_json_or_none,
    working_folder,
    write_json,
    write_jsonl,
    write_text,
)
from faith_jax.core.settings import OutputPath, Positive

_NOTE = "quickstart.json"  # in OUTPUT: the options, and how many steps are finished
_LOG = "quickstart.log"
_QUERIES = 3  # of the sample's test split; `infer` shows the first three responses
_WIDTH, _MARGIN = 95, " " * 5


@dataclasses.dataclass(frozen=True)
class Quickstart:
    """Shows the main job on the embedded sample: scores, training, responses, a heat map, a page.

    Scores eight answers, some of them wrong; prompt-tunes the embedded model mini; lets it respond
    to queries with PMI-Decode; scores the responses, and shows where their words come from. Each
    step prints the commands that do the same alone. A run that was stopped resumes after its last
    finished step when the same command is given again.

    Attributes:
      output (OUTPUT): a new folder, or the folder of a run to resume
      steps (N): of training

    Examples:
      %(prog)s
      %(prog)s runs/first --steps=40
    """

    opens_checkpoints: ClassVar = True
    kept: ClassVar = "the same command goes on where this one was."
    output: OutputPath = "runs/quickstart"
    _: dataclasses.KW_ONLY
    steps: Positive = 20

    def run(self) -> int:
        if "://" in self.output:
            raise ConfigError(f"OUTPUT: {self.output}: expected a folder of this machine.")
        with working_folder(pathlib.Path(self.output).expanduser(), "OUTPUT") as (folder, _):
            finished, start = 0, time.monotonic()
            note = read_json_or_none(folder / _NOTE)
            if note is None and has_contents(folder):
                raise ConfigError(
                    f"OUTPUT: {folder} holds something else than a quickstart; name a new folder."
                )
            if note is not None:
                if (former := note["options"]["steps"]) != self.steps:
                    raise ConfigError(
                        f"OUTPUT: {folder} holds a quickstart with --steps={former}; give the "
                        "same, or name a new folder."
                    )
                # Count the steps that a former run has finished and whose outputs still exist.
                for step in _STEPS[: note["finished"]]:
                    if not all((folder / name).exists() for name in step.outputs):
                        break
                    finished += 1
            if finished == len(_STEPS):
                show(f"{folder} is finished; remove it to begin anew. It has:")
            elif finished:
                show(f"{folder}: going on behind step {finished} of {len(_STEPS)}")
            for number, step in enumerate(_STEPS[finished:], finished):
                write_json(folder / _NOTE, {"options": {"steps": self.steps}, "finished": number})
                show(f"\n{number + 1}/{len(_STEPS)}  {step.title.format(steps=self.steps)}")
                if status := step.run(folder, self.steps):
                    again = f"stopped in step {number + 1}; the same command goes on with it."
                    show(f"faith-jax quickstart: {again}", sys.stderr)
                    return status
            if finished < len(_STEPS):
                note = {"options": {"steps": self.steps}, "finished": len(_STEPS)}
                write_json(folder / _NOTE, note)
                show(f"\nDone in {time.monotonic() - start:.0f} s:")
            for step in _STEPS:
                for name, contents in step.outputs.items():
                    show(f"  {contents:24} {folder / name}")
            return 0


class _Step(NamedTuple):
    """A step of the quickstart."""

    title: str  # says what it does
    reason: str  # says why
    outputs: dict[str, str]  # names of the files and folders that it makes, with descriptions
    commands: tuple[str, ...]  # {output} is the folder, {steps} the training steps
    # Writes the input of the commands into the folder.
    prepare: Callable[[pathlib.Path], None] = lambda folder: None
    # Returns a line on the outcome; "" if the commands print it themselves.
    outcome: Callable[[pathlib.Path, int], str] = lambda folder, steps: ""

    def run(self, folder: pathlib.Path, steps: int) -> int:
        """Runs the commands one after the other; returns the exit status of the last one."""
        from faith_jax import cli

        start = time.monotonic()
        show(textwrap.indent(textwrap.fill(self.reason, _WIDTH), _MARGIN))
        self.prepare(folder)
        for command in self.commands:
            parts = [part.format(output=folder, steps=steps) for part in shlex.split(command)]
            show(f"{_MARGIN}$ {shlex.join(parts)}")
            sys.stdout.flush()
            program = cli.t5x_main if parts[0] == "t5x" else cli.main
            with _logging_to(folder / _LOG):
                if status := program(parts[1:]):
                    return status
        outcome = self.outcome(folder, steps)
        show(f"{_MARGIN}{outcome}{'; ' if outcome else ''}{time.monotonic() - start:.1f} s")
        return 0


@contextlib.contextmanager
def _logging_to(path: pathlib.Path) -> Iterator[None]:
    """Sends the log to a file inside the context; warnings and progress are shown, too."""
    from faith_jax.cli import LogFormat

    def is_shown(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.module == "progress"

    root = logging.getLogger()
    handlers, log = list(root.handlers), logging.FileHandler(path, encoding="utf-8")
    log.setFormatter(LogFormat("%(asctime)s %(message)s", "%H:%M:%S"))
    for handler in handlers:
        handler.addFilter(is_shown)
    root.addHandler(log)
    try:
        yield
    finally:
        root.removeHandler(log)
        log.close()
        for handler in handlers:
            handler.removeFilter(is_shown)


def _write_answers(folder: pathlib.Path) -> None:
    from faith_jax.datasets.samples import ANSWERS

    write_text(folder / "answers.csv", ANSWERS.read_text(encoding="utf-8"))


def _write_queries(folder: pathlib.Path) -> None:
    """Writes questions without arguments, which `infer` looks up in the sample."""
    from faith_jax.datasets import npov

    topics = [topic for topic in npov.load_topics("sample") if topic.split == "test"]
    queries = [{"id": topic.id, "query": topic.question} for topic in topics[:_QUERIES]]
    write_jsonl(folder / "queries.jsonl", queries)


def _describe_losses(folder: pathlib.Path, steps: int) -> str:
    from faith_jax.training.metrics import losses_until

    losses = losses_until(folder / "prompt", steps, "validation")
    number = pluralize(steps, "step")
    return f"validation loss {losses[0]:.3f} before, {losses[-1]:.3f} after {number} (nats a token)"


_STEPS = (
    _Step(
        "Scores: which of eight answers say what their passages do not?",
        "groundedness joins words, numbers and inference by mini_nli, a model inside the package. "
        "Low = not supported; the words that the passage does not have are in [brackets].",
        {"answers.csv": "eight answers", "answers.jsonl": "their scores"},
        (
            "faith-jax score --scorers=groundedness --input={output}/answers.csv "
            "--output={output}/answers.jsonl",
            "faith-jax evaluate {output}/answers.jsonl --worst=4",
        ),
        prepare=_write_answers,
    ),
    _Step(
        "Training: {steps} steps of prompt-tuning",
        "mini, a T5 inside the package, is frozen; five soft tokens in front of its input learn to "
        "tell arguments for and against (Chang 2024).",
        {"prompt": "the prompt (MODEL_DIR)"},
        (
            "t5x train --gin_file=quickstart.gin --gin.MODEL_DIR={output}/prompt "
            "--gin.TRAIN_STEPS={steps} --gin.EVAL_BEFORE_TRAINING=True --gin.DECODING=None",
        ),
        outcome=_describe_losses,
    ),
    _Step(
        f"Responses to {_QUERIES} queries that training has not seen",
        "PMI-Decode prefers words that the arguments make likely to words that are likely anyway "
        "(Nandwani 2023).",
        {"queries.jsonl": "queries", "responses/predictions.jsonl": "responses"},
        (
            "t5x infer --gin_file=runs/infer_file.gin --gin_file=decoding/pmi_greedy.gin "
            "--gin.CHECKPOINT_PATH={output}/prompt --gin.INPUT_FILE={output}/queries.jsonl "
            f"--gin.KNOWLEDGE=sample --gin.ARGUMENTS_PER_SIDE=1 --gin.BATCH_SIZE={_QUERIES} "
            "--gin.MAX_INPUT_LENGTH=128 --gin.DECODE_LENGTH=96 --gin.NO_REPEAT_NGRAM=16 "
            "--gin.INFER_OUTPUT_DIR={output}/responses",
        ),
        prepare=_write_queries,
    ),
    _Step(
        "Scores of these responses: by words, by inference and by salience",
        "Salience asks the model's gradients which words of the response come from the arguments. "
        "Words that only frame them, such as 'People disagree', score low.",
        {"scores.jsonl": "their scores"},
        (
            "faith-jax score "
            "--scorers=groundedness,npov_rouge1_hallucination,salience_hallucination "
            "--scorer-option=salience_hallucination.model={output}/prompt "
            "--input={output}/responses/predictions.jsonl --output={output}/scores.jsonl",
            f"faith-jax evaluate {{output}}/scores.jsonl --scorers=groundedness --worst={_QUERIES}",
        ),
    ),
    _Step(
        "Heat maps: where do the words of the responses come from?",
        "The words of the arguments are at the side, those of the response below.",
        {
            # The file names that `explain` uses.
            "salience.png" if number == 1 else f"salience-{number}.png": f"heat map {number}"
            for number in range(1, _QUERIES + 1)
        },
        (
            "faith-jax explain --model={output}/prompt "
            "--input={output}/responses/predictions.jsonl --png={output}/salience.png",
        ),
    ),
    _Step(
        "A page of all responses with their scores and salience maps",
        "Rows can be sorted, filtered and read.",
        {"report.html": "the page: open it"},
        (
            "faith-jax report {output}/scores.jsonl --title=Quickstart "
            f"--salience-model={{output}}/prompt --salience-rows={_QUERIES} "
            "--output={output}/report.html",
        ),
    ),
)
