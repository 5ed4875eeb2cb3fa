"""How a prompt-tuned soft prompt is: how far it moved, where it stands in the vocabulary.

Numbers of vectors alone; `prompt_warnings` says in words what is off, `prompt_spread` compares
runs.

>>> start = np.array([[3.0, 4.0]])
>>> movement(np.array([[3.0, 3.0]]), start).relative.tolist()
[0.2]
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.floating]
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
# Rows of an embedding that are compared at once: 64 MiB for 1,024 channels in float64.
_ROWS = 8192


class Movement(NamedTuple):
    """How far the vectors of a prompt are from their start.

    Attributes:
      distance: L2, [length].
      relative: the same over the start's norm, NaN for a start of zeros: [length].
      cosine: to the start, NaN where one of the two is zero: [length].
    """

    distance: Floats
    relative: Floats
    cosine: Floats


class VocabularyNorms(NamedTuple):
    """The norms of a vocabulary's embeddings, and where those of a prompt are among them.

    Attributes:
      quantiles: L2 norms of the embeddings at `QUANTILES`.
      ranks: for each vector the share of embeddings that are no longer than it, in [0, 1]:
        [length].
    """

    quantiles: dict[float, float]
    ranks: Floats


class Piece(NamedTuple):
    """A vocabulary piece near a vector.

    Attributes:
      token: its id.
      text: shown readable.
      value: cosine, or L2 distance.
    """

    token: int
    text: str
    value: float


class Curve(NamedTuple):
    """What was logged by step.

    Attributes:
      steps: int [points].
      values: [points], or by vector [points, length].
    """

    steps: NDArray[np.int64]
    values: Floats


@dataclasses.dataclass(frozen=True)
class PromptHealth:
    """One soft prompt of a run.

    Attributes:
      name: "encoder_prompt" or "decoder_prompt".
      vectors: [length, embed].
      start: the same before training; None = not known.
      movement: from the start; None = the start is not known.
      norms: L2, [length].
      vocabulary: None = the base model's embeddings are not known.
      start_pieces: for each vector the piece whose embedding its start is, "" = of none.
      by_cosine: for each vector the nearest pieces, best first.
      by_distance: the same by L2.
      gradient_norms: by vector; no points where they were not logged.
      movements: L2 distance from the start by vector; the same.
    """

    name: str
    vectors: Floats
    start: Floats | None
    movement: Movement | None
    norms: Floats
    vocabulary: VocabularyNorms | None
    start_pieces: Sequence[str]
    by_cosine: Sequence[Sequence[Piece]]
    by_distance: Sequence[Sequence[Piece]]
    gradient_norms: Curve
    movements: Curve

    @property
    def cosines(self) -> Floats:
        """Cosines between the vectors, [length, length]."""
        return cosines(self.vectors, self.vectors)


@dataclasses.dataclass(frozen=True)
class RunHealth:
    """A prompt-tuned run.

    Attributes:
      name: its path, as it was given.
      step: of the prompts; None = unknown.
      initializer: which start its config names, "unknown" where there is no config.
      settings: what else is worth knowing of its config, such as {"seed": "0"}.
      base: names the base model whatever its form; "" = unknown.
      prompts: by name.
      training_loss: mean over target tokens in nats, of single batches.
      validation_loss: the same, of the validation set.
      notes: what could not be found out, and why.
    """

    name: str
    step: int | None
    initializer: str
    settings: Mapping[str, str]
    base: str
    prompts: Mapping[str, PromptHealth]
    training_loss: Curve
    validation_loss: Curve
    notes: Sequence[str]

    @property
    def final_loss(self) -> float:
        """The last validation loss, NaN where there is none."""
        return float(self.validation_loss.values[-1]) if len(self.validation_loss.steps) else np.nan

    @property
    def lowest_loss(self) -> tuple[int, float]:
        """The step of the lowest validation loss, and that loss; (-1, NaN) where there is none."""
        steps, values = self.validation_loss
        if not np.isfinite(values).any():
            return -1, np.nan
        best = int(np.nanargmin(values))
        return int(steps[best]), float(values[best])


def movement(vectors: Rows, start: Rows) -> Movement:
    """Returns how far vectors [length, embed] are from a start of the same shape."""
    vectors, start = np.asarray(vectors, np.float64), np.asarray(start, np.float64)
    distance = np.linalg.norm(vectors - start, axis=1)
    length = np.linalg.norm(start, axis=1)
    relative = np.full_like(distance, np.nan)
    np.divide(distance, length, out=relative, where=length > 0)
    return Movement(distance, relative, _ratio(np.sum(vectors * start, axis=1), vectors, start))


def _ratio(products: Floats, first: Rows, second: Rows) -> Floats:
    """Returns dot products over the norms of rows; NaN where one is zero."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    found = np.full_like(products, np.nan)
    np.divide(products, norms, out=found, where=norms > 0)
    return np.clip(found, -1, 1)


def cosines(first: Rows, second: Rows) -> Floats:
    """Returns the cosine of each row of [n, embed] to each of [m, embed]: [n, m], NaN for zeros."""
    return np.clip(_unit(first) @ _unit(second).T, -1, 1)


def _unit(rows: Rows) -> Floats:
    rows = np.asarray(rows, np.float64)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.full_like(rows, np.nan), where=length > 0)


def vocabulary_norms(vectors: Rows, embedding: Rows) -> VocabularyNorms:
    """Compares the norms of vectors [length, embed] with those of an embedding [vocab, embed]."""
    norms = np.linalg.norm(np.asarray(vectors, np.float64), axis=1)
    table = np.sort(np.concatenate([np.linalg.norm(rows, axis=1) for _, rows in _parts(embedding)]))
    values = np.quantile(table, QUANTILES)
    ranks = np.searchsorted(table, norms, side="right") / len(table)
    return VocabularyNorms(dict(zip(QUANTILES, values.tolist(), strict=True)), ranks)


def nearest_by_cosine(
    vectors: Rows, embedding: Rows, count: int
) -> tuple[NDArray[np.int64], Floats]:
    """Finds the rows of an embedding that point the way of each vector.

    Args:
      vectors: [length, embed].
      embedding: [vocab, embed]; rows of zeros point no way and come last.
      count: how many, at most `vocab`.

    Returns:
      Ids and cosines [length, count], best first; equal ones by id.
    """
    found = np.concatenate([cosines(vectors, rows) for _, rows in _parts(embedding)], axis=1)
    order = np.argsort(-np.nan_to_num(found, nan=-2.0), axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(found, order, axis=1)


def nearest_by_distance(
    vectors: Rows, embedding: Rows, count: int
) -> tuple[NDArray[np.int64], Floats]:
    """Finds the rows of an embedding that are closest to each vector.

    Arguments are those of `nearest_by_cosine`.

    Returns:
      Ids and L2 distances [length, count], closest first; equal ones by id.
    """
    vectors = np.asarray(vectors, np.float64)
    own = np.sum(vectors**2, axis=1, keepdims=True)
    squares = [
        own + np.sum(rows**2, axis=1) - 2 * vectors @ rows.T for _, rows in _parts(embedding)
    ]
    order = np.argsort(np.concatenate(squares, axis=1), axis=1, kind="stable")[:, :count]
    # The squares lose digits where a vector is all but a row.
    rows = np.asarray(embedding[order], np.float64)
    return order, np.linalg.norm(rows - vectors[:, None], axis=2)


def rows_that_are(vectors: Rows, embedding: Rows) -> list[int | None]:
    """Returns for each vector the first row of an embedding that equals it, None = no row does."""
    ids, distances = nearest_by_distance(vectors, embedding, 1)
    return [int(i) if d == 0 else None for i, d in zip(ids[:, 0], distances[:, 0], strict=True)]


def _parts(embedding: Rows) -> Iterator[tuple[int, Floats]]:
    """Yields (first row, rows in float64): the whole table would take too much memory."""
    for first in range(0, len(embedding), _ROWS):
        yield first, np.asarray(embedding[first : first + _ROWS], np.float64)
