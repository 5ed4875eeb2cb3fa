"""Our own gin files in the style of T5X and prompt-tuning, run with our commands."""

import json
import logging
import re

import gin
import jax
import numpy as np
import pytest

from faith_jax import cli
from faith_jax.core.errors import ConfigError
from faith_jax.gin_files import config as gin_config
from faith_jax.gin_files import t5x_files
from faith_jax.gin_files import translate_t5x as translation
from faith_jax.gin_files.t5x_statements import is_t5x
from tests.runs.test_bad_input import assert_mistake

MODEL = "t5x/examples/t5/t5_1_1/tiny.gin"
NUCLEUS = "prompt_tuning/configs/models/decoding/nucleus_sampling.gin"
FINETUNE = """
from __gin__ import dynamic_registration
import __main__ as train_script
import seqio
import t5.data.mixtures
from t5x import adafactor
from t5x import models
from t5x import trainer
from t5x import utils
from t5x.examples.t5 import network

include 't5x/configs/runs/finetune.gin'
include 't5x/examples/t5/t5_1_1/tiny.gin'

STEPS_BETWEEN = 2
MIXTURE_OR_TASK_NAME = 'npov_generate_sample'
TASK_FEATURE_LENGTHS = {'inputs': 256, 'targets': 256}
TRAIN_STEPS = 4
BATCH_SIZE = 2
DROPOUT_RATE = 0.0
INITIAL_CHECKPOINT_PATH = None
USE_CACHED_TASKS = False
LOSS_NORMALIZING_FACTOR = 233472

train_script.train:
  eval_period = %STEPS_BETWEEN
  train_dataset_cfg = @train/utils.DatasetConfig()
  infer_eval_dataset_cfg = @infer_eval/utils.DatasetConfig()
  random_seed = None
train/utils.DatasetConfig:
  seed = 7
  pack = False
infer_eval/utils.DatasetConfig:
  split = 'validation'
  batch_size = 64
models.EncoderDecoderModel:
  z_loss = 0.001
  label_smoothing = 0.1
models.EncoderDecoderModel.predict_batch_with_aux.num_decodes = 2
network.T5Config:
  vocab_size = 4224
  dtype = 'float32'
adafactor.Adafactor.decay_rate = 0.7
utils.create_learning_rate_scheduler:
  factors = 'constant * linear_warmup'
  base_learning_rate = 0.01
  warmup_steps = 2
utils.SaveCheckpointConfig:
  period = 2
  keep = 1
trainer.Trainer.num_microbatches = None
seqio.Evaluator:
  logger_cls = [@seqio.JSONLogger]
  num_examples = None
"""
TRAIN = "faith_jax.runs.train.train"


@pytest.fixture
def parsed(tmp_path):
    """Parses a text and bindings; returns a function that looks up the value bound to our name."""

    def parse(text, *bindings):
        file = tmp_path / "user.gin"
        file.write_text(text)
        gin_config.parse([str(file)], ["MODEL_DIR=runs/a", *bindings])

        def value(name):
            return gin.query_parameter(name)

        return value

    return parse


def test_a_users_file_sets_what_it_sets_in_t5x(parsed):
    value = parsed(FINETUNE)
    assert value("TRAIN_STEPS/macro.value") == 4
    assert value("Z_LOSS/macro.value") == 0.001
    assert value("LOSS_NORMALIZING_FACTOR/macro.value") == 233472
    assert value("LABEL_SMOOTHING/macro.value") == 0.1
    assert value("EVAL_PERIOD/macro.value").__repr__() == "%STEPS_BETWEEN"
    assert value("CHECKPOINT_PERIOD/macro.value") == 2
    assert value("KEEP_LAST/macro.value") == 1
    assert value("NUM_BEAMS/macro.value") == 2
    assert value("VOCAB_SIZE/macro.value") == 4224
    assert value("DTYPE/macro.value") == "float32"
    assert value("RANDOM_SEED/macro.value") == 0
    assert value("NUM_MICROBATCHES/macro.value") == 1
    assert value("train_split/faith_jax.input.task_batches.DatasetConfig.seed") == 7
    assert value("PACK/macro.value") is False
    assert value("faith_jax.training.optimizers.adafactor.decay_rate") == 0.7
    assert value("faith_jax.training.optimizers.factored_rate.warmup_steps") == 2
    assert value("faith_jax.models.config.TransformerConfig.emb_dim") == 8


def test_evaluation_before_training_is_that_of_t5x(parsed):
    value = parsed(f"{FINETUNE}\ntrain_script.train.run_eval_before_training = True\n")
    assert value("EVAL_BEFORE_TRAINING/macro.value") is True
    before = value("faith_jax.runs.train.Evaluation.before_training")
    assert repr(before) == "%EVAL_BEFORE_TRAINING"


@pytest.mark.parametrize(
    ("bindings", "steps", "first"),
    [
        (["TRAIN_STEPS=1_000_020"], 20, 1_000_000),
        (["TRAIN_STEPS=1_000_020", "TRAIN_STEPS_RELATIVE=5"], 5, 1_000_000),
        (["TRAIN_STEPS=20", "INITIAL_CHECKPOINT_PATH=checkpoints/t5"], 20, 0),
        (["TRAIN_STEPS=1020", "INITIAL_CHECKPOINT_PATH=a/checkpoint_1000/checkpoint"], 20, 1000),
        (["TRAIN_STEPS=1020", "MINE='a/checkpoint_1000'", "INITIAL_CHECKPOINT_PATH=%MINE"], 20,
         1000),
        (["MINE=1_000_020", "TRAIN_STEPS=%MINE"], 20, 1_000_000),
        (["MINE=1_000_020", "__main__.train.total_steps=%MINE"], 20, 1_000_000),
        (["TRAIN_STEPS=20", "t5x.utils.CheckpointConfig.restore=None"], 20, 0),
    ],
)  # fmt: skip
def test_train_steps_count_those_of_the_checkpoint(parsed, bindings, steps, first):
    value = parsed(FINETUNE, "INITIAL_CHECKPOINT_PATH=a/checkpoint_1000000", *bindings)
    assert value("TRAIN_STEPS/macro.value") == steps
    assert value("faith_jax.training.optimizers.factored_rate.first_step") == first


def test_train_steps_count_those_of_what_is_in_a_folder(parsed, tmp_path):
    t5x_dir, ours = tmp_path / "theirs", tmp_path / "ours"
    for step in (200, 1000):
        (t5x_dir / f"checkpoint_{step}").mkdir(parents=True)
        (t5x_dir / f"checkpoint_{step}" / "checkpoint").write_bytes(b"")
    (ours / "checkpoints" / "1000").mkdir(parents=True)
    (ours / "model.json").write_text("{}")
    latest = "t5x.utils.RestoreCheckpointConfig.mode='latest'"
    value = parsed(FINETUNE, "TRAIN_STEPS=1020", f"INITIAL_CHECKPOINT_PATH={t5x_dir}", latest)
    assert value("TRAIN_STEPS/macro.value") == 20
    assert value("INITIAL_CHECKPOINT_PATH/macro.value") == str(t5x_dir)
    value = parsed(FINETUNE, "TRAIN_STEPS=1020", f"INITIAL_CHECKPOINT_PATH={ours}")
    assert value("TRAIN_STEPS/macro.value") == 1020
    assert value("INITIAL_CHECKPOINT_PATH/macro.value") == str(ours)  # the best, as in our files
    parsed(FINETUNE, "TRAIN_STEPS=1020", f"INITIAL_CHECKPOINT_PATH={ours}", latest)
    assert value("INITIAL_CHECKPOINT_PATH/macro.value") == f"{ours}/checkpoints/newest"


def test_the_newest_step_is_taken_on_a_store_too(parsed, tmp_path, monkeypatch):
    (tmp_path / "checkpoints" / "1000").mkdir(parents=True)
    (tmp_path / "model.json").write_text("{}")
    monkeypatch.setattr(translation, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(translation, "checkpoint_path", lambda name: tmp_path)
    latest = "t5x.utils.RestoreCheckpointConfig.mode='latest'"
    value = parsed(FINETUNE, "TRAIN_STEPS=20", "INITIAL_CHECKPOINT_PATH=gs://b/run", latest)
    assert value("INITIAL_CHECKPOINT_PATH/macro.value") == "gs://b/run/checkpoints/newest"
    assert value("TRAIN_STEPS/macro.value") == 20


RATE = """
RATE_STEPS = 500
utils.create_learning_rate_scheduler:
  factors = 'constant * linear_warmup * rsqrt_decay'
  base_learning_rate = 0.5
  warmup_steps = %RATE_STEPS
"""


@pytest.mark.parametrize("name", ["RATE_STEPS", "RATE_WARMUP_STEPS"])
def test_a_users_macro_of_the_warm_up_is_read(name, parsed):
    parsed(FINETUNE + RATE.replace("RATE_STEPS", name))
    schedule = gin.get_bindings("faith_jax.runs.train.Optimization")["learning_rate"]
    rates = [float(schedule(step)) for step in (0, 1, 4, 100)]  # T5X's own values
    np.testing.assert_allclose(rates, [1e-8, 4.472136e-5, 1.788854e-4, 4.472136e-3], rtol=1e-5)


@pytest.mark.parametrize("name", ["PEAK_RATE", "LEARNING_RATE"])
def test_a_users_macro_may_have_any_name(name, parsed):
    mine = f"{name} = 0.25\nFACTORS = 'constant'\nutils.create_learning_rate_scheduler:\n"
    text = FINETUNE + mine + f"  base_learning_rate = %{name}\n  factors = %FACTORS\n"
    parsed(text)
    schedule = gin.get_bindings("faith_jax.runs.train.Optimization")["learning_rate"]
    assert float(schedule(7)) == 0.25


# The statements of T5X's pretrain.gin that read macros of other names here.
PRETRAIN = """
from __gin__ import dynamic_registration
import __main__ as train_script
from t5x import trainer
from t5x import utils
include 't5x/models/t5_1_1_mini.gin'
MIXTURE_OR_TASK_NAME = 'a'
TASK_FEATURE_LENGTHS = {'inputs': 8, 'targets': 5}
TRAIN_STEPS = 4
SHUFFLE_TRAIN_EXAMPLES = True
TRAIN_STEPS_RELATIVE = None
train_script.train:
  train_dataset_cfg = @train/utils.DatasetConfig()
  train_eval_dataset_cfg = @train_eval/utils.DatasetConfig()
  infer_eval_dataset_cfg = None
  total_steps = %TRAIN_STEPS
  relative_steps = %TRAIN_STEPS_RELATIVE
train/utils.DatasetConfig:
  mixture_or_task_name = %MIXTURE_OR_TASK_NAME
  shuffle = %SHUFFLE_TRAIN_EXAMPLES
trainer.Trainer.num_microbatches = 0
utils.RestoreCheckpointConfig.path = []
"""


def test_a_copy_of_t5xs_pretrain_file(parsed):
    value = parsed(PRETRAIN, "SHUFFLE_TRAIN_EXAMPLES=False")
    (dataset,) = [gin.get_bindings("train_split/faith_jax.input.task_batches.DatasetConfig")]
    assert dataset["shuffle"] is False
    assert value("NUM_MICROBATCHES/macro.value") == 1
    assert value("INITIAL_CHECKPOINT_PATH/macro.value") is None
    assert value("DECODING/macro.value") is None
    assert "factored_rate" in repr(value("LEARNING_RATE_SCHEDULE/macro.value"))
    # T5X's own defaults, since this file sets no learning rate.
    schedule = gin.get_bindings("faith_jax.runs.train.Optimization")["learning_rate"]
    rates = [float(schedule(step)) for step in (0, 500, 4000)]
    np.testing.assert_allclose(rates, [1e-8, 0.25 / 1000**0.5, 0.5 / 4000**0.5], rtol=1e-5)


@pytest.mark.parametrize(("first", "last"), [(False, True), (True, False)])
def test_the_last_pack_holds(first, last, parsed):
    text = FINETUNE.replace("pack = False", f"pack = {first}")
    parsed(text, f"train/utils.DatasetConfig.pack={last}")
    bound = gin.get_bindings("train_split/faith_jax.input.task_batches.DatasetConfig")
    assert bound["pack"] is last


@pytest.mark.parametrize(
    ("script", "more", "policy"),
    [("train", [], "end"), ("train", ["CUT_POLICY=knowledge"], "knowledge"),
     ("eval", [], "error"), ("eval", ["TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 5}"], "end"),
     ("infer", ["TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 5}", "TASK_FEATURE_LENGTHS=None"],
      "error"),
     ("infer", ["TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 5}"], "end")],
)  # fmt: skip
def test_long_inputs_are_trimmed_as_in_t5x(script, more, policy, parsed):
    if script == "train":
        parsed(FINETUNE, *more)
    else:
        files = ["t5x/models/t5_1_1_mini.gin", f"t5x/configs/runs/{script}.gin"]
        settings = ["CHECKPOINT_PATH=a", "MIXTURE_OR_TASK_NAME=b", f"{script.upper()}_OUTPUT_DIR=c"]
        settings.append("t5x.utils.DatasetConfig.batch_size=7")
        gin_config.parse(files, [*settings, *more])
        assert gin.query_parameter("BATCH_SIZE/macro.value") == 7
        dataset = gin.get_bindings("faith_jax.input.task_batches.DatasetConfig")
        targets = 512 if policy == "error" else 5
        assert dataset["task_feature_lengths"]["targets"] == targets
    assert gin.query_parameter("CUT_POLICY/macro.value") == policy


@pytest.mark.parametrize(
    ("decoded", "dataset"), [("@infer_eval/utils.DatasetConfig()", "test"), ("None", None)]
)
def test_rows_are_decoded_without_a_loss_of_others(decoded, dataset, parsed, caplog):
    text = FINETUNE.replace("split = 'validation'", "split = 'test'").replace(
        "@infer_eval/utils.DatasetConfig()", f"{decoded}\n  train_eval_dataset_cfg = None"
    )
    text += "train_eval/utils.DatasetConfig.split = 'other'\n"
    caplog.set_level(logging.INFO)
    value = parsed(text)
    is_logged = "train_eval_dataset_cfg = None: the rows of infer_eval are decoded" in caplog.text
    assert is_logged == (dataset is not None)
    if dataset is None:
        assert value("faith_jax.runs.train.Evaluation.dataset") is None
    else:
        assert value("DECODING/macro.value") is not None
        (dataset,) = [gin.get_bindings("eval_split/faith_jax.input.task_batches.DatasetConfig")]
        assert dataset["split"] == "test"


# `finetune.gin` is included again, so its bindings replace the earlier ones.
AGAIN = "from t5x import utils\n{}\ninclude 't5x/configs/runs/finetune.gin'\n" + "".join(
    f"{line}\n" for line in (
        "TRAIN_STEPS = 1100", "INITIAL_CHECKPOINT_PATH = '/t5/checkpoint_10'", "EVAL_PERIOD = 9",
        "utils.SaveCheckpointConfig.period = %EVAL_PERIOD",
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "steps", "period"),
    [("train_script.train.total_steps = 50", "", 1090, 9),
     ("utils.RestoreCheckpointConfig.path = '/t5/checkpoint_1000'", "", 1090, 9),
     ("", "train_script.train.eval_period = 7\nEVAL_PERIOD = 9", 1090, 7),
     ("", "train_script.train.total_steps = 50\nTRAIN_STEPS = 99", 40, 9),
     ],
)  # fmt: skip
def test_statements_hold_in_gins_order(before, after, steps, period, parsed):
    parsed(FINETUNE + AGAIN.format(before) + after)
    assert gin.get_bindings("faith_jax.runs.train.Optimization")["total_steps"] == steps
    assert gin.get_bindings("faith_jax.runs.train.Evaluation")["period"] == period
    output = gin.get_bindings("faith_jax.runs.train.Output")
    assert output["checkpoint_period"] == 9  # T5X's macro, whatever eval_period is bound to
    start = gin.get_bindings("faith_jax.runs.setup.StartingPoint")
    assert start["initial_checkpoint_path"] == "/t5/checkpoint_10"


def test_in_a_scope_the_scopes_own_bindings_hold(parsed, caplog):
    caplog.set_level(logging.INFO)
    rate = "utils.create_learning_rate_scheduler"
    value = parsed(
        f"{FINETUNE}\nmine/{rate}.base_learning_rate = 0.25\n"
        f"{rate}.base_learning_rate = 0.5\nothers/{rate}.base_learning_rate = 0.75\n"
        f"trainer.Trainer.learning_rate_fn = @mine/{rate}()\n"
    )
    assert value("faith_jax.training.optimizers.factored_rate.base_learning_rate") == 0.25
    assert "nothing refers to the scope others/" in caplog.text


def test_a_file_may_begin_with_a_byte_order_mark(parsed):
    assert parsed(f"\ufeff{FINETUNE}")("TRAIN_STEPS/macro.value") == 4
    assert parsed("\ufeffinclude 'quickstart.gin'\n")("TRAIN_STEPS/macro.value") == 40


@pytest.mark.parametrize(
    ("lines", "split", "told"),
    [("train_script.train.train_eval_dataset_cfg = @a/utils.DatasetConfig()\n"
      "train_script.train.train_eval_dataset_cfg = @b/utils.DatasetConfig()\n", "of_b", "a"),
     ("train_script.train.infer_eval_dataset_cfg = @train_eval/utils.DatasetConfig()\n"
      "train_eval/utils.DatasetConfig.split = 'theirs'\n", "theirs", "infer_eval"),
     ("utils.DatasetConfig.split = 'root'\n", "validation", None)],
)  # fmt: skip
def test_a_data_set_has_the_part_that_it_is_bound_to_last(lines, split, told, parsed, caplog):
    caplog.set_level(logging.INFO)
    splits = "b/utils.DatasetConfig.split = 'of_b'\na/utils.DatasetConfig.split = 'of_a'\n"
    parsed(f"{FINETUNE}from t5x import utils\n{lines}{splits if '@b' in lines else ''}")
    dataset = gin.get_bindings("eval_split/faith_jax.input.task_batches.DatasetConfig")
    assert dataset["split"] == split
    assert dataset["use_cached"] is False
    noted = re.findall(r": (\w+): no argument of train refers to this data set", caplog.text)
    assert noted == ([] if told is None else [told])


@pytest.mark.parametrize(("factor", "ours"), [("NUM_REAL_TARGET_TOKENS", None), (None, 1.0)])
def test_losses_are_divided_as_in_t5x(factor, ours, parsed):
    value = parsed(FINETUNE, f"LOSS_NORMALIZING_FACTOR={factor!r}")
    assert value("LOSS_NORMALIZING_FACTOR/macro.value") == ours


def test_the_command_line_has_the_files_names_of_modules(parsed):
    text = FINETUNE.replace("import __main__ as train_script", "import __main__ as mine")
    text = text.replace("train_script.train:", "mine.train:")
    assert parsed(text, "mine.train.eval_period=3")("EVAL_PERIOD/macro.value") == 3
    # T5X's finetune.gin calls it so.
    assert parsed(text, "train_script.train.eval_period=5")("EVAL_PERIOD/macro.value") == 5


def test_an_edited_copy_at_the_place_of_t5xs_file_is_told(parsed, tmp_path, monkeypatch, caplog):
    copy = tmp_path / "t5x" / "configs" / "runs" / "finetune.gin"
    copy.parent.mkdir(parents=True)
    copy.write_text("BATCH_SIZE = 7\n")
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)
    parsed(FINETUNE)
    assert "t5x/configs/runs/finetune.gin is not read. Give it another name" in caplog.text


PROMPTS = "prompt_tuning/configs/prompts/from_{}.gin"
OWN_PROMPT = """
from prompt_tuning import prompts
prompts.Prompt:
  length = 20
  prompt_init = @prompt_init/prompts.from_sample_of_embeddings()
"""
# The model's file binds the scale of this scope.
FLAX_PROMPT = """
from flax import linen
from prompt_tuning import prompts
linen.initializers.uniform.scale = 0.125
prompts.Prompt.prompt_init = @prompt_init/linen.initializers.uniform()
"""


@pytest.mark.parametrize(
    ("name", "initializer", "length"),
    [(None, "uniform", 100), ("class_labels", "class_labels", 100), ("file", "from_npy", 100),
     ("own", "sampled_vocabulary", 20), ("flax", "uniform", 100)],
)  # fmt: skip
def test_prompts_keep_their_length(name, initializer, length, tmp_path):
    files = ["prompt_tuning/configs/models/t5_1_1_small_prompt.gin"]
    if name in ("own", "flax"):
        files.append(str(tmp_path / "own.gin"))
        (tmp_path / "own.gin").write_text(OWN_PROMPT if name == "own" else FLAX_PROMPT)
    elif name is not None:
        files.append(PROMPTS.format(name))
    settings = ["MIXTURE_OR_TASK_NAME=a", "TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 5}",
                "TRAIN_STEPS=4", "INITIAL_CHECKPOINT_PATH=mini", "MODEL_DIR=b"]  # fmt: skip
    settings += ["PROMPT_FILE=c.npy"] if name == "file" else []
    gin_config.parse([*files, "prompt_tuning/configs/runs/prompt_finetune.gin"], settings)
    model = gin.get_bindings("faith_jax.models.config.TransformerConfig")
    assert model["encoder_prompt_length"] == length
    assert initializer in repr(gin.query_parameter("PROMPT_INITIALIZER/macro.value"))
    if initializer == "sampled_vocabulary":  # prompt-tuning's samples from id 0 on
        assert gin.query_parameter("PROMPT_FIRST_TOKEN/macro.value") == 0
    if initializer == "uniform":  # flax's
        drawn = gin.get_bindings("faith_jax.runs.setup.StartingPoint")["prompt_initializer"](
            jax.random.key(0), 50, np.zeros((3, 8))
        )
        assert 0 <= drawn.min() < 0.01
        assert 0.49 < drawn.max() < 0.5


@pytest.mark.slow
def test_a_file_of_t5x_trains(command, tmp_path, caplog):
    file, model = tmp_path / "user.gin", tmp_path / "model"
    file.write_text(FINETUNE)
    options = ("--gin.DECODE_LENGTH=4", f"--gin.MODEL_DIR='{model}'")
    status, _, err = command("train", f"--gin_file={file}", *options)
    assert status == 0, err
    assert "decoded metrics are of the rows of validation here" in caplog.text
    assert "the tasks of the package t5.data.mixtures are not here" in caplog.text
    losses = [float(x) for x in re.findall(r"validation loss (\S+)", caplog.text)]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    assert (model / "checkpoints" / "4").is_dir()
    # T5X's finetune.gin decodes the task's metrics.
    metrics = [json.loads(line) for line in (model / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in metrics if "rouge1" in row] == [2, 4]  # whenever it evaluates
    (rate,) = [row["learning_rate"] for row in metrics if "learning_rate" in row]
    np.testing.assert_allclose(rate, 0.01, rtol=1e-6)
    # The other two programs read it.
    for script, more in (
        ("eval", (f"--gin.EVAL_OUTPUT_DIR={tmp_path / 'eval'}",)),
        ("infer", (f"--gin.INFER_OUTPUT_DIR={tmp_path / 'infer'}", "--gin.FORMATS=('jsonl',)")),
    ):
        status, _, err = command(
            script,
            f"--gin_file={MODEL}",
            f"--gin_file=t5x/configs/runs/{script}.gin",
            "--gin.network.T5Config.vocab_size=4224",
            f"--gin.CHECKPOINT_PATH={model}",
            "--gin.MIXTURE_OR_TASK_NAME=npov_generate_sample",
            "--gin.TASK_FEATURE_LENGTHS={'inputs': 256, 'targets': 256}",
            "--gin.DROPOUT_RATE=0.0",
            "--gin.DECODE_LENGTH=4",
            *more,
        )
        assert status == 0, err
    (written,) = (tmp_path / "infer").glob("*.jsonl")
    assert json.loads(written.read_text().splitlines()[0])["id"]


def test_prompts_are_tuned_with_files_of_prompt_tuning(parsed):
    text = (
        "from prompt_tuning import prompts\n"
        "include 'prompt_tuning/configs/models/t5_1_1_base_prompt.gin'\n"
        "include 'prompt_tuning/configs/prompts/from_class_labels.gin'\n"
        "include 'prompt_tuning/configs/runs/prompt_finetune.gin'\n"
        "CLASS_LABELS = ['YES', 'NO']\nprompts.Prompt.length = 20\nTRAIN_STEPS = 1_000_010\n"
        "MIXTURE_OR_TASK_NAME = 'a'\nTASK_FEATURE_LENGTHS = {'inputs': 8, 'targets': 8}\n"
        "INITIAL_CHECKPOINT_PATH = 'b/checkpoint_1000000'\n"
    )
    value = parsed(text)
    assert value("PROMPT_LENGTH/macro.value") == 20
    assert value("CLASS_LABELS/macro.value") == ["YES", "NO"]
    assert repr(value("PROMPT_INITIALIZER/macro.value")).endswith("soft_prompt.class_labels()")
    assert value("TRAINABLE/macro.value") == (".*_prompt/.*",)
    assert value("faith_jax.training.optimizers.adafactor.multiply_by_parameter_scale") is False
    assert value("faith_jax.training.optimizers.adafactor.weight_decay") == 1e-5
    assert value("faith_jax.training.optimizers.factored_rate.base_learning_rate") == 0.3
    assert value("PACK/macro.value") is False


def test_dimensions_of_prompt_tunings_models_and_a_submesh(parsed):
    text = (
        "from t5x import partitioning\n"
        "include 'prompt_tuning/configs/models/mt5_small_prompt.gin'\n"
        "include 'prompt_tuning/configs/runs/prompt_finetune.gin'\n"
        "MIXTURE_OR_TASK_NAME = 'a'\nTASK_FEATURE_LENGTHS = {'inputs': 8, 'targets': 5}\n"
        "TRAIN_STEPS = 10\nINITIAL_CHECKPOINT_PATH = 'b'\n"
        "EMBED_DIM = 24\nMLP_DIM = %EMBED_DIM\nNUM_EMBEDDINGS = 300\n"
        "partitioning.PjitPartitioner.model_parallel_submesh = (4, 4, 1, 2)\n"
    )
    value = parsed(text)
    assert value("NUM_PARTITIONS/macro.value") == 32
    model = gin.get_bindings("faith_jax.models.config.TransformerConfig")
    assert (model["emb_dim"], model["mlp_dim"], model["vocab_size"]) == (24, 24, 300)


def test_infer_takes_the_prompt_of_the_checkpoint(tmp_path):
    files = (
        "prompt_tuning/configs/models/t5_1_1_base_prompt.gin",
        "prompt_tuning/configs/prompts/from_file.gin",
        "prompt_tuning/configs/runs/prompt_infer.gin",
    )
    bindings = ("CHECKPOINT_PATH=a", "INFER_OUTPUT_DIR=b", "MIXTURE_OR_TASK_NAME=c",
                "TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 5}")  # fmt: skip
    gin_config.parse(files, bindings)
    assert gin.query_parameter("ENCODER_PROMPT_LENGTH/macro.value").__repr__() == "%PROMPT_LENGTH"
    for paths in (files, files[::2]):  # prompt-tuning's run file includes that of a prompt's file
        with pytest.raises(ConfigError, match=r"path = 'p\.npy': infer takes the prompt"):
            gin_config.parse(paths, [*bindings, "PROMPT_FILE=p.npy"])


# T5X's own texts name their macros and their network; these are ours, of the same form.
COPIED = """
from __gin__ import dynamic_registration
import seqio
from t5x import adafactor
from t5x import models
from t5x.examples.scalable_t5 import network
include 't5x/configs/runs/finetune.gin'
TRAIN_STEPS = 4
MIXTURE_OR_TASK_NAME = 'a'
TASK_FEATURE_LENGTHS = {'inputs': 8, 'targets': 5}
INITIAL_CHECKPOINT_PATH = None
DROPOUT_RATE = %gin.REQUIRED
ROWS = None
VOCABULARY = @seqio.ByteVocabulary()
OPTIMIZER = @adafactor.Adafactor()
MODEL = @models.EncoderDecoderModel()
models.EncoderDecoderModel:
  module = @network.Transformer()
  input_vocabulary = %VOCABULARY
  output_vocabulary = %VOCABULARY
  optimizer_def = %OPTIMIZER
seqio.Evaluator.num_examples = %ROWS
network.Transformer.config = @network.T5Config()
network.T5Config:
  emb_dim = 24
  scan_layers = True
  dropout_rate = %DROPOUT_RATE
"""


@pytest.mark.parametrize("package", ["examples.scalable_t5", "contrib.gpu.t5"])
def test_a_copy_of_t5xs_model_file(parsed, package):
    text = COPIED.replace("examples.scalable_t5", package)
    value = parsed(text, "DROPOUT_RATE=0.2")
    assert value("VOCABULARY/macro.value") == "byt5"
    assert value("faith_jax.models.config.TransformerConfig.emb_dim") == 24
    assert value("SCAN_LAYERS/macro.value") is True
    assert value("DROPOUT_RATE/macro.value") == 0.2
    if package == "contrib.gpu.t5":  # NVIDIA's
        with pytest.raises(ConfigError, match="scale_attn_logits = True: expected False"):
            parsed(f"{text}  scale_attn_logits = True\n", "DROPOUT_RATE=0.2")


def test_a_file_on_the_search_path_is_read_where_none_stands_for_it(tmp_path):
    folder = tmp_path / "theirs"
    file = folder / "t5x" / "examples" / "mine.gin"
    file.parent.mkdir(parents=True)
    file.write_text(COPIED)
    bindings = ["DROPOUT_RATE=0.2", "MODEL_DIR=a"]
    gin_config.parse(["t5x/examples/mine.gin"], bindings, [str(folder)])
    assert gin.query_parameter("faith_jax.models.config.TransformerConfig.emb_dim") == 24
    with pytest.raises(ConfigError, match="There is no gin file"):
        gin_config.parse(["t5x/examples/yours.gin"], bindings, [str(folder)])


@pytest.mark.parametrize(("bindings", "length"), [([], 64), (["DECODE_LENGTH=9"], 9)])
def test_responses_are_as_long_as_targets_may_be(parsed, bindings, length):
    settings = [*bindings, "TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 64}"]
    assert parsed(FINETUNE, *settings)("DECODE_LENGTH/macro.value") == length


@pytest.mark.parametrize(
    ("settings", "temperature", "top_k", "top_p"),
    [("", 1.0, 1, 1.0), ("decoding.temperature_sample:\n  topk = 0\n  topp = 0.9\n", 1.0, 0, 0.9),
     (f"include '{NUCLEUS}'\n", 1.0, 0, 0.9), (None, 0.0, 0, 1.0)],
)  # fmt: skip
def test_sampling_has_t5xs_defaults(parsed, settings, temperature, top_k, top_p):
    decoder = "models.EncoderDecoderModel.decode_fn = @decoding.temperature_sample\n"
    if settings is None:  # another decoder than the included file's
        settings = f"include '{NUCLEUS}'\n"
        decoder = decoder.replace("temperature_sample", "beam_search")
    text = FINETUNE.replace("num_decodes = 2", "num_decodes = 1")
    value = parsed(text + "from t5x import decoding\n" + settings + decoder)
    assert value("TEMPERATURE/macro.value") == temperature
    assert value("TOP_K/macro.value") == top_k
    assert value("TOP_P/macro.value") == top_p


@pytest.mark.parametrize(("value", "count"), [("True", "%NUM_BEAMS"), ("False", "1")])
def test_all_decodes_may_be_returned(value, count, parsed):
    line = f"models.EncoderDecoderModel.predict_batch_with_aux.return_all_decodes = {value}\n"
    assert repr(parsed(FINETUNE + line)("NUM_RETURN/macro.value")) == count


@pytest.mark.parametrize(
    ("run", "line", "decodes"),
    [("pretrain", "", False), ("finetune", "None", False),
     ("pretrain", "@infer_eval/utils.DatasetConfig()", True)],
)  # fmt: skip
def test_rows_are_decoded_where_t5x_decodes_them(run, line, decodes, parsed):
    text = COPIED.replace("runs/finetune.gin", f"runs/{run}.gin")
    if line:
        text += (
            f"import __main__ as train_script\ntrain_script.train.infer_eval_dataset_cfg = {line}\n"
        )
    if "@" in line:
        text = text.replace(
            "from t5x import models", "from t5x import models\nfrom t5x import utils"
        )
    assert (parsed(text, "DROPOUT_RATE=0.2")("DECODING/macro.value") is not None) == decodes


@pytest.mark.parametrize("path", ["%MINE", "['/t5']"])
def test_the_path_to_restore_may_be_a_macro_or_a_list(path, parsed):
    mine = "MINE = '/t5'\n" if "%" in path else ""
    line = f"from t5x import utils\n{mine}utils.RestoreCheckpointConfig.path = {path}\n"
    parsed(FINETUNE + line)
    start = gin.get_bindings("faith_jax.runs.setup.StartingPoint")
    assert start["initial_checkpoint_path"] == "/t5"


@pytest.mark.parametrize("pairs", ["((r'^.*prompt.*$', None),)", "None"])
def test_what_starts_anew_here_may_be_left_out_of_the_checkpoint(pairs, parsed):
    lines = f"  assignment_map = {pairs}\n  fallback_to_scratch = True\n"
    parsed(f"{FINETUNE}from t5x import utils\nutils.RestoreCheckpointConfig:\n{lines}")


def test_a_path_that_is_bound_comes_before_the_macro(parsed):
    """As in T5X, where the run file has bound it to the macro before."""
    line = "from t5x import utils\nutils.RestoreCheckpointConfig.path = '/t5/checkpoint_1000'\n"
    bindings = ("INITIAL_CHECKPOINT_PATH='/t5/checkpoint_5'", "TRAIN_STEPS=1010")
    query = parsed(FINETUNE + line, *bindings)
    assert query("TRAIN_STEPS/macro.value") == 10
    assert query("INITIAL_CHECKPOINT_PATH/macro.value") == "/t5/checkpoint_1000"


def test_a_rate_of_the_users_optimizer_is_not_logged_as_t5xs(parsed):
    schedule = "train.Optimization.learning_rate"
    assert parsed(FINETUNE)(schedule) is not None
    text = "from faith_jax.training import optimizers\noptimizers.adafactor.learning_rate = 1e-5\n"
    with pytest.raises(ValueError, match="learning_rate"):
        parsed(FINETUNE + text)(schedule)


MISTAKES = [
    ("utils.DatasetConfig.colour = 'red'", ["line 13", "DatasetConfig.colour", "expected one of"]),
    ("utils.SaveCheckpointConfig.perid = 2", ["SaveCheckpointConfig.perid", "no counterpart",
                                              "t5x.utils.SaveCheckpointConfig.period"]),
    ("models.EncoderDecoderModel.decode_fn = @models.mine", ["line 13", "@decoding.beam_search"]),
    ("MODEL = @models.DecoderOnlyModel()", ["MODEL", "DecoderOnlyModel", "docs/t5x.md"]),
    ("TRAIN_STEPS = 100\nINITIAL_CHECKPOINT_PATH = 'a/checkpoint_1000'",
     ["TRAIN_STEPS = 100", "1,000 steps", "TRAIN_STEPS_RELATIVE"]),
    ("include 't5x/examples/t5/t5_1_1/bse.gin'", ["line 13", "t5_1_1/base.gin"]),
    ("include 'flaxformer/t5x/configs/longt5/models/longt5_1_1_base.gin'",
     ["line 13", "no counterpart of this file here. docs/t5x.md"]),
    ("import os\nos.system.command = 'a'", ["os.system.command", "no counterpart"]),
    ("from t5x import partitioning\npartitioning.PjitPartitioner.model_parallel_submesh = 4",
     ["line 14", "model_parallel_submesh = 4", "four counts"]),
    ("utils.create_learning_rate_scheduler.factors = 'constant * lin'",
     ["factored_rate.factors", "'lin'", "'linear_decay'"]),
    ("WARMUP_STEPS = 5", ["line 13", "nothing reads the macro WARMUP_STEPS",
                          "create_learning_rate_scheduler.warmup_steps"]),
    ("from t5x import decoding\nmodels.EncoderDecoderModel:\n"
     "  decode_fn = @decoding.temperature_sample\n"
     "models.EncoderDecoderModel.predict_batch_with_aux.num_decodes = 4",
     ["line 16", "num_decodes = 4", "T5X samples 4 responses"]),
    ("from prompt_tuning import prompts\n"
     "prompts.Prompt.prompt_init = @i/prompts.from_sample_of_embeddings()\n"
     "i/prompts.from_sample_of_embeddings.embeddings = @i/prompts.np_load()\n"
     "EMBEDDING_FILE = 'e.npy'\ni/prompts.np_load.path = %EMBEDDING_FILE",
     ["line 16", "np_load.path = 'e.npy'", "begins with embeddings of the checkpoint",
      "from_sampled_vocab.gin"]),
    ("utils.RestoreCheckpointConfig.assignment_map = [('encoder', 'decoder')]",
     ["line 13", "parameters keep their names here"]),
    ("models.EncoderDecoderModel.loss_normalizing_factor = 'AVERAGE_PER_SEQUENCE'",
     ["line 13", "loss_normalizing_factor = 'AVERAGE_PER_SEQUENCE'", "'NUM_REAL_TARGET_TOKENS'"]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "parts"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_what_has_no_counterpart_is_one_line(line, parts, command, tmp_path):
    head = FINETUNE.split("STEPS_BETWEEN")[0].strip()
    rest = FINETUNE.split("STEPS_BETWEEN = 2\n")[1]
    file = tmp_path / "user.gin"
    settings = rest.split("train_script.train:")[0]
    text = f"{head}\n{line}\n" if "TRAIN_STEPS" not in line else f"{head}\n"
    file.write_text(text + settings + (line + "\n" if "TRAIN_STEPS" in line else ""))
    more = ("--gin.network.T5Config.vocab_size=4224", f"--gin.MODEL_DIR={tmp_path / 'model'}")
    result = command("train", f"--gin_file={file}", *more)
    assert_mistake(result, *parts)
    assert "--gin_allow" not in result[2]
    assert not (tmp_path / "model").exists()


def test_a_file_of_mesh_tensorflow_is_named(parsed):
    text = "import mesh_tensorflow.transformer.transformer\nd_model = 768\n"
    with pytest.raises(ConfigError, match=r"Mesh TensorFlow read .* is not translated"):
        parsed(text)
    with pytest.raises(ConfigError, match=r"line 2: include .* no counterpart of this file here"):
        parsed("\ninclude 't5x_retrieval/configs/models/de_t5_base.gin'\nfrom t5x import utils\n")


def test_a_missing_file_is_named_before_what_it_would_bring(parsed):
    problem = "There is no gin file '/t5x/t5x/.*Did you mean 't5x/configs/runs/finetune.gin'"
    with pytest.raises(ConfigError, match=problem):
        parsed("from t5x import utils\ninclude '/t5x/t5x/configs/runs/finetune.gin'\n")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("étapes = 3", "Malformatted scope or selector"),
        ("from . import tasks", "Malformatted scope or selector"),
        ("USE_CACHED_TASKS = false", "expected a value: .* token 'false'"),
    ],
)
def test_what_gin_cannot_read_is_named_by_its_line(parsed, line, problem):
    with pytest.raises(ConfigError, match=rf", line 2: {problem}"):
        parsed(f"include 't5x/configs/runs/finetune.gin'\n{line}\n")


def test_flags_of_t5x_are_taken_or_explained(capsys):
    status = cli.t5x_main(
        ["train", "--logtostderr", "--run_mode=train", "--v=1", "--gin_bindings=MODEL_DIR = 'a'",
         f"--gin_file={MODEL}", "--noalsologtostderr", "--log_dir", "logs"]
    )  # fmt: skip
    err = capsys.readouterr().err
    assert status == 2  # the file alone configures nothing
    assert "--run_mode has no effect: the command says it" in err
    assert "--log_dir has no effect" in err
    assert "expected a file of T5X's for one of train, eval and infer" in err


def test_every_counterpart_names_what_we_have(tmp_path):
    """Each file includes existing files of ours, and sets only macros or arguments they have."""
    model = "t5x/models/t5_1_1_mini.gin"
    bindings = {"MODEL_DIR": "a", "MIXTURE_OR_TASK_NAME": "b", "INITIAL_CHECKPOINT_PATH": None,
             "TASK_FEATURE_LENGTHS": {"inputs": 8, "targets": 5}, "TRAIN_STEPS": 4}  # fmt: skip
    tested = {"CHECKPOINT_PATH": "a", "MIXTURE_OR_TASK_NAME": "b"}
    for name in t5x_files.stand_in_names():
        text = t5x_files.stand_in(name)
        for include in re.findall("include '(models/.*)'", text):
            assert (gin_config.config_folder() / include).is_file(), name
        # A model or a prompt, of which there are several sizes, and all runs.
        match = re.search(r"/(base|large|xl|xxl|3B|11B)\.gin$", name)
        if match or ("/models/" in name and "small" not in name and "decoding" not in name):
            continue
        run = re.search(r"(eval|infer)(?:_script|\.gin)", text)
        settings = {**tested, f"{run[1].upper()}_OUTPUT_DIR": "c"} if run else bindings
        if name.endswith("prompts/from_file.gin"):
            settings = {**settings, "PROMPT_FILE": "d.npy"}
        is_whole = "_script" in text or "runs/" in text
        files = [name] if is_whole else [name, "t5x/configs/runs/finetune.gin"]
        files = files if name.startswith(("t5x/examples", "t5x/models")) else [model, *files]
        gin_config.parse(files, [f"{key}={value!r}" for key, value in settings.items()])


def test_our_own_files_are_not_translated():
    assert translation.translate(["quickstart.gin"], [], lambda name: None) is None
    assert not is_t5x("from faith_jax.runs import train\ninclude 'runs/train.gin'\n")
    assert is_t5x("from t5x import utils\n")
