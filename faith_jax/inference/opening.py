"""From a path to a model and its tokenizer, opened once per process, and how the two fit."""

import collections
import functools
import inspect
import os
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict, TypeVar, cast

import msgspec
import numpy as np

from faith_jax.checkpoints.checkpoint import unstack_layers
from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.identity import checkpoint_stamp
from faith_jax.checkpoints.native import ERROR_LABELS, is_native, read_model_json, run_folder
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.cutting import check_policy
from faith_jax.core.errors import CheckpointError, ConfigError, InputError
from faith_jax.core.settings import NotNegative, Positive, check_value
from faith_jax.inference.causal import CausalModel
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import Mesh, make_mesh
from faith_jax.tokenizers.base import Tokenizer

Model = EncoderDecoderModel | CausalModel | EncoderModel
Open = TypeVar("Open", bound=Callable[..., Any])

# Default maxima of tokens: of what a language model reads, and of two texts in a classifier.
LONGEST_INPUT, LONGEST_PAIR = 1024, 512
Length = Annotated[int, msgspec.Meta(ge=8, description="a whole number of 8 tokens or more")]

# What the functions that `keep_opened` decorates have opened, by checkpoint, stamp and arguments.
_opened_by_function: list[collections.OrderedDict[tuple[Any, ...], Any]] = []


def keep_opened(maxsize: int) -> Callable[[Open], Open]:
    """Decorates a function of a checkpoint: it opens each once, and again when files have changed.

    The function's first argument is a path or a name; what is made of another one is not kept. Once
    a checkpoint's files have changed, none of these functions keeps what was opened before.

    Args:
      maxsize: how many results are kept, those that were asked for last.
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
            # An argument with its default is the same as one that is not given. The path as it is
            # written counts, because messages have it.
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
        return ()  # who opens it raises this, beside what else is wrong


def clear_models() -> None:
    """Lets go of the models that scorers have opened, and so of their memory on devices.

    A scorer that is still in use keeps its own; the next one opens its model anew.
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
        are read from its parameter shapes), one of ours (an imported checkpoint, or the MODEL_DIR
        of a training run), or the name of an embedded model.
      dtype: "float32" or "bfloat16" activations; default: the checkpoint's.
      base: for a prompt-tuned checkpoint, where its base model is, if it has moved.
      mesh: of the axes "data", over which rows are spread, and "model", over which parameters are,
        such as `faith_jax.models.partitioning.make_mesh(num_partitions)`; None = all devices of
        the run share the rows, and each has the whole model.
      params_dtype: "int8" keeps kernels and embeddings in a quarter of float32's memory, and
        multiplies in 8 bits, see `faith_jax.models.quantization`; default: the checkpoint's.

    Returns:
      A `EncoderDecoderModel` (encoder-decoder: T5, BART), a `CausalModel` (decoder-only: GPT-2,
      BLOOM, Gemma, Llama, Mistral, Qwen) or `EncoderModel` (BERT, ALBERT, DPR, RoBERTa, DeBERTa,
      and a BART or T5 with a classification head).

    Raises:
      CheckpointError: on a checkpoint that is missing, foreign, truncated or mis-shaped, that
        differs from its manifest, or has NaN or infinite weights, naming the parameter; and on
        what is no path.
      ConfigError: on another dtype, and on a mesh of other axes.
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
        # A loop of decoding would copy each layer's parameters out of their stack in each step, see
        # `models.transformer.for_decoding`.
        config, params = config.replace(scan_layers=False), unstack_layers(params)
    opened = params, str(path), mesh, params_dtype
    if config.is_decoder_only:
        return CausalModel(config, *opened)
    if not config.writes_text:
        return EncoderModel(config, *opened)
    return EncoderDecoderModel(config, *opened)


@keep_opened(maxsize=4)
def open_model(model: str, dtype: str | None = None, num_partitions: int | None = None) -> Model:
    """Opens a checkpoint, once for all scorers of a process that name it; see `load_model`.

    It is opened again when its files have changed, see `keep_opened`.

    `model` is its path or name, `num_partitions` the number of devices over which it is split, by
    default 1.
    """
    # Scorers of one model share it: its parameters are in memory once.
    return load_model(model, dtype=dtype, mesh=make_mesh(num_partitions or 1))


def open_tokenizer(
    model: str | None, vocabulary: str | None, config: TransformerConfig
) -> Tokenizer:
    """Returns the tokenizer of a checkpoint.

    `model` is its folder; None = the model is of none. `vocabulary` says where the tokenizer is, if
    not there: a folder, a file or an embedded name.

    Raises:
      ConfigError: where there is none, naming the option, or it is another model's.
    """
    # Imported here, so that `load_model` does without.
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


def trained_error_labels(model: str) -> dict[str, str]:
    """Returns the texts of labels that a run taught a classifier of errors, by `npov.error_labels`.

    Empty where the checkpoint is of no such run.
    """
    path = checkpoint_path(model)
    if not is_native(path):
        return {}
    metadata: Any = read_model_json(run_folder(path)).metadata
    return dict(metadata.get(ERROR_LABELS) or {})


def has_independent_classes(model: str) -> bool:
    """Whether a model's config.json says that each class is true or not by itself.

    Their probabilities are then sigmoids of the logits, and no softmax over the classes. A run's
    model is none, whatever it began with: runs train classes that exclude each other.
    """
    # Imported here, so that `load_model` does without.
    from faith_jax.tokenizers.special_tokens import model_config

    return model_config(checkpoint_path(model)).get("problem_type") == "multi_label_classification"


class ModelOptions(TypedDict, total=False):
    """The options that all scorers of a model have.

    Attributes:
      vocabulary: where the tokenizer is, if not with the model.
      max_length: maximum number of tokens that the model reads, see `input_limit`.
      cut_policy: what is cut of a longer input, see `core.cutting`.
      dtype: of activations.
      tokens_per_batch: tokens of a batch, padding included.
      num_partitions: number of devices over which the model is split; the others share the rows.
    """

    vocabulary: str | None
    max_length: Length | None
    cut_policy: str
    dtype: str | None
    tokens_per_batch: Positive | None
    num_partitions: Positive | None


# The types of scorers' options that are given, by name.
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
      ConfigError: names the first option with a wrong value.
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
    """Returns token ids that the model knows.

    Raises:
      ConfigError: naming one that it does not: the tokenizer is another model's.
      InputError: in its place for a text at `where`, with few tokens that the model lacks.
    """
    # JAX clips an index beyond the table in silence: the model would read another token.
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
    config: TransformerConfig, max_length: int | None, default: int = LONGEST_INPUT
) -> int:
    """Returns the maximum number of tokens that a model reads.

    Args:
      config: the model's.
      max_length: by an option; None = `default`, or fewer if the model has fewer positions.
      default: tokens.

    Raises:
      ConfigError: if more are asked for than the model has positions, or fewer than 8.
    """
    # Soft prompts take positions too.
    prompts = config.encoder_prompt_length + config.decoder_prompt_length
    # Without a table of positions there is no limit but one that no text reaches.
    table = config.max_positions - prompts if config.max_positions else 1 << 30
    if max_length is None:
        # The default is lower where the model has fewer positions; an option is refused.
        return min(default, table)
    # DeBERTa's relative positions reach beyond those that it was trained with.
    table = 1 << 30 if config.positions == "disentangled" else table
    if not 8 <= max_length <= table:
        raise ConfigError(
            f"max_length: expected 8 to {table} tokens, the model's positions, got {max_length!r}."
        )
    return max_length
