"""Stand-ins for the gin files of T5X and prompt-tuning, with the bindings that matter here.

Each is a text in T5X's own terms, which `translate_t5x` reads like a user's file, so that bindings
before and after an include take effect in gin's order. Only the models are our own files.
"""

import functools
from collections.abc import Mapping
from typing import Any


def _dataset_text(
    scope: str, split: str, lengths: str = "%TASK_FEATURE_LENGTHS", batch_size: str = "%BATCH_SIZE",
    use_cached: str = "%USE_CACHED_TASKS",
) -> str:  # fmt: skip
    return f"""
{scope}utils.DatasetConfig:
  mixture_or_task_name = %MIXTURE_OR_TASK_NAME
  task_feature_lengths = {lengths}
  split = {split!r}
  batch_size = {batch_size}
  use_cached = {use_cached}
  module = %MIXTURE_OR_TASK_MODULE
"""


_TRAIN = f"""
import __main__ as train_script
USE_CACHED_TASKS = True
BATCH_SIZE = 128
DROPOUT_RATE = 0.1
USE_HARDWARE_RNG = False
RANDOM_SEED = None
TRAIN_STEPS_RELATIVE = None
MIXTURE_OR_TASK_MODULE = None
train_script.train:
  model_dir = %MODEL_DIR
  train_dataset_cfg = @train/utils.DatasetConfig()
  train_eval_dataset_cfg = @train_eval/utils.DatasetConfig()
  total_steps = %TRAIN_STEPS
  relative_steps = %TRAIN_STEPS_RELATIVE
  random_seed = %RANDOM_SEED
  use_hardware_rng = %USE_HARDWARE_RNG
{_dataset_text("train/", "train")}
train/utils.DatasetConfig:
  shuffle = True
  seed = None
  pack = True
{_dataset_text("train_eval/", "validation")}
utils.CheckpointConfig.restore = @utils.RestoreCheckpointConfig()
utils.SaveCheckpointConfig.keep = None
partitioning.PjitPartitioner:
  num_partitions = 1
  model_parallel_submesh = None
trainer.Trainer.num_microbatches = None
"""
_FINETUNE = f"""{_TRAIN}
EVAL_PERIOD = 1000
EVALUATOR_NUM_EXAMPLES = None
seqio.Evaluator.num_examples = %EVALUATOR_NUM_EXAMPLES
train_script.train:
  infer_eval_dataset_cfg = @infer_eval/utils.DatasetConfig()
  eval_period = %EVAL_PERIOD
{_dataset_text("infer_eval/", "validation", lengths="None")}
utils.RestoreCheckpointConfig:
  path = %INITIAL_CHECKPOINT_PATH
  mode = 'specific'
  dtype = 'float32'
utils.SaveCheckpointConfig.period = 5000
utils.create_learning_rate_scheduler:
  factors = 'constant'
  base_learning_rate = 0.001
  warmup_steps = 1000
"""
_PRETRAIN = f"""{_TRAIN}
SHUFFLE_TRAIN_EXAMPLES = True
train_script.train:
  infer_eval_dataset_cfg = None
  eval_period = 1000
train/utils.DatasetConfig.shuffle = %SHUFFLE_TRAIN_EXAMPLES
utils.RestoreCheckpointConfig.path = []
utils.SaveCheckpointConfig.period = 1000
utils.create_learning_rate_scheduler:
  factors = 'constant * rsqrt_decay'
  base_learning_rate = 1.0
  warmup_steps = 10000
"""
_ON_A_TEST_SPLIT = f"""
MIXTURE_OR_TASK_MODULE = None
partitioning.PjitPartitioner.num_partitions = 1
{_dataset_text("", "test", batch_size="32", use_cached="False")}
utils.RestoreCheckpointConfig:
  path = %CHECKPOINT_PATH
  mode = 'specific'
"""
_EVAL = f"""{_ON_A_TEST_SPLIT}
import __main__ as eval_script
TASK_FEATURE_LENGTHS = None
eval_script.evaluate:
  dataset_cfg = @utils.DatasetConfig()
  output_dir = %EVAL_OUTPUT_DIR
"""
_INFER = f"""{_ON_A_TEST_SPLIT}
import __main__ as infer_script
infer_script.infer:
  mode = 'predict'
  dataset_cfg = @utils.DatasetConfig()
  output_dir = %INFER_OUTPUT_DIR
utils.RestoreCheckpointConfig.dtype = 'bfloat16'
"""
_RUNS = {"finetune": _FINETUNE, "pretrain": _PRETRAIN, "eval": _EVAL, "infer": _INFER}
_LOSSES = """
Z_LOSS = 0.0001
LABEL_SMOOTHING = 0.0
LOSS_NORMALIZING_FACTOR = None
adafactor.Adafactor.decay_rate = 0.8
models.EncoderDecoderModel:
  z_loss = %Z_LOSS
  label_smoothing = %LABEL_SMOOTHING
  loss_normalizing_factor = %LOSS_NORMALIZING_FACTOR
"""
_MODEL = f"""{_LOSSES}
VOCABULARY = @seqio.SentencePieceVocabulary()
models.EncoderDecoderModel.input_vocabulary = %VOCABULARY
network.T5Config:
  dtype = 'bfloat16'
  dropout_rate = %DROPOUT_RATE
"""
_BYTES = "VOCABULARY = @seqio.ByteVocabulary()\nnetwork.T5Config.vocab_size = 384\n"
_MULTILINGUAL = "network.T5Config.vocab_size = 250_112\n"
# As in Lester 2021, but drawn uniformly from [0, 0.5), as flax does.
_PROMPT = """
PROMPT_LENGTH = 100
prompts.Prompt:
  length = %PROMPT_LENGTH
  prompt_init = @prompt_init/linen.initializers.uniform()
prompt_init/linen.initializers.uniform.scale = 0.5
adafactor.Adafactor:
  multiply_by_parameter_scale = False
  weight_decay_rate = 0.00001
"""
_PROMPTS = {
    "prompts/from_sampled_vocab": """
prompts.Prompt:
  length = %PROMPT_LENGTH
  prompt_init = @prompt_init/prompts.from_sample_of_embeddings()
prompt_init/prompts.from_sample_of_embeddings.population_size = 5000
""",
    "prompts/from_class_labels": """
prompts.Prompt:
  length = %PROMPT_LENGTH
  prompt_init = @prompt_init/prompts.from_embedded_list()
prompt_init/prompts.from_embedded_list.texts = %CLASS_LABELS
""",
    "prompts/from_file": """
prompts.Prompt:
  length = %PROMPT_LENGTH
  prompt_init = @prompt_init/prompts.from_array()
prompt_init/prompts.from_array.prompt = @prompt_init/prompts.np_load()
prompt_init/prompts.np_load.path = %PROMPT_FILE
""",
    "models/decoding/beam_search": """
models.EncoderDecoderModel.predict_batch_with_aux.num_decodes = 4
models.EncoderDecoderModel.decode_fn = @decoding.beam_search
""",
    "models/decoding/nucleus_sampling": """
models.EncoderDecoderModel.predict_batch_with_aux.num_decodes = 1
models.EncoderDecoderModel.decode_fn = @decoding.temperature_sample
decoding.temperature_sample:
  temperature = 1.0
  topp = 0.9
  topk = 0
""",
    "runs/prompt_finetune": """
include 't5x/configs/runs/finetune.gin'
train/utils.DatasetConfig.pack = False
utils.create_learning_rate_scheduler:
  factors = 'constant'
  base_learning_rate = 0.3
utils.SaveCheckpointConfig:
  period = 1000
  keep = 1
""",
    "runs/prompt_eval": f"include 'prompt_tuning/configs/prompts/from_file.gin'\n{_EVAL}",
    "runs/prompt_infer": f"include 'prompt_tuning/configs/prompts/from_file.gin'\n{_INFER}",
}
_SIZES = ("small", "base", "large", "xl", "xxl")
_DIMENSIONS = (
    "emb_dim", "num_heads", "num_encoder_layers", "num_decoder_layers", "mlp_dim", "head_dim"
)  # fmt: skip
_TINY = (8, 4, 2, 2, 16, 3)
_BYT5 = {
    "small": (1472, 6, 12, 4, 3584),
    "base": (1536, 12, 18, 6, 3968),
    "large": (1536, 16, 36, 12, 3840),
    "xl": (2560, 32, 36, 12, 6720),
    "xxl": (4672, 64, 36, 12, 12352),
}
_WMT = {
    "MIXTURE_OR_TASK_NAME": "wmt_t2t_ende_v003",
    "TASK_FEATURE_LENGTHS": {"inputs": 256, "targets": 256},
}
_WMT14 = _WMT | {"MIXTURE_OR_TASK_NAME": "wmt14_enfr_v003"}
_C4 = {
    "MIXTURE_OR_TASK_NAME": "c4_v220_span_corruption",
    "TASK_FEATURE_LENGTHS": {"inputs": 512, "targets": 114},
    "DROPOUT_RATE": 0.0,
    "BATCH_SIZE": 256,
}
_TUNED = {"TRAIN_STEPS": 1_020_000, "LOSS_NORMALIZING_FACTOR": 233_472, "USE_CACHED_TASKS": False}
_TUNED_BASE = _TUNED | {
    "DROPOUT_RATE": 0.1, "__main__.train.eval_period": 100,
    "models.EncoderDecoderModel.predict_batch_with_aux.num_decodes": 4,
}  # fmt: skip
_EVALUATED = {"TASK_FEATURE_LENGTHS": None, "DROPOUT_RATE": 0.0}
# Examples of T5 1.1: the run file and the settings of each. Their tasks are in the package t5.
_EXAMPLES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "base_c4_pretrain": ("pretrain", _C4 | {"TRAIN_STEPS": 100_000, "EVAL_PERIOD": 2000}),
    "small_c4_pretrain": ("pretrain", _C4 | {"TRAIN_STEPS": 10_000}),
    "base_wmt_finetune": ("finetune", _WMT | _TUNED_BASE),
    "small_wmt_finetune": ("finetune", _WMT | _TUNED | {"DROPOUT_RATE": 0.0}),
    "base_wmt14enfr_finetune": ("finetune", _WMT14 | _TUNED_BASE | {"USE_CACHED_TASKS": True}),
    "base_wmt14enfr_train": (
        "pretrain", _WMT14 | {"TRAIN_STEPS": 100_000, "EVAL_PERIOD": 2000, "CHECKPOINT_PERIOD": 200}
    ),
    "base_wmt_from_scratch": (
        "pretrain",
        _WMT | {"TRAIN_STEPS": 50_000, "DROPOUT_RATE": 0.0, "EVAL_PERIOD": 500, "NUM_BEAMS": 4,
                "USE_CACHED_TASKS": False, "CHECKPOINT_PERIOD": 5000, "NUM_PARTITIONS": 2,
                "USE_HARDWARE_RNG": True},
    ),
    "base_wmt_eval": ("eval", _WMT | _EVALUATED | {"NUM_PARTITIONS": 2}),
    "base_wmt14enfr_eval": ("eval", _WMT14 | _EVALUATED | {"NUM_BEAMS": 4}),
    "base_wmt_infer": (
        "infer",
        _WMT | {"TASK_FEATURE_LENGTHS": {"inputs": 64, "targets": 64}, "DROPOUT_RATE": 0.0},
    ),
}  # fmt: skip


def _include_line(name: str) -> str:
    return f"include 'models/{name}.gin'\n"


def _dimension_lines(sizes: tuple[int, ...]) -> str:
    pairs = zip(_DIMENSIONS, sizes, strict=False)
    return "".join(f"network.T5Config.{name} = {size}\n" for name, size in pairs)


@functools.cache
def _texts_by_name() -> dict[str, str]:
    texts = {f"t5x/configs/runs/{name}.gin": text for name, text in _RUNS.items()}
    for name, text in _PROMPTS.items():
        texts[f"prompt_tuning/configs/{name}.gin"] = text
    for ours in ("t5_1_1_mini", *(f"t5_1_{x}_{size}" for x in (0, 1) for size in _SIZES)):
        texts[f"t5x/models/{ours}.gin"] = _include_line(ours) + _LOSSES  # our models for real T5X
    for version, more in (("t5_1_1", ""), ("mt5", _MULTILINGUAL)):
        for size in _SIZES:
            text = f"{_include_line(f't5_1_1_{size}')}{_MODEL}{more}"
            texts[f"t5x/examples/t5/{version}/{size}.gin"] = text
            texts[f"t5x/examples/scalable_t5/{version}/{size}.gin"] = (
                f"{text}network.T5Config.scan_layers = True\n"
            )
            texts[f"prompt_tuning/configs/models/{version}_{size}_prompt.gin"] = text + _PROMPT
    our_sizes = {"small": "small", "base": "base", "large": "large", "3B": "xl", "11B": "xxl"}
    for size, our_size in our_sizes.items():
        texts[f"t5x/examples/t5/t5_1_0/{size}.gin"] = _include_line(f"t5_1_0_{our_size}") + _MODEL
    for size, sizes in _BYT5.items():
        texts[f"t5x/examples/t5/byt5/{size}.gin"] = (
            _include_line("t5_1_1") + _MODEL + _BYTES + _dimension_lines((*sizes, 64))
        )
    for version in ("t5_1_1", "byt5"):
        texts[f"t5x/examples/t5/{version}/tiny.gin"] = (
            _include_line("t5_1_1") + _MODEL + _dimension_lines(_TINY)
        )
    for example, (program, changes) in _EXAMPLES.items():
        size = example.partition("_")[0]
        text = (
            f"include 't5x/examples/t5/t5_1_1/{size}.gin'\n"
            f"include 't5x/configs/runs/{program}.gin'\n"
        )
        text += "".join(f"{name} = {value!r}\n" for name, value in changes.items())
        if program == "finetune":
            folder = f"gs://t5-data/pretrained_models/t5x/t5_1_1_{size}/checkpoint_1000000"
            text += f"INITIAL_CHECKPOINT_PATH = {folder!r}\n"
        if example == "base_wmt_from_scratch":
            text += "__main__.train.infer_eval_dataset_cfg = @infer_eval/utils.DatasetConfig()\n"
        texts[f"t5x/examples/t5/t5_1_1/examples/{example}.gin"] = text
    return texts


def stand_in(name: str) -> str | None:
    """Returns the stand-in for a gin file of T5X or prompt-tuning, or None."""
    return _texts_by_name().get(name)


def stand_in_names() -> list[str]:
    """Returns the names of the gin files that have a stand-in."""
    return sorted(_texts_by_name())
