"""What is off in a prompt-tuned run, in words that say what to do about it."""

from collections.abc import Sequence

import numpy as np

from faith_jax.evaluation.prompt_health import Curve, Floats, PromptHealth, RunHealth
from faith_jax.evaluation.prompt_spread import Pair

# A vector that moved by less of its start's norm was not trained to speak of.
LEAST_MOVEMENT = 0.01
# Gradients that fell below this share of what they were.
VANISHED = 1e-3
# Gradients that exceeded their median so many times.
EXPLODED = 100.0
# Norms so many times above the 99% quantile of the vocabulary's, or below the 1% quantile.
FAR_OUTSIDE = 3.0
SAME_WAY = 0.98
# Relative differences of validation losses.
RISEN, DISAGREED = 0.05, 0.05
# Differences so many times their standard error are not of chance.
SURE = 3.0
APART, TOGETHER = 0.5, 0.99


def run_warnings(run: RunHealth) -> list[str]:
    """Returns what is off in a run; empty where nothing is."""
    found = [line for prompt in run.prompts.values() for line in prompt_warnings(prompt)]
    return found + _loss_warnings(run)


def prompt_warnings(prompt: PromptHealth) -> list[str]:
    """Returns what is off in a prompt: movement, gradients, norms, vectors that are alike."""
    found = _movement_warnings(prompt) + _gradient_warnings(prompt) + _norm_warnings(prompt)
    upper = np.triu(np.nan_to_num(prompt.cosines), 1) > SAME_WAY
    alike = [f"{i} and {j}" for i, j in np.argwhere(upper)]
    if alike:
        found.append(
            f"{prompt.name}: vectors point the same way ({_listed(alike)}): a shorter prompt may "
            "do as well."
        )
    return found


def _movement_warnings(prompt: PromptHealth) -> list[str]:
    if prompt.movement is None:
        return []
    way = np.where(
        np.isnan(prompt.movement.relative), prompt.movement.distance, prompt.movement.relative
    )
    if not way.any():
        return [f"{prompt.name}: no vector moved from its start: is LEARNING_RATE 0?"]
    still = np.flatnonzero(way < LEAST_MOVEMENT)
    if not still.size:
        return []
    return [
        f"{prompt.name}: {_vectors(still)} hardly moved, by less than {LEAST_MOVEMENT:.0%} of "
        "the start's norm: raise LEARNING_RATE or TRAIN_STEPS."
    ]


def _gradient_warnings(prompt: PromptHealth) -> list[str]:
    steps, norms = prompt.gradient_norms
    if not len(steps):
        return []
    broken = ~np.isfinite(norms).all(axis=1)
    if broken.any():
        return [
            f"{prompt.name}: the gradient is not finite at step {steps[broken][0]}: lower "
            "LEARNING_RATE or clip the gradient."
        ]
    found = []
    fallen = np.flatnonzero(_vanished(norms))
    if fallen.size:
        found.append(
            f"{prompt.name}: the gradient of {_vectors(fallen)} vanishes: at the end it is below "
            f"{VANISHED:g} of what it was."
        )
    whole = np.linalg.norm(norms, axis=1)
    middle, peak = float(np.median(whole)), int(whole.argmax())
    if middle > 0 and whole[peak] > EXPLODED * middle:
        found.append(
            f"{prompt.name}: the gradient explodes: {whole[peak]:.3g} at step {steps[peak]}, "
            f"{whole[peak] / middle:,.0f} times its median; lower LEARNING_RATE or clip it."
        )
    return found


def _vanished(norms: Floats) -> Floats:
    """Returns for gradient norms [points, length] whether the last quarter is all but zero."""
    part = max(1, len(norms) // 4)
    before, after = np.median(norms[:part], axis=0), np.median(norms[-part:], axis=0)
    return (after == 0) | ((len(norms) > 3) & (after < VANISHED * before))


def _norm_warnings(prompt: PromptHealth) -> list[str]:
    if prompt.vocabulary is None:
        return []
    low, high = (prompt.vocabulary.quantiles[q] for q in (0.01, 0.99))
    found = []
    for places, words, bound in (
        (prompt.norms > FAR_OUTSIDE * high, "longer", f"99% are at most {high:.3g}"),
        (prompt.norms < low / FAR_OUTSIDE, "shorter", f"99% are at least {low:.3g}"),
    ):
        outside = np.flatnonzero(places)
        if outside.size:
            worst = (
                prompt.norms[outside].max() if words == "longer" else prompt.norms[outside].min()
            )
            found.append(
                f"{prompt.name}: {_vectors(outside)} much {words} than the vocabulary's "
                f"embeddings (norm {worst:.3g}; of those {bound}): the model was never trained on "
                "such inputs; try a lower LEARNING_RATE."
            )
    return found


def _loss_warnings(run: RunHealth) -> list[str]:
    found = []
    for what, curve in (("training", run.training_loss), ("validation", run.validation_loss)):
        broken = ~np.isfinite(curve.values)
        if broken.any():
            found.append(f"the {what} loss is not finite at step {curve.steps[broken][0]}.")
    if _rose(run.training_loss):
        found.append("the training loss is higher in the second half than in the first.")
    step, lowest = run.lowest_loss
    if run.final_loss > lowest + RISEN * abs(lowest):
        found.append(
            f"the validation loss rose from {lowest:.4f} at step {step} to {run.final_loss:.4f}: "
            f"take checkpoints/{step} if it was kept."
        )
    elif len(run.validation_loss.steps) > 2 and step == run.validation_loss.steps[0]:
        found.append(
            f"the validation loss never fell below its first value, {lowest:.4f} at step {step}: "
            "the prompt does not steer the model on what it was not trained on."
        )
    return found


def _rose(curve: Curve) -> bool:
    """Whether the second half of a curve is above the first, by more than its noise."""
    values, half = curve.values, len(curve.values) // 2
    if half < 2 or not np.isfinite(values).all():
        return False
    before, after = values[:half], values[-half:]
    noise = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / half)
    rise = after.mean() - before.mean()
    return bool(rise > RISEN * abs(before.mean()) and rise > SURE * noise)


def spread_warnings(runs: Sequence[RunHealth], pairs: Sequence[Pair]) -> list[str]:
    """Returns where runs disagree, or cannot be compared."""
    found = []
    if len({run.base for run in runs if run.base}) > 1:
        found.append(
            "the runs are of different base models: their vectors and losses do not compare."
        )
    for name, why in (("task", "tasks"), ("lengths", "lengths of inputs and targets")):
        if len({run.settings[name] for run in runs if name in run.settings}) > 1:
            found.append(f"the runs were validated on different {why}: losses do not compare.")
    losses = {run.name: run.final_loss for run in runs if np.isfinite(run.final_loss)}
    if not found and len(losses) > 1:
        best, worst = min(losses, key=losses.__getitem__), max(losses, key=losses.__getitem__)
        if losses[worst] > losses[best] * (1 + DISAGREED):
            found.append(
                f"the runs disagree: a validation loss of {losses[best]:.4f} ({best}) and of "
                f"{losses[worst]:.4f} ({worst}); train several seeds and take the best, or train "
                "longer."
            )
    for pair in pairs:
        if pair.start_cosine > TOGETHER and pair.mean < APART:
            found.append(
                f"{pair.first} and {pair.second} began at one start but disagree: their matched "
                f"vectors have a mean cosine of {pair.mean:.2f}."
            )
    return found


def _vectors(places: np.ndarray) -> str:
    names = [str(place) for place in places]
    return f"vector {names[0]}" if len(names) == 1 else f"vectors {_listed(names)}"


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
