import gc
import os
import pathlib
import shutil
import weakref

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import faith_jax
from faith_jax.checkpoints.checkpoint import Checkpoint, flatten, stack_layers, unflatten
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.checkpoints.native import write_native
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference import CausalModel, load_model
from faith_jax.inference.opening import open_model, require_model
from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.scoring.registry import load_scorer
from tests.checkpoints.synthetic import tiny_params, write_t5x, write_t5x_orbax
from tests.models import families
from tests.models.tiny import TINY
from tests.scoring import tiny_models
from tests.training.processes import free_port, output_of, start_module

NLI = ("contradiction", "neutral", "entailment")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "gpt2": tiny_models.write_model(folder / "gpt2", "gpt2"),
        "nli": tiny_models.write_model(folder / "nli", "deberta_nli", label_names=NLI),
    }


def with_value(folder, target, tensor, value):
    """Copies a model's folder with one number of one of its tensors changed."""
    shutil.copytree(folder, target)
    path = target / "model.safetensors"
    tensors = {name: np.array(values) for name, values in load_file(path).items()}
    name = next(name for name in tensors if name.endswith(tensor))
    tensors[name].flat[1] = value
    save_file(tensors, path, metadata={"format": "pt"})
    return str(target)


@pytest.mark.parametrize(
    ("family", "name", "tensor", "parameter", "value"),
    [
        (
            *("gpt2", "pmi_faith_mean", "h.0.attn.c_attn.weight"),
            *("decoder/layers_0/self_attention", np.nan),
        ),
        ("nli", "nli_entailment", "classifier.bias", "classifier", -np.inf),
        ("nli", "bertscore", "word_embeddings.weight", "token_embedder/embedding", np.nan),
    ],
)
def test_weights_that_are_not_finite_are_refused(
    folders, tmp_path, family, name, tensor, parameter, value
):
    folder = with_value(folders[family], tmp_path / "broken", tensor, value)
    options = {"layer": 1} if name == "bertscore" else {}
    with pytest.raises(CheckpointError) as caught:
        load_scorer(name, model=folder, **options)
    message = str(caught.value)
    assert message.startswith(f"{folder}: the parameter {parameter}")
    assert ": expected finite numbers, but 1 of " in message
    assert message.endswith(" are NaN or infinite. Give another checkpoint.")


def test_finite_weights_are_not(folders, tmp_path):
    folder = with_value(folders["gpt2"], tmp_path / "large", "ln_f.bias", 3e38)
    assert open_model(folder).params["decoder"]


def test_models_are_texts_or_paths():
    assert require_model(pathlib.Path("folder")) == require_model("folder") == "folder"
    for model in (None, ""):
        with pytest.raises(ConfigError, match=r"^needs a model: give model=FOLDER"):
            require_model(model)
    with pytest.raises(ConfigError, match=r"^model: expected the path of a checkpoint, got 3"):
        require_model(3)


@pytest.mark.parametrize("path", [None, "", 3, b"folder", ["folder"]])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(CheckpointError, match=r"^load_model: expected the path of a checkpoint"):
        load_model(path)


def test_paths_of_both_kinds_and_dtypes(tmp_path):
    folder = tiny_models.write_model(tmp_path / "m", "gpt2")
    assert isinstance(load_model(folder), CausalModel)
    assert load_model(pathlib.Path(folder), dtype="bfloat16").config.dtype == "bfloat16"
    for dtype in ("float61", 3):
        with pytest.raises(ConfigError, match=rf"dtype: expected .* got {dtype!r}"):
            load_model(folder, dtype=dtype)


def test_layers_that_were_scanned_are_apart(tmp_path):
    config = TINY.replace(num_encoder_layers=1)
    params = tiny_params(config)
    write_native(Checkpoint(config, params), tmp_path / "apart")
    scanned = config.replace(scan_layers=True)
    write_native(Checkpoint(scanned, stack_layers(params)), tmp_path / "scanned")
    unstacked, stacked = (load_model(tmp_path / name) for name in ("apart", "scanned"))
    assert stacked.config == unstacked.config
    tokens = np.array([[5, 6, 7, 1]])
    np.testing.assert_array_equal(
        stacked.target_log_probs(tokens, tokens), unstacked.target_log_probs(tokens, tokens)
    )


# On a mesh: each process reads the parts that its devices hold.

SIZES = {"vocab_size": 64, "emb_dim": 16, "num_heads": 8, "head_dim": 2, "mlp_dim": 64}
MODELS = {
    "t5": TINY.replace(**SIZES, relative_attention_max_distance=128),
    "gpt2": families.GPT2.replace(**SIZES, attention_scale=2**-0.5),
    "bloom": families.BLOOM.replace(**SIZES, attention_scale=2**-0.5),
}


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """Checkpoints of several forms, and one with a NaN in the last rows of its embedding."""
    folder = tmp_path_factory.mktemp("forms")
    models = {name: Checkpoint(config, tiny_params(config)) for name, config in MODELS.items()}
    for name, model in models.items():
        write_huggingface(model, folder / name)
    write_native(models["t5"], folder / "native")
    write_t5x(folder / "t5x" / "checkpoint_7", stack_layers(models["t5"].params))
    write_t5x_orbax(folder / "orbax", models["t5"].params)
    (folder / "gpt2" / "manifest.json").unlink()
    damaged = flatten(models["t5"].params)
    table = damaged["token_embedder/embedding"].copy()
    table[60, 3] = np.nan
    damaged["token_embedder/embedding"] = table
    write_huggingface(Checkpoint(MODELS["t5"], unflatten(damaged)), folder / "damaged")
    return folder


@pytest.mark.slow
@pytest.mark.devices
def test_every_shard_is_that_part_of_the_whole(forms):
    names = ["t5", "gpt2", "bloom", "native", "t5x", "orbax", "damaged"]
    folders = [forms / name for name in names]
    address = f"127.0.0.1:{free_port()}"
    name = "tests.inference.opening_processes"
    runs = [start_module(name, *folders)]
    runs += [
        start_module(name, f"--process={address}/{number}", *folders, devices=4)
        for number in range(2)
    ]
    run_lines = [
        [line for line in output_of(run).splitlines() if "peer ranks" not in line] for run in runs
    ]
    t5, gpt2, bloom = "40 of 52, 40 of 52", "21 of 36, 21 of 36", "21 of 37, 21 of 37"
    expected = [t5, gpt2, bloom, t5, t5, t5]
    nan = "the parameter token_embedder/embedding: expected finite numbers, but 1 of"
    for lines, last in zip(
        run_lines,
        ["1,024", "512", "512"],  # process 0 has not read it, and says what process 1 has found
        strict=True,
    ):
        assert lines[:-1] == expected
        assert lines[-1].startswith(f"CheckpointError: {folders[-1]}: {nan} {last}")


@pytest.mark.parametrize(
    ("name", "family"),
    [("nli_entailment", "nli"), ("salience_hallucination", "gpt2"), ("bertscore", "nli")],
)
def test_changed_checkpoints_are_opened_again(folders, tmp_path, monkeypatch, name, family):
    """The same path may later name another folder, or a folder with other files."""
    example = GroundedExample("1", Grounding(("Tea is a leaf.",)), ("Tea?",), "Tea is a leaf.")
    options = {"layer": 1} if name == "bertscore" else {}

    def score():
        scorer = load_scorer(name, model="m", **options)
        return scorer.score([example])[0].value

    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        shutil.copytree(folders[family], tmp_path / place / "m")
    weights = tmp_path / "two" / "m" / "model.safetensors"
    tensors = {key: np.array(values) for key, values in load_file(weights).items()}
    for seed, key in enumerate(sorted(tensors)):
        noise = np.random.default_rng(seed).normal(size=tensors[key].shape)
        tensors[key] = (tensors[key] + noise).astype(tensors[key].dtype)
    save_file(tensors, weights, metadata={"format": "pt"})
    monkeypatch.chdir(tmp_path / "one")
    first = score()
    monkeypatch.chdir(tmp_path / "two")
    second = score()
    assert second != first
    monkeypatch.chdir(tmp_path / "one")
    assert score() == first
    shutil.copy(weights, "m")
    assert score() == second


def test_models_are_kept_until_they_change_or_are_cleared(folders, tmp_path):
    folder, changed = str(folders["nli"]), shutil.copytree(folders["nli"], tmp_path / "m")
    gc.freeze()  # what was there before need not be looked through
    first = open_model(folder)
    assert pair_classifier(folder) is pair_classifier(folder)
    assert open_model(folder) is first is pair_classifier(folder).engine.model
    models = [weakref.ref(open_model(str(changed)))]
    pair_classifier(str(changed))
    os.utime(changed / "model.safetensors", ns=(1, 1))
    models.append(weakref.ref(open_model(str(changed))))
    gc.collect()
    assert models[0]() is None  # nor does the classifier keep it
    assert open_model(str(changed)) is models[1]()
    assert open_model(folder) is first
    faith_jax.clear_models()
    gc.collect()
    assert models[1]() is None
    assert open_model(folder) is not first
