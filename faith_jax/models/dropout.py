"""Dropout whose random numbers are drawn once for all places of a layer.

A call of JAX's generator is a hundred instructions or a loop of XLA. With calls in each place of
each layer, random numbers took more than half of the time to compile a training step of T5.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.types import Array
from faith_jax.models.partitioning import with_sharding_constraint


class Place(NamedTuple):
    """A place of a layer where values are dropped.

    Attributes:
      rate: share of the values that are dropped.
      shape: the shape of a row's mask, which is broadcast to the row's values.
      axes: the logical names of these axes.
    """

    rate: float
    shape: tuple[int, ...]
    axes: tuple[str | None, ...]


# What a layer draws, by the name of the place: a boolean mask [rows, ...], True = keep, or a random
# key where each value has its own mask, which would take much memory. Without a draw, nothing is
# dropped.
Draws = Mapping[str, Array]


def draw_dropout(key: Array, rows: int, places: Mapping[str, Place], broadcast: bool) -> Draws:
    """Returns the draws of the places with a rate above 0, by name.

    Args:
      key: a random key.
      rows: the number of rows of the layer's states.
      places: the layer's places, by name.
      broadcast: draw boolean masks [rows, *shape of the place]; otherwise keys, from which `drop`
        draws a mask for each value.
    """
    places = {name: place for name, place in places.items() if place.rate > 0}
    if not places:  # only a classification head has dropout
        return {}
    if not broadcast:
        return dict(zip(places, jax.random.split(key, len(places)), strict=True))
    ends = np.cumsum([math.prod(place.shape) for place in places.values()])
    bits = jax.random.bits(key, (rows, ends[-1]))
    draws = {}
    for (name, place), part in zip(places.items(), jnp.split(bits, ends[:-1], axis=1), strict=True):
        mask = _is_kept(part.reshape(rows, *place.shape), place.rate)
        draws[name] = with_sharding_constraint(mask, ("batch", *place.axes))
    return draws


def drop(x: Array, rate: float, draw: Array | None) -> Array:
    """Sets a share of `rate` to 0 and divides the rest by 1 - rate, which preserves the mean.

    `draw`: see `Draws`; None = nothing is dropped.
    """
    keep = draw_mask(draw, x.shape, rate)
    return x if keep is None else jnp.where(keep, x / (1.0 - rate), jnp.zeros_like(x))


def draw_mask(draw: Array | None, shape: tuple[int, ...], rate: float) -> Array | None:
    """Returns the boolean mask of a draw (see `Draws`) for values of `shape`."""
    if draw is None or draw.dtype == jnp.bool_:
        return draw
    return _is_kept(jax.random.bits(draw, shape), rate)


def _is_kept(bits: Array, rate: float) -> Array:
    # One comparison of uint32. XLA repeats it in every place that reads the mask, and
    # `jax.random.bernoulli` would have it convert the bits to floats there too.
    return bits >= jnp.uint32(round(rate * 2**32))
