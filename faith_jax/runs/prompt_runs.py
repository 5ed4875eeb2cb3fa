"""Reads prompt-tuned runs for the report: prompts, starts, base model, config and metrics."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faith_jax.checkpoints.checkpoint import content_hash
from faith_jax.checkpoints.native import is_native, params_folder, read_native, run_folder
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import FaithJaxError
from faith_jax.runs.prompt_files import Prompts, read_prompts
from faith_jax.runs.prompt_start import read_prompt_starts, read_start_origin
from faith_jax.runs.run_log import Reference, RunLog, read_settings
from faith_jax.statistics import prompt_health
from faith_jax.statistics.prompt_health import Piece, PromptHealth, RunHealth
from faith_jax.tokenizers.carried import carried_vocabulary
from faith_jax.training.prompt_metrics import GRADIENT_NORMS, MOVEMENTS

UNKNOWN = "unknown"
# What `train` takes where no initialiser is given.
_DEFAULT_START = "sampled_vocabulary"
_BASES_START = "the base's prompt"
_SETTINGS = {
    "seed": "seed",
    "learning_rate": "LEARNING_RATE",
    "steps": "total_steps",
    "task": "MIXTURE_OR_TASK_NAME",
    "lengths": "TASK_FEATURE_LENGTHS",
}


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The pieces that vectors are compared with.

    Attributes:
      embedding: [pieces, embed] of the base model.
      text: of a piece, shown readable.
    """

    embedding: NDArray[np.floating]
    text: Callable[[int], str]


@dataclasses.dataclass(frozen=True)
class _Base:
    """A base model: its embedding, and which prompts it has; or why it cannot be opened."""

    embedding: NDArray[np.floating] | None
    prompts: Sequence[str] = ()
    problem: str = ""


class RunReader:
    """Reads runs; a base model that several have is opened once.

    Args:
      count: how many nearest pieces to look for.
    """

    def __init__(self, count: int):
        self._count = count
        self._bases: dict[tuple[str, str], _Base] = {}

    def read(self, source: str) -> RunHealth:
        """Returns what there is to know of a run.

        Args:
          source: a prompt-tuned MODEL_DIR (its newest step), one of its steps, or another
            checkpoint with a soft prompt.

        Raises:
          CheckpointError: on what cannot be read, or has no prompt.
        """
        prompts = read_prompts(source)
        path = pathlib.Path(source).expanduser()
        folder = run_folder(path) if is_native(path) else path
        step = _step_of(path)
        notes: list[str] = []
        base = self._base(prompts, source, notes)
        vocabulary = _vocabulary(base, source, notes)
        settings, origin = read_settings(folder), read_start_origin(folder)
        starts = read_prompt_starts(folder)
        if starts is None:
            notes.append("its start is unknown: it was not kept with the prompt.")
        log = RunLog(folder, step)
        found = {
            name: _health(
                name, vectors, (starts or {}).get(name), vocabulary, log, self._count, notes
            )
            for name, vectors in prompts.vectors.items()
        }
        return RunHealth(
            name=source,
            step=step,
            initializer=_initializer(origin, settings, base, list(found)),
            settings=_shown(settings) | {k: origin[k] for k in ("seed",) if k in origin},
            base=str((prompts.base or {}).get("content_hash") or ""),
            prompts=found,
            training_loss=log.training("loss"),
            validation_loss=log.validation("loss"),
            notes=tuple(notes),
        )

    def _base(self, prompts: Prompts, source: str, notes: list[str]) -> _Base:
        """Returns the base model's embedding, or that of a model that holds one itself."""
        if prompts.base is None:
            path = pathlib.Path(source).expanduser()
            params = read_native(path).params if is_native(path) else {}
            if "token_embedder" not in params:
                params = open_checkpoint(source).params
            return _Base(params["token_embedder"]["embedding"])
        key = (str(prompts.base.get("path")), str(prompts.base.get("content_hash")))
        if key not in self._bases:
            self._bases[key] = _open_base(*key)
        found = self._bases[key]
        if found.problem:
            notes.append(f"its base model is not compared with: {found.problem}")
        return found


def _open_base(path: str, expected: str) -> _Base:
    try:
        checkpoint = open_checkpoint(path)
    except FaithJaxError as error:
        return _Base(None, problem=str(error))
    if content_hash(checkpoint.params) != expected:
        return _Base(None, problem=f"{path} is another model than the one it was trained on.")
    prompts = [name for name in checkpoint.params if name.endswith("_prompt")]
    return _Base(checkpoint.params["token_embedder"]["embedding"], prompts)


def _vocabulary(base: _Base, source: str, notes: list[str]) -> Vocabulary | None:
    if base.embedding is None:
        return None
    try:
        vocabulary = carried_vocabulary(source)
    except FaithJaxError as error:
        vocabulary = None
        notes.append(f"pieces are shown by their ids: {error}")
    else:
        if vocabulary is None:
            notes.append("pieces are shown by their ids: no tokenizer is kept with it.")
    if vocabulary is None:
        return Vocabulary(base.embedding, lambda token: f"#{token}")
    # Embeddings behind the last piece, which round the table up, were never trained.
    rows = min(len(base.embedding), vocabulary.vocab_size)
    return Vocabulary(base.embedding[:rows], vocabulary.piece_text)


def _health(
    name: str,
    vectors: NDArray[np.float32],
    start: NDArray[np.float32] | None,
    vocabulary: Vocabulary | None,
    log: RunLog,
    count: int,
    notes: list[str],
) -> PromptHealth:
    if start is not None and start.shape != vectors.shape:
        notes.append(f"{name}: its start is unknown: the one that was kept is {start.shape}.")
        start = None
    length = len(vectors)
    cosine, distance = _nearest(vectors, vocabulary, count)
    wide = vectors.astype(np.float64)
    return PromptHealth(
        name=name,
        vectors=wide,
        start=None if start is None else start.astype(np.float64),
        vocabulary=None
        if vocabulary is None
        else prompt_health.vocabulary_norms(wide, vocabulary.embedding),
        start_pieces=_start_pieces(start, length, vocabulary),
        by_cosine=cosine,
        by_distance=distance,
        gradient_norms=log.vectors(name + GRADIENT_NORMS, length),
        movements=log.vectors(name + MOVEMENTS, length),
    )


def _nearest(
    vectors: NDArray[np.float32], vocabulary: Vocabulary | None, count: int
) -> tuple[list[list[Piece]], list[list[Piece]]]:
    if vocabulary is None:
        return [[] for _ in vectors], [[] for _ in vectors]
    both = []
    for search in (prompt_health.nearest_by_cosine, prompt_health.nearest_by_distance):
        ids, values = search(vectors, vocabulary.embedding, count)
        both.append(
            [
                [
                    Piece(int(i), vocabulary.text(int(i)), float(v))
                    for i, v in zip(*row, strict=True)
                ]
                for row in zip(ids, values, strict=True)
            ]
        )
    return both[0], both[1]


def _start_pieces(
    start: NDArray[np.float32] | None, length: int, vocabulary: Vocabulary | None
) -> list[str]:
    if start is None or vocabulary is None:
        return [""] * length
    rows = prompt_health.rows_that_are(start, vocabulary.embedding)
    return ["" if row is None else vocabulary.text(row) for row in rows]


def _step_of(path: pathlib.Path) -> int | None:
    if not is_native(path):
        return None
    step = params_folder(path).parent
    return int(step.name) if step.name.isdigit() and step.parent.name == "checkpoints" else None


def _initializer(
    origin: Mapping[str, str], settings: dict[str, Any] | None, base: _Base, names: Sequence[str]
) -> str:
    """Returns the start's name: as it was kept with it, or else what gin's config refers to.

    A run that was gone on with has the config of its last command.
    """
    if any(name in base.prompts for name in names):
        return _BASES_START
    if "initializer" in origin:
        return origin["initializer"]
    if settings is None or "prompt_initializer" not in settings:
        return UNKNOWN
    found = settings["prompt_initializer"]
    if isinstance(found, Reference):
        return found.name.rsplit("/", 1)[-1].rsplit(".", 1)[-1]
    return _DEFAULT_START if found is None else UNKNOWN


def _shown(settings: dict[str, Any] | None) -> dict[str, str]:
    found = {name: (settings or {}).get(key) for name, key in _SETTINGS.items()}
    return {
        name: str(value)
        for name, value in found.items()
        if value is not None and not isinstance(value, Reference)
    }
