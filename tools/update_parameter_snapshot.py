"""Writes the names, shapes, dtypes and logical axes of the model's parameters as JSON.

    python tools/update_parameter_snapshot.py

tests/models/test_parameters.py compares the model with tests/testdata/parameters.json. Rewrite this
file only for an intended change of the parameters: every checkpoint saved before then stops
loading, unless an importer renames its parameters. T5X's own names (t5x_parameters.json beside it)
come from tools/compare_with_t5x.py and never change with ours.
"""

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import traverse_util

from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "testdata"
SNAPSHOT = TESTDATA / "parameters.json"

# Every dimension is different, so that swapped axes are noticed.
_DIMENSIONS = {
    "vocab_size": 50,
    "emb_dim": 8,
    "num_heads": 3,
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
    "head_dim": 4,
    "mlp_dim": 20,
}
_GATED = _DIMENSIONS | {"mlp_activations": ["gelu", "linear"]}
CONFIGS: dict[str, dict[str, Any]] = {
    "t5_1_0": _DIMENSIONS | {"mlp_activations": ["relu"], "logits_via_embedding": True},
    "t5_1_1": _GATED,
    "t5_1_1_scanned": _GATED | {"scan_layers": True},
    "t5_1_1_prompts": _GATED | {"encoder_prompt_length": 5, "decoder_prompt_length": 6},
}


def parameters(module: Any) -> dict[str, dict[str, Any]]:
    """Returns each parameter's shape, dtype and logical axes, without computing its values."""
    tokens = jnp.ones((1, 4), jnp.int32)
    init = functools.partial(module.init, enable_dropout=False)
    variables = jax.eval_shape(init, jax.random.key(0), tokens, tokens, tokens)
    axes = traverse_util.flatten_dict(variables["params_axes"], sep="/")
    return {
        name: {
            "shape": list(leaf.shape),
            "dtype": str(leaf.dtype),
            "axes": list(axes[f"{name}_axes"].names),
        }
        for name, leaf in sorted(traverse_util.flatten_dict(variables["params"], sep="/").items())
    }


def snapshot(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a config and the parameters of its model."""
    module = Transformer(TransformerConfig.from_dict(config))
    return {"config": dict(config), "parameters": parameters(module)}


def write(path: pathlib.Path, snapshots: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes snapshots as JSON with one parameter per line."""
    parts = []
    for name, part in snapshots.items():
        lines = [f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in part["parameters"].items()]
        parts.append(
            f' {json.dumps(name)}: {{\n  "config": {json.dumps(part["config"])},\n'
            '  "parameters": {\n' + ",\n".join(lines) + "\n  }\n }"
        )
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    write(SNAPSHOT, {name: snapshot(config) for name, config in CONFIGS.items()})
