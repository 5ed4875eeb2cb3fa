"""Health of a tuned soft prompt: how far it moved, and where it lies in the vocabulary.

Computes figures of one run, comparisons of runs with other seeds and starts, and warnings that say
what is wrong and how to fix it.

>>> start = np.array([[3.0, 4.0]])
>>> movement(np.array([[3.0, 3.0]]), start).relative.tolist()
[0.2]
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.floating]
_QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
# Number of embedding rows that are compared at once: 64 MiB for 1,024 channels in float64.
_ROWS = 8192

# Thresholds of the warnings.
# A vector that moved by a smaller share of its start's norm was hardly trained.
_LEAST_MOVEMENT = 0.01
# Gradients vanish if they fall below this share of their first values.
_VANISHED = 1e-3
# Gradients explode if they exceed their median by this factor.
_EXPLODED = 100.0
# Norms are far outside if above the vocabulary's 99% quantile, or below its 1% one, by this factor.
_FAR_OUTSIDE = 3.0
_SAME_WAY = 0.98
# Relative differences of validation losses.
_RISEN, _DISAGREED = 0.05, 0.05
# Differences of more than this many standard errors are not due to chance.
_SURE = 3.0
_APART, _TOGETHER = 0.5, 0.99
_MAX_NAMES = 8  # vectors or runs that a warning lists


class Movement(NamedTuple):
    """The L2 distances and cosines of a prompt's vectors to their start, [length] each.

    `relative` is the L2 distance over the start's norm. NaN for a start, or a vector, of zeros.
    """

    distance: Floats
    relative: Floats
    cosine: Floats


class VocabularyNorms(NamedTuple):
    """L2 norms of a vocabulary's embeddings at `_QUANTILES`, and the ranks of a prompt's vectors.

    `ranks` is the share of embeddings that are not longer than each vector, [length].
    """

    quantiles: dict[float, float]
    ranks: Floats


class VocabularyPiece(NamedTuple):
    """A vocabulary piece near a vector, with readable text and its cosine or L2 distance."""

    token: int
    text: str
    value: float


class Curve(NamedTuple):
    """Logged values by step: steps int [points]; values [points] or [points, length]."""

    steps: NDArray[np.int64]
    values: Floats


@dataclasses.dataclass(frozen=True)
class PromptHealth:
    """One soft prompt of a run.

    Attributes:
      name: "encoder_prompt" or "decoder_prompt".
      vectors: [length, embed].
      start: the vectors before training; None = not known.
      vocabulary: None = the base model's embeddings are not known.
      start_pieces: for each vector, the piece whose embedding equals its start; "" = none.
      by_cosine: for each vector, the nearest pieces by cosine, best first.
      by_distance: for each vector, the nearest pieces by L2 distance, best first.
      gradient_norms: by vector; without points if not logged.
      movements: L2 distance from the start by vector; without points if not logged.
    """

    name: str
    vectors: Floats
    start: Floats | None
    vocabulary: VocabularyNorms | None
    start_pieces: Sequence[str]
    by_cosine: Sequence[Sequence[VocabularyPiece]]
    by_distance: Sequence[Sequence[VocabularyPiece]]
    gradient_norms: Curve
    movements: Curve

    @property
    def norms(self) -> Floats:
        """L2 norms of the vectors, [length]."""
        return np.linalg.norm(self.vectors, axis=1)

    @property
    def movement(self) -> Movement | None:
        """How far the vectors are from the start; None = the start is not known."""
        return None if self.start is None else movement(self.vectors, self.start)

    @property
    def cosines(self) -> Floats:
        """Cosines between the vectors, [length, length]."""
        return cosines(self.vectors, self.vectors)


@dataclasses.dataclass(frozen=True)
class RunHealth:
    """A prompt-tuned run, named by its path.

    Attributes:
      step: training step of the prompts; None = unknown.
      initializer: the start that the run's config names; "unknown" without a config.
      settings: other relevant settings of the config, such as {"seed": "0"}.
      base: identifies the base model regardless of its form; "" = unknown.
      training_loss: mean over the target tokens of single batches, in nats.
      validation_loss: mean over the target tokens of the validation set, in nats.
      notes: what could not be determined, and why.
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
        """The last validation loss; NaN if there is none."""
        return float(self.validation_loss.values[-1]) if len(self.validation_loss.steps) else np.nan

    @property
    def lowest_loss(self) -> tuple[int, float]:
        """The step of the lowest validation loss, and that loss; (-1, NaN) if there is none."""
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
    # Rounding may take a cosine beyond 1.
    cosine = np.clip(np.sum(_normalize_rows(vectors) * _normalize_rows(start), axis=1), -1, 1)
    return Movement(distance, relative, cosine)


def cosines(first: Rows, second: Rows) -> Floats:
    """Returns the cosines of rows [n, embed] with rows [m, embed]: [n, m], NaN for zeros."""
    return np.clip(_normalize_rows(first) @ _normalize_rows(second).T, -1, 1)


def _normalize_rows(rows: Rows) -> Floats:
    rows = np.asarray(rows, np.float64)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.full_like(rows, np.nan), where=length > 0)


def vocabulary_norms(vectors: Rows, embedding: Rows) -> VocabularyNorms:
    """Compares the norms of vectors [length, embed] with those of an embedding [vocab, embed]."""
    # Compute in float64, block by block: embeddings may be in bfloat16, which rounds norms.
    norms = np.linalg.norm(np.asarray(vectors, np.float64), axis=1)
    table = np.sort(
        np.concatenate([np.linalg.norm(rows, axis=1) for rows in _split_into_blocks(embedding)])
    )
    values = np.quantile(table, _QUANTILES)
    # The share of the vocabulary's norms that do not exceed each vector's norm.
    ranks = np.searchsorted(table, norms, side="right") / len(table)
    return VocabularyNorms(dict(zip(_QUANTILES, values.tolist(), strict=True)), ranks)


def nearest_by_cosine(
    vectors: Rows, embedding: Rows, count: int
) -> tuple[NDArray[np.int64], Floats]:
    """Finds the rows of an embedding [vocab, embed] nearest to vectors [length, embed] by cosine.

    Returns ids and cosines [length, count], best first; ties by id. Rows of zeros, which have no
    direction, come last.
    """
    similarities = np.concatenate(
        [cosines(vectors, rows) for rows in _split_into_blocks(embedding)], axis=1
    )
    # -2 is below any cosine, so zeros come last; a stable sort orders ties by id.
    order = np.argsort(-np.nan_to_num(similarities, nan=-2.0), axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(similarities, order, axis=1)


def nearest_by_distance(
    vectors: Rows, embedding: Rows, count: int
) -> tuple[NDArray[np.int64], Floats]:
    """Finds the rows of an embedding [vocab, embed] that are closest to vectors [length, embed].

    Returns ids and L2 distances [length, count], closest first; ties by id.
    """
    from scipy.spatial.distance import cdist  # imported here, as it takes half a second

    # Not as |a|^2 - 2ab + |b|^2, so that equal vectors have distance exactly 0 (`rows_that_are`).
    distances = np.concatenate(
        [cdist(vectors, rows) for rows in _split_into_blocks(embedding)], axis=1
    )
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(distances, order, axis=1)


def rows_that_are(vectors: Rows, embedding: Rows) -> list[int | None]:
    """Returns, for each vector, the first embedding row that equals it; None = no row does."""
    ids, distances = nearest_by_distance(vectors, embedding, 1)
    return [int(i) if d == 0 else None for i, d in zip(ids[:, 0], distances[:, 0], strict=True)]


def _split_into_blocks(embedding: Rows) -> Iterator[Floats]:
    """Yields blocks of rows in float64; the whole table would take too much memory."""
    for first in range(0, len(embedding), _ROWS):
        yield np.asarray(embedding[first : first + _ROWS], np.float64)


class Spread(NamedTuple):
    """Statistics of runs' final validation losses; NaN if no run has one."""

    runs: int
    mean: float
    low: float
    high: float
    deviation: float


class PromptPair(NamedTuple):
    """Two runs' prompts of the same name.

    Attributes:
      matches: for each vector of the shorter prompt, the index of its match in the other prompt;
        the matching maximises the sum of cosines.
      cosines: cosines of the matched vectors; NaN for zeros.
      start_cosine: the mean cosine of the starts, matched the same way; NaN if one is not known.
    """

    first: str
    second: str
    prompt: str
    matches: tuple[int, ...]
    cosines: tuple[float, ...]
    start_cosine: float

    @property
    def mean(self) -> float:
        """The mean cosine of the matched vectors."""
        return float(np.mean(self.cosines))


def spread(values: Sequence[float]) -> Spread:
    """Returns the spread of numbers, ignoring NaN.

    >>> spread([1.0, 3.0])
    Spread(runs=2, mean=2.0, low=1.0, high=3.0, deviation=1.4142135623730951)
    """
    defined = [value for value in values if not np.isnan(value)]
    if not defined:
        return Spread(0, np.nan, np.nan, np.nan, np.nan)
    # Divide by n - 1, because the runs are a sample of all seeds.
    deviation = float(np.std(defined, ddof=1)) if len(defined) > 1 else np.nan
    return Spread(len(defined), float(np.mean(defined)), min(defined), max(defined), deviation)


def by_initializer(runs: Sequence[RunHealth]) -> dict[str, Spread]:
    """Returns the spread of the final validation losses of each initialiser's runs."""
    names = dict.fromkeys(run.initializer for run in runs)
    return {n: spread([run.final_loss for run in runs if run.initializer == n]) for n in names}


def matching(first: Floats, second: Floats) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Matches the vectors of two prompts [n, embed] and [m, embed] one to one.

    Returns for each vector of the shorter prompt the other's index, and their cosine.
    """
    from scipy.optimize import linear_sum_assignment

    # Runs with other seeds may find the same vectors in another order, so comparing by position
    # would mislead.
    table = cosines(first, second)
    # The rows must be the shorter prompt, whose vectors all get a partner.
    if table.shape[0] > table.shape[1]:
        table = table.T
    # The Hungarian method finds the one-to-one matching with the largest sum of cosines.
    rows, columns = linear_sum_assignment(np.nan_to_num(table, nan=-2.0), maximize=True)
    return tuple(columns.tolist()), tuple(table[rows, columns].tolist())


def pairs(runs: Sequence[RunHealth]) -> list[PromptPair]:
    """Compares all pairs of runs of the same base model, for each prompt name that both have."""
    compared = []
    for first, second in itertools.combinations(runs, 2):
        # Vectors of different models are not comparable.
        if first.base == second.base and first.base:
            for name in [name for name in first.prompts if name in second.prompts]:
                first_prompt, second_prompt = first.prompts[name], second.prompts[name]
                start = np.nan
                if first_prompt.start is not None and second_prompt.start is not None:
                    start = float(np.mean(matching(first_prompt.start, second_prompt.start)[1]))
                matched = matching(first_prompt.vectors, second_prompt.vectors)
                compared.append(PromptPair(first.name, second.name, name, *matched, start))
    return compared


def run_warnings(run: RunHealth) -> list[str]:
    """Returns the warnings about a run; empty if there is no problem."""
    warnings = [line for prompt in run.prompts.values() for line in prompt_warnings(prompt)]
    for part, curve in (("training", run.training_loss), ("validation", run.validation_loss)):
        broken = ~np.isfinite(curve.values)
        if broken.any():
            warnings.append(f"the {part} loss is not finite at step {curve.steps[broken][0]}.")
    losses, half = run.training_loss.values, len(run.training_loss.values) // 2
    if half > 1 and np.isfinite(losses).all():
        before, after = losses[:half], losses[-half:]
        # Standard error of a difference of two means of `half` values each.
        noise = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / half)
        rise = after.mean() - before.mean()
        # Large enough to matter, and larger than the noise of single batches.
        if rise > _RISEN * abs(before.mean()) and rise > _SURE * noise:
            warnings.append("the training loss is higher in the second half than in the first.")
    # Warn if the lowest validation loss was clearly below the last one, or at the first step.
    step, lowest = run.lowest_loss
    if run.final_loss > lowest + _RISEN * abs(lowest):
        warnings.append(
            f"the validation loss rose from {lowest:.4f} at step {step} to {run.final_loss:.4f}: "
            f"take checkpoints/{step} if it was kept."
        )
    elif len(run.validation_loss.steps) > 2 and step == run.validation_loss.steps[0]:
        warnings.append(
            f"the validation loss never fell below its first value, {lowest:.4f} at step {step}: "
            "the prompt does not steer the model on what it was not trained on."
        )
    return warnings


def prompt_warnings(prompt: PromptHealth) -> list[str]:
    """Returns the warnings about a prompt: movement, gradients, norms, similar vectors."""
    warnings = [*_movement_warnings(prompt), *_gradient_warnings(prompt), *_norm_warnings(prompt)]
    # Above the diagonal, each pair occurs once, and no vector is paired with itself.
    upper = np.triu(np.nan_to_num(prompt.cosines), 1) > _SAME_WAY
    if upper.any():
        pairs = _list_names([f"{i} and {j}" for i, j in np.argwhere(upper)])
        warnings.append(f"vectors point the same way ({pairs}): a shorter prompt may do as well.")
    return [f"{prompt.name}: {line}" for line in warnings]


def _movement_warnings(prompt: PromptHealth) -> Iterator[str]:
    if prompt.movement is None:
        return
    distance, relative, _ = prompt.movement
    # A start of zeros has no norm to compare with, so use the distance itself.
    way = np.where(np.isnan(relative), distance, relative)
    still = np.flatnonzero(way < _LEAST_MOVEMENT)
    if not way.any():
        yield "no vector moved from its start: is LEARNING_RATE 0?"
    elif still.size:
        yield (
            f"{_name_vectors(still)} hardly moved, by less than {_LEAST_MOVEMENT:.0%} of the "
            "start's norm: raise LEARNING_RATE or TRAIN_STEPS."
        )


def _gradient_warnings(prompt: PromptHealth) -> Iterator[str]:
    steps, norms = prompt.gradient_norms
    if not len(steps):
        return
    broken = ~np.isfinite(norms).all(axis=1)
    if broken.any():
        yield (
            f"the gradient is not finite at step {steps[broken][0]}: lower LEARNING_RATE or clip "
            "the gradient."
        )
        return
    # Compare the last quarter with the first.
    part = max(1, len(norms) // 4)
    # Medians by vector, [length], are robust to a single large step.
    before, after = np.median(norms[:part], axis=0), np.median(norms[-part:], axis=0)
    fallen = (after == 0) | ((len(norms) > 3) & (after < _VANISHED * before))
    if fallen.any():
        yield (
            f"the gradient of {_name_vectors(np.flatnonzero(fallen))} vanishes: at the end it is "
            f"below {_VANISHED:g} of what it was."
        )
    # The norm of the whole prompt's gradient is the norm of its vectors' norms: [points].
    total_norms = np.linalg.norm(norms, axis=1)
    middle, peak = float(np.median(total_norms)), int(total_norms.argmax())
    if middle > 0 and total_norms[peak] > _EXPLODED * middle:
        yield (
            f"the gradient explodes: {total_norms[peak]:.3g} at step {steps[peak]}, "
            f"{total_norms[peak] / middle:,.0f} times its median; lower LEARNING_RATE or clip it."
        )


def _norm_warnings(prompt: PromptHealth) -> Iterator[str]:
    if prompt.vocabulary is None:
        return
    norms, (low, high) = prompt.norms, (prompt.vocabulary.quantiles[q] for q in (0.01, 0.99))
    for outside, worst, words, bound in (
        (norms > _FAR_OUTSIDE * high, norms.max(), "longer", f"99% are at most {high:.3g}"),
        (norms < low / _FAR_OUTSIDE, norms.min(), "shorter", f"99% are at least {low:.3g}"),
    ):
        if outside.any():
            yield (
                f"{_name_vectors(np.flatnonzero(outside))} much {words} than the vocabulary's "
                f"embeddings (norm {worst:.3g}; of those {bound}): the model was never trained on "
                "such inputs; try a lower LEARNING_RATE."
            )


def spread_warnings(runs: Sequence[RunHealth], pairs: Sequence[PromptPair]) -> list[str]:
    """Returns warnings about runs that disagree or cannot be compared."""
    warnings = []
    if len({run.base for run in runs if run.base}) > 1:
        warnings.append(
            "the runs are of different base models: their vectors and losses do not compare."
        )
    for name, why in (("task", "tasks"), ("lengths", "lengths of inputs and targets")):
        if len({run.settings[name] for run in runs if name in run.settings}) > 1:
            warnings.append(f"the runs were validated on different {why}: losses do not compare.")
    # Only losses on the same model and data are comparable.
    losses = {run.name: run.final_loss for run in runs if np.isfinite(run.final_loss)}
    if not warnings and len(losses) > 1:
        best, worst = min(losses, key=losses.__getitem__), max(losses, key=losses.__getitem__)
        if losses[worst] > losses[best] * (1 + _DISAGREED):
            warnings.append(
                f"the runs disagree: a validation loss of {losses[best]:.4f} ({best}) and of "
                f"{losses[worst]:.4f} ({worst}); train several seeds and take the best, or train "
                "longer."
            )
    for pair in pairs:
        if pair.start_cosine > _TOGETHER and pair.mean < _APART:
            warnings.append(
                f"{pair.first} and {pair.second} began at one start but disagree: their matched "
                f"vectors have a mean cosine of {pair.mean:.2f}."
            )
    return warnings


def _name_vectors(places: np.ndarray) -> str:
    names = [str(place) for place in places]
    return f"vector {names[0]}" if len(names) == 1 else f"vectors {_list_names(names)}"


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
