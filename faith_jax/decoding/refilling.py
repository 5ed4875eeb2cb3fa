"""Continuous refilling: a new example takes the place of an example whose rows have ended.

A batch that waits for its longest response computes many tokens that nobody reads. Here the loop
stops as soon as some examples have ended; new examples are read and take their places, and the loop
continues. Each row has its own position in the cache and its own random key, so responses do not
depend on the other examples in the batch.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Integer

from faith_jax.core.types import Array, PyTree
from faith_jax.decoding import generation
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.search import Rows, advance, copy_keys, needed_cache_length, start
from faith_jax.decoding.steps import (
    DecodingResult,
    cache_capacity,
    cache_lengths,
    place_rows,
    resize_cache,
)
from faith_jax.models.transformer import Transformer


class Places(NamedTuple):
    """The places of a batch, each with an example.

    Attributes:
      memory: the model's memory of each example's inputs; see `generation.read`.
      draws: uint32 [places, 2], seed and number of each example, which determine its random key.
      rows: the decoding state of [places * copies] rows.
    """

    memory: PyTree
    draws: Array
    rows: Rows


class Refilling(NamedTuple):
    """The functions of refilling, to be compiled.

    Attributes:
      config: greedy search or sampling, with the model's tokens set.
    """

    module: Transformer
    config: DecodingConfig

    def read(self, params: PyTree, draws: Array, branches: Sequence[Any]) -> Places:
        """Reads examples, one for each place; the cache has the shortest length.

        Args:
          params: the model's parameters.
          draws: see `Places`.
          branches: the inputs; PMI-Decode has two branches.
        """
        config = self.config
        room = cache_lengths(config.cache_length)[0]
        memory, cache = generation.read(self.module, params, branches, room, config.copies)
        model = generation.attach_memory(
            self.module, params, memory, cache, config.copies, config.pmi
        )
        return Places(memory, draws, start(model, config))

    def place(self, places: Places, new: Places, free: Integer[Array, "new"]) -> Places:
        """Puts a few examples that were read into free places.

        Args:
          places: all places; their inputs and cache may be longer than those of `new`.
          new: the new examples.
          free: the place of each new example; the number of places = drop the example.
        """
        return place_rows(places, new, free, len(places.draws))

    def run(
        self, params: PyTree, memory: PyTree, draws: Array, rows: Rows, enough: Array
    ) -> tuple[Rows, tuple[DecodingResult, Array]]:
        """Decodes until `enough` places have ended, or the cache is full.

        Returns:
          The rows, and for each place its result and whether it has ended, boolean [places].
        """
        config, room = self.config, self._count_response_slots(rows)
        # No cache here, because it is part of the rows, which the loop carries.
        model = generation.attach_memory(
            self.module, params, memory, None, config.copies, config.pmi
        )
        keys = copy_keys(generation.row_keys(draws[0, 0], draws[:, 1]), config.copies)

        def have_ended(rows: Rows) -> Array:
            # An example has ended when all of its samples have.
            return jnp.all(rows.ended.reshape(-1, config.copies), axis=1)

        rows = jax.lax.while_loop(
            # A full cache also ends the loop: its length is static, and `grow` makes a longer one.
            lambda rows: (
                (jnp.sum(have_ended(rows)) < enough) & (needed_cache_length(rows, config) <= room)
            ),
            lambda rows: advance(rows, model, keys, config),
            rows,
        )
        result = DecodingResult(rows.tokens, rows.log_prob, rows.length, rows.score)
        by_place = jax.tree.map(lambda x: x.reshape(-1, config.copies, *x.shape[1:]), result)
        return rows, (by_place, have_ended(rows))

    def grow(self, rows: Rows) -> Rows:
        """Returns the rows with a cache of the next length, unless it already has the maximum."""
        room, max_length = self._count_response_slots(rows), self.config.cache_length
        # There are only few lengths, because a program is compiled for each.
        longer = next((length for length in cache_lengths(max_length) if length > room), max_length)
        return rows._replace(cache=resize_cache(rows.cache, longer + self._prompt_length))

    def _count_response_slots(self, rows: Rows) -> int:
        length = cache_capacity(rows.cache)
        assert length is not None
        return length - self._prompt_length

    @property
    def _prompt_length(self) -> int:
        """The length of the soft prompt before the responses in the cache."""
        config = self.module.config
        return 0 if config.is_decoder_only else config.decoder_prompt_length
