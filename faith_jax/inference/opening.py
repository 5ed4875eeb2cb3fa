"""Opening of models and tokenizers, once per process, and checks that the two fit."""

import collections
import functools
import inspect
import logging
import os
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict, TypeVar, cast

import msgspec
import numpy as np

from faith_jax.checkpoints.checkpoint import unstack_layers
from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.hugging_face.folder import is_huggingface
from faith_jax.checkpoints.identity import checkpoint_stamp
from faith_jax.checkpoints.native import ERROR_LABELS, is_native, read_model_json, run_folder
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.cutting import check_policy
from faith_jax.core.errors import CheckpointError, ConfigError, InputError
from faith_jax.core.progress import log_once
from faith_jax.core.settings import NotNegative, Positive, check_value
from faith_jax.inference.causal import CausalModel
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import Mesh, make_mesh
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.special_tokens import read_json_if_any

Model = EncoderDecoderModel | CausalModel | EncoderModel
Open = TypeVar("Open", bound=Callable[..., Any])

# Default maximum number of tokens: of a language model's input, and of a classifier's two texts.
LONGEST_INPUT, LONGEST_PAIR = 1024, 512
Length = Annotated[int, msgspec.Meta(ge=8, description="a whole number of 8 tokens or more")]

# Kept results of each function that `keep_opened` decorates, by checkpoint, stamp and arguments.
_opened_by_function: list[collections.OrderedDict[tuple[Any, ...], Any]] = []


def keep_opened(maxsize: int) -> Callable[[Open], Open]:
    """Decorates a function that opens a checkpoint, so that it opens each once until files change.

    Results are kept only if the function's first argument is a path or a name. Once a checkpoint's
    files have changed, all decorated functions drop their results for it.

    Args:
      maxsize: maximum number of results kept, the most recently used ones.
    """

    def decorate(open_checkpoint: Open) -> Open:
        kept: collections.OrderedDict[tuple[Any, ...], Any] = collections.OrderedDict()
        _opened_by_function.append(kept)
        signature = inspect.signature(open_checkpoint)

        @functools.wraps(open_checkpoint)
        def open_once(model: Any, *args: Any, **options: Any) -> Any:
            if not model or not isinstance(model, str | os.PathLike):
                return open_checkpoint(model, *args, **options)
            path, stamp = checkpoint_stamp(os.fspath(model))
            for results in _opened_by_function:
                for key in [key for key in list(results) if key[0] == path and key[1] != stamp]:
                    results.pop(key, None)
            # An omitted argument equals its default. The path counts as it is written, since
            # messages show it.
            given = signature.bind(model, *args, **options)
            given.apply_defaults()
            tokenizer = _stamp_vocabulary(options.get("vocabulary"))
            key = path, stamp, tokenizer, given.args, tuple(sorted(given.kwargs.items()))
            result = kept.pop(key, None) or open_checkpoint(model, *args, **options)
            kept[key] = result
            while len(kept) > maxsize:
                kept.popitem(last=False)
            return result

        return cast(Open, open_once)

    return decorate


def _stamp_vocabulary(vocabulary: str | None) -> tuple[Any, ...]:
    from faith_jax.tokenizers.vocabularies import vocabulary_stamp

    try:
        return vocabulary_stamp(vocabulary) if vocabulary else ()
    except ConfigError:
        return ()  # opening it raises this error, together with others


def clear_models() -> None:
    """Releases the models that scorers have opened, and so their memory on devices.

    A scorer that is still in use keeps its model; a new scorer opens the model again.
    """
    for results in _opened_by_function:
        results.clear()


def load_model(
    path: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    base: str | None = None,
    mesh: Mesh | None = None,
    params_dtype: Literal["int8"] | None = None,
) -> Model:
    """Opens a checkpoint of any known form.

    Args:
      path: a Hugging Face folder (config.json and safetensors), a T5X checkpoint (its dimensions
        are read from its parameter shapes), a native checkpoint (an imported one, or the MODEL_DIR
        of a training run), or the name of an embedded model.
      dtype: "float32" or "bfloat16" activations; default: the checkpoint's.
      base: for a prompt-tuned checkpoint, where its base model is, if it has moved.
      mesh: a mesh with the axes "data", which shares the rows, and "model", which shares the
        parameters, such as `faith_jax.models.partitioning.make_mesh(num_partitions)`; None = all
        devices of the run share the rows, and each has the whole model.
      params_dtype: "int8" keeps kernels and embeddings in a quarter of float32's memory, and
        multiplies in 8 bits, see `faith_jax.models.quantization`; default: the checkpoint's.

    Returns:
      An `EncoderDecoderModel` (T5, BART), a `CausalModel` (decoder-only: GPT-2, BLOOM, Gemma,
      Llama, Mistral, Qwen) or an `EncoderModel` (BERT, ALBERT, DPR, RoBERTa, DeBERTa, and a BART
      or T5 with a classification head).

    Raises:
      CheckpointError: on a checkpoint that is missing, of an unknown form, truncated or mis-shaped,
        that differs from its manifest, or has NaN or infinite weights (the message names the
        parameter); and on a `path` that is not a path.
      ConfigError: on another dtype, and on a mesh with other axes.
    """
    check_value("params_dtype", params_dtype, Literal["int8"] | None)
    if not path or not isinstance(path, str | os.PathLike):
        raise CheckpointError(
            f"load_model: expected the path of a checkpoint, or the name of a model, got {path!r}."
        )
    checkpoint = open_checkpoint(os.fspath(path), base=base)
    config = checkpoint.config if dtype is None else checkpoint.config.replace(dtype=dtype)
    params = checkpoint.params
    if config.scan_layers and not config.is_encoder_only:
        # With stacked layers, each decoding step would copy every layer's parameters out of the
        # stack; see `models.transformer.for_decoding`.
        config, params = config.replace(scan_layers=False), unstack_layers(params)
    opened = params, str(path), mesh, params_dtype
    if config.is_decoder_only:
        return CausalModel(config, *opened)
    if not config.writes_text:
        return EncoderModel(config, *opened)
    return EncoderDecoderModel(config, *opened)


@keep_opened(maxsize=4)
def open_model(model: str, dtype: str | None = None, num_partitions: int | None = None) -> Model:
    """Opens a checkpoint once for all scorers of a process; see `load_model`.

    It is opened again when its files have changed, see `keep_opened`.

    `model` is the checkpoint's path or name, `num_partitions` the number of devices that the model
    is split over, by default 1.
    """
    # Scorers of the same model share it, so its parameters are in memory only once.
    return load_model(model, dtype=dtype, mesh=make_mesh(num_partitions or 1))


def open_tokenizer(
    model: str | None, vocabulary: str | None, config: TransformerConfig
) -> Tokenizer:
    """Returns the tokenizer of a checkpoint.

    `model` is the checkpoint's folder; None = the model was not opened from a folder. `vocabulary`
    says where the tokenizer is, if not there: a folder, a file or an embedded name.

    Raises:
      ConfigError: if there is no tokenizer (the message names the option), or it is another
        model's.
    """
    # Imported here, so that `load_model` does not need it.
    from faith_jax.tokenizers.carried import check_vocabulary
    from faith_jax.tokenizers.vocabularies import load_vocabulary, tokenizer_folder

    if vocabulary is None and (model is None or tokenizer_folder(model) is None):
        reason = "the model was opened from no folder with a tokenizer"
        if model is not None:
            reason = f"model {model}: there is no tokenizer with it"
        raise ConfigError(f"{reason}; say where its folder or file is with vocabulary=….")
    name = vocabulary or str(checkpoint_path(model or ""))
    tokenizer = load_vocabulary(name)
    check_vocabulary(config, tokenizer, name, vocabulary is None, model, option="vocabulary=")
    return tokenizer


def warn_of_chat_template(model: str) -> None:
    """Warns once if a Hugging Face folder has a chat template, which nothing here applies."""
    folder = checkpoint_path(model)
    if not is_huggingface(folder):
        return
    in_config = read_json_if_any(folder / "tokenizer_config.json").get("chat_template")
    if in_config or (folder / "chat_template.jinja").is_file():
        log_once(
            f"{model}: its chat template is not applied; for a model of chats, give 'inputs' with "
            "the special tokens of the turns, but without a begin token that the tokenizer adds.",
            logging.WARNING,
        )


def trained_error_labels(model: str) -> dict[str, str]:
    """Returns the label texts that a run taught an error classifier.

    Keys are the arguments of `npov.error_labels`, "no_error" and "error"; empty if the checkpoint
    is not from such a run.
    """
    path = checkpoint_path(model)
    if not is_native(path):
        return {}
    metadata: Any = read_model_json(run_folder(path)).metadata
    return dict(metadata.get(ERROR_LABELS) or {})


def has_independent_classes(model: str) -> bool:
    """Whether a model's config.json says that its classes are independent of each other.

    The probabilities are then sigmoids of the logits, not a softmax over the classes. This is false
    for a run's model, whatever it started from: runs train classes that exclude each other.
    """
    # Imported here, so that `load_model` does not need it.
    from faith_jax.tokenizers.special_tokens import model_config

    return model_config(checkpoint_path(model)).get("problem_type") == "multi_label_classification"


class ModelOptions(TypedDict, total=False):
    """The options that all scorers with a model have.

    Attributes:
      vocabulary: where the tokenizer is, if not with the model.
      max_length: maximum number of tokens that the model reads, see `input_limit`.
      cut_policy: which part of a longer input is cut, see `core.cutting`.
      dtype: dtype of the activations.
      tokens_per_batch: tokens of a batch, padding included.
      num_partitions: number of devices that the model is split over; other devices share the rows.
    """

    vocabulary: str | None
    max_length: Length | None
    cut_policy: str
    dtype: str | None
    tokens_per_batch: Positive | None
    num_partitions: Positive | None


# The types of scorers' options, by name, for values other than None.
_OPTIONS = {
    **{
        name: (typing.get_args(hint) or (hint,))[0]  # without None
        for name, hint in typing.get_type_hints(ModelOptions, include_extras=True).items()
    },
    **dict.fromkeys(("max_bytes", "num_beams"), Positive),
    **dict.fromkeys(("last_turns", "dropout_passes", "seed"), NotNegative),
    "max_question_length": Annotated[
        int, msgspec.Meta(ge=2, description="a whole number of 2 tokens or more")
    ],
    "dropout_rate": Annotated[float, msgspec.Meta(gt=0, lt=1, description="a share in (0, 1)")],
    **dict.fromkeys(
        ("score_cue", "use_contradiction", "prefix_space", "lower_grounding", "personal"), bool
    ),
    **dict.fromkeys(("baseline", "answer_model", "nli_model", "tagger"), str),
    **dict.fromkeys(("no_error_label", "error_label"), str),
    **dict.fromkeys(("document_prompt", "turn_prompt", "cue_prompt", "response_prompt"), str),
}


def check_options(options: Mapping[str, Any]) -> None:
    """Checks the values of scorers' options; None = not given.

    Raises:
      ConfigError: on a wrong value; the message names the first such option.
    """
    for name, value in options.items():
        if value is not None and name in _OPTIONS:
            check_value(name, value, _OPTIONS[name])
    if options.get("cut_policy") is not None:
        check_policy(options["cut_policy"], "cut_policy")


def require_model(model: str | os.PathLike[str] | None) -> str:
    """Returns the path of a scorer's model.

    Raises:
      ConfigError: if there is none.
    """
    if not model:
        raise ConfigError(
            "needs a model: give model=FOLDER (on the command line --scorer-option=NAME.model="
            "FOLDER)."
        )
    if not isinstance(model, str | os.PathLike):
        raise ConfigError(f"model: expected the path of a checkpoint, got {model!r}.")
    return os.fspath(model)


def check_ids(ids: list[int], vocab_size: int, where: str = "") -> list[int]:
    """Returns token ids after checking that the model has an embedding for each.

    Raises:
      ConfigError: on an unknown id, which means that the tokenizer is another model's.
      InputError: instead, if `where` is given: the name of the text with the unknown id; or on a
        negative id, such as the -100 by which PyTorch's losses leave positions out.
    """
    if (smallest := int(np.min(ids, initial=0))) < 0:
        place = f"{where}: " if where else ""
        raise InputError(f"{place}{smallest} is no token id; leave ignored positions out of rows.")
    # JAX silently clips an index beyond the table: the model would read another token.
    largest = int(np.max(ids, initial=0))
    if largest >= vocab_size:
        if where:
            raise InputError(
                f"{where}: the tokenizer makes token {largest} of it, but the model has embeddings "
                f"for {vocab_size} only; change the text."
            )
        raise ConfigError(
            f"the tokenizer gives token {largest}, but the model's vocabulary has {vocab_size}; "
            "use the tokenizer that the model was trained with (vocabulary=…)."
        )
    return ids


def input_limit(
    config: TransformerConfig,
    max_length: int | None,
    default: int = LONGEST_INPUT,
    option: str = "max_length",
) -> int:
    """Returns the maximum number of tokens that a model reads.

    Args:
      config: the model's config.
      max_length: the user's option; None = `default`, or fewer if the model has fewer positions.
      default: number of tokens.
      option: the option's name, for errors.

    Raises:
      ConfigError: if `max_length` exceeds the model's positions, or is less than 8.
    """
    # Soft prompts take positions too.
    prompts = config.encoder_prompt_length + config.decoder_prompt_length
    # Without a table of positions, the limit is a number that no text reaches.
    table = config.max_positions - prompts if config.max_positions else 1 << 30
    if max_length is None:
        # The default is lowered to the model's positions; a `max_length` above them is an error.
        return min(default, table)
    # DeBERTa's relative positions also work beyond the length that it was trained with.
    table = 1 << 30 if config.positions == "disentangled" else table
    if not 8 <= max_length <= table:
        raise ConfigError(
            f"{option}: expected 8 to {table} tokens, the model's positions, got {max_length!r}."
        )
    return max_length
