import pathlib
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.inference import CausalModel, load_model
from faith_jax.inference.opening import open_model, require_model
from faith_jax.scoring.registry import load_scorer
from tests.scoring import tiny_models

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
    ("family", "name", "tensor", "parameter"),
    [
        ("gpt2", "pmi_faith_mean", "h.0.attn.c_attn.weight", "decoder/layers_0/self_attention"),
        ("nli", "nli_entailment", "classifier.bias", "classifier"),
        ("nli", "summac_zs", "LayerNorm.weight", "encoder"),
        ("nli", "bertscore", "word_embeddings.weight", "token_embedder/embedding"),
    ],
)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
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
