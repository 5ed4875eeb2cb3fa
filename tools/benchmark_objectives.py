"""Compares the costs of training objectives with cross-entropy in one run.

usage: tools/benchmark_objectives.py [--rounds 5] [--shape mini] [--negatives 8] [--json FILE]

A step is loss, gradient and AdamW update, over 16 rows without padding; CTRL's inputs have three
more tokens. The objectives take turns, so that a busy moment of the machine affects all of them,
and each figure is the median of all counted steps. The first step of a turn is not counted: it
reclaims memory that another objective's step released, which a training run does only once. XLA
counts the operations of loss and gradient.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from faith_jax.inference import load_model
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer, initial_variables
from faith_jax.training import optimizers
from faith_jax.training.infonce import InfoNCE
from faith_jax.training.loss_truncation import LossTruncation
from faith_jax.training.objectives import CrossEntropy, Objective
from faith_jax.training.trainer import Trainer

BATCH, CONTROL_TOKENS, STEPS_A_TURN = 16, 3, 3
T5_SMALL = TransformerConfig(
    vocab_size=32128, emb_dim=512, num_heads=6, num_encoder_layers=8, num_decoder_layers=8,
    head_dim=64, mlp_dim=1024, mlp_activations=("gelu", "linear"), dropout_rate=0.1,
)  # fmt: skip
SHAPES = {"mini": "mini", "t5_1_1_small": T5_SMALL}


def tokens(
    config: TransformerConfig, inputs: int, targets: int, negatives: int
) -> dict[str, np.ndarray]:
    """Returns a batch of random tokens, with `negatives` negative texts per row; 0 = none."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.integers(2, config.vocab_size, shape).astype(np.int32)

    target = draw(BATCH, targets)
    batch = {
        "encoder_input_tokens": draw(BATCH, inputs),
        "decoder_input_tokens": np.pad(target[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": target,
    }
    return batch | ({"negatives": draw(BATCH, negatives, targets)} if negatives else {})


def objectives(
    config: TransformerConfig, inputs: int, targets: int, negatives: int
) -> dict[str, tuple[Objective, Mapping[str, np.ndarray]]]:
    """Returns each objective with its batch."""
    plain = tokens(config, inputs, targets, 0)
    return {
        "cross_entropy": (CrossEntropy(), plain),
        "ctrl": (CrossEntropy(), tokens(config, inputs + CONTROL_TOKENS, targets, 0)),
        "loss_truncation": (LossTruncation(warmup_steps=0), plain),
        "infonce": (InfoNCE(), tokens(config, inputs, targets, negatives)),
    }


def training_step(
    module: Transformer, objective: Objective, batch: Mapping[str, np.ndarray]
) -> tuple[Callable[[], None], float]:
    """Returns a function that takes one step, and the FLOPs of its loss and gradient."""
    partitioner = make_partitioner(module.config)
    params = initial_variables(module, jax.random.key(0))["params"]
    trainer = Trainer(module, objective, optimizers.adamw(1e-4), partitioner)
    state = trainer.init_state(partitioner.put(params, partitioner.replicated))
    placed = partitioner.put_batch(dict(batch))

    def loss(params: Any, batch: Any) -> Any:
        prepared = objective.prepare(module, batch, state.objective)
        return objective(module, params, prepared, jax.random.key(1))[0]["loss"]

    compiled = jax.jit(jax.value_and_grad(loss)).lower(params, placed).compile()
    analysis: Any = compiled.cost_analysis()

    def step() -> None:
        nonlocal state
        state, _ = trainer.train_step(state, {}, placed)
        jax.block_until_ready(state)

    return step, float(analysis["flops"])


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5, help="of measurements (default 5)")
    parser.add_argument("--shape", choices=SHAPES, default="mini", help="default mini")
    parser.add_argument("--inputs", type=int, default=256, help="tokens (default 256)")
    parser.add_argument("--targets", type=int, default=64, help="tokens (default 64)")
    parser.add_argument("--negatives", type=int, default=8, help="of a row (default 8)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures here")
    options = parser.parse_args()
    if min(options.rounds, options.inputs, options.targets, options.negatives) < 1:
        parser.error("expected numbers of at least 1")
    shape = SHAPES[options.shape]
    config = load_model(shape).config if isinstance(shape, str) else shape
    module = Transformer(config.replace(dropout_rate=0.1))
    losses = objectives(config, options.inputs, options.targets, options.negatives)
    steps, flops = {}, {}
    for name, (objective, batch) in losses.items():
        print(f"compiling: {name}", file=sys.stderr)
        steps[name], flops[name] = training_step(module, objective, batch)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for name, step in steps.items():
            step()
            for _ in range(STEPS_A_TURN):
                start = time.perf_counter()
                step()
                times[name].append(time.perf_counter() - start)
    report(times, flops, options.json)


def report(
    times: Mapping[str, list[float]], flops: Mapping[str, float], path: pathlib.Path | None
) -> None:
    """Prints the medians and their ratios, and writes them as JSON."""
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'objective':16} {'step':>9} {'time ratio':>11} {'operations ratio':>17}")
    rows = []
    for name, seconds in median.items():
        ratio = seconds / median["cross_entropy"]
        more = flops[name] / flops["cross_entropy"]
        print(f"{name:16} {seconds:7.3f} s {ratio:11.3f} {more:17.3f}")
        rows.append({"objective": name, "seconds": seconds, "time": ratio, "operations": more})
    if path is not None:
        path.write_text(json.dumps({"rows": rows, "seconds": times}, indent=1) + "\n")


if __name__ == "__main__":
    main()
