"""The command `quickstart`: the main job on the embedded sample, step by step, in one process.

Its steps are the command lines of other commands, so each is what the user can run alone.
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
from typing import Any, ClassVar, NamedTuple

from faith_jax.cli.shared import resumable, show
from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.settings import Positive

NOTE = "quickstart.json"  # in OUTPUT: the options, and the steps that are finished
LOG = "quickstart.log"
_QUERIES = 4
# Of an input and of a response, in tokens: what the sample's arguments, one a side, take.
_INPUT, _RESPONSE = 128, 96


class _Step(NamedTuple):
    """A step of the quickstart.

    Attributes:
      title: says what it does.
      reason: says why, in a sentence or two.
      outputs: the files and folders that it makes, with what they are.
      commands: its command lines, the program first.
      prepare: writes their input.
      result: returns the lines that tell the outcome.
    """

    title: str
    reason: str
    outputs: dict[str, str]
    commands: tuple[tuple[str, ...], ...]
    prepare: Callable[[], None] = lambda: None
    result: Callable[[], Iterator[str]] = lambda: iter(())


@dataclasses.dataclass(frozen=True)
class Quickstart:
    """Shows the main job on the embedded sample: scores, training, responses, a heat map, a page.

    Scores eight answers, some of them wrong; prompt-tunes the embedded model mini; lets it respond
    to queries with PMI-Decode; scores the responses, and shows where their words come from. Each
    step prints the commands that do the same alone. A run that was stopped goes on behind its last
    finished step when the same command is given again.

    Attributes:
      output (OUTPUT): a new folder, or that of the run to go on with
      steps (N): of training

    Examples:
      %(prog)s
      %(prog)s runs/first --steps=40
    """

    opens_checkpoints: ClassVar = True
    output: str = "runs/quickstart"
    _: dataclasses.KW_ONLY
    steps: Positive = 20

    def run(self) -> int:
        from faith_jax.core.files import working_folder
        from faith_jax.core.files.stores import is_remote, path_of

        if is_remote(path_of(self.output)):
            raise ConfigError(f"OUTPUT: {self.output}: expected a folder of this machine.")
        with working_folder(self.output, "OUTPUT") as (folder, _):
            begun = resumable(
                lambda: self._run(folder),
                lambda: f"finished steps are kept in {folder}; the same command goes on there.",
            )
        return begun

    def _run(self, folder: pathlib.Path) -> int:
        from faith_jax.core.files import write_json

        steps = self._steps(folder)
        finished = self._finished_steps(folder, steps)
        options = {"steps": self.steps}
        start = time.monotonic()
        if finished == len(steps):
            show(f"{folder} is finished; remove it to begin anew.")
        elif finished:
            show(f"{folder}: steps 1 to {finished} are finished; going on with the next.")
        else:
            write_json(folder / NOTE, {"options": options, "finished": 0})
        for number, step in enumerate(steps[finished:], finished + 1):
            if status := _take(step, f"{number}/{len(steps)}", folder):
                return status
            write_json(folder / NOTE, {"options": options, "finished": number})
        if finished < len(steps):
            show(f"\nAll {len(steps)} steps took {time.monotonic() - start:.0f} s.")
        for step in steps:
            for name, contents in step.outputs.items():
                show(f"  {contents:30} {folder / name}")
        return 0

    def _finished_steps(self, folder: pathlib.Path, steps: list[_Step]) -> int:
        """Returns how many steps a former run has finished, whose outputs are all there.

        Raises:
          ConfigError: the folder holds something else, or a run with other options.
        """
        from faith_jax.core.files import has_contents, read_json_or_none

        note = read_json_or_none(folder / NOTE)
        if note is None:
            if has_contents(folder):
                raise ConfigError(
                    f"OUTPUT: {folder} holds something else than a quickstart; name a new folder."
                )
            return 0
        if note.get("options") != {"steps": self.steps}:
            former = note.get("options", {}).get("steps")
            raise ConfigError(
                f"OUTPUT: {folder} holds a quickstart with --steps={former}; give the same, or "
                "name a new folder."
            )
        for number, step in enumerate(steps[: note["finished"]]):
            if not all((folder / name).exists() for name in step.outputs):
                return number
        return int(note["finished"])

    def _steps(self, folder: pathlib.Path) -> list[_Step]:
        def at(name: str) -> str:
            return str(folder / name)

        predictions, salience = "responses/predictions.jsonl", "salience_hallucination"
        return [
            _Step(
                "Which of eight answers say what their passages do not?",
                "groundedness joins words, numbers and inference by mini_nli, a model inside the "
                "package. Higher = better supported; what a passage does not say is in [brackets].",
                {"answers.csv": "eight answers", "answers.jsonl": "their scores"},
                (
                    ("faith-jax", "score", "--scorers=groundedness")
                    + (f"--input={at('answers.csv')}", f"--output={at('answers.jsonl')}"),
                    ("faith-jax", "evaluate", at("answers.jsonl"), "--worst=4"),
                ),
                prepare=lambda: _write_answers(folder / "answers.csv"),
            ),
            _Step(
                f"Prompt-tuning mini for {counted(self.steps, 'step')}",
                "The model is frozen: only five soft tokens in front of its input learn, to tell "
                "the arguments for and against (Chang 2024).",
                {"prompt": "the prompt (MODEL_DIR)"},
                (
                    ("t5x", "train", "--gin_file=quickstart.gin", f"--gin.MODEL_DIR={at('prompt')}")
                    + (f"--gin.TRAIN_STEPS={self.steps}", "--gin.EVAL_BEFORE_TRAINING=True")
                    + ("--gin.DECODING=None",),
                ),
                result=lambda: _losses(folder / "prompt", self.steps),
            ),
            _Step(
                f"Responding to {_QUERIES} queries that are not in the training data",
                "PMI-Decode (Nandwani 2023) prefers words that the arguments make likely to words "
                "that are likely anyway.",
                {"queries.jsonl": "queries", predictions: "responses"},
                (
                    ("t5x", "infer", "--gin_file=runs/infer_file.gin")
                    + ("--gin_file=decoding/pmi_greedy.gin",)
                    + (f"--gin.CHECKPOINT_PATH={at('prompt')}",)
                    + (f"--gin.INPUT_FILE={at('queries.jsonl')}", "--gin.KNOWLEDGE=sample")
                    + ("--gin.ARGUMENTS_PER_SIDE=1", f"--gin.BATCH_SIZE={_QUERIES}")
                    + (f"--gin.MAX_INPUT_LENGTH={_INPUT}", f"--gin.DECODE_LENGTH={_RESPONSE}")
                    + ("--gin.NO_REPEAT_NGRAM=16", f"--gin.INFER_OUTPUT_DIR={at('responses')}"),
                ),
                prepare=lambda: _write_queries(folder / "queries.jsonl"),
                result=lambda: _first_response(folder / predictions),
            ),
            _Step(
                "Scoring the responses by words, by inference and by salience",
                "Salience asks the gradients of the model how much of each word comes from the "
                "arguments.",
                {"scores.jsonl": "their scores"},
                (
                    ("faith-jax", "score")
                    + (f"--scorers=groundedness,npov_rouge1_hallucination,{salience}",)
                    + (f"--scorer-option={salience}.model={at('prompt')}",)
                    + (f"--input={at(predictions)}", f"--output={at('scores.jsonl')}"),
                    ("faith-jax", "evaluate", at("scores.jsonl"), f"--worst={_QUERIES}"),
                ),
            ),
            _Step(
                "Where do the words of the responses come from?",
                "A heat map of each response: the words of the arguments at the side, those of the "
                "response on top.",
                {"salience.png": "heat maps"},
                (
                    (
                        "faith-jax",
                        "explain",
                        f"--model={at('prompt')}",
                    )
                    + (f"--input={at(predictions)}", f"--png={at('salience.png')}"),
                ),
            ),
            _Step(
                "One page with tables, examples and salience maps",
                "Open it in a browser: rows can be sorted, filtered and searched.",
                {"report.html": "the page: open it"},
                (
                    ("faith-jax", "report", at("scores.jsonl"), "--title=Quickstart")
                    + (f"--salience-model={at('prompt')}", f"--salience-rows={_QUERIES}")
                    + (f"--output={at('report.html')}",),
                ),
            ),
        ]


def _take(step: _Step, number: str, folder: pathlib.Path) -> int:
    """Takes a step and tells of it; returns the exit status."""
    from faith_jax import cli

    show(f"\n{number}  {step.title}")
    show(textwrap.indent(textwrap.fill(step.reason, 96), "     "))
    sys.stdout.flush()
    start = time.monotonic()
    step.prepare()
    for program, *arguments in step.commands:
        show(f"     $ {shlex.join([program, *arguments])}")
        sys.stdout.flush()
        main = cli.t5x_main if program == "t5x" else cli.main
        with _logging_to(folder / LOG):
            if status := main(arguments):
                return status
    for line in step.result():
        show(line)
    show(f"     {time.monotonic() - start:.1f} s")
    return 0


@contextlib.contextmanager
def _logging_to(path: pathlib.Path) -> Iterator[None]:
    """Within, all that is logged goes to a file; warnings and progress are shown too."""
    from faith_jax.cli import LogFormat

    def is_shown(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.module == "progress"

    root = logging.getLogger()
    shown, file = list(root.handlers), logging.FileHandler(path, encoding="utf-8")
    file.setFormatter(LogFormat("%(asctime)s %(message)s", "%H:%M:%S"))
    for handler in shown:
        handler.addFilter(is_shown)
    root.addHandler(file)
    try:
        yield
    finally:
        root.removeHandler(file)
        file.close()
        for handler in shown:
            handler.removeFilter(is_shown)


def _write_answers(path: pathlib.Path) -> None:
    from faith_jax.core.files import write_text
    from faith_jax.datasets.samples import ANSWERS

    write_text(path, ANSWERS.read_text(encoding="utf-8"))


def _write_queries(path: pathlib.Path) -> None:
    """Writes questions of the sample's test split, whose arguments `infer` looks up."""
    from faith_jax.core.files import write_jsonl
    from faith_jax.datasets import npov

    topics = [topic for topic in npov.load_topics("sample") if topic.split == "test"]
    write_jsonl(path, ({"id": t.id, "query": t.question} for t in topics[:_QUERIES]))


def _losses(folder: pathlib.Path, step: int) -> Iterator[str]:
    """Yields the loss on the validation data before the first step and after the last."""
    from faith_jax.training.metrics import losses_until

    losses = losses_until(folder, step, "validation")
    yield (
        f"     validation loss {losses[0]:.3f} before, {losses[-1]:.3f} after "
        f"{counted(step, 'step')} (nats a token)"
    )


def _first_response(path: pathlib.Path) -> Iterator[str]:
    """Yields the first query with its arguments and the response."""
    from faith_jax.core.rows import read_jsonl

    row: dict[str, Any] = next(read_jsonl(path)).fields
    for title, text in (
        ("query", row["query"]),
        ("for", " ".join(row["pro_arguments"])),
        ("against", " ".join(row["con_arguments"])),
        ("response", row["prediction"]),
    ):
        yield textwrap.fill(
            f"{title}: {text}", 96, initial_indent="     ", subsequent_indent="       "
        )
