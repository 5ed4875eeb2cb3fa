"""What scorers cost: the parameters of their models, and how many rows they score a second."""

import itertools
import json
import time
from collections.abc import Mapping
from typing import Any

from faith_jax.core.files import write_text
from faith_jax.core.rows import BadRows
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.input.score_input import ScoreInput
from faith_jax.scoring.base import BaseScorer

TIMED_ROWS = 64
# The options of scorers that name a model.
_MODELS = ("model", "answer_model", "nli_model")
# Scored between two passes, so that the second one is not remembered.
_OTHER = GroundedExample("other", Grounding(("Nothing is said.",)), (), "It is not said.")


def write_costs(
    path: str,
    scorers: Mapping[str, BaseScorer],
    options: Mapping[str, Mapping[str, Any]],
    given: ScoreInput,
) -> None:
    """Writes by scorer what it costs, measured on the first rows of the first corpus.

    `millions` are the parameters of each of its models, `examples_per_second` of a second pass over
    as many `rows` of the `corpus` on a `device`, after everything is compiled.

    Args:
      path: of the JSON file.
      scorers: by name.
      options: of each, in the same order.
      given: the rows.
    """
    import jax

    rows = list(itertools.islice(given.rows(BadRows(skip=True)), TIMED_ROWS))
    examples = [row.example for row in rows if row.corpus == rows[0].corpus]
    found = {}
    for (name, scorer), told in zip(scorers.items(), options.values(), strict=True):
        scorer.score(examples)
        scorer.score([_OTHER])
        start = time.perf_counter()
        scorer.score(examples)
        seconds = time.perf_counter() - start
        folders = dict.fromkeys(told[it] for it in _MODELS if told.get(it))
        found[name] = {
            "millions": [_millions(folder) for folder in folders],
            "examples_per_second": len(examples) / seconds,
            "rows": len(examples),
            "corpus": rows[0].corpus,
            "device": jax.devices()[0].device_kind,
        }
    write_text(path, json.dumps(found, indent=1) + "\n")


def _millions(model: str) -> float:
    from faith_jax.inference.opening import open_model
    from faith_jax.runs.setup import count_params

    return count_params(open_model(model).params) / 1e6
