"""Our counterparts of arguments and macros of T5X and prompt-tuning; see `translate_t5x`.

The tables contain facts about T5X's configuration. A value that is not in a table is an error that
names file, line and argument.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.progress import log_once
from faith_jax.gin_files.t5x_statements import Statement, T5XConfig
from faith_jax.gin_files.values import REQUIRED, Macro, Reference, resolve

T5_CONFIG = "t5x.examples.t5.network.T5Config"
DATASET = "t5x.utils.DatasetConfig"
RESTORE = "t5x.utils.RestoreCheckpointConfig"
SCRIPTS = {"__main__.train": "train", "__main__.evaluate": "eval", "__main__.infer": "infer"}
# A setting that a statement has here: one of our macros or arguments and its value, or "include"
# and one of our files.
Setting = tuple[str, Any]
# Settings that `translate_t5x` reads itself and does not pass to gin.
KEPT = RESTORED, RESTORE_MODE, RELATIVE_STEPS, DECODED_LENGTHS, READS_WHOLE = (
    "restored", "restore mode", "TRAIN_STEPS_RELATIVE", "lengths of decoded rows", "reads whole"
)  # fmt: skip
# T5X's eval takes the length of the longest row; here longer rows are errors, see `translate_t5x`.
_UNTRIMMED = {"inputs": 512, "targets": 512}
_STRUCTURE = ""  # for values that our run files connect themselves: not worth a log message
# Turns a value into our settings; the text names file, line and argument, for errors.
Counterpart = Callable[[Any, str], list[Setting]]


def _set_value(name: str) -> Counterpart:
    """Sets our macro or argument to the value."""
    return lambda value, where: [(name, value)]


def _set_or(default: Any, name: str) -> Counterpart:
    """Sets our macro to the value, or to `default` if the value is None."""
    return lambda value, where: [(name, default if value is None else value)]


def _without_effect(reason: str) -> Counterpart:
    """Sets nothing; logs the reason once, unless it is `_STRUCTURE`."""

    def ignore_value(value: Any, where: str) -> list[Setting]:
        if reason:
            log_once(f"{where}: {reason}")
        return []

    return ignore_value


def _reference_to(*names: str) -> Counterpart:
    """Accepts macros and references that our run files connect themselves; others are errors."""

    def check_connected(value: Any, where: str) -> list[Setting]:
        name = _referred_name(value)
        if value is not None and name not in names and not name.isupper():
            expected = " or ".join(f"@{n}" for n in names)
            raise ConfigError(
                f"gin: {where}: {value!r} has no counterpart here; T5X's files have {expected}. "
                "docs/t5x.md says what runs under T5X itself."
            )
        return []

    return check_connected


def _one_of(*values: Any, otherwise: str) -> Counterpart:
    """Accepts only these values, which have no effect; `otherwise` ends the error for others."""

    def check_value(value: Any, where: str) -> list[Setting]:
        if value not in values:
            raise ConfigError(f"gin: {where} = {value!r}: {otherwise}")
        return []

    return check_value


def _referred_name(value: Any) -> str:
    """Returns the name of a macro, or of a reference without its scope; "" for other values."""
    return str(getattr(value, "name", "")).rpartition("/")[2]


_SAMPLED = "prompt_tuning.prompts.from_sample_of_embeddings"
_FROM_ARRAY = "prompt_tuning.prompts.from_array"
_NP_LOAD = "prompt_tuning.prompts.np_load"
# Our files for the initialisers, and their defaults where they differ from ours.
_INITIALIZERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    _SAMPLED: (
        "prompts/sampled_vocabulary.gin",
        {"PROMPT_FIRST_TOKEN": 0, "PROMPT_MOST_FREQUENT": 1_000_000_000},  # the whole vocabulary
    ),
    "prompt_tuning.prompts.from_embedded_list": ("prompts/class_labels.gin", {}),
    _FROM_ARRAY: ("prompts/from_npy.gin", {}),
    "flax.linen.initializers.uniform": (
        "prompts/uniform.gin",
        {"PROMPT_SCALE": 0.01, "soft_prompt.uniform.is_symmetric": False},  # from [0, scale)
    ),
}


def _set_initializer(value: Any, where: str) -> list[Setting]:
    if (name := _referred_name(value)) not in _INITIALIZERS:
        raise ConfigError(f"gin: {where} = {value!r}: expected one of {', '.join(_INITIALIZERS)}.")
    file, defaults = _INITIALIZERS[name]
    return [("include", file), *defaults.items()]


def _set_microbatches(value: Any, where: str) -> list[Setting]:
    """Sets the number of pieces of a batch; T5X's None and 0 mean one piece."""
    if isinstance(value, int) or value is None:
        value = max(1, value or 1)
    return [("NUM_MICROBATCHES", value)]


def _set_normalizing_factor(value: Any, where: str) -> list[Setting]:
    """Sets the divisor of losses: T5X's None means 1, ours the number of real target tokens."""
    if isinstance(value, str):
        if value.upper() != "NUM_REAL_TARGET_TOKENS":
            raise ConfigError(
                f"gin: {where} = {value!r}: expected a number, None (losses are summed) or "
                "'NUM_REAL_TARGET_TOKENS'."
            )
        return [("LOSS_NORMALIZING_FACTOR", None)]
    return [("LOSS_NORMALIZING_FACTOR", 1.0 if value is None else value)]


def _set_submesh(value: Any, where: str) -> list[Setting]:
    """Splits the model over the number of devices in T5X's submesh (x, y, z, cores)."""
    if value is None:
        return []
    if not isinstance(value, tuple | list) or not all(isinstance(n, int) for n in value):
        raise ConfigError(f"gin: {where} = {value!r}: expected four counts, such as (2, 2, 1, 1).")
    return [("NUM_PARTITIONS", math.prod(value))]


def _set_vocabulary(value: Any, where: str) -> list[Setting]:
    """Sets VOCABULARY to a path; references to its class set nothing."""
    name = _referred_name(value)
    if isinstance(value, str):
        return [("VOCABULARY", value)]
    if name == "seqio.ByteVocabulary":
        return [("VOCABULARY", "byt5")]
    if name in ("seqio.SentencePieceVocabulary", "seqio_vocabulary.default_vocabulary"):
        return []
    raise ConfigError(
        f"gin: {where} = {value!r} has no counterpart; set VOCABULARY to the folder or file of a "
        "tokenizer, or leave it out to take the checkpoint's."
    )


def _set_decoder(value: Any, where: str) -> list[Setting]:
    """Chooses beam search (greedy with one beam) or sampling."""
    name = _referred_name(value).rpartition(".")[2]
    if name == "beam_search":
        return [("TEMPERATURE", 0.0)]
    if name == "temperature_sample":
        # With T5X's defaults, decoding is greedy until the file sets topk.
        return [("TEMPERATURE", 1.0), ("TOP_K", 1), ("NUM_BEAMS", 1)]
    raise ConfigError(
        f"gin: {where} = {value!r}: expected @decoding.beam_search or @decoding.temperature_sample."
    )


def _set_decoding(value: Any, where: str) -> list[Setting]:
    """Decodes rows during training, unless T5X's data set for this is None."""
    return [("DECODING", value and Reference("decoding_config.DecodingConfig"))]


def _check_assignments(value: Any, where: str) -> list[Setting]:
    """Accepts None for optimizer states and prompts, which are initialised anew here."""
    for pair in value or ():
        match pair:
            case [str(pattern), None] if re.search("param_states|prompt", pattern):
                continue
        raise ConfigError(
            f"gin: {where} = {value!r}: parameters keep their names here; convert the checkpoint "
            "first. Only ('.*param_states.*', None) and prompts may be left out, which start anew."
        )
    return []


def _set_checkpoint(name: str) -> Counterpart:
    """Sets a path, which may be the only item of a list; an empty list means None."""

    def set_path(value: Any, where: str) -> list[Setting]:
        if isinstance(value, list | tuple):
            if len(value) > 1:
                raise ConfigError(f"gin: {where}: expected one checkpoint, got {len(value)}.")
            value = value[0] if value else None
        return [(name, value)]

    return set_path


_UNNEEDED = "not needed here"
_OPTIMIZERS = ("t5x.adafactor.Adafactor", "t5x.optimizers.MultiOptimizer")
_KNOWN: dict[str, Counterpart] = {
    "__main__.train.model": _reference_to("t5x.models.EncoderDecoderModel"),
    "__main__.train.model_dir": _set_value("MODEL_DIR"),
    "__main__.train.train_dataset_cfg": _reference_to(DATASET),
    "__main__.train.train_eval_dataset_cfg": _reference_to(DATASET),
    "__main__.train.infer_eval_dataset_cfg": _set_decoding,
    "__main__.train.checkpoint_cfg": _reference_to("t5x.utils.CheckpointConfig"),
    "__main__.train.partitioner": _reference_to("t5x.partitioning.PjitPartitioner"),
    "__main__.train.trainer_cls": _reference_to("t5x.trainer.Trainer"),
    "__main__.train.total_steps": _set_value("TRAIN_STEPS"),
    "__main__.train.relative_steps": _set_value(RELATIVE_STEPS),
    "__main__.train.eval_steps": _without_effect("validation reads the whole split here"),
    "__main__.train.eval_period": _set_value("EVAL_PERIOD"),
    "__main__.train.stats_period": _set_value("LOG_PERIOD"),
    "__main__.train.random_seed": _set_or(0, "RANDOM_SEED"),
    "__main__.train.use_hardware_rng": _set_value("USE_HARDWARE_RNG"),
    "__main__.train.summarize_config_fn": _without_effect(_STRUCTURE),
    "__main__.train.inference_evaluator_cls": _reference_to("seqio.Evaluator"),
    "__main__.train.actions": _without_effect("a loss that is not finite ends a run here"),
    "t5x.trainer.TerminateOnNanAction.task": _without_effect(_STRUCTURE),
    "__main__.evaluate.fallback_init_rng": _without_effect(_STRUCTURE),
    "__main__.infer.fallback_init_rng": _without_effect(_STRUCTURE),
    "__main__.train.run_eval_before_training": _set_value("EVAL_BEFORE_TRAINING"),
    "__main__.train.gc_period": _without_effect(_UNNEEDED),
    "__main__.evaluate.model": _reference_to("t5x.models.EncoderDecoderModel"),
    "__main__.evaluate.dataset_cfg": _reference_to(DATASET),
    "__main__.evaluate.partitioner": _reference_to("t5x.partitioning.PjitPartitioner"),
    "__main__.evaluate.restore_checkpoint_cfg": _reference_to(RESTORE),
    "__main__.evaluate.output_dir": _set_value("EVAL_OUTPUT_DIR"),
    "__main__.evaluate.inference_evaluator_cls": _reference_to("seqio.Evaluator"),
    "__main__.infer.mode": _one_of(
        "predict", otherwise="here `faith-jax score` scores given texts; infer predicts."
    ),
    "__main__.infer.model": _reference_to("t5x.models.EncoderDecoderModel"),
    "__main__.infer.output_dir": _set_value("INFER_OUTPUT_DIR"),
    "__main__.infer.dataset_cfg": _reference_to(DATASET),
    "__main__.infer.partitioner": _reference_to("t5x.partitioning.PjitPartitioner"),
    "__main__.infer.restore_checkpoint_cfg": _reference_to(RESTORE),
    "__main__.infer.checkpoint_period": _without_effect("infer resumes at the row here"),
    "__main__.infer.shard_id": _without_effect("processes share the rows here; see docs/jobs.md"),
    "__main__.infer.num_shards": _set_value("SHARDS"),
    "t5x.utils.CheckpointConfig.save": _reference_to("t5x.utils.SaveCheckpointConfig"),
    "t5x.utils.CheckpointConfig.restore": lambda value, where: [
        *_reference_to(RESTORE)(value, where), (RESTORED, value)
    ],
    f"{RESTORE}.mode": lambda value, where: [
        *_one_of("specific", "latest", otherwise="expected 'specific' or 'latest'.")(value, where),
        (RESTORE_MODE, value),
    ],
    f"{RESTORE}.dtype": _set_or("float32", "PARAMS_DTYPE"),
    f"{RESTORE}.fallback_to_scratch": _without_effect(_STRUCTURE),
    f"{RESTORE}.assignment_map": _check_assignments,
    "t5x.utils.SaveCheckpointConfig.period": _set_value("CHECKPOINT_PERIOD"),
    "t5x.utils.SaveCheckpointConfig.keep": _set_or(1_000_000, "KEEP_LAST"),
    "t5x.utils.SaveCheckpointConfig.dtype": _without_effect(_STRUCTURE),
    "t5x.utils.SaveCheckpointConfig.save_dataset": _without_effect("a run resumes at its row here"),
    "t5x.utils.SaveCheckpointConfig.checkpointer_cls": _without_effect(_STRUCTURE),
    "t5x.trainer.Trainer.num_microbatches": _set_microbatches,
    "t5x.trainer.Trainer.learning_rate_fn": _reference_to(
        "t5x.utils.create_learning_rate_scheduler"
    ),
    "t5x.models.EncoderDecoderModel.module": _reference_to(
        "t5x.examples.t5.network.Transformer", "faith_jax.models.transformer.Transformer",
        "transformer.Transformer",
    ),
    "t5x.models.EncoderDecoderModel.input_vocabulary": _set_vocabulary,
    "t5x.models.EncoderDecoderModel.output_vocabulary": _set_vocabulary,
    "t5x.models.EncoderDecoderModel.optimizer_def": _reference_to(*_OPTIMIZERS),
    "t5x.models.EncoderDecoderModel.z_loss": _set_value("Z_LOSS"),
    "t5x.models.EncoderDecoderModel.label_smoothing": _set_value("LABEL_SMOOTHING"),
    "t5x.models.EncoderDecoderModel.loss_normalizing_factor": _set_normalizing_factor,
    "t5x.models.EncoderDecoderModel.decode_fn": _set_decoder,
    "t5x.models.EncoderDecoderModel.predict_batch_with_aux.num_decodes": _set_value("NUM_BEAMS"),
    "t5x.models.EncoderDecoderModel.predict_batch_with_aux.return_all_decodes": (
        lambda value, where: [("NUM_RETURN", Macro("NUM_BEAMS") if value else 1)]
    ),
    "t5x.decoding.beam_search.alpha": _without_effect(
        "T5X divides by ((5 + length) / 6) ** alpha; LENGTH_PENALTY divides by length ** it"
    ),
    "t5x.decoding.temperature_sample.temperature": _set_value("TEMPERATURE"),
    "t5x.decoding.temperature_sample.topk": _set_value("TOP_K"),
    "t5x.decoding.temperature_sample.topp": lambda value, where: [("TOP_P", value or 1.0)],
    "t5x.adafactor.Adafactor.decay_rate": _set_value("optimizers.adafactor.decay_rate"),
    "t5x.adafactor.Adafactor.step_offset": _without_effect(_STRUCTURE),
    "t5x.adafactor.Adafactor.multiply_by_parameter_scale": _set_value(
        "optimizers.adafactor.multiply_by_parameter_scale"
    ),
    "t5x.adafactor.Adafactor.weight_decay_rate": _set_value("optimizers.adafactor.weight_decay"),
    "t5x.adafactor.Adafactor.logical_factor_rules": _without_effect(_STRUCTURE),
    "t5x.examples.t5.network.Transformer.config": _reference_to(T5_CONFIG),
    f"{T5_CONFIG}.scale_attn_logits": _one_of(
        False, otherwise="expected False: a T5's logits of attention are not scaled."
    ),
    "t5x.partitioning.PjitPartitioner.num_partitions": _set_or(1, "NUM_PARTITIONS"),
    "t5x.partitioning.PjitPartitioner.model_parallel_submesh": _set_submesh,
    "t5x.partitioning.PjitPartitioner.logical_axis_rules": _without_effect(_STRUCTURE),
    "t5x.partitioning.standard_logical_axis_rules.activation_partitioning_dims": _set_value(
        "ACTIVATION_PARTITIONING_DIMS"
    ),
    "t5x.partitioning.standard_logical_axis_rules.parameter_partitioning_dims": _set_value(
        "PARAMETER_PARTITIONING_DIMS"
    ),
    "t5x.partitioning.standard_logical_axis_rules.additional_rules": _without_effect(_STRUCTURE),
    "seqio.SentencePieceVocabulary.sentencepiece_model_file": _set_vocabulary,
    "seqio.SentencePieceVocabulary.extra_ids": _without_effect(
        "the vocabulary's folder says it here"
    ),
    "seqio.Evaluator.logger_cls": _without_effect(_STRUCTURE),
    "seqio.Evaluator.num_examples": _one_of(
        None, otherwise="all examples are evaluated here; delete it, or make a smaller split."
    ),
    "seqio.Evaluator.use_memory_cache": _without_effect(_STRUCTURE),
    "seqio.JSONLogger.write_n_results": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.Prompt.length": _set_value("PROMPT_LENGTH"),
    "prompt_tuning.prompts.Prompt.dtype": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.Prompt.prompt_init": _set_initializer,
    "prompt_tuning.prompts.from_sample_of_embeddings.population_size": _set_value(
        "PROMPT_MOST_FREQUENT"
    ),
    "prompt_tuning.prompts.from_sample_of_embeddings.embeddings": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.from_embedded_list.texts": _set_value("CLASS_LABELS"),
    "prompt_tuning.prompts.from_embedded_list.embeddings": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.from_embedded_list.vocab": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.from_embedded_list.initializer": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.t5x_load.checkpoint_path": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.t5x_load.variable_path": _without_effect(_STRUCTURE),
    "prompt_tuning.prompts.np_load.path": _set_value("PROMPT_FILE"),
    "prompt_tuning.prompts.from_array.prompt": _without_effect(_STRUCTURE),
    "prompt_tuning.train.prompts.Prompt.prompt": _reference_to("prompt_tuning.prompts.Prompt"),
    "flax.linen.initializers.uniform.scale": _set_value("PROMPT_SCALE"),
}  # fmt: skip
for _name in ("base_learning_rate", "factors", "warmup_steps", "decay_factor", "steps_per_decay",
              "steps_per_cycle", "step_offset", "min_learning_rate"):  # fmt: skip
    _KNOWN[f"t5x.utils.create_learning_rate_scheduler.{_name}"] = _set_value(
        f"optimizers.factored_rate.{_name}"
    )
# Arguments of data sets, and our macros; "" = an argument of the data set itself.
_OF_DATASETS = {
    "mixture_or_task_name": "MIXTURE_OR_TASK_NAME", "task_feature_lengths": "TASK_FEATURE_LENGTHS",
    "split": "SPLIT", "batch_size": "BATCH_SIZE", "shuffle": "", "seed": "",
    "use_cached": "USE_CACHED_TASKS", "pack": "PACK", "module": "MIXTURE_OR_TASK_MODULE",
}  # fmt: skip
_SPLITS = {"train": "TRAIN_", "train_eval": "EVAL_", "": ""}  # prefixes of our SPLIT macros
# Arguments of T5X's programs that name a data set, and its part in a run.
_DATASETS = {
    "train": {f"__main__.train.{part}_dataset_cfg": part for part in ("train", "train_eval",
                                                                     "infer_eval")},
    "eval": {"__main__.evaluate.dataset_cfg": ""},
    "infer": {"__main__.infer.dataset_cfg": ""},
}  # fmt: skip
_OF_CONFIG = (
    "vocab_size", "dtype", "emb_dim", "num_heads", "num_encoder_layers", "num_decoder_layers",
    "head_dim", "mlp_dim", "mlp_activations", "dropout_rate", "logits_via_embedding",
    "float32_attention_logits", "scan_layers", "remat_policy",
)  # fmt: skip
_SAME_AS_MACRO = {
    "vocab_size": "VOCAB_SIZE", "dtype": "DTYPE", "dropout_rate": "DROPOUT_RATE",
    "scan_layers": "SCAN_LAYERS", "remat_policy": "REMAT_POLICY",
}  # fmt: skip

# T5X's macros that have another name here, or no effect.
_MACROS: dict[str, Counterpart] = {
    "INITIAL_CHECKPOINT_PATH": _set_checkpoint("INITIAL_CHECKPOINT_PATH"),
    "CHECKPOINT_PATH": _set_checkpoint("CHECKPOINT_PATH"),
    "MODEL": _reference_to("t5x.models.EncoderDecoderModel"),
    "OPTIMIZER": _reference_to(*_OPTIMIZERS),
    "VOCABULARY": _set_vocabulary,
    "RANDOM_SEED": _set_or(0, "RANDOM_SEED"),
    "KEEP_LAST": _set_or(1_000_000, "KEEP_LAST"),
    "VOCABULARY_FILE": _set_value("VOCABULARY"),  # in our model files for real T5X
    RELATIVE_STEPS: _set_value(RELATIVE_STEPS),
    "EVAL_STEPS": _without_effect("validation reads the whole split here"),
    "EVALUATOR_USE_MEMORY_CACHE": _without_effect(_STRUCTURE),
    "EVALUATOR_NUM_EXAMPLES": _one_of(None, otherwise="all examples are evaluated here."),
    "JSON_WRITE_N_RESULTS": _without_effect(_STRUCTURE),
    "LOSS_NORMALIZING_FACTOR": _set_normalizing_factor,
    "SHUFFLE_TRAIN_EXAMPLES": _set_value("train_split/task_batches.DatasetConfig.shuffle"),
    "ACTIVATION_DTYPE": _set_value("DTYPE"),
    # Macros of prompt-tuning's model files.
    "NUM_EMBEDDINGS": _set_value("VOCAB_SIZE"),
    "NUM_HEADS": _set_value("config.TransformerConfig.num_heads"),
    "NUM_ENCODER_LAYERS": _set_value("config.TransformerConfig.num_encoder_layers"),
    "NUM_DECODER_LAYERS": _set_value("config.TransformerConfig.num_decoder_layers"),
    "HEAD_DIM": _set_value("config.TransformerConfig.head_dim"),
    "EMBED_DIM": _set_value("config.TransformerConfig.emb_dim"),
    "MLP_DIM": _set_value("config.TransformerConfig.mlp_dim"),
    "PROMPT": _reference_to("prompt_tuning.train.prompts.Prompt"),
    "PROMPT_REGEX": _without_effect(_STRUCTURE),
}
# The configurables in _CHOSEN have an effect only if an argument of a root refers to them.
_ROOTS = ("t5x.models.EncoderDecoderModel", "prompt_tuning.prompts.Prompt")
_CHOSEN = frozenset((
    "t5x.decoding.temperature_sample", "seqio.SentencePieceVocabulary", _NP_LOAD, *_INITIALIZERS
))  # fmt: skip
# Full names of the configurables that files may bind or refer to.
CONFIGURABLES = frozenset(
    {name.rpartition(".")[0] for name in _KNOWN} | {DATASET, T5_CONFIG, RESTORE}
)


def settings_of(
    statement: Statement, config: T5XConfig, script: str, rebound: frozenset[str]
) -> list[Setting]:
    """Returns our settings for a statement; empty if it has no effect.

    `rebound` are macros of T5X's files whose names have other values here.

    Raises:
      ConfigError: the statement has no counterpart.
    """
    if statement.include:
        return [("include", statement.include)]
    value = resolve(statement.value, config.macros)
    is_macro = not statement.selector
    is_required = isinstance(value, Macro) and config.macros.get(value.name) == REQUIRED
    if is_required or (value == REQUIRED and (statement.name in _MACROS or not is_macro)):
        return []  # our run itself asks for the values that it requires
    if is_macro:
        settings = _translate_macro(statement, value)
    else:
        settings = _translate_argument(statement, value, config, script)
    written = statement.value
    if not isinstance(written, Macro):
        return settings
    if written.name not in rebound and written.name not in _MACROS:
        settings = [(n, written if v is value else v) for n, v in settings]
    if is_macro:
        return settings
    # T5X's `model_dir = %MODEL_DIR` sets nothing: the macro's own statement does.
    settings = [(n, v) for n, v in settings if v != Macro(n)]
    return [(n, v) for n, v in settings if n != written.name or n not in _MACROS]


def _translate_macro(statement: Statement, value: Any) -> list[Setting]:
    name = statement.name
    if name == "TASK_FEATURE_LENGTHS" and value is None:
        return []  # our run file sets the lengths
    return _MACROS.get(name, _set_value(name))(value, f"{statement.where}: {name}")


def _translate_argument(
    statement: Statement, value: Any, config: T5XConfig, script: str
) -> list[Setting]:
    selector, name = statement.selector, statement.name
    scope = f"{statement.scope}/" if statement.scope else ""
    where = f"{config.origin(statement)}: {scope}{selector}.{name}"
    if selector == "faith_jax.tokenizers.seqio_vocabulary.default_vocabulary":
        return [("VOCABULARY", value)] if name == "path_or_name" else []
    if selector.startswith("faith_jax."):
        return [(f"{scope}{'.'.join(selector.split('.')[-2:])}.{name}", value)]
    if selector == DATASET:
        return _translate_dataset(statement, value, config, script, where)
    if scope and not config.is_entered(statement.scope):
        log_once(f"{where}: nothing refers to the scope {scope}, so this has no effect")
        return []
    if selector == T5_CONFIG and name in _OF_CONFIG:
        return [(_SAME_AS_MACRO.get(name, f"config.TransformerConfig.{name}"), value)]
    if selector == RESTORE and name == "path":
        macro = "INITIAL_CHECKPOINT_PATH" if script == "train" else "CHECKPOINT_PATH"
        return _set_checkpoint(macro)(value, where)
    rule = _KNOWN.get(f"{selector}.{name}")
    if rule is None:
        near = did_you_mean(f"{selector}.{name}", _KNOWN)
        raise ConfigError(
            f"gin: {where}: T5X's {selector.split('.')[-1]}.{name} has no counterpart here.{near} "
            "Delete it, or run this file under T5X itself (docs/t5x.md)."
        )
    if selector in _CHOSEN and not config.is_reached(statement, _ROOTS):
        return []
    initializer = _referred_name(config.argument("prompt_tuning.prompts.Prompt.prompt_init"))
    if selector == _NP_LOAD and initializer != _FROM_ARRAY:
        raise ConfigError(
            f"gin: {where} = {value!r}: here a prompt begins with embeddings of the checkpoint; "
            "take prompts/from_sampled_vocab.gin or from_class_labels.gin, which need no "
            "EMBEDDING_FILE."
        )
    if selector == _NP_LOAD and script != "train" and not isinstance(value, Macro):
        raise ConfigError(
            f"gin: {where} = {value!r}: {script} takes the prompt of CHECKPOINT_PATH; "
            "faith-jax import-prompt makes one checkpoint of a model and a prompt's file."
        )
    # Without training, the prompt comes from the checkpoint, however it was initialised.
    if name == "prompt_init" and initializer == _FROM_ARRAY and script != "train":
        return [("include", "prompts/uniform.gin")]
    return rule(value, where)


def _dataset_scopes(config: T5XConfig, script: str) -> dict[str, str]:
    """Returns the scope of each of T5X's data sets, by its part in the run.

    A training without a data set for the validation loss uses that of infer_eval for both.
    """
    scopes = dict[str, str]()
    for argument, part in _DATASETS[script].items():
        reference = config.argument(argument, Reference(f"{part}/{DATASET}"))
        if isinstance(reference, Reference):
            scopes[part] = reference.name.rpartition("/")[0]
    if script == "train" and "train_eval" not in scopes and "infer_eval" in scopes:
        scopes["train_eval"] = scopes.pop("infer_eval")
    return scopes


def _translate_dataset(
    statement: Statement, value: Any, config: T5XConfig, script: str, where: str
) -> list[Setting]:
    """Returns our settings for an argument of the data sets that have its scope."""
    name, scopes = statement.name, _dataset_scopes(config, script)
    if name not in _OF_DATASETS and name != "use_custom_packing_ops":
        raise ConfigError(f"gin: {where}: expected one of {', '.join(_OF_DATASETS)}; delete it.")
    parts = [part for part, scope in scopes.items() if config.is_seen_in(scope, statement)]
    if statement.is_users and statement.scope and parts in ([], ["infer_eval"]):
        file = statement.where.partition(", line")[0]
        reason = "decoded metrics are of the rows of validation here"
        if not parts:
            reason = f"no argument of {script} refers to this data set, which has no effect"
        log_once(f"{file}: {statement.scope}: {reason}")
    if name == "use_custom_packing_ops" or (name == "seed" and value is None):
        return []
    if name == "task_feature_lengths" and value is None:
        is_cut = script == "train" or not parts
        return [] if is_cut else [("TASK_FEATURE_LENGTHS", _UNTRIMMED), (READS_WHOLE, True)]
    settings = list[Setting]()
    for part in parts:
        macro = _OF_DATASETS[name]
        if part == "infer_eval":
            settings += [(DECODED_LENGTHS, value)] if name == "task_feature_lengths" else []
        elif part != "train" and name in ("pack", "shuffle", "seed"):
            pass  # these do not change the loss on validation data
        elif name == "split":
            settings.append((f"{_SPLITS[part]}SPLIT", value))
        elif part == "train_eval":
            settings.append((f"eval_split/task_batches.DatasetConfig.{name}", value))
        else:
            settings.append((macro or f"train_split/task_batches.DatasetConfig.{name}", value))
    return settings
