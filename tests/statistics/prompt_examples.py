"""Healthy prompts and runs, which tests change in parts."""

import numpy as np

from faith_jax.statistics import prompt_health
from faith_jax.statistics.prompt_health import Curve, PromptHealth, RunHealth, VocabularyPiece

# A vocabulary of unit vectors along the axes, some longer.
EMBEDDING = np.concatenate([np.eye(4), 2 * np.eye(4)]).astype(np.float32)
START = np.eye(4)[:3]
VECTORS = START + 0.5 * np.eye(4)[[1, 2, 3]]
STEPS = np.arange(10, 90, 10)


def curve(values, steps=STEPS):
    return Curve(np.asarray(steps), np.asarray(values, np.float64))


def no_curve(length=0):
    shape = (0, length) if length else (0,)
    return Curve(np.zeros(0, np.int64), np.zeros(shape))


def healthy_prompt(vectors=VECTORS, start=START, gradient_norms=None, embedding=EMBEDDING):
    count = len(vectors)
    norms = np.ones((len(STEPS), count)) if gradient_norms is None else np.asarray(gradient_norms)
    piece = [VocabularyPiece(1, "<b>\u2581the</b>", 0.9)]
    return PromptHealth(
        name="encoder_prompt",
        vectors=np.asarray(vectors, np.float64),
        start=start,
        vocabulary=None
        if embedding is None
        else prompt_health.vocabulary_norms(vectors, embedding),
        start_pieces=["\u2581a"] + [""] * (count - 1),
        by_cosine=[piece] * count,
        by_distance=[piece] * count,
        gradient_norms=curve(norms, STEPS[: len(norms)]) if len(norms) else no_curve(count),
        movements=curve(np.linspace(0, 1, len(STEPS) * count).reshape(-1, count)),
    )


def healthy_run(name="runs/a", prompt=None, losses=(3.0, 2.0, 1.9), **changes):
    fields = {
        "name": name,
        "step": 80,
        "initializer": "sampled_vocabulary",
        "settings": {"seed": "0", "task": "npov_generate"},
        "base": "abc",
        "prompts": {"encoder_prompt": prompt or healthy_prompt()},
        "training_loss": curve(np.linspace(3, 1, len(STEPS))),
        "validation_loss": curve(losses, STEPS[: len(losses)]),
        "notes": (),
    }
    return RunHealth(**fields | changes)
