"""What training logs of each vector of a soft prompt: its gradient, and its way from its start."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from faith_jax.checkpoints.checkpoint import PROMPTS
from faith_jax.core.types import Array, PyTree

GRADIENT_NORMS, MOVEMENTS, MOVED = "_gradient_norms", "_movements", "_moved"


def prompt_gradient_norms(gradient: PyTree) -> dict[str, Array]:
    """Returns the L2 norms of the gradients of trained prompts, by vector.

    Args:
      gradient: of the trained parameters.

    Returns:
      {"encoder_prompt_gradient_norms": float32 [length]}; empty where no prompt is trained.
    """
    return {
        name + GRADIENT_NORMS: jnp.linalg.norm(
            gradient[name]["embedding"].astype(jnp.float32), axis=-1
        )
        for name in PROMPTS
        if name in gradient
    }


def trained_prompts(params: PyTree) -> dict[str, NDArray[np.float32]]:
    """Returns copies of the prompts among trained parameters, [length, embed] by their names."""
    # Copies: a step may use the parameters' memory for the next ones.
    return {n: np.array(params[n]["embedding"], np.float32) for n in PROMPTS if n in params}


def prompt_movement(
    params: PyTree, starts: Mapping[str, NDArray[np.float32]]
) -> dict[str, float | list[float]]:
    """Returns how far prompts are from their starts.

    Args:
      params: the trained parameters.
      starts: float32 [length, embed] by the prompts' names.

    Returns:
      For each prompt, "encoder_prompt_moved", the L2 distance relative to the start's norm (the
      distance itself from a start of zeros), and "encoder_prompt_movements", the L2 distance of
      each vector: [length].
    """
    found: dict[str, float | list[float]] = {}
    for name, start in starts.items():
        way = np.asarray(params[name]["embedding"], np.float32) - start
        moved, length = float(np.linalg.norm(way)), float(np.linalg.norm(start))
        found[name + MOVED] = moved / length if length else moved
        found[name + MOVEMENTS] = np.linalg.norm(way, axis=-1).tolist()
    return found
