"""Toy models for searches: their step functions are tables, which brute force can enumerate."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.generation import row_keys
from faith_jax.decoding.steps import Prefilled, model_scores

START = 0


def config_of(**options):
    """A config for models with these end and padding tokens."""
    return DecodingConfig(**options).for_model(eos_id=1, pad_id=0)


def keys(count):
    return row_keys(0, jnp.arange(count))


def _prefilled(step, cache, rows):
    def reorder(cache, order):
        return jax.tree.map(lambda x: x[order], cache)

    first = jnp.full((rows,), START, jnp.int32)
    # Without drafts, no token is taken back.
    return Prefilled(step, cache, first, reorder, None, lambda cache, _: cache, first[:, None])


def chain(transition, rows):
    """A model whose next token depends on the last one only: logits = transition[last]."""
    return table(jnp.asarray(transition)[None], rows)


def table(logits, rows):
    """A model with logits[position, last token]; later positions use the last one.

    Args:
      logits: float [positions, vocab, vocab], or [examples, positions, vocab, vocab] with a table
        for each example, whose rows are consecutive.
      rows: the number of rows.

    The cache has each row's position and table, so that a wrong order of rows is noticed.
    """
    logits = jnp.asarray(logits, jnp.float32)
    if logits.ndim == 3:
        logits = logits[None]
    examples, positions = logits.shape[:2]

    def step(tokens, cache):
        position, of_row = cache
        return model_scores(logits[of_row, jnp.minimum(position, positions - 1), tokens]), (
            position + 1,
            of_row,
        )

    of_row = jnp.repeat(jnp.arange(examples), rows // examples)
    cache = (jnp.zeros((rows,), jnp.int32), of_row)
    return _prefilled(step, cache, rows)


def history_model(tables, rows):
    """A model whose logits depend on all tokens so far: `hashed_logits` of the tables.

    The cache holds the fed tokens (-1 = none yet), the start token first.
    """

    tables = jax.tree.map(jnp.asarray, tables)

    def step(tokens, cache):
        history, position = cache
        history = history.at[jnp.arange(rows), position].set(tokens)
        return model_scores(hashed_logits(history, tables)), (history, position + 1)

    cache = (jnp.full((rows, len(tables[0])), -1, jnp.int32), jnp.zeros((rows,), jnp.int32))
    return _prefilled(step, cache, rows)


@functools.cache
def hash_tables(length, vocab, seed=0):
    """The tables of `hashed_logits`: float32 [length, vocab + 1, 8] and [8, vocab]."""
    weights = np.random.default_rng(seed).normal(size=(length, vocab + 1, 8))
    out = np.random.default_rng(seed + 1).normal(size=(8, vocab))
    return weights.astype(np.float32), out.astype(np.float32)


def hashed_logits(history, tables, spread=2.0):
    """Logits [rows, vocab] that depend on each token and position of a history [rows, length].

    Histories and tables are arrays of NumPy (for a reference) or of JAX.
    """
    weights, out = tables
    states = weights[np.arange(history.shape[1]), history].sum(axis=1)
    sin = np.sin if isinstance(states, np.ndarray) else jnp.sin
    return spread * sin(3 * states) @ out
