import numpy as np
import pytest

from faith_jax.evaluation.prompt_spread import pairs
from faith_jax.evaluation.prompt_warnings import prompt_warnings, run_warnings, spread_warnings
from tests.evaluation.prompt_examples import (
    START,
    STEPS,
    VECTORS,
    curve,
    healthy_prompt,
    healthy_run,
    no_curve,
)

ONES = np.ones((len(STEPS), 3))


def test_nothing_is_said_of_what_is_healthy():
    assert run_warnings(healthy_run()) == []
    unknown = healthy_prompt(start=None, embedding=None, gradient_norms=np.zeros((0, 3)))
    assert prompt_warnings(unknown) == []
    assert run_warnings(healthy_run(training_loss=no_curve(), validation_loss=no_curve())) == []
    noisy = curve([1, 2, 1, 2, 2, 1, 2, 2])  # the loss of single batches
    assert run_warnings(healthy_run(training_loss=noisy)) == []
    two = [healthy_run("a"), healthy_run("b", losses=(3.0, 1.95))]
    assert spread_warnings(two, pairs(two)) == []


def changed(place, value):
    found = ONES.copy()
    found[place] = value
    return found


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (healthy_prompt(START), "no vector moved from its start"),
        (
            healthy_prompt(START + [[0.009, 0, 0, 0], [0, 0, 0, 0.5], [0.002, 0, 0, 0]]),
            "vectors 0, 2 hardly moved, by less than 1%",
        ),
        (healthy_prompt(gradient_norms=changed((slice(-2, None), 1), 1e-5)), "of vector 1 van"),
        (healthy_prompt(gradient_norms=changed(np.s_[:, 2], 0.0)), "of vector 2 vanishes"),
        (healthy_prompt(gradient_norms=changed((4, 0), 1e4)), "explodes: 1e+04 at step 50"),
        (healthy_prompt(gradient_norms=changed((4, 0), np.nan)), "not finite at step 50"),
        (healthy_prompt(VECTORS * [[1], [1], [10]]), "vector 2 much longer"),
        (healthy_prompt(VECTORS * [[1], [0.1], [0.1]]), "vectors 1, 2 much shorter"),
        (
            healthy_prompt(np.stack([VECTORS[0], VECTORS[1], VECTORS[0] * 1.1])),
            "vectors point the same way (0 and 2)",
        ),
    ],
)
def test_what_is_off_in_a_prompt_is_said(prompt, words):
    (line,) = prompt_warnings(prompt)
    assert words in line
    assert line.startswith("encoder_prompt: ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training_loss": curve([1, 1, 1, 1, 2, 2, 2, 2])}, "higher in the second half"),
        ({"training_loss": curve([1, 1, np.inf, 1, 1, 1, 1, 1])}, "training loss is not finite"),
        ({"losses": (3.0, 2.0, 2.2)}, "rose from 2.0000 at step 20 to 2.2000"),
        ({"losses": (2.0, 2.05, 2.01)}, "never fell below its first value, 2.0000 at step 10"),
        ({"losses": (3.0, np.nan, 2.0)}, "validation loss is not finite at step 20"),
    ],
)
def test_what_is_off_in_the_losses_is_said(changes, words):
    (line,) = run_warnings(healthy_run(**changes))
    assert words in line


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"losses": (3.0, 2.5)}, "disagree: a validation loss of 1.9000 (a) and of 2.5000 (b)"),
        ({"base": "def", "losses": (9.0,)}, "different base models"),
        ({"settings": {"task": "other"}, "losses": (9.0,)}, "different tasks"),
        ({"prompt": healthy_prompt(-VECTORS)}, "began at one start but disagree"),
    ],
)
def test_runs_that_disagree(second, words):
    runs = [healthy_run("a"), healthy_run("b", **second)]
    (line,) = spread_warnings(runs, pairs(runs))
    assert words in line
