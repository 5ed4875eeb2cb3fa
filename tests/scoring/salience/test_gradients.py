import types

import numpy as np
import pytest

from faith_jax.core import progress
from faith_jax.inference import EncoderDecoderModel, load_model
from faith_jax.inference.row_likelihoods import LikelihoodRow
from faith_jax.scoring.salience import gradients
from faith_jax.scoring.salience.gradients import SalienceEngine, _merge_shapes
from tests.models import tiny

SHORT, MIDDLE, LONG = (32, 32, 32), (64, 32, 32), (64, 64, 64)


def test_shapes_of_few_columns_are_merged_into_longer_ones():
    # 10 columns * (96 / 64 - 1) = 5 passes of padding, then 30 * (128 / 96 - 1) = 10.
    columns = {SHORT: 10, MIDDLE: 20, LONG: 5}
    assert _merge_shapes(columns, 5) == {SHORT: SHORT, MIDDLE: MIDDLE, LONG: LONG}
    assert _merge_shapes(columns, 6) == {SHORT: MIDDLE, MIDDLE: MIDDLE, LONG: LONG}
    assert _merge_shapes(columns, 11) == dict.fromkeys(columns, LONG)
    # Neither holds the other.
    separate = {(32, 64, 64): 1, (64, 32, 32): 1}
    assert _merge_shapes(separate, 1000) == {shape: shape for shape in separate}
    assert _merge_shapes({}, 5) == {}


@pytest.mark.slow
def test_a_row_in_parts_has_the_map_of_the_whole(model, monkeypatch):
    model = load_model(model)
    rng = np.random.default_rng(0)
    row = LikelihoodRow(rng.integers(5, 50, 20).tolist(), rng.integers(5, 50, 40).tolist())
    columns = [39, 3, 31, 32]
    (whole,) = SalienceEngine(model).maps([row], [columns])
    monkeypatch.setattr(gradients, "_PASSES_ON_CPU", 0)
    engine = SalienceEngine(model, tokens_per_batch=1)  # no batch has room for another part
    (parts,) = engine.maps([row], [columns])
    assert engine.num_compilations > 1
    np.testing.assert_allclose(parts, whole, atol=1e-5)
    np.testing.assert_allclose(parts.sum(axis=0), 1, atol=1e-6)
    later = len(row.inputs) + 4 - model.config.is_decoder_only
    assert not parts[later:, 1].any()  # of the fourth target


def test_long_work_tells_its_progress(monkeypatch, caplog):
    seconds = iter(range(0, 1000, 20))
    clock = types.SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr(progress, "time", clock)
    engine = SalienceEngine(EncoderDecoderModel(tiny.TINY, {}), tokens_per_batch=128)
    monkeypatch.setattr(
        engine,
        "_compute_batch_maps",
        lambda rows, columns, batch: [np.ones((4, len(c))) for c in columns],
    )
    with caplog.at_level("INFO", logger="faith_jax"):
        engine.maps([LikelihoodRow([3, 4], [5, 6])] * 5)
    assert [message.split("  ")[0] for message in caplog.messages] == [
        "salience: part of row 2/5", "salience: part of row 4/5", "salience: part of row 5/5",
    ]  # fmt: skip
    assert caplog.messages[1].endswith("0:10 left")
