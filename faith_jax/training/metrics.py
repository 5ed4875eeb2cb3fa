"""Metrics of a run: to the console, to TensorBoard and to a JSONL file."""

import json
import logging
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.files import written_whole

logger = logging.getLogger("faith_jax")


class MetricsWriter:
    """Writes metrics by step.

    Each line of MODEL_DIR/metrics.jsonl is {"step": 100, "part": "train", "loss": 1.5, …}.
    TensorBoard events go to MODEL_DIR/tensorboard/<part>, but for metrics of several numbers.

    Args:
      folder: MODEL_DIR; None = console only (processes other than the first).
      start_step: lines of later steps, which a killed run left, are dropped: those steps will
        be taken again.
    """

    def __init__(self, folder: str | pathlib.Path | None, start_step: int = 0):
        self._folder = None if folder is None else pathlib.Path(folder)
        self._writers: dict[str, Any] = {}
        self._file = None
        if self._folder is not None:
            path = self._folder / "metrics.jsonl"
            _drop_later_steps(path, start_step)
            self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, part: str, metrics: Mapping[str, float | Sequence[float]]) -> None:
        """Writes one line of a part ("train", "validation", "validation_decoded" …).

        Args:
          step: that was taken.
          part: of the data.
          metrics: numbers by name, or several for each vector of a prompt, with six digits.
        """
        if self._file is None or self._folder is None:
            return
        scalars = {k: float(v) for k, v in metrics.items() if not isinstance(v, Sequence)}
        several = {
            k: [float(f"{x:.6g}") for x in v] for k, v in metrics.items() if isinstance(v, Sequence)
        }
        self._file.write(json.dumps({"step": step, "part": part, **scalars, **several}) + "\n")
        self._file.flush()
        self._tensorboard(self._folder, part).write_scalars(step, scalars)

    def _tensorboard(self, folder: pathlib.Path, part: str) -> Any:
        if part not in self._writers:
            # Imported here: it brings TensorFlow, which a GPU container may lack.
            from clu import metric_writers

            self._writers[part] = metric_writers.SummaryWriter(str(folder / "tensorboard" / part))
        return self._writers[part]

    def close(self) -> None:
        """Flushes and closes all files."""
        if self._file is not None:
            self._file.close()
        for writer in self._writers.values():
            writer.close()


def _drop_later_steps(path: pathlib.Path, start_step: int) -> None:
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue  # a line that was cut when the run was killed
        if isinstance(row, dict) and row.get("step", math.inf) <= start_step:
            kept.append(line)
    with written_whole(path) as beside:
        beside.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
