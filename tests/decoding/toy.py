"""Toy models for searches: their step functions are tables, so that brute force can enumerate."""

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.decoding.steps import Prefilled, model_scores

START = 0


def chain(transition, rows):
    """A model whose next token depends on the last one only: logits = transition[last]."""
    return table(jnp.asarray(transition)[None], rows)


def table(logits, rows):
    """A model with logits[position, last token], the last position for all later ones.

    Args:
      logits: float [positions, vocab, vocab], or [examples, positions, vocab, vocab] with a table
        for each example, whose rows are one after the other.
      rows: of the model.

    Its cache is the position and the table of each row, so that a wrong order of rows shows.
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

    def reorder(cache, order):
        return cache[0][order], cache[1][order]

    of_row = jnp.repeat(jnp.arange(examples), rows // examples)
    cache = (jnp.zeros((rows,), jnp.int32), of_row)
    return Prefilled(step, cache, jnp.full((rows,), START, jnp.int32), reorder)


def history_model(logits_of, rows, vocab, length):
    """A model whose logits depend on all tokens so far: logits_of(int32 [rows, length]).

    The cache holds the fed tokens (-1 = none yet), the start token first.
    """

    def step(tokens, cache):
        history, position = cache
        history = history.at[jnp.arange(rows), position].set(tokens)
        return model_scores(logits_of(history)), (history, position + 1)

    def reorder(cache, order):
        return jax.tree.map(lambda x: x[order], cache)

    cache = (jnp.full((rows, length), -1, jnp.int32), jnp.zeros((rows,), jnp.int32))
    return Prefilled(step, cache, jnp.full((rows,), START, jnp.int32), reorder)


def hashed_logits(history, vocab, seed=0, spread=2.0):
    """Logits [rows, vocab] that depend on every token of a history [rows, length] and its place."""
    weights = np.random.default_rng(seed).normal(size=(history.shape[1], vocab + 1, 8))
    out = np.random.default_rng(seed + 1).normal(size=(8, vocab))
    states = jnp.asarray(weights, jnp.float32)[jnp.arange(history.shape[1]), history].sum(axis=1)
    return spread * jnp.sin(3 * states) @ jnp.asarray(out, jnp.float32)
