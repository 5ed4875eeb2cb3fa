"""Our counterparts of files, macros and arguments of T5X and prompt-tuning; see `translate_t5x`.

The tables contain facts about T5X's configuration: names, and the values that its run and model
files set. A value that a table does not know is an error that names file, line and argument.
"""

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.gin_files.log_once import log_once


class File(NamedTuple):
    """The counterpart of a gin file.

    Attributes:
      run: the program that it configures: "train", "eval", "infer"; "" = none.
      includes: files of ours.
      macros: what the file sets, by our macros.
    """

    run: str = ""
    includes: tuple[str, ...] = ()
    macros: Mapping[str, Any] = {}


class _GinText(str):
    """A value as gin writes it, such as a reference."""

    __repr__ = str.__str__


_DECODING = _GinText("@decoding_config.DecodingConfig()")

T5_CONFIG = "t5x.examples.t5.network.T5Config"
SCRIPTS = {"__main__.train": "train", "__main__.evaluate": "eval", "__main__.infer": "infer"}
# Run files of T5X's that ask for a checkpoint.
FINE_TUNING = (
    "t5x/configs/runs/finetune.gin", "prompt_tuning/configs/runs/prompt_finetune.gin"
)  # fmt: skip
RUN_FILES = {
    "train": ("runs/train.gin", "decoding/greedy.gin"),
    "eval": ("runs/eval.gin",),
    "infer": ("runs/infer.gin", "decoding/greedy.gin"),
}
IMPORTS = (
    "from faith_jax.decoding import config as decoding_config",
    "from faith_jax.input import task_batches",
    "from faith_jax.models import config",
    "from faith_jax.models import soft_prompt",
    "from faith_jax.runs import train",
    "from faith_jax.training import optimizers",
)
# Arguments of T5X's programs that name a data set, and its part in a run.
DATASETS = {
    "__main__.train.train_dataset_cfg": "train",
    "__main__.train.train_eval_dataset_cfg": "train_eval",
    "__main__.train.infer_eval_dataset_cfg": "infer_eval",
    "__main__.evaluate.dataset_cfg": "",
    "__main__.infer.dataset_cfg": "",
}

_TRAINING = {
    "USE_CACHED_TASKS": True,
    "BATCH_SIZE": 128,
    "EVAL_PERIOD": 1000,
    "DROPOUT_RATE": 0.1,
    "PACK": True,
    "KEEP_LAST": None,
}
_FACTORS, _PEAK_RATE, _WARMUP_STEPS = (
    f"optimizers.factored_rate.{name}" for name in ("factors", "base_learning_rate", "warmup_steps")
)
_RUNS = {
    "finetune": File("train", (), _TRAINING | {"CHECKPOINT_PERIOD": 5000, _PEAK_RATE: 0.001}),
    "pretrain": File(
        "train",
        (),
        _TRAINING
        | {
            "CHECKPOINT_PERIOD": 1000,
            "INITIAL_CHECKPOINT_PATH": None,
            "DECODING": None,
            _FACTORS: "constant * rsqrt_decay",
            _PEAK_RATE: 1.0,
            _WARMUP_STEPS: 10_000,
        },
    ),
    "eval": File("eval", (), {"SPLIT": "test", "BATCH_SIZE": 32}),
    "infer": File("infer", (), {"SPLIT": "test", "BATCH_SIZE": 32, "PARAMS_DTYPE": "bfloat16"}),
}
_SIZES = {"small": "small", "base": "base", "large": "large", "xl": "xl", "xxl": "xxl"}
_TINY = {
    "emb_dim": 8,
    "num_heads": 4,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "head_dim": 3,
    "mlp_dim": 16,
}
_BFLOAT16 = {"DTYPE": "bfloat16"}
# emb_dim, num_heads, num_encoder_layers, num_decoder_layers, mlp_dim; head_dim is 64.
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
_PRETRAINED = "gs://t5-data/pretrained_models/t5x/t5_1_1_{}/checkpoint_1000000"
_TUNED = {
    "INITIAL_CHECKPOINT_PATH": _PRETRAINED,
    "TRAIN_STEPS": 1_020_000,
    "LOSS_NORMALIZING_FACTOR": 233_472,
}
_TUNED_BASE = _TUNED | {"DROPOUT_RATE": 0.1, "EVAL_PERIOD": 100, "NUM_BEAMS": 4}
_EVALUATED = {"TASK_FEATURE_LENGTHS": None, "DROPOUT_RATE": 0.0}
# Examples of T5 1.1: the run file of each, and what it sets. Their tasks are of the package t5.
_EXAMPLES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "base_c4_pretrain": ("pretrain", _C4 | {"TRAIN_STEPS": 100_000, "EVAL_PERIOD": 2000}),
    "small_c4_pretrain": ("pretrain", _C4 | {"TRAIN_STEPS": 10_000}),
    "base_wmt_finetune": ("finetune", _WMT | _TUNED_BASE | {"USE_CACHED_TASKS": False}),
    "small_wmt_finetune": (
        "finetune", _WMT | _TUNED | {"DROPOUT_RATE": 0.0, "USE_CACHED_TASKS": False}
    ),
    "base_wmt14enfr_finetune": ("finetune", _WMT14 | _TUNED_BASE),
    "base_wmt14enfr_train": (
        "pretrain", _WMT14 | {"TRAIN_STEPS": 100_000, "EVAL_PERIOD": 2000, "CHECKPOINT_PERIOD": 200}
    ),
    "base_wmt_from_scratch": (
        "pretrain",
        _WMT | {"TRAIN_STEPS": 50_000, "DROPOUT_RATE": 0.0, "EVAL_PERIOD": 500, "NUM_BEAMS": 4,
                "USE_CACHED_TASKS": False, "CHECKPOINT_PERIOD": 5000, "NUM_PARTITIONS": 2,
                "USE_HARDWARE_RNG": True, "DECODING": _DECODING},
    ),
    "base_wmt_eval": ("eval", _WMT | _EVALUATED | {"NUM_PARTITIONS": 2}),
    "base_wmt14enfr_eval": ("eval", _WMT14 | _EVALUATED | {"NUM_BEAMS": 4}),
    "base_wmt_infer": (
        "infer",
        _WMT | {"TASK_FEATURE_LENGTHS": {"inputs": 64, "targets": 64}, "DROPOUT_RATE": 0.0},
    ),
}  # fmt: skip


@functools.cache
def _build_file_map() -> dict[str, File]:
    files = {f"t5x/configs/runs/{name}.gin": file for name, file in _RUNS.items()}

    def model(version: str, theirs: str, ours: str, **macros: Any) -> None:
        files[f"t5x/examples/t5/{version}/{theirs}.gin"] = File(
            "", (f"models/{ours}.gin",), _BFLOAT16 | macros
        )

    for ours in ("mini", *_SIZES):  # our models for real T5X
        files[f"t5x/models/t5_1_1_{ours}.gin"] = File("", (f"models/t5_1_1_{ours}.gin",))
        if ours != "mini":
            files[f"t5x/models/t5_1_0_{ours}.gin"] = File("", (f"models/t5_1_0_{ours}.gin",))
    for size in _SIZES:
        model("t5_1_1", size, f"t5_1_1_{size}")
        model("mt5", size, f"t5_1_1_{size}", VOCAB_SIZE=250_112)
        # 100 tokens, as in Lester 2021, but uniform in [0, 0.5), as flax draws.
        prompt = {"PROMPT_LENGTH": 100, "soft_prompt.uniform.is_symmetric": False,
                  "optimizers.adafactor.multiply_by_parameter_scale": False,
                  "optimizers.adafactor.weight_decay": 1e-5}  # fmt: skip
        files[f"prompt_tuning/configs/models/t5_1_1_{size}_prompt.gin"] = File(
            "", (f"models/t5_1_1_{size}.gin", "prompts/uniform.gin"), _BFLOAT16 | prompt
        )
        files[f"prompt_tuning/configs/models/mt5_{size}_prompt.gin"] = File(
            "", (f"models/t5_1_1_{size}.gin", "prompts/uniform.gin"),
            _BFLOAT16 | prompt | {"VOCAB_SIZE": 250_112},
        )  # fmt: skip
    for theirs, ours in {**_SIZES, "3B": "xl", "11B": "xxl"}.items():
        if theirs not in ("xl", "xxl"):
            model("t5_1_0", theirs, f"t5_1_0_{ours}")
    model("t5_1_1", "tiny", "t5_1_1", **{f"config.TransformerConfig.{n}": v
                                         for n, v in _TINY.items()})  # fmt: skip
    run, name = files["t5x/configs/runs/finetune.gin"], "prompt_tuning/configs/runs/prompt_{}.gin"
    files[name.format("finetune")] = run._replace(
        macros={**run.macros, "PACK": False, "CHECKPOINT_PERIOD": 1000, "KEEP_LAST": 1,
                _PEAK_RATE: 0.3},
    )  # fmt: skip
    files[name.format("eval")] = files["t5x/configs/runs/eval.gin"]
    files[name.format("infer")] = files["t5x/configs/runs/infer.gin"]
    prompts = "prompt_tuning/configs/prompts/from_{}.gin"
    sampled = {"PROMPT_MOST_FREQUENT": 5000, "PROMPT_FIRST_TOKEN": 0}
    files[prompts.format("sampled_vocab")] = File("", ("prompts/sampled_vocabulary.gin",), sampled)
    files[prompts.format("class_labels")] = File("", ("prompts/class_labels.gin",))
    files[prompts.format("file")] = File("", ("prompts/from_npy.gin",))
    decoding = "prompt_tuning/configs/models/decoding/{}.gin"
    files[decoding.format("beam_search")] = File("", (), {"TEMPERATURE": 0.0, "NUM_BEAMS": 4})
    files[decoding.format("nucleus_sampling")] = File(
        "", (), {"TEMPERATURE": 1.0, "TOP_P": 0.9, "TOP_K": 0}
    )
    for size, dimensions in _BYT5.items():
        names = ("emb_dim", "num_heads", "num_encoder_layers", "num_decoder_layers", "mlp_dim")
        values = dict(zip(names, dimensions, strict=True))
        model(
            "byt5", size, "t5_1_1", VOCAB_SIZE=384, VOCABULARY="byt5",
            **{f"config.TransformerConfig.{name}": value for name, value in values.items()},
        )  # fmt: skip
    files["t5x/examples/t5/byt5/tiny.gin"] = files["t5x/examples/t5/t5_1_1/tiny.gin"]
    for version in ("t5_1_1", "mt5"):
        for size in _SIZES:
            unrolled = files[f"t5x/examples/t5/{version}/{size}.gin"]
            files[f"t5x/examples/scalable_t5/{version}/{size}.gin"] = unrolled._replace(
                macros={**unrolled.macros, "SCAN_LAYERS": True}
            )
    for example, (program, changes) in _EXAMPLES.items():
        size = example.partition("_")[0]
        size_file, run_file = files[f"t5x/examples/t5/t5_1_1/{size}.gin"], _RUNS[program]
        macros = {**size_file.macros, **run_file.macros, **changes}
        if "INITIAL_CHECKPOINT_PATH" in changes:
            macros["INITIAL_CHECKPOINT_PATH"] = _PRETRAINED.format(size)
        files[f"t5x/examples/t5/t5_1_1/examples/{example}.gin"] = File(
            run_file.run, size_file.includes, macros
        )
    return files


def of_file(name: str) -> File | None:
    """Returns the counterpart of a gin file of T5X's or prompt-tuning's; None if there is none."""
    return _build_file_map().get(name)


def file_names() -> list[str]:
    """Returns the gin files that have a counterpart."""
    return sorted(_build_file_map())


_FROM_0 = "soft_prompt.uniform.is_symmetric = False"  # flax's draws from [0, scale)
_SELF = re.compile(r"(\w+) = %\1")
_STRUCTURE = ""  # the reason of what our run files connect themselves: nothing to tell
# Makes our lines of a value; the text names file, line and argument, for errors.
Counterpart = Callable[[Any, str], list[str]]


# Those that look at a value; the others write it as it is, macros included.
_READING_VALUES: set[Counterpart] = set()


def _reads_value(counterpart: Counterpart) -> Counterpart:
    _READING_VALUES.add(counterpart)
    return counterpart


def _set_macro(name: str) -> Counterpart:
    """Sets our macro to the value."""
    return lambda value, where: [f"{name} = {value!r}"]


def _both_macros(macro: str, name: str) -> Counterpart:
    """Sets the user's macro and binds our name to it."""
    return lambda value, where: [f"{macro} = {value!r}", f"{name} = %{macro}"]


def _without_effect(reason: str) -> Counterpart:
    """Sets nothing; logs the reason once, unless it is `_STRUCTURE`."""

    def ignore_value(value: Any, where: str) -> list[str]:
        if reason:
            log_once(f"{where}: {reason}")
        return []

    return ignore_value


def _reference_to(*names: str) -> Counterpart:
    """Accepts macros and references to what our run files connect; others are an error."""

    def check_connected(value: Any, where: str) -> list[str]:
        name = str(getattr(value, "name", "")).rpartition("/")[2]
        if value is not None and name not in names and not name.isupper():
            expected = " or ".join(f"@{n}" for n in names)
            raise ConfigError(
                f"gin: {where}: {value!r} has no counterpart here; T5X's files have {expected}. "
                "docs/t5x.md says what runs under T5X itself."
            )
        return []

    return check_connected


def _one_of(*values: Any, otherwise: str) -> Counterpart:
    """Accepts only these values, which have no effect; others are an error that ends so."""

    @_reads_value
    def only(value: Any, where: str) -> list[str]:
        if getattr(value, "name", value) not in values:
            raise ConfigError(f"gin: {where} = {value!r}: {otherwise}")
        return []

    return only


def _macro_or(default: Any, name: str) -> Counterpart:
    """Sets our macro to the value, or for None to this default."""
    return _reads_value(lambda value, where: [f"{name} = {default if value is None else value!r}"])


_INITIALIZERS = {
    "prompt_tuning.prompts.from_sample_of_embeddings": "prompts/sampled_vocabulary.gin",
    "prompt_tuning.prompts.from_embedded_list": "prompts/class_labels.gin",
    "prompt_tuning.prompts.from_array": "prompts/from_npy.gin",
    "flax.linen.initializers.uniform": "prompts/uniform.gin",
}
# What the initialisers do without arguments, where ours do something else.
_DEFAULTS = {
    "prompt_tuning.prompts.from_sample_of_embeddings": (
        "PROMPT_FIRST_TOKEN = 0", "PROMPT_MOST_FREQUENT = 1_000_000_000"  # the whole vocabulary
    ),
    "flax.linen.initializers.uniform": ("PROMPT_SCALE = 0.01", _FROM_0),
}  # fmt: skip


def _translate_initializer(value: Any, where: str) -> list[str]:
    name = str(getattr(value, "name", "")).rpartition("/")[2]
    if name not in _INITIALIZERS:
        raise ConfigError(f"gin: {where} = {value!r}: expected one of {', '.join(_INITIALIZERS)}.")
    return [f"include {_INITIALIZERS[name]!r}", *_DEFAULTS.get(name, ())]


@_reads_value
def _translate_microbatches(value: Any, where: str) -> list[str]:
    # None and numbers below 2 are no pieces in T5X.
    return [f"NUM_MICROBATCHES = {max(1, value) if isinstance(value, int) else value or 1!r}"]


@_reads_value
def _translate_normalizing_factor(value: Any, where: str) -> list[str]:
    """Sets what losses are divided by: T5X's None is 1, ours the real target tokens."""
    if isinstance(value, str):
        if value.upper() != "NUM_REAL_TARGET_TOKENS":
            raise ConfigError(
                f"gin: {where} = {value!r}: expected a number, None (losses are summed) or "
                "'NUM_REAL_TARGET_TOKENS'."
            )
        return ["LOSS_NORMALIZING_FACTOR = None"]
    return [f"LOSS_NORMALIZING_FACTOR = {1.0 if value is None else value!r}"]


@_reads_value
def _translate_submesh(value: Any, where: str) -> list[str]:
    """Splits the model over as many devices as T5X's submesh (x, y, z, cores) has."""
    if value is None:
        return []
    if not isinstance(value, tuple | list) or not all(isinstance(n, int) for n in value):
        raise ConfigError(f"gin: {where} = {value!r}: expected four counts, such as (2, 2, 1, 1).")
    return [f"NUM_PARTITIONS = {math.prod(value)}"]


@_reads_value
def _translate_vocabulary(value: Any, where: str) -> list[str]:
    """Sets VOCABULARY to a path; references to its class set nothing."""
    if isinstance(value, str):
        return [f"VOCABULARY = {value!r}"]
    name = str(getattr(value, "name", ""))
    if name in ("seqio.SentencePieceVocabulary", "seqio_vocabulary.default_vocabulary"):
        return []
    if name == "seqio.ByteVocabulary":
        return ["VOCABULARY = 'byt5'"]
    raise ConfigError(
        f"gin: {where} = {value!r} has no counterpart; set VOCABULARY to the folder or file of a "
        "tokenizer, or leave it out to take the checkpoint's."
    )


def _decode_fn(value: Any, where: str) -> list[str]:
    """Chooses beams (one is greedy) or sampling."""
    name = str(getattr(value, "name", "")).rpartition(".")[2]
    if name == "beam_search":
        return ["TEMPERATURE = 0.0"]
    if name == "temperature_sample":
        # T5X's defaults, by which this is greedy until the file sets topk.
        return ["TEMPERATURE = 1.0", "TOP_K = 1", "NUM_BEAMS = 1"]
    raise ConfigError(
        f"gin: {where} = {value!r}: expected @decoding.beam_search or @decoding.temperature_sample."
    )


_UNNEEDED = "not needed here"
# Where T5X's eval takes the longest row. Longer ones are an error, see `translate_t5x`.
_UNTRIMMED = {"inputs": 512, "targets": 512}
_KNOWN: dict[str, Counterpart] = {
    "__main__.train.model": _reference_to("t5x.models.EncoderDecoderModel"),
    "__main__.train.model_dir": _set_macro("MODEL_DIR"),
    "__main__.train.train_dataset_cfg": _reference_to("t5x.utils.DatasetConfig"),
    "__main__.train.train_eval_dataset_cfg": _reference_to("t5x.utils.DatasetConfig"),
    "__main__.train.infer_eval_dataset_cfg": _reads_value(
        lambda value, where: [f"DECODING = {None if value is None else _DECODING!r}"]
    ),
    "__main__.train.checkpoint_cfg": _reference_to("t5x.utils.CheckpointConfig"),
    "__main__.train.partitioner": _reference_to("t5x.partitioning.PjitPartitioner"),
    "__main__.train.trainer_cls": _reference_to("t5x.trainer.Trainer"),
    "__main__.train.total_steps": _without_effect(_STRUCTURE),
    "__main__.train.relative_steps": _without_effect(_STRUCTURE),
    "__main__.train.eval_steps": _without_effect("validation reads the whole split here"),
    "__main__.train.eval_period": _set_macro("EVAL_PERIOD"),
    "__main__.train.stats_period": _set_macro("LOG_PERIOD"),
    "__main__.train.random_seed": _macro_or(0, "RANDOM_SEED"),
    "__main__.train.use_hardware_rng": _set_macro("USE_HARDWARE_RNG"),
    "__main__.train.summarize_config_fn": _without_effect(_STRUCTURE),
    "__main__.train.inference_evaluator_cls": _reference_to("seqio.Evaluator"),
    "__main__.train.actions": _without_effect("a loss that is not finite ends a run here"),
    "t5x.trainer.TerminateOnNanAction.task": _without_effect(_STRUCTURE),
    "__main__.evaluate.fallback_init_rng": _without_effect(_STRUCTURE),
    "__main__.infer.fallback_init_rng": _without_effect(_STRUCTURE),
    "__main__.train.run_eval_before_training": _set_macro("EVAL_BEFORE_TRAINING"),
    "__main__.train.gc_period": _without_effect(_UNNEEDED),
    "__main__.evaluate.model": _reference_to("t5x.models.EncoderDecoderModel"),
    "__main__.evaluate.dataset_cfg": _reference_to("t5x.utils.DatasetConfig"),
    "__main__.evaluate.partitioner": _reference_to("t5x.partitioning.PjitPartitioner"),
    "__main__.evaluate.restore_checkpoint_cfg": _reference_to("t5x.utils.RestoreCheckpointConfig"),
    "__main__.evaluate.output_dir": _set_macro("EVAL_OUTPUT_DIR"),
    "__main__.evaluate.inference_evaluator_cls": _reference_to("seqio.Evaluator"),
    "__main__.infer.mode": _one_of(
        "predict", otherwise="here `faith-jax score` scores given texts; infer predicts."
    ),
    "__main__.infer.model": _reference_to("t5x.models.EncoderDecoderModel"),
    "__main__.infer.output_dir": _set_macro("INFER_OUTPUT_DIR"),
    "__main__.infer.dataset_cfg": _reference_to("t5x.utils.DatasetConfig"),
    "__main__.infer.partitioner": _reference_to("t5x.partitioning.PjitPartitioner"),
    "__main__.infer.restore_checkpoint_cfg": _reference_to("t5x.utils.RestoreCheckpointConfig"),
    "__main__.infer.checkpoint_period": _without_effect("infer resumes at the row here"),
    "__main__.infer.shard_id": _without_effect("processes share the rows here; see docs/jobs.md"),
    "__main__.infer.num_shards": _set_macro("SHARDS"),
    "t5x.utils.CheckpointConfig.save": _reference_to("t5x.utils.SaveCheckpointConfig"),
    "t5x.utils.CheckpointConfig.restore": _reference_to("t5x.utils.RestoreCheckpointConfig"),
    "t5x.utils.RestoreCheckpointConfig.mode": _one_of(
        "specific", "latest", otherwise="expected 'specific' or 'latest'."
    ),
    "t5x.utils.RestoreCheckpointConfig.dtype": _macro_or("float32", "PARAMS_DTYPE"),
    "t5x.utils.RestoreCheckpointConfig.fallback_to_scratch": _without_effect(_STRUCTURE),
    "t5x.utils.RestoreCheckpointConfig.assignment_map": _one_of(
        ((r"^.*prompt.*$", None),),
        otherwise="parameters keep their names here; convert the checkpoint first.",
    ),
    "t5x.utils.SaveCheckpointConfig.period": _set_macro("CHECKPOINT_PERIOD"),
    "t5x.utils.SaveCheckpointConfig.keep": _macro_or(1_000_000, "KEEP_LAST"),
    "t5x.utils.SaveCheckpointConfig.dtype": _without_effect(_STRUCTURE),
    "t5x.utils.SaveCheckpointConfig.save_dataset": _without_effect("a run resumes at its row here"),
    "t5x.utils.SaveCheckpointConfig.checkpointer_cls": _without_effect(_STRUCTURE),
    "t5x.trainer.Trainer.num_microbatches": _translate_microbatches,
    "t5x.trainer.Trainer.learning_rate_fn": _reference_to(
        "t5x.utils.create_learning_rate_scheduler"
    ),
    "t5x.models.EncoderDecoderModel.module": _reference_to(
        "t5x.examples.t5.network.Transformer", "faith_jax.models.transformer.Transformer",
        "transformer.Transformer",
    ),
    "t5x.models.EncoderDecoderModel.input_vocabulary": _translate_vocabulary,
    "t5x.models.EncoderDecoderModel.output_vocabulary": _translate_vocabulary,
    "t5x.models.EncoderDecoderModel.optimizer_def": _reference_to("t5x.adafactor.Adafactor"),
    "t5x.models.EncoderDecoderModel.z_loss": _set_macro("Z_LOSS"),
    "t5x.models.EncoderDecoderModel.label_smoothing": _set_macro("LABEL_SMOOTHING"),
    "t5x.models.EncoderDecoderModel.loss_normalizing_factor": _translate_normalizing_factor,
    "t5x.models.EncoderDecoderModel.decode_fn": _decode_fn,
    "t5x.models.EncoderDecoderModel.predict_batch_with_aux.num_decodes": _set_macro("NUM_BEAMS"),
    "t5x.decoding.beam_search.alpha": _without_effect(
        "T5X divides by ((5 + length) / 6) ** alpha; LENGTH_PENALTY divides by length ** it"
    ),
    "t5x.decoding.temperature_sample.temperature": _set_macro("TEMPERATURE"),
    "t5x.decoding.temperature_sample.topk": _set_macro("TOP_K"),
    "t5x.decoding.temperature_sample.topp": lambda value, where: [
        f"TOP_P = {value or 1.0!r}"
    ],
    "t5x.adafactor.Adafactor.decay_rate": _set_macro("optimizers.adafactor.decay_rate"),
    "t5x.adafactor.Adafactor.step_offset": _without_effect(_STRUCTURE),
    "t5x.adafactor.Adafactor.multiply_by_parameter_scale": _set_macro(
        "optimizers.adafactor.multiply_by_parameter_scale"
    ),
    "t5x.adafactor.Adafactor.weight_decay_rate": _set_macro("optimizers.adafactor.weight_decay"),
    "t5x.adafactor.Adafactor.logical_factor_rules": _without_effect(_STRUCTURE),
    "t5x.examples.t5.network.Transformer.config": _reference_to(T5_CONFIG),
    "t5x.partitioning.PjitPartitioner.num_partitions": _macro_or(1, "NUM_PARTITIONS"),
    "t5x.partitioning.PjitPartitioner.model_parallel_submesh": _translate_submesh,
    "t5x.partitioning.PjitPartitioner.logical_axis_rules": _without_effect(_STRUCTURE),
    "t5x.partitioning.standard_logical_axis_rules.activation_partitioning_dims": _set_macro(
        "ACTIVATION_PARTITIONING_DIMS"
    ),
    "t5x.partitioning.standard_logical_axis_rules.parameter_partitioning_dims": _set_macro(
        "PARAMETER_PARTITIONING_DIMS"
    ),
    "t5x.partitioning.standard_logical_axis_rules.additional_rules": _without_effect(_STRUCTURE),
    "seqio.SentencePieceVocabulary.sentencepiece_model_file": _translate_vocabulary,
    "seqio.SentencePieceVocabulary.extra_ids": _without_effect(
        "the vocabulary's folder says it here"
    ),
    "seqio.Evaluator.logger_cls": _without_effect(_STRUCTURE),
    "seqio.Evaluator.num_examples": _one_of(
        None, otherwise="all examples are evaluated here; delete it, or make a smaller split."
    ),
    "seqio.Evaluator.use_memory_cache": _without_effect(_STRUCTURE),
    "seqio.JSONLogger.write_n_results": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.Prompt.length": _set_macro("PROMPT_LENGTH"),
    "prompt_tuning.prompts.Prompt.dtype": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.Prompt.prompt_init": _translate_initializer,
    "prompt_tuning.prompts.from_sample_of_embeddings.population_size": _set_macro(
        "PROMPT_MOST_FREQUENT"
    ),
    "prompt_tuning.prompts.from_sample_of_embeddings.embeddings": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.from_embedded_list.texts": _set_macro("CLASS_LABELS"),
    "prompt_tuning.prompts.from_embedded_list.embeddings": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.from_embedded_list.vocab": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.from_embedded_list.initializer": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.t5x_load.checkpoint_path": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.t5x_load.variable_path": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.np_load.path": _set_macro("PROMPT_FILE"),
    "prompt_tuning.prompts.from_array.prompt": _without_effect(_STRUCTURE),
    "prompt_tuning.train.prompts.Prompt.prompt": _reference_to("prompt_tuning.prompts.Prompt"),
    "flax.linen.initializers.uniform.scale": _set_macro("PROMPT_SCALE"),
}  # fmt: skip
for _name in ("base_learning_rate", "factors", "warmup_steps", "decay_factor", "steps_per_decay",
              "steps_per_cycle", "step_offset", "min_learning_rate"):  # fmt: skip
    _KNOWN[f"t5x.utils.create_learning_rate_scheduler.{_name}"] = _set_macro(
        f"optimizers.factored_rate.{_name}"
    )
# Arguments of data sets that ours have too; the others that are known are not needed.
_OF_DATASETS = (
    "mixture_or_task_name", "task_feature_lengths", "split", "batch_size", "shuffle", "seed",
    "use_cached", "pack", "module",
)  # fmt: skip
_OF_CONFIG = (
    "vocab_size", "dtype", "emb_dim", "num_heads", "num_encoder_layers", "num_decoder_layers",
    "head_dim", "mlp_dim", "mlp_activations", "dropout_rate", "logits_via_embedding",
    "float32_attention_logits", "scan_layers", "remat_policy",
)  # fmt: skip
_SAME_AS_MACRO = {
    "vocab_size": "VOCAB_SIZE", "dtype": "DTYPE", "dropout_rate": "DROPOUT_RATE",
    "scan_layers": "SCAN_LAYERS", "remat_policy": "REMAT_POLICY",
}  # fmt: skip

# T5X's macros that are called otherwise, or have nothing to set, here.
_MACROS: dict[str, Counterpart] = {
    "MODEL": _reference_to("t5x.models.EncoderDecoderModel"),
    "OPTIMIZER": _reference_to("t5x.adafactor.Adafactor", "t5x.optimizers.MultiOptimizer"),
    "VOCABULARY": _translate_vocabulary,
    "RANDOM_SEED": _macro_or(0, "RANDOM_SEED"),
    "KEEP_LAST": _macro_or(1_000_000, "KEEP_LAST"),
    "VOCABULARY_FILE": _set_macro("VOCABULARY"),  # of our models for real T5X
    "TRAIN_STEPS_RELATIVE": _without_effect(_STRUCTURE),
    "EVAL_STEPS": _without_effect("validation reads the whole split here"),
    "EVALUATOR_USE_MEMORY_CACHE": _without_effect(_STRUCTURE),
    "EVALUATOR_NUM_EXAMPLES": _one_of(None, otherwise="all examples are evaluated here."),
    "JSON_WRITE_N_RESULTS": _without_effect(_STRUCTURE),
    "LOSS_NORMALIZING_FACTOR": _translate_normalizing_factor,
    "SHUFFLE_TRAIN_EXAMPLES": _set_macro("train_split/task_batches.DatasetConfig.shuffle"),
    "ACTIVATION_DTYPE": _set_macro("DTYPE"),
    # Of prompt-tuning's models; a file may also use them as macros of its own.
    "NUM_EMBEDDINGS": _both_macros("NUM_EMBEDDINGS", "VOCAB_SIZE"),
    "NUM_HEADS": _both_macros("NUM_HEADS", "config.TransformerConfig.num_heads"),
    "NUM_ENCODER_LAYERS": _both_macros(
        "NUM_ENCODER_LAYERS", "config.TransformerConfig.num_encoder_layers"
    ),
    "NUM_DECODER_LAYERS": _both_macros(
        "NUM_DECODER_LAYERS", "config.TransformerConfig.num_decoder_layers"
    ),
    "HEAD_DIM": _both_macros("HEAD_DIM", "config.TransformerConfig.head_dim"),
    "EMBED_DIM": _both_macros("EMBED_DIM", "config.TransformerConfig.emb_dim"),
    "MLP_DIM": _both_macros("MLP_DIM", "config.TransformerConfig.mlp_dim"),
    "PROMPT": _reference_to("prompt_tuning.train.prompts.Prompt"),
    "PROMPT_FILE": _set_macro("PROMPT_FILE"),
    "PROMPT_REGEX": _without_effect(_STRUCTURE),
}


def counterpart(
    statement: Any, script: str, roles: Mapping[str, str], macros: Mapping[str, Any]
) -> list[str]:
    """Returns the lines that a binding becomes; none if it has nothing to set here.

    Args:
      statement: a `translation.Statement` with full names.
      script: "train", "eval" or "infer".
      roles: the part of each data set in a training, by its scope.
      macros: the values of all files and bindings.

    Raises:
      ConfigError: it has no counterpart.
    """
    name, value = statement.name, statement.value
    if not statement.selector:
        where = f"{statement.where}: {name}"
        if name in ("INITIAL_CHECKPOINT_PATH", "CHECKPOINT_PATH"):
            value = _single_checkpoint(value, where, macros)
        handler = _MACROS.get(name, _set_macro(name))
        if getattr(value, "name", "") == "gin.REQUIRED" and name in _MACROS:
            return []  # what our run needs, it asks for
        if name == "PROMPT_FILE":
            _check_prompt_file(value, where, script)
        if name == "TASK_FEATURE_LENGTHS" and value is None:
            return [] if script == "train" else [f"{name} = {_UNTRIMMED!r}"]
        return _apply_counterpart(handler, value, where, macros)
    selector = statement.selector
    scope = f"{statement.scope}/" if statement.scope else ""
    where = f"{statement.where}: {scope}{selector}.{name}"
    if selector == "faith_jax.tokenizers.seqio_vocabulary.default_vocabulary":
        return [f"VOCABULARY = {value!r}"] if name == "path_or_name" else []
    if selector.startswith("faith_jax."):
        return [f"{scope}{'.'.join(selector.split('.')[-2:])}.{name} = {value!r}"]
    if selector == "t5x.utils.DatasetConfig":
        return _of_dataset(statement, script, roles, where)
    if selector == T5_CONFIG and name in _OF_CONFIG:
        ours = _SAME_AS_MACRO.get(name, f"config.TransformerConfig.{name}")
        return [] if getattr(value, "name", "") == ours else [f"{ours} = {value!r}"]
    if selector == "t5x.utils.RestoreCheckpointConfig" and name == "path":
        macro = "INITIAL_CHECKPOINT_PATH" if script == "train" else "CHECKPOINT_PATH"
        value = _single_checkpoint(value, where, macros)
        return [] if getattr(value, "name", "") == macro else [f"{macro} = {value!r}"]
    if selector == "prompt_tuning.prompts.np_load":
        _check_prompt_file(value, where, script)
    rule = _KNOWN.get(f"{selector}.{name}")
    if rule is None:
        near = did_you_mean(f"{selector}.{name}", _KNOWN)
        raise ConfigError(
            f"gin: {where}: T5X's {selector.split('.')[-1]}.{name} has no counterpart here.{near} "
            "Delete it, or run this file under T5X itself (docs/t5x.md)."
        )
    # `model_dir = %MODEL_DIR` would become a macro that refers to itself.
    return [
        line for line in _apply_counterpart(rule, value, where, macros) if not _SELF.fullmatch(line)
    ]


def _check_prompt_file(value: Any, where: str, script: str) -> None:
    if script != "train":
        raise ConfigError(
            f"gin: {where} = {value!r}: {script} takes the prompt of CHECKPOINT_PATH; "
            "faith-jax import-prompt makes one checkpoint of a model and a prompt's file."
        )


def _single_checkpoint(value: Any, where: str, macros: Mapping[str, Any]) -> Any:
    """Returns the only checkpoint of a list, None of an empty one; another value as it is."""
    paths = resolve(value, macros)
    if not isinstance(paths, list | tuple):
        return value
    if len(paths) > 1:
        raise ConfigError(f"gin: {where}: expected one checkpoint, got {len(paths)}.")
    return paths[0] if paths else None


def resolve(value: Any, macros: Mapping[str, Any]) -> Any:
    """Returns what a macro stands for, which may be a macro too; another value as it is."""
    passed = set[str]()
    while (name := getattr(value, "name", "")) in macros and name not in passed:
        passed.add(name)
        value = macros[name]
    return value


def _apply_counterpart(
    handler: Counterpart, value: Any, where: str, macros: Mapping[str, Any]
) -> list[str]:
    """Returns a handler's lines; one that looks at a value gets that of a macro."""
    if handler in _READING_VALUES:
        value = resolve(value, macros)
        if getattr(value, "name", "") == "gin.REQUIRED":
            return []
    return handler(value, where)


def _of_dataset(statement: Any, script: str, roles: Mapping[str, str], where: str) -> list[str]:
    name, value = statement.name, statement.value
    if name not in _OF_DATASETS and name != "use_custom_packing_ops":
        raise ConfigError(f"gin: {where}: expected one of {', '.join(_OF_DATASETS)}; delete it.")
    role = roles.get(statement.scope, statement.scope) if script == "train" else ""
    if name == "task_feature_lengths" and value is None and script != "train":
        value = _UNTRIMMED
    is_none = name in ("seed", "task_feature_lengths") and value is None
    if name == "use_custom_packing_ops" or is_none or role == "unread":
        return []
    if role == "infer_eval":
        file = statement.where.partition(", line")[0]
        log_once(f"{file}: {statement.scope}: decoded metrics are of the rows of validation here")
        return []
    if script == "train":
        ours = {"train": "train_split/", "train_eval": "eval_split/"}.get(role)
        if ours is None:
            raise ConfigError(
                f"gin: {where}: no argument of train refers to this data set; T5X's are "
                "train/, train_eval/ and infer_eval/."
            )
        if role == "train_eval" and name in ("pack", "shuffle", "seed"):
            return []  # validation has the same loss in any form
    else:
        ours = ""
        if name in ("pack", "shuffle", "seed"):
            return []
        if name == "batch_size":  # infer reads it elsewhere, too
            return [] if getattr(value, "name", "") == "BATCH_SIZE" else [f"BATCH_SIZE = {value!r}"]
    macro = {"mixture_or_task_name": "MIXTURE_OR_TASK_NAME",
             "task_feature_lengths": "TASK_FEATURE_LENGTHS"}.get(name)  # fmt: skip
    if macro and role == "train" and "its own run" in roles:
        return [] if getattr(value, "name", "") == macro else [f"{macro} = {value!r}"]
    if name == "pack":
        return [] if getattr(value, "name", "") == "PACK" else [f"PACK = {value!r}"]
    return [f"{ours}task_batches.DatasetConfig.{name} = {value!r}"]


def by_short_name(selector: str) -> str:
    """Returns the full name of a configurable that a file has not imported, where it is known."""
    names = {key.rpartition(".")[0] for key in _KNOWN} | {"t5x.utils.DatasetConfig"}
    names |= {T5_CONFIG, "t5x.utils.RestoreCheckpointConfig"}
    full = [n for n in names if n == selector or n.endswith(f".{selector}")]
    return min(full, key=len) if full else selector
