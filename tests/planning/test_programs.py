"""Plans compile the same programs as runs."""

import json
import re

import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.decoding.config import DecodingConfig
from faith_jax.gin_files import config as gin_config
from faith_jax.inference import CausalModel, EncoderDecoderModel, row_likelihoods
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow, scoring_program
from faith_jax.models.config import TransformerConfig
from faith_jax.planning.programs import UNUSED, configure_job, summed_bytes
from faith_jax.planning.topologies import parse_topology
from faith_jax.planning.worker import PlanRequest, Session
from faith_jax.scoring.salience import maps
from tests.models.tiny import model_and_params
from tests.quick import slow_except

ONE = parse_topology("cpu:1")


@pytest.fixture
def one_device(monkeypatch):
    monkeypatch.setattr(type(ONE), "devices", lambda _: jax.devices()[:1])


@pytest.fixture
def session(tiny, one_device):
    return lambda *bindings, **more: Session(tiny(*bindings, **more), ONE)


@pytest.fixture
def program(tiny):
    def make(*bindings, choice=None, **more):
        gin_config.parse(*tiny(*bindings, **more)[:4], unused=UNUSED)
        return configure_job().make(choice or {}, jax.devices()[:1])

    return make


def test_a_training_step_has_the_bytes_that_the_run_has_reported(session, tiny_run):
    bindings = ("TRAIN_STEPS=2", "WARMUP_STEPS=0", "CHECKPOINT_PERIOD=1")
    plan = session(*bindings).plan(PlanRequest(evaluations=False))
    model = json.loads((tiny_run / "preflight.json").read_text())["model"]
    assert plan["memory"]["total"] == model["step_bytes"]
    arguments = plan["memory"]["arguments"]
    assert arguments["trained_parameters"] == 4 * model["trained"]
    assert arguments["frozen_parameters"] == model["frozen"] == 0
    assert plan["fits"]
    assert plan["job"] == "train"
    assert list(plan["work"]) == ["step"]


@pytest.mark.slow
def test_evaluations_run_beside_the_training_state(session):
    plan = session("DECODE_LENGTH=5", files=("tiny.gin", "decoding/greedy.gin")).plan(PlanRequest())
    loss, decoded = (plan["evaluations"][name] for name in ("evaluation", "decoded_evaluation"))
    state = plan["memory"]["arguments"]["optimizer_state"]
    assert state > 0
    for planned in (loss, decoded):
        arguments = planned["memory"]["arguments"]
        assert arguments["optimizer_state"] == state
        assert arguments["trained_parameters"] > 0
        assert (
            planned["memory"]["total"] >= sum(arguments.values()) + planned["memory"]["temporaries"]
        )
    # A gradient takes about twice as many operations as the loss.
    ratio = plan["work"]["step"]["operations"] / loss["work"]["batch"]["operations"]
    assert 2.5 < ratio < 3.5
    work = {name: part["operations"] for name, part in decoded["work"].items()}
    assert work["batch"] == work["prefill"] + 5 * work["decode_step"]
    assert work["decode_step"] > 0


PROMPT = ("tiny.gin", "prompts/sampled_vocabulary.gin")


def test_frozen_parameters_have_their_dtype_and_no_optimizer_state(program):
    programs = {
        dtype: program(f"PARAMS_DTYPE='{dtype}'", files=PROMPT) for dtype in ("float32", "bfloat16")
    }
    for dtype, planned in programs.items():
        arguments = planned.program.arguments
        trained = jax.tree.leaves(arguments["trained_parameters"])
        assert [(leaf.shape, leaf.dtype) for leaf in trained] == [((5, 16), "float32")]
        frozen = jax.tree.leaves(arguments["frozen_parameters"])
        assert {str(leaf.dtype) for leaf in frozen} == {dtype}
        state = jax.tree.leaves(arguments["optimizer_state"])
        assert max(leaf.size for leaf in state) <= 5 * 16


INFONCE = ("TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 32, 'negatives': (3, 16)}",)
SHAPES = {
    "alone": ((), (), {"encoder_input_tokens": (4, 224), "decoder_target_tokens": (4, 224)}),
    "packed": (
        ("PACK=True",),
        (),
        {"decoder_segment_ids": (4, 224), "encoder_input_tokens": (4, 224)},
    ),
    "infonce": (
        INFONCE,
        ("objectives/infonce.gin",),
        {"negatives": (4, 3, 16), "decoder_input_tokens": (4, 32)},
    ),
    "truncation": (("NUM_MICROBATCHES=2",), ("objectives/loss_truncation.gin",), {}),
    "decoder-only": (
        ("TransformerConfig.num_encoder_layers=0",),
        (),
        {"decoder_input_tokens": (4, 447), "decoder_loss_weights": (4, 447)},
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_objective_of_language_models_is_planned(program, name):
    bindings, files, expected = SHAPES[name]
    planned = program(*bindings, files=("tiny.gin", *files)).program
    batch = planned.arguments["batch"][0]
    assert {name: batch[name].shape for name in expected} == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["infonce", "truncation"])
def test_further_objectives_are_compiled(program, name):
    bindings, files, _ = SHAPES[name]
    planned = program(*bindings, files=("tiny.gin", *files)).program
    assert planned.compile().memory_analysis().argument_size_in_bytes > 0


def test_steps_that_are_counted_in_the_data_are_planned_without_them(session, tmp_path):
    recipe = tmp_path / "recipe.gin"
    recipe.write_text("STEPS_OF_MINE = @epochs.steps()\nTRAIN_STEPS = %STEPS_OF_MINE\n")
    planned = session(
        "MODEL=@transformer.Transformer()",
        "MIXTURE_OR_TASK_NAME=labelled_responses_classify",
        "WARMUP_STEPS=@half/epochs.steps()",
        "LOG_PERIOD=7",
        files=("models/t5_1_1_mini.gin", "classify_finetune.gin", str(recipe)),
    )
    settings = dict(re.findall(r"(?m)^([A-Z_]+) = (\S+)$", planned.facts.config))
    assert settings["TRAIN_STEPS"] == "%STEPS_OF_MINE"
    names = ("STEPS_OF_MINE", "EVAL_PERIOD", "CHECKPOINT_PERIOD", "WARMUP_STEPS", "LOG_PERIOD")
    assert [settings[name] for name in names] == ["1000", "1000", "1000", "0", "7"]


def test_facts_say_that_a_batch_cannot_be_taken_in_pieces(session):
    bindings = (*INFONCE, "IN_BATCH_NEGATIVES=True")
    assert session(*bindings, files=("tiny.gin", "objectives/infonce.gin")).facts.couples_rows


def test_a_choice_replaces_settings_of_the_recipe(program):
    choice = {"num_microbatches": 4, "remat_policy": "full", "num_partitions": 1}
    planned = program("NUM_MICROBATCHES=2", choice=choice)
    assert planned.settings["NUM_MICROBATCHES"] == 4
    assert planned.settings["REMAT_POLICY"] == "full"
    with pytest.raises(ConfigError, match="BATCH_SIZE = 4 does not divide into NUM_MICROBATCHES"):
        program(choice={"num_microbatches": 3})


INFER = ("tiny.gin", "runs/infer_file.gin")


@pytest.mark.slow
def test_decoding_is_planned_as_prefill_and_steps(session):
    bindings = ("DECODE_LENGTH=7", "MAX_INPUT_LENGTH=32", "BATCH_SIZE=4", "NUM_BEAMS=2")
    # What infer decodes is its own file's: train is not configured here.
    plan = session(*bindings, "CHECKPOINT_PATH=mini", files=INFER[1:]).plan(PlanRequest())
    assert plan["job"] == "infer"
    work = {name: part["operations"] for name, part in plan["work"].items()}
    assert work["batch"] == work["prefill"] + 7 * work["decode_step"]
    assert work["decode_step"] > 0
    assert plan["settings"]["NUM_BEAMS"] == 2


CONFIG = TransformerConfig(
    vocab_size=64, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=16, num_encoder_layers=1,
    num_decoder_layers=1, dropout_rate=0.0,
)  # fmt: skip
CONFIGS = [CONFIG, CONFIG.replace(num_encoder_layers=0)]


def shapes_of(tree):
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=getattr(x, "sharding", None)),
        tree,
    )


@pytest.fixture(params=slow_except(CONFIGS, CONFIGS[1:]), ids=["encoder-decoder", "decoder-only"])
def model(request):
    _, params = model_and_params(request.param)
    kind = CausalModel if request.param.is_decoder_only else EncoderDecoderModel
    return kind(request.param, params)


def test_a_decoder_compiles_for_shapes_what_it_runs(model):
    decoder = BatchDecoder(model.module, model.partitioner, DecodingConfig(max_length=3), 2)
    planned = decoder.compile(shapes_of(model.params), 20)
    arrays = [np.ones((2, 24), np.int32), np.ones(2, np.int32), np.zeros((2, 2), np.uint32)]
    arrays = map(model.partitioner.put_batch, arrays)
    run = decoder._decode.compile(model.params, *arrays)
    # They are the same but for numbers of names, and the lines of our code that asked for them.
    instructions = [re.findall(r"^ .* = .*", code.as_text(), re.M) for code in (planned, run)]
    planned_lines, run_lines = (
        [re.sub(r", metadata={.*?}|(?<=region_)[0-9.]+", "", line) for line in lines]
        for lines in instructions
    )
    assert planned_lines == run_lines
    assert len(run_lines) > 100


class Spy:
    """Stands for a jitted function, and notes the arguments that it is called and lowered with."""

    def __init__(self, function):
        self.function, self.called, self.lowered = function, [], []

    def __call__(self, *arguments, **last):
        self.called.append((*arguments, *last.values()))
        return self.function(*arguments, **last)

    def lower(self, *arguments):
        self.lowered.append(arguments)
        return self.function.lower(*arguments)


def assert_lowered_as_called(spy):
    (called,), (lowered,) = spy.called, spy.lowered
    assert jax.tree.structure(called) == jax.tree.structure(lowered)
    for arg, spec in zip(jax.tree.leaves(called), jax.tree.leaves(lowered), strict=True):
        if hasattr(spec, "shape"):
            assert (arg.shape, arg.dtype) == (spec.shape, spec.dtype)
        else:
            assert arg == spec


ROW = LikelihoodRow([2] * 120, [3] * 9)


def test_likelihoods_are_planned_as_they_are_computed(model, monkeypatch):
    params, module = shapes_of(model.params), model.module
    compiled, turns = scoring_program(module, model.partitioner, params, ROW, 2)
    assert turns == 1
    # With memory for 5 tokens' logits, the 18 targets take 4 turns.
    with monkeypatch.context() as patched:
        patched.setattr(row_likelihoods, "MAX_LOGITS_BYTES", 5 * 4 * model.config.vocab_size)
        assert scoring_program(module, model.partitioner, params, ROW, 2)[1] == 4
    if not model.config.is_decoder_only:  # two programs of the engine are one here
        assert compiled().memory_analysis().argument_size_in_bytes > 0
        return
    spy = Spy(row_likelihoods._score_targets)
    monkeypatch.setattr(row_likelihoods, "_score_targets", spy)
    # As on an accelerator; 128 tokens are fed, which fill a line.
    monkeypatch.setattr(
        row_likelihoods, "_MAX_LOGITS_BYTES_ON_CPU", row_likelihoods.MAX_LOGITS_BYTES
    )
    engine = LikelihoodEngine(model, 256)
    engine.log_probs([ROW, ROW._replace(inputs=[4] * 120)])
    compiled, _ = scoring_program(module, model.partitioner, params, ROW, 2)
    assert compiled().memory_analysis().argument_size_in_bytes > 0
    assert_lowered_as_called(spy)


def test_salience_maps_are_planned_as_they_are_computed(model, monkeypatch):
    spy = Spy(maps._compute_maps)
    monkeypatch.setattr(maps, "_compute_maps", spy)
    is_causal = model.config.is_decoder_only
    rows = model.partitioner.rows
    tokens = [np.ones((2, n), np.int32) for n in (20, 28 if is_causal else 9, 9)]
    encoder, decoder, positions = map(model.partitioner.put_batch, tokens)
    encoder = None if is_causal else encoder
    # As on an accelerator, which no number of tokens bounds.
    monkeypatch.setattr(maps, "TOKENS_ON_CPU", 10**9)
    with model.partitioner.active():
        maps.salience_maps(
            model.module, model.params, encoder, decoder, decoder, max_bytes=maps.MAX_BYTES,
            positions=positions, num_columns=np.int32(9),
        )  # fmt: skip
    shapes = [x if x is None else shapes_of(x) for x in (encoder, decoder, positions)]
    assert shapes[1].sharding == rows
    compiled, turns = maps.maps_program(
        model.module, model.partitioner, shapes_of(model.params), *shapes
    )
    assert compiled().memory_analysis().argument_size_in_bytes > 0
    assert_lowered_as_called(spy)
    assert turns == 1  # all nine together


@pytest.mark.slow
@pytest.mark.parametrize("job", ["score", "salience"])
def test_scores_and_maps_are_planned_with_the_model_and_lengths_of_infer(tiny, one_device, job):
    bindings = ("DECODE_LENGTH=30", "MAX_INPUT_LENGTH=40", "BATCH_SIZE=4", "CHECKPOINT_PATH=mini")
    recipe = tiny(*bindings, files=INFER[1:])._replace(job=job)
    plan = Session(recipe, ONE).plan(PlanRequest())
    assert (plan["job"], list(plan["work"])) == (job, ["batch"])
    assert plan["settings"]["DECODE_LENGTH"] == 30
    assert plan["work"]["batch"]["operations"] > 0
    with pytest.raises(ConfigError, match="configure no run `infer`"):
        Session(tiny()._replace(job=job), ONE)


def test_partitions_add_up_what_layers_put_out():
    # Two outputs of 2 bytes in each of 3 encoder layers, three in each of 4 decoder layers.
    config = CONFIG.replace(dtype="bfloat16", num_encoder_layers=3, num_decoder_layers=4)
    assert summed_bytes(config, 5, 7) == (2 * 3 * 5 + 3 * 4 * 7) * 16 * 2
    assert summed_bytes(config.replace(num_encoder_layers=0), 5, 7) == 2 * 4 * 12 * 16 * 2


def test_rows_that_do_not_divide_are_told_with_partitions_that_would(tiny):
    gin_config.parse(*tiny("BATCH_SIZE=2")[:4], unused=UNUSED)
    devices = list(np.full(8, jax.devices()[0]))
    message = r"2 rows does not divide over 8 .*\. Or give NUM_PARTITIONS one of 4, 8\."
    with pytest.raises(ConfigError, match=message):
        configure_job().make({}, devices)


def test_without_a_checkpoint_the_dimensions_must_be_given(tiny):
    gin_config.parse(*tiny(files=("npov_generate_finetune.gin",))[:4], unused=UNUSED)
    with pytest.raises(ConfigError, match=r"--gin_file=models/t5_1_1_xxl\.gin") as raised:
        configure_job()
    assert "(not given): there is no such checkpoint" in str(raised.value)
