import hashlib
import json
import random
import shutil
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax import cli
from faith_jax.checkpoints import manifest
from faith_jax.checkpoints.checkpoint import Checkpoint, content_hash, flatten
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.checkpoints.lazy_arrays import LazyArray
from faith_jax.checkpoints.manifest import MANIFEST, boxes, chunk_shape, tensor_digests
from faith_jax.checkpoints.native import write_model_json, write_native
from faith_jax.checkpoints.open import open_checkpoint, stored_tensors
from faith_jax.core.errors import CheckpointError
from tests.checkpoints.synthetic import tiny_params, write_t5x
from tests.models.tiny import TINY

CONFIG = TINY.replace(relative_attention_max_distance=128)
MODEL = Checkpoint(CONFIG, tiny_params(CONFIG))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Checkpoints with manifests in three forms."""
    folder = tmp_path_factory.mktemp("manifests")
    write_native(MODEL, folder / "ours")
    write_huggingface(MODEL, folder / "hugging_face")
    write_t5x(folder / "t5x", MODEL.params)
    assert cli.main(["write-manifest", str(folder / "t5x")]) == 0
    return folder


def flipped(path, place, bit=0):
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def error_of(folder):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder).read()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("shape", "divides", "expected"),
    [
        ((), False, ()),
        ((0, 4), False, (1, 4)),
        ((3, 4), False, (3, 4)),
        ((7, 4), False, (4, 4)),  # 16 numbers of 4 bytes have room
        ((7, 4), True, (1, 4)),
        ((6, 4), True, (3, 4)),
        ((5, 40), False, (1, 16)),
        ((5, 40), True, (1, 10)),
        ((2, 3, 5), False, (1, 3, 5)),
    ],
)
def test_shape_of_chunks(shape, divides, expected, monkeypatch):
    monkeypatch.setattr(manifest, "CHUNK_BYTES", 64)
    assert chunk_shape(shape, 4, divides) == expected


@given(
    st.lists(st.integers(0, 9), max_size=3),
    st.sampled_from([1, 2, 4, 8]),
    st.booleans(),
    st.integers(1, 200),
)
def test_chunks_cover_a_tensor_once(shape, itemsize, divides, limit):
    with mock.patch.object(manifest, "CHUNK_BYTES", limit):
        chunk = chunk_shape(shape, itemsize, divides)
    assert np.prod(chunk, dtype=int) * itemsize <= max(limit, itemsize)
    counts = np.zeros(shape, int)
    for box in boxes(shape, chunk):
        counts[box] += 1
    assert (counts == 1).all()
    if divides and 0 not in shape:
        assert all(size % part == 0 for size, part in zip(shape, chunk, strict=True))


def test_digests_are_of_bytes_in_c_order(monkeypatch):
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    expected = hashlib.sha256(array.tobytes()).hexdigest()
    for same in (array, np.asfortranarray(array), np.repeat(array, 2, 0)[::2]):
        digests = tensor_digests({"a": same})["a"]
        assert (digests.dtype, digests.shape, digests.chunk) == ("float32", (4, 3), (4, 3))
        assert digests.sha256 == [expected]
    assert tensor_digests({"b": np.float32(2)[...]})["b"].shape == ()


def test_the_step_of_a_state_is_checked_which_has_no_axes(tmp_path):
    written = manifest.Manifest(tensor_digests({"step": np.array(4, np.int32)}), {})
    manifest.check_tensors(tmp_path, written, {"step": np.array(4, np.int32)})
    with pytest.raises(CheckpointError, match="the tensor step differs"):
        manifest.check_tensors(tmp_path, written, {"step": np.array(5, np.int32)})


def test_the_manifest_says_what_was_written(written):
    for name in ("ours", "hugging_face", "t5x"):
        content = json.loads((written / name / MANIFEST).read_text())
        folder, tensors = stored_tensors(written / name)
        assert folder == written / name
        expected = {n: [hashlib.sha256(t.tobytes()).hexdigest()] for n, t in tensors}
        assert {n: t["sha256"] for n, t in content["tensors"].items()} == expected
        assert len(expected) > 20
    assert set(json.loads((written / "hugging_face" / MANIFEST).read_text())["files"]) == {
        "config.json"
    }


@pytest.mark.parametrize("name", ["ours", "hugging_face", "t5x"])
def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path, written, name):
    expected, num_found = content_hash(MODEL.params), 0
    for seed in range(16):
        rng = random.Random(f"{name} {seed}")
        folder = shutil.copytree(written / name, tmp_path / str(seed))
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        path = rng.choices(files, [file.stat().st_size for file in files])[0]
        flipped(path, rng.randrange(path.stat().st_size), rng.randrange(8))
        try:
            opened = open_checkpoint(folder).read()
        except CheckpointError:
            num_found += 1
            continue
        # Of bytes without a meaning, such as the times of Orbax.
        assert content_hash(opened.params) == expected
        assert opened.config == CONFIG
    assert num_found >= 8


def test_what_differs_is_named(tmp_path, written):
    folder = shutil.copytree(written / "hugging_face", tmp_path / "changed")
    flipped(folder / "model.safetensors", -1)
    message = error_of(folder)
    assert message.startswith(f"{folder}: the tensor ")
    assert message.endswith(
        "differs from what was written (chunk 1 of 1). Copy the checkpoint again; if you have "
        "changed it, remove manifest.json; --no-verify opens it as it is."
    )
    with manifest.without_verification():
        assert open_checkpoint(folder).read().config == CONFIG
    assert error_of(folder) == message
    (folder / MANIFEST).unlink()
    assert open_checkpoint(folder).read().config == CONFIG


def test_chunks_are_numbered(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "CHUNK_BYTES", 64)
    write_native(MODEL, tmp_path / "ours")
    content = json.loads((tmp_path / "ours" / MANIFEST).read_text())
    name, entry = next((n, t) for n, t in content["tensors"].items() if len(t["sha256"]) > 3)
    entry["sha256"][2] = "0"
    (tmp_path / "ours" / MANIFEST).write_text(json.dumps(content))
    count = len(entry["sha256"])
    message = f"the tensor {name} differs from what was written (chunk 3 of {count})"
    assert message in error_of(tmp_path / "ours")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["tensors"].pop("params/token_embedder/embedding"), "is not in manifest.json"),
        (lambda t: t["tensors"]["params/token_embedder/embedding"]["shape"].pop(), "another form"),
        (lambda t: t["tensors"]["params/token_embedder/embedding"]["sha256"].pop(), "another form"),
        (
            lambda t: t["tensors"]["params/token_embedder/embedding"].update(chunk=[-1, 3]),
            "another form",
        ),
        (lambda t: t["files"].update({"spiece.model": "0"}), "the file spiece.model is missing"),
        (lambda t: t.pop("tensors"), "manifest.json: field 'tensors' is missing"),
        (lambda t: t.update(version=2), "manifest.json: field 'version'"),
    ],
)
def test_a_broken_manifest(tmp_path, written, change, message):
    folder = shutil.copytree(written / "ours", tmp_path / "ours")
    content = json.loads((folder / MANIFEST).read_text())
    change(content)
    (folder / MANIFEST).write_text(json.dumps(content))
    assert message in error_of(folder)


def test_the_files_beside_the_tensors(tmp_path, written):
    folder = shutil.copytree(written / "hugging_face", tmp_path / "changed")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace("0.1", "0.2"))
    assert "the file config.json differs from the one that was written" in error_of(folder)
    (folder / "config.json").write_text(text)
    (folder / "README.md").write_text("A note.")
    assert open_checkpoint(folder).read().config == CONFIG


def test_model_json_has_its_own_digest(tmp_path):
    base = {"path": "/before", "content_hash": "0" * 64}
    write_model_json(tmp_path, Checkpoint(CONFIG, {}, {"note": [1]}, base=base))
    path, text = tmp_path / "model.json", (tmp_path / "model.json").read_text()
    from faith_jax.checkpoints.native import read_model_json

    path.write_text(text.replace("/before", "/after"))  # the base has moved
    assert read_model_json(tmp_path).base["path"] == "/after"
    path.write_text(text.replace('"dropout_rate": 0.1', '"dropout_rate": 0.3'))
    assert path.read_text() != text
    with pytest.raises(CheckpointError, match=r"model.json: differs from what was written"):
        read_model_json(tmp_path)
    with manifest.without_verification():
        assert read_model_json(tmp_path).config.dropout_rate == 0.3
    content = json.loads(text)
    content["sha257"] = content.pop("sha256")
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"unknown field 'sha257'. Did you mean 'sha256'"):
        read_model_json(tmp_path)


def test_a_part_is_verified_by_the_chunks_that_it_touches(tmp_path):
    array = np.arange(60, dtype=np.float32).reshape(12, 5)
    digests = tensor_digests({"a": array})["a"]
    digests.chunk = (4, 5)
    digests.sha256 = [manifest.chunk_digest(array[i : i + 4]).hex() for i in (0, 4, 8)]
    damaged, read = array.copy(), []
    damaged[5, 0] += 1

    def part(box):
        read.append((box[0].start, box[0].stop))
        return damaged[box]

    stored = LazyArray(array.shape, array.dtype, part)
    listing = manifest.Manifest({"a": digests}, {})
    verified = manifest.verify_when_read(tmp_path, listing, "a", stored)
    assert verified[slice(9, 11), slice(2, 3)].tolist() == [[47], [52]]
    with pytest.raises(CheckpointError, match=r"tensor a differs .*\(chunk 2 of 3\)"):
        verified[slice(4, 5), slice(1, 5)]
    with pytest.raises(CheckpointError, match=r"chunk 2 of 3"):
        np.asarray(verified)
    np.testing.assert_array_equal(verified[slice(8, 12), slice(0, 5)], array[8:])
    np.testing.assert_array_equal(verified[slice(0, 1), slice(0, 5)], array[:1])
    # Whole chunks, and parts alone of those that were verified.
    assert read == [(8, 12), (4, 8), (0, 12), (8, 12), (0, 4)]
    assert manifest.verify_when_read(tmp_path, None, "a", stored) is stored


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_what_is_not_finite_is_named(dtype):
    largest = ml_dtypes.finfo(dtype).max if dtype == ml_dtypes.bfloat16 else np.finfo(dtype).max
    array = np.array([[0.0, -0.0, 1.5], [largest, -largest, 1e-3]]).astype(dtype)
    array[1, :2] = largest, -largest
    for whole in (array, array[:, :0], np.arange(3)):
        manifest.check_finite("a", whole, "here")
    for value in (np.nan, np.inf, -np.inf, -np.nan):
        broken = array.copy()
        broken[0, 2] = value
        with pytest.raises(CheckpointError, match=r"^here: the parameter b: .* 1 of 6 are NaN or"):
            manifest.check_finite("b", broken, "here")


def test_weights_that_are_not_finite_are_not_converted(tmp_path, capsys):
    params = tiny_params(CONFIG)
    flatten(params)["decoder/decoder_norm/scale"][1] = np.inf
    write_native(Checkpoint(CONFIG, params), tmp_path / "broken")
    for command in ("import-checkpoint", "export-checkpoint"):
        assert cli.main([command, str(tmp_path / "broken"), str(tmp_path / "made")]) == 2
        assert "decoder/decoder_norm/scale: expected finite numbers" in capsys.readouterr().err
        assert not (tmp_path / "made").exists()
    flatten(params)["decoder/decoder_norm/scale"][1] = 1e5  # more than float16 has
    write_native(Checkpoint(CONFIG, params), tmp_path / "large")
    half = ["export-checkpoint", str(tmp_path / "large"), str(tmp_path / "half"), "--dtype=float16"]
    assert cli.main(half) == 2
    assert "rounded to float16: the parameter decoder/decoder_norm" in capsys.readouterr().err


def test_commands(tmp_path, written, capsys, caplog):
    caplog.set_level("INFO", "faith_jax")
    folder = shutil.copytree(written / "hugging_face", tmp_path / "theirs")
    (folder / MANIFEST).unlink()
    assert cli.main(["write-manifest", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / MANIFEST}\n"
    assert cli.main(["write-manifest", str(folder)]) == 0
    assert "is as its manifest says" in caplog.text
    flipped(folder / "model.safetensors", -1)
    assert cli.main(["write-manifest", str(folder)]) == 2
    convert = ["import-checkpoint", str(folder), str(tmp_path / "ours")]
    assert cli.main(convert) == 2
    assert "--no-verify opens it as it is" in capsys.readouterr().err
    assert cli.main([*convert, "--no-verify"]) == 0
    assert manifest.is_verifying()
    assert cli.main(["write-manifest", str(tmp_path / "nowhere")]) == 2
