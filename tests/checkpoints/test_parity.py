"""Outputs of `load_model` for T5 and T5X checkpoints against the reference implementations."""

import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.checkpoints.open import open_checkpoint
from tests.checkpoints import family_folders
from tests.checkpoints.synthetic import unpack_t5x
from tests.paths import REPOSITORY


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    return {
        name: family_folders.load_case(tmp_path_factory.mktemp(name), name)
        for name in family_folders.T5
    }


@pytest.mark.parametrize("name", family_folders.T5)
def test_logits_at_every_position(opened, name):
    model, expected = opened[name]
    logits = model.logits(expected["encoder_input_tokens"], expected["decoder_input_tokens"])
    np.testing.assert_allclose(logits, expected["logits"], rtol=0, atol=1e-4)


def test_log_probs_of_targets(opened):
    model, expected = opened["t5_v1_0"]
    targets, logits = expected["decoder_target_tokens"], expected["logits"].astype(np.float64)
    target_log_probs = model.target_log_probs(expected["encoder_input_tokens"], targets)
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
    mask = targets > 0
    assert not mask.all()
    np.testing.assert_allclose(target_log_probs[mask], picked[mask], atol=1e-4)
    assert np.all(target_log_probs[~mask] == 0.0)


def test_t5x_checkpoint(tmp_path):
    """Parameters and logits equal T5X's own, from its golden file for the same network."""
    with np.load(REPOSITORY / "tests/testdata/t5x_logits.npz") as golden:
        part = "t5_1_1/"
        expected = {n.removeprefix(part): golden[n] for n in golden if n.startswith(part)}
    params = {n.removeprefix("params/"): a for n, a in expected.items() if n.startswith("params/")}
    folder = unpack_t5x(tmp_path)
    for path in (folder, folder / "checkpoint_7"):
        checkpoint = open_checkpoint(path)
        read_params = flatten(checkpoint.params)
        assert read_params.keys() == params.keys()
        for name, array in params.items():
            np.testing.assert_array_equal(read_params[name], array, err_msg=name)
    model = faith_jax.EncoderDecoderModel(checkpoint.config, checkpoint.params)
    batch = {n.removeprefix("padded/"): a for n, a in expected.items()}
    logits = model.logits(batch["encoder_input_tokens"], batch["decoder_input_tokens"])
    # T5X hides padded decoder positions from each other; ours has no targets to know them by.
    valid = batch["decoder_target_tokens"] > 0
    np.testing.assert_allclose(logits[valid], batch["logits"][valid], atol=1e-4)
