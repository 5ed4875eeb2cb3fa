import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.models import soft_prompt

VOCAB_SIZE, EMB_DIM = 40, 6
# Row i holds i and its square, so that no row equals a mean of rows.
EMBEDDING = np.stack([np.arange(VOCAB_SIZE), np.arange(VOCAB_SIZE) ** 2], 1).astype(np.float32)
EMBEDDING = np.concatenate([EMBEDDING, np.ones((VOCAB_SIZE, EMB_DIM - 2), np.float32)], 1)
KEYS = [jax.random.key(i) for i in range(3)]


def test_prompt_stands_in_front_of_every_row():
    module = soft_prompt.SoftPrompt(length=2, features=3)
    vectors = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    embeddings = jnp.zeros((4, 5, 3), jnp.bfloat16)
    output = module.apply({"params": {"embedding": vectors}}, embeddings)
    assert output.shape == (4, 7, 3)
    assert output.dtype == jnp.bfloat16
    for row in output:
        np.testing.assert_array_equal(row[:2], vectors)
        assert not np.any(row[2:])


def test_uniform_fills_its_range_whatever_the_vocabulary():
    prompt = np.asarray(soft_prompt.uniform(0.25)(KEYS[0], 200, EMBEDDING))
    assert prompt.shape == (200, EMB_DIM)
    assert prompt.dtype == np.float32
    assert -0.25 <= prompt.min() < -0.24
    assert 0.24 < prompt.max() < 0.25
    # The mean of n uniform numbers, within 4 standard deviations.
    assert abs(prompt.mean()) < 4 * (0.5 / np.sqrt(12)) / np.sqrt(prompt.size)
    np.testing.assert_array_equal(prompt, soft_prompt.uniform(0.25)(KEYS[0], 200, EMBEDDING * 9))
    assert not np.array_equal(prompt, soft_prompt.uniform(0.25)(KEYS[1], 200, EMBEDDING))
    prompt = np.asarray(soft_prompt.uniform(0.25, is_symmetric=False)(KEYS[0], 200, EMBEDDING))
    assert 0 <= prompt.min() < 0.01
    assert 0.24 < prompt.max() < 0.25


@pytest.mark.parametrize("length", [5, 20])
def test_sampled_vocabulary_takes_distinct_rows_of_the_most_frequent(length):
    initialize = soft_prompt.sampled_vocabulary(most_frequent=20)
    drawn = set()
    for key in KEYS:
        prompt = np.asarray(initialize(key, length, EMBEDDING))
        tokens = prompt[:, 0].astype(int)
        np.testing.assert_array_equal(prompt, EMBEDDING[tokens])
        assert len(set(tokens)) == length
        assert set(tokens) <= set(range(3, 23))  # behind padding, end and unknown
        drawn |= {tuple(tokens)}
    assert len(drawn) == len(KEYS)


def test_sampled_vocabulary_of_everything_reaches_the_last_row_but_no_special_token():
    prompt = soft_prompt.sampled_vocabulary()(KEYS[0], VOCAB_SIZE - 3, EMBEDDING)
    assert sorted(np.asarray(prompt)[:, 0]) == list(range(3, VOCAB_SIZE))


def test_sampled_vocabulary_refuses_more_vectors_than_tokens():
    with pytest.raises(ConfigError, match="prompt of 6 vectors cannot be sampled from 5 tokens"):
        soft_prompt.sampled_vocabulary(most_frequent=5)(KEYS[0], 6, EMBEDDING)


def encode(text):
    return {"YES": [10], "NO": [20, 30], "": [], "odd": [VOCAB_SIZE], "1": [10], "0": [20, 30]}[
        text
    ]


def test_class_labels_are_the_means_of_their_tokens_and_the_rest_is_filled():
    initialize = soft_prompt.class_labels(["YES", "NO"], encode, fill=soft_prompt.uniform())
    prompt = np.asarray(initialize(KEYS[0], 5, EMBEDDING))
    np.testing.assert_array_equal(prompt[0], EMBEDDING[10])
    np.testing.assert_allclose(prompt[1, :2], [25.0, (400 + 900) / 2])
    np.testing.assert_array_equal(prompt[2:], soft_prompt.uniform()(KEYS[0], 3, EMBEDDING))
    exactly = np.asarray(initialize(KEYS[0], 2, EMBEDDING))
    np.testing.assert_array_equal(exactly, prompt[:2])
    for labels in ("YES, NO", (1, 0)):  # as gin gives them
        again = soft_prompt.class_labels(labels, encode)(KEYS[0], 2, EMBEDDING)
        np.testing.assert_array_equal(again, exactly)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["YES", "NO", "YES"], "3 labels do not fit a prompt of 2 vectors"),
        ([""], "the label '' has no tokens"),
        (["odd"], "the label 'odd' has token 40, but the model's vocabulary ends at 39"),
    ],
)
def test_class_labels_refuse(labels, message):
    with pytest.raises(ConfigError, match=message):
        soft_prompt.class_labels(labels, encode)(KEYS[0], 2, EMBEDDING)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_from_npy_gives_the_vectors_of_the_file(tmp_path, dtype):
    path = tmp_path / "prompt.npy"
    vectors = np.linspace(-1, 1, 4 * EMB_DIM).reshape(4, EMB_DIM).astype(dtype)
    np.save(path, vectors)
    prompt = soft_prompt.from_npy(str(path))(KEYS[0], 4, EMBEDDING)
    assert prompt.dtype == jnp.float32
    np.testing.assert_array_equal(prompt, vectors.astype(np.float32))


def write_text(path):
    path.write_text("not an array")


def write_pickle(path):
    with path.open("wb") as file:
        np.save(file, np.array([[None] * EMB_DIM] * 4), allow_pickle=True)


def write_truncated(path):
    np.save(path, np.zeros((4, EMB_DIM)))
    path.write_bytes(path.read_bytes()[:-8])


def write_infinite(path):
    vectors = np.zeros((4, EMB_DIM))
    vectors[2, 1] = np.inf
    np.save(path, vectors)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "No such file"),
        (write_text, "not a readable .npy file"),
        (write_pickle, "not a readable .npy file"),
        (write_truncated, "not a readable .npy file"),
        (lambda path: np.save(path, np.zeros((5, EMB_DIM))), r"= \(4, 6\), got \(5, 6\)"),
        (lambda path: np.save(path, np.zeros((4, EMB_DIM), int)), r"got int64 \(4, 6\)"),
        (lambda path: np.save(path, np.full((4, EMB_DIM), 1e300)), "vector 0"),
        (lambda path: path.with_name("promt.npy").touch(), "Did you mean 'promt.npy'"),
        (write_infinite, "vector 2"),
    ],
)
def test_from_npy_names_the_file_and_what_is_wrong(tmp_path, write, message):
    path = tmp_path / "prompt.npy"
    write(path)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: .*{message}") as raised:
        soft_prompt.from_npy(str(path))(KEYS[0], 4, EMBEDDING)
    assert "\n" not in str(raised.value)
