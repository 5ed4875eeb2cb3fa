"""Prompt-tuning through the command line: only the prompt learns, is stored and moves."""

import json

import jax
import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.models.partitioning import make_partitioner
from faith_jax.runs import setup
from faith_jax.runs.model_dir import read_prompt_starts, write_prompt_starts
from tests.runs.conftest import TINY, read_item

STEPS = ("--gin.TRAIN_STEPS=4", "--gin.WARMUP_STEPS=0", "--gin.CHECKPOINT_PERIOD=2")
PROMPT = (
    *TINY,
    "--gin_file=prompts/sampled_vocabulary.gin",
    "--gin.OPTIMIZER=@optimizers.adamw()",
    "--gin.LEARNING_RATE=0.1",
    *STEPS,
)


@pytest.fixture(scope="module")
def base(tiny_run):
    return tiny_run


@pytest.fixture(scope="module")
def tuned(succeed, base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompt")
    succeed(*PROMPT, f"--gin.MODEL_DIR={folder}", f"--gin.INITIAL_CHECKPOINT_PATH={base}")
    return folder


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


def test_the_log_says_how_far_the_prompt_moved(tuned):
    rows = [json.loads(line) for line in (tuned / "metrics.jsonl").read_text().splitlines()]
    moved = [row["encoder_prompt_moved"] for row in rows if row["part"] == "train"]
    assert len(moved) == 4
    assert 0 < moved[0] < moved[-1]


def test_the_start_is_kept_and_each_vector_is_watched(base, tuned):
    start = read_prompt_starts(tuned)[0]["encoder_prompt"]
    table = np.asarray(faith_jax.load_model(str(base)).params["token_embedder"]["embedding"])
    # The recipe starts from rows of the vocabulary's embeddings.
    assert all((vector == table).all(axis=1).any() for vector in start)
    rows = [json.loads(line) for line in (tuned / "metrics.jsonl").read_text().splitlines()]
    train = [row for row in rows if row["part"] == "train"]
    found = faith_jax.load_model(str(tuned)).params["encoder_prompt"]["embedding"]
    way = np.linalg.norm(np.asarray(found) - start, axis=1)
    np.testing.assert_allclose(train[-1]["encoder_prompt_movements"], way, rtol=1e-5)
    for row in train:
        norms = np.array(row["encoder_prompt_gradient_norms"])
        assert norms.shape == (5,)
        # Nothing else is trained.
        np.testing.assert_allclose(np.linalg.norm(norms), row["gradient_norm"], rtol=1e-4)


@pytest.mark.slow
def test_frozen_weights_may_take_half_the_memory(succeed, base, tuned, tmp_path):
    folder = tmp_path / "half"
    run = (*PROMPT, f"--gin.MODEL_DIR={folder}", f"--gin.INITIAL_CHECKPOINT_PATH={base}")
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


def test_another_dtype_of_parameters_is_refused(command, base, tmp_path):
    run = (*PROMPT, f"--gin.MODEL_DIR={tmp_path}/m", f"--gin.INITIAL_CHECKPOINT_PATH={base}")
    status, _, error = command(*run, "--gin.PARAMS_DTYPE='int8'")
    assert (status, error) == (
        2,
        "faith-jax: PARAMS_DTYPE: expected one of float32, bfloat16, got 'int8'.\n",
    )
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_a_run_that_goes_on_knows_its_first_start(command, base, tmp_path):
    run = (*PROMPT, f"--gin.MODEL_DIR={tmp_path}", f"--gin.INITIAL_CHECKPOINT_PATH={base}")
    assert command(*run, "--gin.TRAIN_STEPS=2")[0] == 0
    # The start that is kept counts, though other libraries would make another one by now.
    origin = {"initializer": "sampled_vocabulary", "seed": "0"}
    starts, found = read_prompt_starts(tmp_path)
    assert found == origin
    start = starts["encoder_prompt"] + np.float32(1)
    write_prompt_starts(tmp_path, {"encoder_prompt": start}, origin)
    status, _, err = command(*run, "--gin.TRAIN_STEPS=3")
    assert status == 0, err
    starts, found = read_prompt_starts(tmp_path)
    assert found == origin
    np.testing.assert_array_equal(starts["encoder_prompt"], start)
    found = read_item(tmp_path / "checkpoints" / "3" / "params")["encoder_prompt"]["embedding"]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    (last,) = [row for row in rows if row["part"] == "train" and row["step"] == 3]
    way = np.linalg.norm(found - start, axis=1)
    np.testing.assert_allclose(last["encoder_prompt_movements"], way, rtol=1e-5)


def test_the_prompt_changes_what_the_model_says(base, tuned):
    tokens = np.arange(3, 19).reshape(2, 8)
    before = faith_jax.load_model(str(base)).logits(tokens, tokens)
    after = faith_jax.load_model(str(tuned)).logits(tokens, tokens)
    assert np.abs(before - after).max() > 1e-3


def test_a_prompt_that_does_not_move_is_warned_of(command, base, tmp_path, caplog):
    with caplog.at_level("WARNING", logger="faith_jax"):
        status, _, err = command(
            *PROMPT,
            f"--gin.MODEL_DIR={tmp_path}",
            f"--gin.INITIAL_CHECKPOINT_PATH={base}",
            "--gin.LEARNING_RATE=0.0",
            "--gin.TRAIN_STEPS=1",
        )
    assert status == 0, err
    assert any("has not moved" in record.message for record in caplog.records)


def test_a_run_of_prompts_may_scan_its_layers(command, base, tuned):
    """Its checkpoints contain none."""
    given = (f"--gin.MODEL_DIR={tuned}", f"--gin.INITIAL_CHECKPOINT_PATH={base}")
    status, _, err = command(*PROMPT, *given, "--gin.SCAN_LAYERS=True")
    assert status == 0, err


@pytest.mark.slow
def test_another_base_is_an_error(command, succeed, tuned, tmp_path):
    other = ("--gin.TRAIN_STEPS=1", "--gin.WARMUP_STEPS=0", "--gin.RANDOM_SEED=7")
    succeed(*TINY, f"--gin.MODEL_DIR={tmp_path}", *other)
    status, _, err = command(
        *PROMPT, f"--gin.MODEL_DIR={tuned}", f"--gin.INITIAL_CHECKPOINT_PATH={tmp_path}"
    )
    assert status == 2
    assert "this run began with" in err


@pytest.mark.parametrize(
    ("bindings", "part"),
    [
        (["--gin.PACK=True", "--gin.INITIAL_CHECKPOINT_PATH={base}"], "PACK = False"),
        ([], "INITIAL_CHECKPOINT_PATH"),
        (
            ["--gin.INITIAL_CHECKPOINT_PATH={base}", "--gin.PROMPT_LENGTH=9999"],
            "prompt of 9999 vectors",
        ),
    ],
)
def test_what_prompts_cannot_do(command, base, tmp_path, bindings, part):
    given = [b.replace("{base}", str(base)) for b in bindings]
    status, _, err = command(*PROMPT, f"--gin.MODEL_DIR={tmp_path}", *given)
    assert status == 2
    assert part in err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "class_labels", "from_npy"])
def test_each_start_and_a_decoder_prompt(command, base, tmp_path, name):
    np.save(tmp_path / "prompt.npy", np.full((5, 16), 0.25, np.float32))
    file = [f"--gin.PROMPT_FILE={tmp_path}/prompt.npy"] if name == "from_npy" else []
    status, _, err = command(
        *TINY,
        f"--gin_file=prompts/{name}.gin",
        f"--gin.MODEL_DIR={tmp_path / 'run'}",
        f"--gin.INITIAL_CHECKPOINT_PATH={base}",
        "--gin.DECODER_PROMPT_LENGTH=5",
        "--gin.TRAIN_STEPS=1",
        "--gin.WARMUP_STEPS=0",
        "--gin.LEARNING_RATE=0.0",
        *file,
    )
    assert status == 0, err
    params = read_item(tmp_path / "run" / "checkpoints" / "1" / "params")
    assert sorted(params) == ["decoder_prompt", "encoder_prompt"]
    if name == "from_npy":
        np.testing.assert_array_equal(params["encoder_prompt"]["embedding"], 0.25)
    if name == "uniform":
        assert np.abs(params["encoder_prompt"]["embedding"]).max() < 0.5
