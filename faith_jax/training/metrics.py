"""Metrics of a training run: measurements of soft prompts, and the files with all metrics."""

import json
import math
import numbers
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from faith_jax.checkpoints.checkpoint import PROMPTS
from faith_jax.core.files import write_text
from faith_jax.core.files.staging import Mirror
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.types import Array, PyTree

METRICS = "metrics.jsonl"
DECODED = "_decoded"  # ends the part of metrics of decoded responses in metrics.jsonl
FAILED = "failed"  # key in a line of metrics.jsonl: which metrics of a user's task failed, and why
GRADIENT_NORMS, MOVEMENTS, MOVED = "_gradient_norms", "_movements", "_moved"


def prompt_gradient_norms(gradient: PyTree) -> dict[str, Array]:
    """Returns the L2 norms of the gradients of trained prompts, one for each vector.

    For example {"encoder_prompt_gradient_norms": float32 [length]}; empty without trained prompts.
    """
    return {
        # In float32, because a sum of many squares in bfloat16 would lose small values.
        name + GRADIENT_NORMS: jnp.linalg.norm(
            gradient[name]["embedding"].astype(jnp.float32), axis=-1
        )
        for name in PROMPTS
        if name in gradient
    }


def trained_prompts(params: PyTree) -> dict[str, NDArray[np.float32]]:
    """Returns copies of the prompts among trained parameters, [length, embed], by name."""
    # Copies, because the next step may reuse the parameters' memory.
    return {n: np.array(params[n]["embedding"], np.float32) for n in PROMPTS if n in params}


def prompt_movement(
    params: PyTree, starts: Mapping[str, NDArray[np.float32]]
) -> dict[str, float | list[float]]:
    """Measures how far prompts are from their initial values `starts`, float32 [length, embed].

    Returns:
      For each prompt, "encoder_prompt_moved", the L2 distance relative to the norm of the initial
      value (or the distance itself if the norm is 0), and "encoder_prompt_movements", the L2
      distance of each vector: [length].
    """
    distances: dict[str, float | list[float]] = {}
    for name, start in starts.items():
        way = np.asarray(params[name]["embedding"], np.float32) - start
        # Frobenius norms of the change of all vectors together, and of their initial value.
        moved, length = float(np.linalg.norm(way)), float(np.linalg.norm(start))
        distances[name + MOVED] = moved / length if length else moved
        distances[name + MOVEMENTS] = np.linalg.norm(way, axis=-1).tolist()
    return distances


def json_value(value: Any) -> Any:
    """Returns a metric's value for JSON: a number, a text, or a list of numbers with six digits.

    SeqIO's histograms and tensors become lists of numbers; its images and sounds become shapes.
    """
    if isinstance(value, str | None):
        return value
    if isinstance(value, numbers.Real):
        return float(value)
    # Recognised by their attributes, because importing SeqIO's classes would import TensorFlow.
    for medium in ("image", "audiodata"):
        if hasattr(value, medium):
            return {"shape": list(np.shape(getattr(value, medium)))}
    # SeqIO's histograms have an attribute `values`, its tensors an attribute `tensor`.
    array = np.asarray(getattr(value, "values", getattr(value, "tensor", value)))
    digits = np.vectorize(lambda x: float(f"{x:.6g}"), otypes=[float])
    return digits(array.astype(float)).tolist() if array.size else []


class MetricsWriter:
    """Writes metrics by step.

    Each line of MODEL_DIR/metrics.jsonl is {"step": 100, "part": "train", "loss": 1.5, …}.
    TensorBoard events go to MODEL_DIR/tensorboard/<part>, except metrics of several numbers. If
    MODEL_DIR is on a store, both are copied there every half minute and at the end.

    Args:
      folder: MODEL_DIR; None = console only (processes other than the first).
      start_step: lines of later steps, left by a killed run, are dropped, because those steps will
        run again.
    """

    def __init__(self, folder: str | pathlib.Path | None, start_step: int = 0):
        self._folder = None if folder is None else path_of(folder)
        self._writers: dict[str, Any] = {}
        self._file = self._mirror = None
        if self._folder is not None:
            path = self._folder / METRICS
            if path.exists():
                # A line without a step was not written by this class and is dropped.
                kept_lines = [
                    line
                    for line, row in read_metric_lines(path)
                    if row.get("step", math.inf) <= start_step
                ]
                write_text(path, "".join(line + "\n" for line in kept_lines))
            if is_remote(self._folder):
                # Stores cannot append to files, so lines go to a local file, which is copied as it
                # grows.
                self._mirror = Mirror(self._folder)
                self._folder = self._mirror.folder
                if path.exists():
                    (self._folder / METRICS).write_bytes(path.read_bytes())
            self._file = (self._folder / METRICS).open("a", encoding="utf-8")

    def write(self, step: int, part: str, metrics: Mapping[str, Any]) -> None:
        """Writes one line of a part ("train", "validation", "validation_decoded" …).

        Lists of numbers, such as one for each vector of a prompt, have six digits. Metrics of
        users' tasks may also be texts and values of `seqio.metrics`.
        """
        if self._file is None or self._folder is None:
            return
        lines = {name: json_value(value) for name, value in metrics.items()}
        self._file.write(json.dumps({"step": step, "part": part, **lines}) + "\n")
        # Flushed, because a resumed run reads the metrics of the killed one.
        self._file.flush()
        if part not in self._writers:
            # Imported here, because it imports TensorFlow, which a GPU container may lack.
            from clu import metric_writers

            tensorboard_folder = self._folder / "tensorboard" / part
            self._writers[part] = metric_writers.SummaryWriter(str(tensorboard_folder))
        tensorboard = self._writers[part]
        # TensorBoard's curves show single numbers.
        scalars = {k: float(v) for k, v in metrics.items() if isinstance(v, numbers.Real)}
        tensorboard.write_scalars(step, scalars)
        for name, value in metrics.items():
            if isinstance(value, str):
                tensorboard.write_texts(step, {name: value})
            elif hasattr(value, "image"):
                tensorboard.write_images(step, {name: np.asarray(value.image)})
            elif hasattr(value, "audiodata"):
                audio = {name: np.asarray(value.audiodata)}
                tensorboard.write_audios(step, audio, sample_rate=value.sample_rate)
            elif hasattr(value, "bins"):
                bins = {name: value.bins} if value.bins else None
                tensorboard.write_histograms(step, {name: np.asarray(value.values)}, bins)
        if self._mirror is not None:
            self._mirror.copy()

    def close(self) -> None:
        """Flushes and closes all files."""
        if self._file is not None:
            self._file.close()
        for writer in self._writers.values():
            writer.close()
        if self._mirror is not None:
            self._mirror.close()


def is_measured(folder: pathlib.Path, step: int, part: str) -> bool:
    """Whether metrics.jsonl has all metrics of a part at a step, without failures."""
    return any(
        (row.get("step"), row.get("part")) == (step, part) and FAILED not in row
        for _, row in read_metric_lines(folder / METRICS)
    )


def losses_until(folder: pathlib.Path, step: int, part: str) -> list[float]:
    """Returns the losses of a part in metrics.jsonl up to a step, in order; NaN if one is missing.

    Each step counts once, with its last line. Training lines, whose part may have the same name,
    have a gradient norm and do not count.
    """
    loss_by_step = {
        row["step"]: float(row.get("loss", math.nan))
        for _, row in read_metric_lines(folder / METRICS)
        if row.get("part") == part
        and "gradient_norm" not in row
        and row.get("step", math.inf) <= step
    }
    return [loss_by_step[at] for at in sorted(loss_by_step)]


def no_longer_falls(losses: Sequence[float], patience: int | None) -> bool:
    """Whether none of the last `patience` losses is below all earlier ones; None = never.

    >>> no_longer_falls([3.0, 1.0, 2.0, 1.5], 2), no_longer_falls([3.0, 1.0, 2.0, 0.5], 2)
    (True, False)
    """
    if patience is None or len(losses) <= patience:
        return False
    # A loss of NaN counts as the worst; `min` with NaN would depend on the order.
    losses_or_inf = [math.inf if math.isnan(loss) else loss for loss in losses]
    return min(losses_or_inf[-patience:]) >= min(losses_or_inf[:-patience])


def read_metric_lines(path: pathlib.Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the complete lines of metrics.jsonl, as text and parsed."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue  # a line that was cut when the run was killed
        if isinstance(row, dict):
            yield line, row
