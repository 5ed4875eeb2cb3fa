"""Prompt-tuning through the command line: only the prompt is trained, stored and exported."""

import json

import jax
import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.models.partitioning import make_partitioner
from faith_jax.runs import setup
from faith_jax.runs.model_dir import read_prompt_starts
from tests.runs.conftest import PROMPT, TINY, read_item, settings
from tests.runs.test_bad_input import assert_mistake

RUN = (*TINY, *PROMPT)


@pytest.fixture(scope="module")
def base(tiny_run):
    return tiny_run


@pytest.fixture(scope="module")
def tuned(tuned_run):
    return tuned_run


def test_the_checkpoint_holds_nothing_but_the_prompt(tuned):
    step = tuned / "checkpoints" / "4"
    assert list(flatten(read_item(step / "params"))) == ["encoder_prompt/embedding"]
    state = read_item(step / "opt_state")
    arrays = [np.asarray(x) for x in jax.tree.leaves(state)]
    assert {a.shape for a in arrays} == {(), (5, 16)}
    assert sum(f.stat().st_size for f in step.rglob("*") if f.is_file()) < 200_000


def test_frozen_weights_are_the_bases_bit_for_bit(base, tuned):
    before, after = faith_jax.load_model(str(base)), faith_jax.load_model(str(tuned))
    old, new = flatten(before.params), flatten(after.params)
    assert set(new) - set(old) == {"encoder_prompt/embedding"}
    for name, array in old.items():
        assert np.asarray(array).tobytes() == np.asarray(new[name]).tobytes(), name


def test_the_start_is_kept_and_each_vector_is_watched(base, tuned):
    start = read_prompt_starts(tuned)[0]["encoder_prompt"]
    table = np.asarray(faith_jax.load_model(str(base)).params["token_embedder"]["embedding"])
    # The recipe starts from rows of the vocabulary's embeddings.
    assert all((vector == table).all(axis=1).any() for vector in start)
    rows = [json.loads(line) for line in (tuned / "metrics.jsonl").read_text().splitlines()]
    train = [row for row in rows if row["part"] == "train"]
    moved = [row["encoder_prompt_moved"] for row in train]
    assert 0 < moved[0] < moved[-1]
    embedding = faith_jax.load_model(str(tuned)).params["encoder_prompt"]["embedding"]
    way = np.linalg.norm(np.asarray(embedding) - start, axis=1)
    np.testing.assert_allclose(train[-1]["encoder_prompt_movements"], way, rtol=1e-5)
    for row in train:
        norms = np.array(row["encoder_prompt_gradient_norms"])
        assert norms.shape == (5,)
        # Nothing else is trained.
        np.testing.assert_allclose(np.linalg.norm(norms), row["gradient_norm"], rtol=1e-4)


@pytest.mark.slow
def test_frozen_weights_may_take_half_the_memory(succeed, base, tuned, tmp_path):
    folder = tmp_path / "half"
    run = (*RUN, f"--gin.MODEL_DIR={folder}", f"--gin.INITIAL_CHECKPOINT_PATH={base}")
    succeed(*run, "--gin.PARAMS_DTYPE='bfloat16'")
    prompt = read_item(folder / "checkpoints" / "4" / "params")["encoder_prompt"]["embedding"]
    assert np.asarray(prompt).dtype == np.float32
    losses = [
        [row["loss"] for row in map(json.loads, (run_folder / "metrics.jsonl").open())]
        for run_folder in (folder, tuned)
    ]
    # The weights are rounded, and nothing else.
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[0], losses[1], rtol=0.01)
    # The checkpoint names the base as it is, not rounded.
    assert faith_jax.load_model(str(folder)).params["encoder_prompt"] is not None
    model = setup.model_from_checkpoint(str(base), encoder_prompt_length=5)
    partitioner = make_partitioner(model.config)
    start = setup.StartingPoint(
        initial_checkpoint_path=str(base), trainable=(".*_prompt/.*",), params_dtype="bfloat16"
    )
    params, _ = setup.initial_params(model, partitioner, start)
    dtypes = {name: array.dtype.name for name, array in flatten(params).items()}
    assert dtypes.pop("encoder_prompt/embedding") == "float32"
    assert set(dtypes.values()) == {"bfloat16"}


def test_a_run_of_prompts_may_scan_its_layers(command, base, tuned):
    """Its checkpoints contain no layers."""
    options = (f"--gin.MODEL_DIR={tuned}", f"--gin.INITIAL_CHECKPOINT_PATH={base}")
    command.succeeds(*RUN, *options, "--gin.SCAN_LAYERS=True")


@pytest.mark.parametrize(
    ("run", "bindings", "part"),
    [
        ("new", ["PACK=True", "INITIAL_CHECKPOINT_PATH={base}"], "PACK = False"),
        ("new", [], "INITIAL_CHECKPOINT_PATH"),
        ("new", ["INITIAL_CHECKPOINT_PATH={base}", "PROMPT_LENGTH=9999"], "of 9999 vectors"),
        (
            "new",
            ["INITIAL_CHECKPOINT_PATH={base}", "PARAMS_DTYPE=int8"],
            "PARAMS_DTYPE: expected one of float32, bfloat16, got 'int8'.",
        ),
        ("tuned", ["INITIAL_CHECKPOINT_PATH={base}/checkpoints/1"], "this run began with"),
    ],
)
def test_what_prompts_cannot_do(command, base, tuned, tmp_path, run, bindings, part):
    folder = {"new": tmp_path / "new", "tuned": tuned}[run]
    options = [f"--gin.{binding.format(base=base)}" for binding in bindings]
    assert_mistake(command(*RUN, f"--gin.MODEL_DIR={folder}", *options), part)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "from_npy"])
def test_each_start_and_a_decoder_prompt(command, base, tmp_path, name):
    np.save(tmp_path / "prompt.npy", np.full((5, 16), 0.25, np.float32))
    file = [f"--gin.PROMPT_FILE={tmp_path}/prompt.npy"] if name == "from_npy" else []
    command.succeeds(
        *TINY,
        f"--gin_file=prompts/{name}.gin",
        *settings(MODEL_DIR=tmp_path / "run", INITIAL_CHECKPOINT_PATH=base),
        *settings(DECODER_PROMPT_LENGTH=5, TRAIN_STEPS=1, WARMUP_STEPS=0, LEARNING_RATE=0.0),
        *file,
    )
    params = read_item(tmp_path / "run" / "checkpoints" / "1" / "params")
    assert sorted(params) == ["decoder_prompt", "encoder_prompt"]
    if name == "from_npy":
        np.testing.assert_array_equal(params["encoder_prompt"]["embedding"], 0.25)
    if name == "uniform":
        assert np.abs(params["encoder_prompt"]["embedding"]).max() < 0.5
