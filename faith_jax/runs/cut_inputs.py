"""How much of a task's inputs is too long and will be cut: counted and said before training."""

import dataclasses
import logging

import numpy as np

from faith_jax.models.config import TransformerConfig
from faith_jax.runs.datasets import (
    DatasetConfig,
    all_examples,
    pair_batches,
    readable,
    target_too_long,
)

logger = logging.getLogger("faith_jax")


def count_cut(config: DatasetConfig, sample: int = 1000) -> dict[str, float]:
    """Counts how far inputs exceed their limit, over the first `sample` examples.

    Returns:
      {"examples", "examples_cut", "tokens", "tokens_cut"} of the inputs, and {"negatives",
      "negatives_cut"}, texts.

    Raises:
      InputError: on a target among them that is longer than its limit.
    """
    limit = config.task_feature_lengths["inputs"]
    dataset = all_examples(dataclasses.replace(config, shuffle=False), num_epochs=1)
    totals: dict[str, float] = dict.fromkeys(
        ("examples", "examples_cut", "tokens", "tokens_cut", "negatives", "negatives_cut"), 0
    )
    most, longest = config.task_feature_lengths.get("negatives", (0, 0))
    for example in readable(dataset.take(sample), config):
        length = len(example["inputs"])
        totals["examples"] += 1
        totals["tokens"] += length
        totals["examples_cut"] += length > limit
        totals["tokens_cut"] += max(0, length - limit)
        if most:  # a task of other objectives may have them as texts
            lengths = np.count_nonzero(example["negatives"][:most], axis=-1)
            totals["negatives"] += len(lengths)
            totals["negatives_cut"] += int(np.sum(lengths > longest))
        if len(example["targets"]) > config.task_feature_lengths["targets"]:
            identifier = example.get("id", b"?")
            shown = identifier.decode() if isinstance(identifier, bytes) else str(identifier)
            raise target_too_long(config, shown, len(example["targets"]))
    return totals


def warn_of_cut(config: DatasetConfig, model: TransformerConfig) -> None:
    """Says how much of the first examples is too long, where it is.

    Raises:
      InputError: see `count_cut`.
      ConfigError: see `pair_batches`.
    """
    if model.is_encoder_only:
        examples = all_examples(dataclasses.replace(config, shuffle=False), num_epochs=1)
        pair_batches(config, model).warn_of_cut(examples)
        return
    cut, lengths = count_cut(config), config.task_feature_lengths
    if cut["examples_cut"]:
        logger.warning(
            "%d of the first %d inputs are cut to %d tokens (%.1f%% of their tokens)",
            cut["examples_cut"],
            cut["examples"],
            lengths["inputs"],
            100 * cut["tokens_cut"] / cut["tokens"],
        )
    if cut["negatives_cut"]:
        logger.warning(
            "%d of the first %d negatives are cut to %d tokens",
            cut["negatives_cut"],
            cut["negatives"],
            lengths["negatives"][1],
        )
