"""Prompts from and to .npy files and PEFT's folders, through the command line."""

import json

import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints.checkpoint import Checkpoint, content_hash
from faith_jax.checkpoints.native import read_model_json, write_native
from tests.checkpoints.synthetic import tiny_params
from tests.checkpoints.test_native import prompt_run
from tests.checkpoints.test_peft import CAUSAL, VECTORS, write_peft
from tests.models.tiny import TINY
from tests.runs.test_bad_input import assert_mistake

# Decoder-only, with embeddings that the model scales, as Gemma's.
SCALED = TINY.replace(
    num_encoder_layers=0, positions="rotary", scale_embeddings=True, logits_via_embedding=True
)
TOKENS = np.arange(3, 15).reshape(2, 6)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Base models by kind, as checkpoints of ours."""
    folder = tmp_path_factory.mktemp("models")
    for name, config in {"t5": TINY, "scaled": SCALED}.items():
        write_native(Checkpoint(config, tiny_params(config)), folder / name)
    return folder


def succeeds(result, target):
    status, out, err = result
    assert (status, out) == (0, f"{target}\n"), err


def test_a_prompt_of_pefts_is_put_on_its_base(command, models, tmp_path):
    folder, run = write_peft(tmp_path / "peft"), tmp_path / "run"
    succeeds(command("import-prompt", folder, run, f"--base={models / 't5'}"), run)
    described = read_model_json(run)
    assert described.base == {
        "path": str(models / "t5"),
        "content_hash": content_hash(tiny_params(TINY)),
    }
    model = faith_jax.load_model(run)
    assert model.module.config == TINY.replace(encoder_prompt_length=3)
    np.testing.assert_array_equal(model.params["encoder_prompt"]["embedding"], VECTORS[:3])
    again = tmp_path / "again"
    succeeds(command("export-prompt", run, again, "--base=google/t5-v1_1-small"), again)
    fields = json.loads((again / "adapter_config.json").read_text())
    assert fields["base_model_name_or_path"] == "google/t5-v1_1-small"
    assert {path.name for path in tmp_path.iterdir()} == {"peft", "run", "again"}
    # What we wrote is read as what PEFT wrote.
    succeeds(command("import-prompt", again, run, f"--base={models / 't5'}", "--overwrite"), run)
    loaded = faith_jax.load_model(run).params["encoder_prompt"]["embedding"]
    np.testing.assert_array_equal(loaded, VECTORS[:3])


def test_scaled_embeddings_are_accounted_for(command, models, tmp_path):
    """PEFT's vectors are inserted after the scaling by sqrt(emb_dim), ours before it."""
    folder, run, back = write_peft(tmp_path / "peft", CAUSAL), tmp_path / "run", tmp_path / "back"
    succeeds(command("import-prompt", folder, run, f"--base={models / 'scaled'}"), run)
    model = faith_jax.load_model(run)
    vectors = model.params["decoder_prompt"]["embedding"]
    np.testing.assert_allclose(vectors, VECTORS / np.sqrt(8), rtol=1e-6)
    # The same as tokens whose embeddings are these vectors.
    params = faith_jax.load_model(models / "scaled").params
    table = np.array(params["token_embedder"]["embedding"])
    table[40:46] = vectors
    whole = params | {"token_embedder": {"embedding": table}}
    tokens = np.concatenate([np.tile(np.arange(40, 46), (2, 1)), TOKENS], 1)
    write_native(Checkpoint(SCALED, whole), tmp_path / "whole")
    expected = faith_jax.load_model(tmp_path / "whole").logits(tokens)[:, 6:]
    logits = model.logits(TOKENS)
    # The output layer is the embedding, which differs in the rows that were changed.
    np.testing.assert_allclose(logits[..., :40], expected[..., :40], atol=1e-5)
    succeeds(command("export-prompt", run, back), back)
    fields = json.loads((back / "adapter_config.json").read_text())
    assert fields["task_type"] == "CAUSAL_LM"
    assert fields["base_model_name_or_path"] is None
    import safetensors.numpy

    stored = safetensors.numpy.load_file(back / "adapter_model.safetensors")
    np.testing.assert_allclose(stored["prompt_embeddings"], VECTORS, rtol=1e-6)


def test_npy_files_to_and_fro(command, models, tmp_path):
    file, run, out = tmp_path / "prompt.npy", tmp_path / "run", tmp_path / "new" / "out.npy"
    np.save(file, VECTORS.astype(np.float64))
    base = f"--base={models / 't5'}"
    succeeds(command("import-prompt", file, run, base, "--prompt=decoder"), run)
    assert faith_jax.load_model(run).module.config.decoder_prompt_length == 6
    succeeds(command("export-prompt", run, out), out)
    assert np.load(out).dtype == np.float32
    np.testing.assert_array_equal(np.load(out), VECTORS)
    # prompt-tuning's files of NumPy have no ending.
    file = file.rename(tmp_path / "encoder.prompt.prompt.prompt")
    succeeds(command("import-prompt", file, run, base, "--overwrite"), run)
    assert faith_jax.load_model(run).module.config.encoder_prompt_length == 6
    peft = write_peft(tmp_path / "peft")
    succeeds(command("import-prompt", peft, out, base, "--overwrite"), out)
    np.testing.assert_array_equal(np.load(out), VECTORS[:3])


def refused(command, folder, *arguments):
    """Runs a command that must fail as a user's mistake and leave the folder unchanged."""
    before = sorted(str(path) for path in folder.rglob("*"))
    result = command(*arguments)
    assert sorted(str(path) for path in folder.rglob("*")) == before
    return result


@pytest.mark.parametrize(
    ("changes", "vectors", "base", "options", "parts"),
    [
        ({"peft_type": "LORA"}, VECTORS, "t5", (), ["'peft_type'", '"LORA"']),
        ({}, VECTORS * np.nan, "t5", (), ["finite"]),
        (CAUSAL, VECTORS, "t5", (), ["CAUSAL_LM", "SEQ_2_SEQ_LM"]),
        ({}, VECTORS, "t6", (), ["no such checkpoint", "'t5'"]),
        (CAUSAL, VECTORS, "scaled", ("--prompt=encoder",), ["has no encoder"]),
        ({}, VECTORS, None, (), ["google/t5-v1_1-small", "--base"]),
        ({"base_model_name_or_path": None}, VECTORS, None, (), ["names no base model", "--base"]),
    ],
)
def test_prompts_that_cannot_be_imported(
    command, models, tmp_path, changes, vectors, base, options, parts
):
    folder = write_peft(tmp_path / "peft", changes, np.ascontiguousarray(vectors))
    base_option = () if base is None else (f"--base={models / base}",)
    for target in (tmp_path / "run", tmp_path / "run.npy"):
        result = refused(command, tmp_path, "import-prompt", folder, target, *base_option, *options)
        assert_mistake(result, *parts)


def test_prompts_that_cannot_be_exported(command, models, tmp_path):
    run = prompt_run(tmp_path / "run", tmp_path / "gone")
    peft = tmp_path / "peft"
    export = "export-prompt"
    assert_mistake(refused(command, tmp_path, export, models / "t5", peft), "no soft prompt")
    assert_mistake(refused(command, tmp_path, export, tmp_path / "rum", peft), "'run'")
    succeeds(command(export, run, peft), peft)  # without its base
    assert_mistake(refused(command, tmp_path, export, run, peft), "--overwrite")
    succeeds(command(export, run, peft, "--overwrite"), peft)
    decoder = TINY.replace(decoder_prompt_length=2)
    whole = tiny_params(TINY) | {"decoder_prompt": {"embedding": np.ones((2, 8), np.float32)}}
    write_native(Checkpoint(decoder, whole), tmp_path / "decoder")
    result = refused(command, tmp_path, export, tmp_path / "decoder", tmp_path / "other")
    assert_mistake(result, "in front of a decoder's input")
    broken = prompt_run(tmp_path / "nan", "gone", vectors=np.full((5, 8), np.nan, np.float32))
    for target in ("other", "other.npy"):
        assert_mistake(
            refused(command, tmp_path, export, broken, tmp_path / target), "finite", "vector 0"
        )
    short = prompt_run(tmp_path / "short", "gone", vectors=np.ones((4, 8), np.float32))
    assert_mistake(refused(command, tmp_path, export, short, tmp_path / "other"), "(4, 8)")
