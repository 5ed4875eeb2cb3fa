"""What methods cost (Steen 2023, table 4): parameters and our speed, kept in files."""

import dataclasses
import itertools
import json
import logging
import pathlib
import time

import jax

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import write_text
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.inference.opening import open_model
from faith_jax.reproduce.nli_methods import BASE, T5
from faith_jax.reproduce.nli_scores import Cells
from faith_jax.runs.setup import count_params

logger = logging.getLogger("faith_jax")

FOLDER = "costs"
TIMED_ROWS = 64
# The rows of the table, in order.
COSTED = ("summac_zs", T5, "q2", BASE, "base_mc", "no_mc", "all")
# Scored between two passes, so that the second one is not remembered.
_OTHER = GroundedExample("other", Grounding(("Nothing is said.",)), (), "It is not said.")


@dataclasses.dataclass(frozen=True)
class MethodCost:
    """What a method costs.

    Attributes:
      millions: parameters of each of its models, in millions.
      examples_per_second: in a second pass, after everything is compiled.
      rows: how many were timed.
      corpus: of which.
      device: on what.
    """

    millions: tuple[float, ...]
    examples_per_second: float
    rows: int
    corpus: str
    device: str


def method_cost(cells: Cells, method: str, corpus: str) -> MethodCost:
    """Returns what a method costs, from the folder or measured.

    Args:
      cells: where it is scored.
      method: of `cells`.
      corpus: whose first rows are timed, scored by the method.

    Raises:
      ConfigError: for a kept file that is not readable.
    """
    path = cells.folder / FOLDER / f"{method}.json"
    if path.exists():
        return _read(path)
    rows = itertools.islice(read_scored_rows(cells.path(corpus, method)), TIMED_ROWS)
    examples = [
        GroundedExample(
            row["id"],
            Grounding(tuple(row["grounding"])),
            tuple(row["history"]),
            row["generated_text"] or "",
        )
        for row in rows
    ]
    scorer = cells.load(method)
    scorer.score(examples)
    scorer.score([_OTHER])
    start = time.perf_counter()
    scorer.score(examples)
    seconds = time.perf_counter() - start
    millions = tuple(
        count_params(open_model(folder).params) / 1e6
        for folder in cells.models.folders(cells.methods[method].model)
    )
    speed = len(examples) / seconds
    device = jax.devices()[0].device_kind
    found = MethodCost(millions, speed, len(examples), corpus, device)
    logger.info("%s: %.3g examples a second (%s)", method, speed, device)
    path.parent.mkdir(exist_ok=True)
    write_text(path, json.dumps(dataclasses.asdict(found), indent=1) + "\n")
    return found


def _read(path: pathlib.Path) -> MethodCost:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return MethodCost(**told | {"millions": tuple(told["millions"])})
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{path}: not readable; remove it, and it is measured again.") from None
