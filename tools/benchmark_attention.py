"""Compares plain attention with blockwise attention: seconds and memory of a layer's gradient.

The layer has the shape of T5-v1.1-base (12 heads of 64) and T5's position bias, causal, float32,
one row. Each time is the shortest of several runs, without compilation. Plain attention over 8,192
tokens takes 11 GiB with 12 heads, and a third of that with --heads 4.

    python tools/benchmark_attention.py --lengths 512 2048 8192 --blocks 0 256 512 1024
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer, initial_variables

CONFIG = TransformerConfig(
    vocab_size=256, emb_dim=768, num_heads=12, head_dim=64, mlp_dim=8, num_encoder_layers=0,
    num_decoder_layers=1, mlp_activations=("gelu", "linear"),
)  # fmt: skip


def least_seconds(function: Callable[..., Any], *arguments: Any, runs: int) -> float:
    """Returns the seconds of the shortest of several calls, after one that is not counted."""
    jax.block_until_ready(function(*arguments))
    durations = []
    for _ in range(runs):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        durations.append(time.perf_counter() - start)
    return min(durations)


def measured(config: TransformerConfig, length: int, runs: int) -> dict[str, float]:
    """Returns seconds and MiB of temporaries, forward and for the gradient of all parameters."""
    module = Transformer(config)
    params = initial_variables(module, jax.random.key(0))["params"]
    tokens = jnp.ones((1, length), jnp.int32)

    def loss(params: Any, tokens: Any) -> Any:
        hidden: Any = module.apply(
            {"params": params}, None, None, tokens, enable_dropout=False, method="decode_hidden"
        )
        return jnp.sum(hidden**2)

    figures = {}
    for name, function in {"forward": loss, "gradient": jax.grad(loss)}.items():
        compiled = jax.jit(function).lower(params, tokens).compile()
        memory: Any = compiled.memory_analysis()
        figures[f"{name} (s)"] = least_seconds(compiled, params, tokens, runs=runs)
        figures[f"{name} (MiB)"] = memory.temp_size_in_bytes / 2**20
    return figures


def main() -> None:
    """Prints a line for each length and block length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--blocks", type=int, nargs="+", default=[0, 512], help="0 = plain")
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    for length in options.lengths:
        for block_length in options.blocks:
            config = CONFIG.replace(num_heads=options.heads, attention_block_length=block_length)
            measurements = measured(config, length, options.runs)
            numbers = ", ".join(f"{name} {value:.3g}" for name, value in measurements.items())
            print(f"length {length}, blocks of {block_length}: {numbers}", flush=True)


if __name__ == "__main__":
    main()
