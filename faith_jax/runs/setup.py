"""The setup that all runs share: models, parameters on the mesh, and descriptions of both."""

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.checkpoints.checkpoint import (
    PROMPTS,
    Checkpoint,
    check_params,
    content_hash,
    stack_layers,
    unstack_layers,
)
from faith_jax.checkpoints.doha import check_becomes_doha, doha_from_bart
from faith_jax.checkpoints.identity import opened_path
from faith_jax.checkpoints.lazy_arrays import lazy
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.processes import text_of_first_process
from faith_jax.core.settings import check_value
from faith_jax.core.types import PyTree
from faith_jax.datasets.task_data import TASKS
from faith_jax.decoding.config import DecodingConfig
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.inference.checkpoint_decoding import log_ignored
from faith_jax.inference.opening import warn_of_chat_template
from faith_jax.inference.texts.row_tokens import RowTokens
from faith_jax.input.task_batches import DatasetConfig
from faith_jax.models.config import TransformerConfig
from faith_jax.models.parameters import param_shardings, random_params
from faith_jax.models.partitioning import Partitioner
from faith_jax.models.quantization import quantize_params
from faith_jax.models.soft_prompt import PromptInitializer, prompt_embedding, sampled_vocabulary
from faith_jax.models.transformer import (
    QUESTION_ENCODER,
    Transformer,
    for_decoding,
    parameter_shapes,
)
from faith_jax.tokenizers.carried import RunVocabulary
from faith_jax.tokenizers.vocabularies import default_vocabulary
from faith_jax.training.in_batch_negatives import InBatchNegatives
from faith_jax.training.label_cross_entropy import LabelCrossEntropy
from faith_jax.training.objectives import CrossEntropy, Objective
from faith_jax.training.trainer import merge_params, split_params

logger = logging.getLogger("faith_jax")

ParamsDtype = Literal["float32", "bfloat16"]
# For models that are not trained.
InferenceDtype = Literal["float32", "bfloat16", "int8"]


def model_from_checkpoint(path: str, **changes: Any) -> Transformer:
    """Returns a model with the dimensions of a checkpoint, which `faith_jax.load_model` opens.

    `changes` override fields of `TransformerConfig`, such as `encoder_prompt_length`; None for
    `dropout_rate` or `label_names` keeps the checkpoint's value.
    """
    config = open_checkpoint(path).config
    if changes.get("knowledge_attention"):
        check_becomes_doha(config, path)
    if config.is_decoder_only and changes.get("encoder_prompt_length"):
        # Without an encoder, the prompt goes in front of the only sequence.
        changes["decoder_prompt_length"] = changes.pop("encoder_prompt_length")
    if (rate := changes.pop("dropout_rate", None)) is not None:
        config = config.with_dropout(rate)
    if (names := changes.pop("label_names", None)) is not None:
        # A head that classifies texts replaces one that classifies tokens.
        changes |= {"label_names": tuple(names), "token_label_names": ()}
    return Transformer(config.replace(**changes))


@dataclasses.dataclass(frozen=True)
class BaseCheckpoint:
    """The model that a run began with, or that a prompt belongs to."""

    path: str  # where it was read from
    content_hash: str  # of its parameters, independent of the storage format
    family: str = ""  # as its checkpoint says, "" = unknown

    def describe(self) -> dict[str, str]:
        """Returns the entries of model.json that name this checkpoint."""
        return {"path": self.path, "content_hash": self.content_hash}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """The parameters that a training starts from, and which of them it changes.

    Attributes:
      initial_checkpoint_path: the model to start from; None = random parameters.
      question_checkpoint_path: the checkpoint that a question encoder starts from, in a model that
        has one; None = `initial_checkpoint_path`.
      prompt_initializer: makes the initial soft prompt.
      trainable: regular expressions that match whole parameter names; all other parameters are
        frozen: no gradient, no optimizer state, no bytes in the checkpoints.
      params_dtype: of frozen parameters: "bfloat16" takes half the memory. Trained parameters,
        their gradients and the optimizer's state are float32.
      vocabulary: of our tasks: "english_4096", or a tokenizer's folder or file; default: the one
        that `initial_checkpoint_path` carries, or else "english_4096".
    """

    initial_checkpoint_path: str | None = None
    question_checkpoint_path: str | None = None
    prompt_initializer: PromptInitializer | None = None
    trainable: Sequence[str] = (".*",)
    params_dtype: ParamsDtype = "float32"
    vocabulary: str | None = None


def initial_params(
    module: Transformer, partitioner: Partitioner, start: StartingPoint, seed: int = 0
) -> tuple[PyTree, BaseCheckpoint | None]:
    """Returns the parameters that a run starts from, on the mesh, and their base checkpoint.

    The prompt initializer makes the prompts that the checkpoint lacks.
    """
    config, checkpoint_path = module.config, start.initial_checkpoint_path
    if checkpoint_path is None:
        if config.encoder_prompt_length or config.decoder_prompt_length:
            raise ConfigError(
                "A soft prompt needs a base model: set INITIAL_CHECKPOINT_PATH to a checkpoint."
            )
        return random_params(module, partitioner, seed), None
    checkpoint = open_checkpoint(checkpoint_path)
    base = base_model(checkpoint_path, checkpoint)
    if config.knowledge_attention and not checkpoint.config.knowledge_attention:
        checkpoint = doha_from_bart(checkpoint)
    # A checkpoint's head is kept if it has these classes, or the same number of unnamed classes.
    unnamed = tuple(f"LABEL_{number}" for number in range(len(config.label_names)))
    heads = (tuple(config.label_names), unnamed)
    if config.label_names and tuple(checkpoint.config.label_names) not in heads:
        logger.info("New classification head: %s", ", ".join(config.label_names))
        head = jax.device_get(random_params(module, partitioner, seed, "classifier"))
        if checkpoint.config.pooler:  # BERT's new heads build on its pooler
            head["dense"] = checkpoint.params["classifier"]["dense"]
        new_params = {**checkpoint.params, "classifier": head}
        if "decoder" in new_params:
            # The head replaces the output layer.
            decoder = new_params["decoder"].items()
            new_params["decoder"] = {k: v for k, v in decoder if not k.startswith("logits_")}
        checkpoint = dataclasses.replace(checkpoint, params=new_params)
    new_questions = config.question_encoder and not checkpoint.config.question_encoder
    params = matching_params(
        checkpoint, config.replace(question_encoder=False) if new_questions else config
    )
    if new_questions:
        question_model = open_checkpoint(start.question_checkpoint_path or checkpoint_path)
        names = parameter_shapes(Transformer(config))["params"][QUESTION_ENCODER]
        headless = {name: value for name, value in question_model.params.items() if name in names}
        question_model = dataclasses.replace(question_model, params=headless)
        try:
            params[QUESTION_ENCODER] = matching_params(question_model, config.without_heads)
        except CheckpointError as error:
            raise ConfigError(f"QUESTION_CHECKPOINT_PATH: {error}") from None
        if split_params(params, start.trainable)[1].get(QUESTION_ENCODER):
            raise ConfigError("TRAINABLE: the new encoder of questions must be trained as a whole.")
    key = jax.random.fold_in(jax.random.key(seed), 1)
    for index, name in enumerate(PROMPTS):
        length = getattr(config, f"{name}_length")
        if length and name not in params:
            initialize = start.prompt_initializer or sampled_vocabulary()
            embedding = jnp.asarray(prompt_embedding(params, name))
            prompt = initialize(jax.random.fold_in(key, index), length, embedding)
            params[name] = {"embedding": np.asarray(prompt, np.float32)}
    check_params(config, params)
    trained, frozen = split_params(params, start.trainable)
    params = merge_params(
        _round_params(trained, "float32"), _round_params(frozen, start.params_dtype)
    )
    return partitioner.put(params, param_shardings(module, partitioner)), base


def _round_params(params: PyTree, dtype: ParamsDtype) -> PyTree:
    target_dtype = jnp.dtype(check_value("PARAMS_DTYPE", dtype, ParamsDtype))
    return jax.tree.map(lambda array: lazy(array).astype(target_dtype), params)


def base_model(path_or_name: str, checkpoint: Checkpoint) -> BaseCheckpoint:
    """Returns the reference to a checkpoint that runs built on it keep.

    All processes must call this; the first one computes the content hash, unless it is known.
    """
    digest = checkpoint.content_hash or text_of_first_process(
        lambda: content_hash(checkpoint.params), f"the content hash of {path_or_name}"
    )
    return BaseCheckpoint(opened_path(path_or_name), digest, checkpoint.family)


def matching_params(checkpoint: Checkpoint, config: TransformerConfig) -> PyTree:
    """Returns a checkpoint's parameters with layers stacked or apart, as the model expects."""
    params = checkpoint.params
    if config.scan_layers and not checkpoint.config.scan_layers:
        params = stack_layers(params)
    elif checkpoint.config.scan_layers and not config.scan_layers:
        params = unstack_layers(params)
    prompt_names = {n for n in PROMPTS if getattr(config, f"{n}_length")}
    without_prompts = config.replace(encoder_prompt_length=0, decoder_prompt_length=0)
    check_params(without_prompts, {k: v for k, v in params.items() if k not in PROMPTS})
    return {k: v for k, v in params.items() if k not in PROMPTS or k in prompt_names}


def load_for_inference(
    path: str,
    partitioner_for: Callable[..., Partitioner],
    model: Transformer | None = None,
    params_dtype: InferenceDtype = "float32",
) -> tuple[Transformer, PyTree, Partitioner]:
    """Loads a checkpoint onto the mesh; a model, if given, must have the same dimensions.

    The returned model keeps its layers apart, see `for_decoding`.
    """
    check_value("PARAMS_DTYPE", params_dtype, InferenceDtype)
    checkpoint = open_checkpoint(path)
    module = model or Transformer(checkpoint.config)
    module = module if module.config.is_encoder_only else for_decoding(module)
    partitioner = partitioner_for(module.config)
    params = matching_params(checkpoint, module.config)
    params = _round_params(params, "float32" if params_dtype == "int8" else params_dtype)
    check_params(module.config, params)
    shardings = param_shardings(module, partitioner)
    if params_dtype == "int8":
        return module, quantize_params(params, shardings, partitioner), partitioner
    return module, partitioner.put(params, shardings), partitioner


def prepare_decoding(
    path: str,
    loaded: tuple[Transformer, PyTree, Partitioner],
    tokenizer: Any,
    decoding: DecodingConfig,
    batch_size: int,
    seed: int,
    inputs: tuple[int, str, str],
    length_setting: str,
) -> tuple[RowTokens, BatchDecoder, PyTree]:
    """Returns a reader of rows, a decoder that responds to them, and its parameters.

    `load_for_inference` made `loaded` from `path`. `inputs` has the most tokens of an input, the
    name of that setting, and the cutting policy; `length_setting` is the setting of responses.
    """
    module, params, partitioner = loaded
    log_ignored(path, decoding, module.config)
    warn_of_chat_template(path)
    longest, setting, _ = inputs
    read = RowTokens.of(module.config, tokenizer, *inputs, decoding.pmi is not None)
    read.layout.check_positions(longest, decoding.max_length, (setting, length_setting))
    decoder = BatchDecoder(module, partitioner, decoding, batch_size, seed)
    return read, decoder, decoder.laid_out(params, longest)


def check_generates(config: TransformerConfig) -> None:
    """Raises ConfigError for an encoder-only model or a classifier, which cannot generate."""
    if not config.writes_text:
        raise ConfigError(
            "The checkpoint is an encoder-only model (BERT, RoBERTa …) or a classifier, which "
            "cannot generate: give a language model."
        )


def log_data(run_vocabulary: RunVocabulary, dataset: DatasetConfig | None) -> None:
    """Logs the tokenizer of a run, which a user's task may replace, and features that it ignores.

    Call it after opening the checkpoint, which may carry a tokenizer. Without a data set, rows come
    from a file in our formats.
    """
    if dataset is None:
        return run_vocabulary.log()
    task = dataset.task()
    vocabulary = task.output_features["targets"].vocabulary
    unread = task.output_features.keys() - {"inputs", "targets"} - dataset.further_features
    if unread:
        logger.info("%s: features that are not read: %s", task.name, ", ".join(sorted(unread)))
    names = {member.name for member in getattr(task, "tasks", [task])}
    run_vocabulary.log_of_task(vocabulary, task.name, has_formats=bool(names & TASKS.keys()))


def check_language_model(option: str, path: str) -> None:
    """Raises a ConfigError that names the option if a checkpoint is not a language model."""
    try:
        config = open_checkpoint(path).config
    except CheckpointError as error:
        raise ConfigError(f"{option}: {error}") from None
    if not config.writes_text:
        raise ConfigError(
            f"{option}: {path}: expected a language model, got an encoder-only one or a classifier."
        )


def objective_of(config: TransformerConfig, objective: Objective | None) -> Objective:
    """Returns a training's objective, by default cross-entropy; checks that it fits the model."""
    if objective is None:
        return CrossEntropy() if config.writes_text else LabelCrossEntropy()
    if config.writes_text == isinstance(objective, LabelCrossEntropy | InBatchNegatives):
        kind = "a generator" if config.writes_text else "an encoder with a classification head"
        raise ConfigError(
            f"OBJECTIVE: {type(objective).__name__} is not for {kind}; BERT, RoBERTa and DeBERTa "
            "are trained with objectives/classification.gin, other models without."
        )
    return objective


def encode_default(text: str) -> list[int]:
    """Returns the token ids of a text in the run's vocabulary, without an end token."""
    return default_vocabulary().encode(text)


def count_params(params: PyTree) -> int:
    """Returns the number of parameters."""
    return sum(int(leaf.size) for leaf in jax.tree.leaves(params))
