import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.training.prompt_metrics import (
    prompt_gradient_norms,
    prompt_movement,
    trained_prompts,
)

PARAMS = {
    "encoder": {"kernel": jnp.ones((2, 2))},
    "encoder_prompt": {"embedding": jnp.array([[3.0, 4.0], [0.0, 0.0], [-5.0, 12.0]])},
}


def test_each_vectors_gradient_has_its_norm():
    found = prompt_gradient_norms(PARAMS)
    assert list(found) == ["encoder_prompt_gradient_norms"]
    np.testing.assert_allclose(found["encoder_prompt_gradient_norms"], [5, 0, 13])
    assert prompt_gradient_norms({"encoder": PARAMS["encoder"]}) == {}


def test_movement_is_from_the_start():
    starts = {"encoder_prompt": np.array([[0.0, 0.0], [0.0, 2.0], [-5.0, 12.0]], np.float32)}
    found = prompt_movement(PARAMS, starts)
    assert found["encoder_prompt_movements"] == [5.0, 2.0, 0.0]
    # The whole way over the whole start: sqrt(25 + 4) over sqrt(4 + 169).
    assert found["encoder_prompt_moved"] == pytest.approx((29 / 173) ** 0.5)


def test_a_start_of_zeros_has_no_relative_movement():
    starts = {"encoder_prompt": np.zeros((3, 2), np.float32)}
    assert prompt_movement(PARAMS, starts)["encoder_prompt_moved"] == pytest.approx(194**0.5)


def test_prompts_are_copied():
    params = {"decoder_prompt": {"embedding": np.zeros((1, 2), np.float32)}}
    found = trained_prompts(params)
    params["decoder_prompt"]["embedding"] += 1
    np.testing.assert_array_equal(found["decoder_prompt"], [[0, 0]])
    assert trained_prompts({"encoder": {}}) == {}
