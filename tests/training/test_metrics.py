import json

import jax.numpy as jnp
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from faith_jax.training.metrics import (
    MetricsWriter,
    prompt_gradient_norms,
    prompt_movement,
    trained_prompts,
)


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def write(folder, start, steps, loss=1.0):
    writer = MetricsWriter(folder, start)
    for step in steps:
        writer.write(step, "train", {"loss": loss})
    writer.close()


def test_each_line_has_step_part_and_values(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(1, "train", {"loss": 1.5, "weight": 3})
    assert lines(tmp_path) == [{"step": 1, "part": "train", "loss": 1.5, "weight": 3.0}]  # at once
    writer.write(2, "validation", {"loss": 0.25})
    writer.close()
    assert lines(tmp_path)[1] == {"step": 2, "part": "validation", "loss": 0.25}


def test_several_numbers_of_a_metric_are_a_list_of_six_digits(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(1, "train", {"norms": [0.123456789, 2.0], "loss": 1.0})
    writer.close()
    assert lines(tmp_path) == [{"step": 1, "part": "train", "loss": 1.0, "norms": [0.123457, 2.0]}]
    events = EventAccumulator(str(tmp_path / "tensorboard" / "train")).Reload()
    assert events.Tags()["tensors"] == ["loss"]


def test_a_resumed_run_drops_the_steps_it_takes_again(tmp_path):
    write(tmp_path, 0, range(1, 8))
    write(tmp_path, 4, range(5, 7), loss=2.0)
    rows = [(row["step"], row["loss"]) for row in lines(tmp_path)]
    assert rows == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0), (5, 2.0), (6, 2.0)]
    write(tmp_path, 0, [1])  # a run that starts anew
    assert [row["step"] for row in lines(tmp_path)] == [1]


@pytest.mark.parametrize(
    "cut", [b'{"step": 3, "part": "tr', b"null", '{"step": 3, "part": "é'.encode()[:-1]]
)
def test_a_line_that_was_cut_is_dropped(tmp_path, cut):
    write(tmp_path, 0, [1, 2])
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(cut)
    write(tmp_path, 3, [4])
    assert [row["step"] for row in lines(tmp_path)] == [1, 2, 4]


def test_infinite_losses_are_written_as_json_can(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write(1, "train", {"loss": float("inf")})
    writer.close()
    assert lines(tmp_path)[0]["loss"] == float("inf")


def test_tensorboard_reads_the_values(tmp_path):
    writer = MetricsWriter(tmp_path)
    for step, loss in ((10, 2.0), (20, 1.0)):
        writer.write(step, "train", {"loss": loss})
    writer.write(20, "validation", {"loss": 1.5})
    writer.close()
    for part, expected in {"train": [(10, 2.0), (20, 1.0)], "validation": [(20, 1.5)]}.items():
        events = EventAccumulator(str(tmp_path / "tensorboard" / part))
        events.Reload()
        # clu writes scalars as tensors of the summary format 2.
        points = [
            (e.step, float(tensor_util.make_ndarray(e.tensor_proto)))
            for e in events.Tensors("loss")
        ]
        assert points == expected


def test_processes_other_than_the_first_write_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(None, 0, [1, 2])
    assert list(tmp_path.iterdir()) == []


PARAMS = {
    "encoder": {"kernel": jnp.ones((2, 2))},
    "encoder_prompt": {"embedding": jnp.array([[3.0, 4.0], [0.0, 0.0], [-5.0, 12.0]])},
}


def test_each_vectors_gradient_has_its_norm():
    norms = prompt_gradient_norms(PARAMS)
    assert list(norms) == ["encoder_prompt_gradient_norms"]
    np.testing.assert_allclose(norms["encoder_prompt_gradient_norms"], [5, 0, 13])
    assert prompt_gradient_norms({"encoder": PARAMS["encoder"]}) == {}


def test_movement_is_from_the_start():
    starts = {"encoder_prompt": np.array([[0.0, 0.0], [0.0, 2.0], [-5.0, 12.0]], np.float32)}
    moved = prompt_movement(PARAMS, starts)
    assert moved["encoder_prompt_movements"] == [5.0, 2.0, 0.0]
    # The whole way over the whole start: sqrt(25 + 4) over sqrt(4 + 169).
    assert moved["encoder_prompt_moved"] == pytest.approx((29 / 173) ** 0.5)


def test_a_start_of_zeros_has_no_relative_movement():
    starts = {"encoder_prompt": np.zeros((3, 2), np.float32)}
    assert prompt_movement(PARAMS, starts)["encoder_prompt_moved"] == pytest.approx(194**0.5)


def test_prompts_are_copied():
    params = {"decoder_prompt": {"embedding": np.zeros((1, 2), np.float32)}}
    prompts = trained_prompts(params)
    params["decoder_prompt"]["embedding"] += 1
    np.testing.assert_array_equal(prompts["decoder_prompt"], [[0, 0]])
    assert trained_prompts({"encoder": {}}) == {}
