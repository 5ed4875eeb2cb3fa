"""What is planned is what runs compile."""

import json

import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer, initial_variables
from faith_jax.runs import gin_config
from faith_jax.runs.planning.programs import UNUSED, Choice, configured
from faith_jax.runs.planning.topologies import parse_topology
from faith_jax.runs.planning.worker import Session

ONE = parse_topology("cpu:1")


@pytest.fixture
def session(tiny):
    return lambda *bindings, **more: Session(tiny(*bindings, **more), ONE, jax.devices()[:1])


@pytest.fixture
def program(tiny):
    def make(*bindings, choice=None, **more):
        gin_config.parse(*tiny(*bindings, **more), unused=UNUSED)
        return configured()(choice or Choice(), jax.devices()[:1])

    return make


def test_a_training_step_has_the_bytes_that_the_run_has_reported(session, tiny_run):
    found = session("TRAIN_STEPS=2", "WARMUP_STEPS=0", "CHECKPOINT_PERIOD=1").plan({})
    model = json.loads((tiny_run / "preflight.json").read_text())["model"]
    assert found["memory"]["total"] == model["step_bytes"]
    arguments = found["memory"]["arguments"]
    assert arguments["trained_parameters"] == 4 * model["trained"]
    assert arguments["frozen_parameters"] == model["frozen"] == 0
    assert found["fits"]
    assert found["job"] == "train"
    assert list(found["work"]) == ["step"]


PROMPT = ("tiny.gin", "prompts/sampled_vocabulary.gin")


def test_frozen_parameters_have_their_dtype_and_no_optimizer_state(program):
    found = {
        dtype: program(f"PARAMS_DTYPE='{dtype}'", files=PROMPT) for dtype in ("float32", "bfloat16")
    }
    for dtype, planned in found.items():
        trained = jax.tree.leaves(planned.arguments["trained_parameters"])
        assert [(leaf.shape, leaf.dtype) for leaf in trained] == [((5, 16), "float32")]
        frozen = jax.tree.leaves(planned.arguments["frozen_parameters"])
        assert {str(leaf.dtype) for leaf in frozen} == {dtype}
        state = jax.tree.leaves(planned.arguments["optimizer_state"])
        assert max(leaf.size for leaf in state) <= 5 * 16


@pytest.mark.parametrize(
    ("bindings", "files", "expected"),
    [
        ((), (), {"encoder_input_tokens": (4, 224), "decoder_target_tokens": (4, 224)}),
        (("PACK=True",), (), {"decoder_segment_ids": (4, 224), "encoder_input_tokens": (4, 224)}),
        (
            ("TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 32, 'negatives': (3, 16)}",),
            ("objectives/infonce.gin",),
            {"negatives": (4, 3, 16), "decoder_input_tokens": (4, 32)},
        ),
        (("NUM_MICROBATCHES=2",), ("objectives/loss_truncation.gin",), {}),
        (
            ("TransformerConfig.num_encoder_layers=0",),
            (),
            {"decoder_input_tokens": (4, 447), "decoder_loss_weights": (4, 447)},
        ),
    ],
)
def test_every_objective_of_language_models_is_planned(program, bindings, files, expected):
    planned = program(*bindings, files=("tiny.gin", *files))
    batch = planned.arguments["batch"][0]
    assert {name: batch[name].shape for name in expected} == expected
    assert planned.compile().memory_analysis().argument_size_in_bytes > 0


def test_a_choice_replaces_settings_of_the_recipe(program):
    choice = Choice(num_microbatches=4, remat_policy="full", num_partitions=1)
    planned = program("NUM_MICROBATCHES=2", choice=choice)
    assert planned.settings["NUM_MICROBATCHES"] == 4
    assert planned.settings["REMAT_POLICY"] == "full"
    with pytest.raises(ConfigError, match="BATCH_SIZE = 4 does not divide into NUM_MICROBATCHES"):
        program(choice=Choice(num_microbatches=3))


INFER = ("tiny.gin", "runs/infer_file.gin")


def test_decoding_is_planned_as_prefill_and_steps(session):
    bindings = ("DECODE_LENGTH=7", "MAX_INPUT_LENGTH=32", "BATCH_SIZE=4", "NUM_BEAMS=2")
    # What infer decodes is its own file's: train is not configured here.
    found = session(*bindings, "CHECKPOINT_PATH=mini", files=INFER[1:]).plan({})
    assert found["job"] == "infer"
    work = {name: part["operations"] for name, part in found["work"].items()}
    assert work["batch"] == work["prefill"] + 7 * work["decode_step"]
    assert work["decode_step"] > 0
    assert found["settings"]["NUM_BEAMS"] == 2


def test_a_decoder_compiles_for_shapes_what_it_runs(tiny):
    gin_config.parse(*tiny(), unused=UNUSED)
    module = Transformer(gin_config.arguments_of(_train())["model"].config)
    params = initial_variables(module, jax.random.key(0))["params"]
    partitioner = make_partitioner(module.config)
    from faith_jax.decoding.config import DecodingConfig

    decoder = BatchDecoder(module, partitioner, DecodingConfig(max_length=3), 2)
    params = jax.tree.map(lambda x: jax.device_put(x, partitioner.replicated), params)
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), params
    )
    planned = decoder.compile(shapes, 20).as_text()
    arrays = [np.ones((2, 24), np.int32), np.ones(2, np.int32), np.arange(2)]
    real = decoder._decode.compile(params, *map(partitioner.put_batch, arrays)).as_text()
    assert planned == real


def _train():
    from faith_jax.runs.train import train

    return train


def test_without_a_checkpoint_the_dimensions_must_be_given(tiny):
    gin_config.parse(*tiny(files=("npov_generate_finetune.gin",)), unused=UNUSED)
    with pytest.raises(ConfigError, match=r"--gin_file=models/t5_1_1_xxl\.gin") as raised:
        configured()
    assert "(not given): there is no such checkpoint" in str(raised.value)


def test_an_infer_recipe_without_a_checkpoint_says_so_too(program):
    with pytest.raises(ConfigError, match=r"--gin_file=models/t5_1_1_xxl\.gin"):
        program("CHECKPOINT_PATH=/nowhere", files=("runs/infer_file.gin",))


def test_a_recipe_of_another_run_cannot_be_planned(program):
    with pytest.raises(ConfigError, match="configure no run `train` or `infer`"):
        program("CHECKPOINT_PATH=mini", files=("runs/eval.gin",))


def test_what_a_job_uses_must_still_be_given(tiny):
    with pytest.raises(ConfigError, match=r"^TASK_FEATURE_LENGTHS must be set"):
        gin_config.parse(*tiny(files=("runs/train.gin", "models/t5_1_1_mini.gin")), unused=UNUSED)
