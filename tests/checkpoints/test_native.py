import dataclasses
import json
import shutil

import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest

import faith_jax
from faith_jax.checkpoints.checkpoint import (
    Checkpoint,
    content_hash,
    flatten,
    stack_layers,
    unflatten,
)
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.checkpoints.native import (
    is_native,
    read_model_json,
    read_native,
    write_model_json,
    write_native,
)
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError
from tests.checkpoints.synthetic import tiny_params
from tests.models import families
from tests.models.tiny import TINY

PARAMS = tiny_params(TINY)
BASE = Checkpoint(TINY, PARAMS, {"note": "of a test"})
PROMPTED = TINY.replace(encoder_prompt_length=5)
PROMPT = np.linspace(-1, 1, 5 * 8, dtype=np.float32).reshape(5, 8)


def same(tree, expected):
    tree, expected = ({n: np.asarray(a) for n, a in flatten(x).items()} for x in (tree, expected))
    assert sorted(tree) == sorted(expected)
    for name, array in expected.items():
        assert tree[name].dtype == array.dtype, name
        assert tree[name].tobytes() == array.tobytes(), name


def save_params(folder, params):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder, params)


def prompt_run(folder, base, params=BASE.params, step=3, config=PROMPTED, vectors=PROMPT):
    """Writes the MODEL_DIR of a run that has trained only a prompt."""
    folder.mkdir()
    described = {"path": str(base), "content_hash": content_hash(params)}
    write_model_json(folder, Checkpoint(config, {}, base=described))
    params = {"encoder_prompt": {"embedding": vectors}}
    save_params(folder / "checkpoints" / str(step) / "params", params)
    return folder


def error_of(folder, **options):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder, **options).read()
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("native") / "base"
    write_native(BASE, folder)
    return folder


@pytest.fixture
def base(tmp_path, written):
    return shutil.copytree(written, tmp_path / "base")


@pytest.mark.parametrize(
    ("dtype", "scan"), [(np.float32, True), (np.float16, False), (ml_dtypes.bfloat16, False)]
)
def test_round_trip(tmp_path, dtype, scan):
    params = unflatten({n: a.astype(dtype) for n, a in flatten(PARAMS).items()})
    params = stack_layers(params) if scan else params
    config = TINY.replace(scan_layers=scan, dtype="bfloat16")
    write_native(Checkpoint(config, params, {"note": [1, "two"]}), tmp_path / "ours")
    restored = read_native(tmp_path / "ours")
    assert restored.config == config
    assert restored.metadata == {"note": [1, "two"], "source": str(tmp_path / "ours")}
    same(restored.params, params)
    described = json.loads((tmp_path / "ours" / "model.json").read_text())
    assert described["content_hash"] == content_hash(params)
    assert not list(tmp_path.glob("*.partial"))


def test_existing_folders_are_not_written_to(base):
    with pytest.raises(CheckpointError, match="exists already"):
        write_native(BASE, base)


def test_a_path_that_orbax_cannot_write_to(tmp_path):
    with pytest.raises(CheckpointError, match=r"cannot write to a path with '\['"):
        write_native(BASE, tmp_path / "run[1]" / "ours")
    assert not list(tmp_path.rglob("*.partial"))


def write_steps(folder, losses):
    """Writes a run with validation losses, whose parameters equal the number of their step."""
    write_model_json(folder, Checkpoint(TINY, {}))
    for step, loss in losses.items():
        params = unflatten({n: np.full_like(a, step) for n, a in flatten(PARAMS).items()})
        save_params(folder / "checkpoints" / str(step) / "params", params)
        if loss is not None:
            metrics = folder / "checkpoints" / str(step) / "metrics" / "metrics"
            metrics.parent.mkdir()
            metrics.write_text(json.dumps({"loss": loss}))
    (folder / "checkpoints" / "11").mkdir()  # which is not whole


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ({9: None, 10: None}, 10),
        ({8: 0.7, 9: 0.5, 10: 0.6}, 9),
        ({9: 0.5, 10: 0.5}, 10),
        ({9: 0.5, 10: float("nan")}, 9),
    ],
)
def test_a_run_means_its_best_step(losses, best, tmp_path, caplog):
    caplog.set_level("INFO", "faith_jax")
    write_steps(tmp_path, losses)
    names = {"": best, "checkpoints/9": 9, "checkpoints/newest": 10, "checkpoints/best": best}
    for name, step in names.items():
        checkpoint = open_checkpoint(tmp_path / name).read()
        assert np.all(checkpoint.params["token_embedder"]["embedding"] == step), name
    message = f"{tmp_path}: step 9, which has the lowest validation loss; the newest is 10"
    assert caplog.text.count(message) == (best == 9)


@pytest.mark.parametrize("way", ["run/checkpoints/..", "link/../run"])
def test_paths_with_dots_and_links(way, tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    write_steps(tmp_path / "run", {9: 0.5})
    (tmp_path / "below").mkdir()
    # What ".." leads to is above what a link leads to.
    (tmp_path / "far" / "folder").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "folder")
    (tmp_path / "far" / "run").symlink_to(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    checkpoint = open_checkpoint(way).read()
    assert np.all(checkpoint.params["token_embedder"]["embedding"] == 9)


def test_folders_within_a_run_are_not_the_run(tmp_path):
    write_model_json(tmp_path, Checkpoint(TINY, {}))
    (tmp_path / "exports" / "huggingface").mkdir(parents=True)
    assert not is_native(tmp_path / "exports" / "huggingface")
    assert not is_native(tmp_path / "exports")


# Prompts and the models they belong to.


def test_prompt_is_read_with_its_base(tmp_path, base):
    run = prompt_run(tmp_path / "run", base)
    for path in (run, run / "checkpoints" / "3"):
        checkpoint = open_checkpoint(path)
        assert checkpoint.config == PROMPTED
        same(checkpoint.params, PARAMS | {"encoder_prompt": {"embedding": PROMPT}})


def test_base_is_known_by_content_in_any_form(tmp_path, base):
    run = prompt_run(tmp_path / "run", base)
    shutil.rmtree(base)
    message = error_of(run)
    assert str(base) in message
    assert "base=" in message
    write_huggingface(BASE, tmp_path / "hf")
    same(open_checkpoint(run, base=str(tmp_path / "hf")).params["encoder"], PARAMS["encoder"])
    scanned = Checkpoint(TINY.replace(scan_layers=True), stack_layers(PARAMS))
    write_native(scanned, tmp_path / "scanned")
    same(open_checkpoint(run, base=str(tmp_path / "scanned")).params["encoder"], PARAMS["encoder"])
    model = faith_jax.load_model(str(run), base=str(tmp_path / "hf"))
    assert model.config == PROMPTED


def test_scanned_prompt_model_on_a_base_that_is_not(tmp_path, base):
    config = PROMPTED.replace(scan_layers=True)
    run = prompt_run(tmp_path / "run", base, config=config)
    same(open_checkpoint(run).params["decoder"], stack_layers(PARAMS)["decoder"])


def test_prompt_of_a_base_gives_way_to_the_one_trained_on_it(tmp_path):
    prompted = PARAMS | {"decoder_prompt": {"embedding": np.ones((2, 8), np.float32)}}
    write_native(Checkpoint(TINY.replace(decoder_prompt_length=2), prompted), tmp_path / "base")
    run = prompt_run(tmp_path / "run", tmp_path / "base")
    same(open_checkpoint(run).params, PARAMS | {"encoder_prompt": {"embedding": PROMPT}})


def test_another_base_is_an_error(tmp_path, base):
    params = unflatten({n: np.nextafter(a, np.float32(9)) for n, a in flatten(PARAMS).items()})
    write_native(Checkpoint(TINY, params), tmp_path / "other")
    run = prompt_run(tmp_path / "run", base)
    message = error_of(run, base=str(tmp_path / "other"))
    assert content_hash(PARAMS)[:12] in message
    assert content_hash(params)[:12] in message
    shutil.rmtree(base)
    (tmp_path / "other").rename(base)
    assert "another model" in error_of(run)


def test_checkpoints_that_are_each_other_s_base(tmp_path, base):
    run = prompt_run(tmp_path / "own", tmp_path / "own")
    assert f"{run} names this checkpoint as its own base" in error_of(run)
    first = prompt_run(tmp_path / "first", tmp_path / "second")
    prompt_run(tmp_path / "second", first / "checkpoints" / "3")
    assert "as its own base" in error_of(first)
    same(open_checkpoint(run, base=str(base)).params["encoder"], PARAMS["encoder"])


def test_base_of_a_base(tmp_path, base):
    first = prompt_run(tmp_path / "first", base)
    second = prompt_run(tmp_path / "second", first, vectors=PROMPT + 1)
    same(open_checkpoint(second).params, PARAMS | {"encoder_prompt": {"embedding": PROMPT + 1}})


@pytest.mark.parametrize("described", ["a path", {"path": "x"}, {"path": 3, "content_hash": "x"}])
def test_broken_description_of_a_base(tmp_path, base, described):
    run = prompt_run(tmp_path / "run", base)
    fields = json.loads((run / "model.json").read_text()) | {"base": described}
    (run / "model.json").write_text(json.dumps(fields))
    assert "field 'base" in error_of(run)


def test_prompt_of_another_shape(tmp_path, base):
    run = prompt_run(tmp_path / "run", base, vectors=PROMPT[:4])
    message = error_of(run)
    assert "encoder_prompt/embedding" in message
    assert "(4, 8)" in message


# Bad input.


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"version": 2}, "field 'version': expected 1, got 2"),
        ({"config": {"vocab_size": 50, "emb_dims": 8}}, "Did you mean 'emb_dim'"),
        ({"config": TINY.replace(mlp_dim=20).to_dict()}, "mlp/w"),
        ({"config": TINY.replace(num_decoder_layers=1).to_dict()}, "decoder/layers_1"),
        ({"config": TINY.to_dict() | {"num_decoder_layers": 10**12}}, "0 to 1,000 layers"),
    ],
)
def test_description_of_something_else(base, fields, expected):
    described = json.loads((base / "model.json").read_text())
    del described["sha256"]
    (base / "model.json").write_text(json.dumps(described | fields))
    message = error_of(base)
    assert expected in message
    assert str(base) in message


@pytest.mark.parametrize("text", ["", "[]"])
def test_broken_description(base, text):
    (base / "model.json").write_text(text)
    assert str(base / "model.json") in error_of(base)


def test_no_checkpoint_yet(tmp_path):
    write_model_json(tmp_path, Checkpoint(TINY, {}))
    assert "no checkpoint has been written" in error_of(tmp_path)
    with pytest.raises(CheckpointError, match=r"no model\.json"):
        read_native(tmp_path / "nowhere")


def parameter_files(base):
    return sorted(path for path in (base / "params").rglob("*") if path.is_file())


def test_broken_files_of_the_parameters_are_noticed_wherever_they_matter(base):
    noticed = set()
    for file in parameter_files(base):
        content = file.read_bytes()
        for broken in (b"", content[: len(content) // 2], None):
            if broken is None:
                file.unlink()
            else:
                file.write_bytes(broken)
            try:
                params = open_checkpoint(base).read()
            except CheckpointError as error:
                noticed.add((file.name, broken is None, str(error).count("\n")))
            else:
                # Orbax writes some things twice, and notes that nobody needs.
                same(params.params, PARAMS)
        file.write_bytes(content)
    for name in ("_METADATA", "manifest.ocdbt"):
        assert (name, True, 0) in noticed
        assert (name, False, 0) in noticed
    largest = max(parameter_files(base), key=lambda file: file.stat().st_size)
    assert largest.name in {name for name, _, _ in noticed}
    assert not any(lines for _, _, lines in noticed)
    same(open_checkpoint(base).params, PARAMS)


def test_a_step_that_is_not_there_names_those_that_are(tmp_path):
    write_native(BASE, tmp_path / "base")
    run = prompt_run(tmp_path / "run", tmp_path / "base", step=3)
    save_params(run / "checkpoints" / "12" / "params", {"encoder_prompt": {"embedding": PROMPT}})
    for step in ("7", "9999"):
        with pytest.raises(
            CheckpointError, match=rf"{step}: no checkpoint of this step; there are 3, 12"
        ):
            open_checkpoint(run / "checkpoints" / step)
    same(open_checkpoint(run / "checkpoints" / "3").params["encoder_prompt"], {"embedding": PROMPT})


DPR = families.BERT.replace(label_names=(), pooler=False)


@pytest.mark.parametrize(
    ("config", "began_with", "expected"),
    [
        (families.GPT2, "", "gpt2"),
        (families.BLOOM, "", "bloom"),
        (families.LLAMA, "mistral", "mistral"),
        (families.LLAMA, "t5", "llama"),
        (families.BART, "", "bart"),
        (families.BART.replace(knowledge_attention=True), "bart", "doha"),
        (families.ROBERTA, "xlm-roberta", "xlm-roberta"),
        (families.BERT, "", "bert"),
        (DPR, "dpr-question", "dpr-question"),
        (families.BERT, "dpr-question", "bert"),  # with a head
        (families.ALBERT, "", "albert"),
        (families.DEBERTA, "", "deberta-v2"),
        (families.DEBERTA_V1, "", "deberta"),
        (TINY, "", "t5"),
        (PROMPTED, "mt5", "mt5"),
        (TINY.replace(num_encoder_layers=0), "", "other"),
    ],
)
def test_the_family_is_the_models(tmp_path, config, began_with, expected):
    write_model_json(tmp_path, Checkpoint(config, {}, family=began_with))
    assert read_model_json(tmp_path).family == expected


def test_the_family_goes_from_a_folder_to_ours_and_on(tmp_path):
    config = dataclasses.replace(BASE, family="mt5")
    write_native(config, tmp_path / "ours")
    assert read_native(tmp_path / "ours").family == "mt5"
