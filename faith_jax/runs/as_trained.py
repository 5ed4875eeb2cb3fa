"""The settings that a MODEL_DIR was trained with, as defaults of `infer`.

Gin calls these functions only for macros that are not set (gin_configs/decoding/as_trained.gin).
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from faith_jax.checkpoints.embedded import checkpoint_path, model_dir_of
from faith_jax.core.cutting import check_policy
from faith_jax.core.errors import ConfigError, FaithJaxError
from faith_jax.core.progress import log_once
from faith_jax.core.settings import (
    NotNegative,
    NotNegativeNumber,
    Number,
    Positive,
    PositiveShare,
    check_value,
)
from faith_jax.datasets.augmentation.control_tokens import FAITHFUL_TOKENS
from faith_jax.datasets.task_data import TASKS
from faith_jax.decoding.config import DecodingConfig, DraftLength, PMIConfig
from faith_jax.gin_files.run_settings import Setting, read_settings
from faith_jax.gin_files.values import Reference
from faith_jax.inference.checkpoint_decoding import from_checkpoint

logger = logging.getLogger("faith_jax")

Paths = str | Mapping[str, str | Sequence[str]]  # CHECKPOINT_PATH
_LENGTH, _POLICY = 512, "knowledge"  # for checkpoints that none of our runs wrote
_DECODINGS = {"DecodingConfig": DecodingConfig, "from_checkpoint": from_checkpoint}
_DATA, _DECODING = "dataset", "evaluation.decoding"  # paths of arguments of `train`


def decode_length(path: Paths) -> int:
    """Returns the DECODE_LENGTH of a checkpoint's run, or else the length of its targets.

    Args:
      path: CHECKPOINT_PATH; the length is 512 tokens unless this is a MODEL_DIR or a step of one.

    Raises:
      ConfigError: there are several checkpoints, and their runs differ.
    """

    def of_run(settings: Mapping[str, Setting]) -> int | None:
        targets = settings.get(f"{_DATA}.task_feature_lengths.targets")
        decoding = _make_decoding_config(settings)
        length = decoding.max_length if decoding else targets and targets.value
        return length and check_value("DECODE_LENGTH", length, Positive)

    return _find_agreed_setting(path, "DECODE_LENGTH", of_run, _LENGTH)


def cut_policy(path: Paths) -> str:
    """Returns the CUT_POLICY of a checkpoint's run; raises as `decode_length`."""

    def of_run(settings: Mapping[str, Setting]) -> str | None:
        policy = settings.get(f"{_DATA}.cut_policy")
        if policy is None:
            return None
        check_policy(policy.value)
        return policy.value

    return _find_agreed_setting(path, "CUT_POLICY", of_run, _POLICY)


def control_tokens(checkpoint: str) -> tuple[str, ...]:
    """Returns the control tokens that ask a checkpoint for a faithful response.

    Empty if its run had no control tokens in its inputs, or if none of our runs wrote it.
    """

    def of_run(settings: Mapping[str, Setting]) -> tuple[str, ...] | None:
        task = settings.get(f"{_DATA}.mixture_or_task_name")
        data_sets = TASKS.get(task.value, ()) if task and isinstance(task.value, str) else ()
        return FAITHFUL_TOKENS if any("/control_tokens" in name for name in data_sets) else None

    return _find_agreed_setting(checkpoint, "INPUT_CONTROL_TOKENS", of_run, ())


def decoding(
    path: Paths,
    max_length: Positive | None,
    min_length: NotNegative | None = None,
    temperature: NotNegativeNumber | None = None,
    top_k: NotNegative | None = None,
    top_p: PositiveShare | None = None,
    num_beams: Positive | None = None,
    length_penalty: Number | None = None,
    early_stopping: bool | Literal["never"] | None = None,
    no_repeat_ngram: NotNegative | None = None,
    num_return: Positive | None = None,
    pmi: Any = None,
    speculation: Literal["ngram"] | None = None,
    draft_length: DraftLength = 5,
) -> DecodingConfig:
    """Returns the decoding of a checkpoint's run, or the one that the arguments describe.

    See `DecodingConfig` for the arguments; `max_length` of None = `decode_length`. If any from
    `min_length` to `pmi` is given, the run's decoding is ignored, and those left at None get their
    defaults. Speculation, which changes no response, applies to both. Raises as `decode_length`.
    """
    arguments = dict(locals())
    drafting = {name: arguments.pop(name) for name in ("speculation", "draft_length")}
    del arguments["path"], arguments["max_length"]
    settings = {name: value for name, value in arguments.items() if value is not None}
    length = decode_length(path) if max_length is None else max_length
    if settings:
        return DecodingConfig(max_length=length, **settings, **drafting)

    def of_run(settings: Mapping[str, Setting]) -> DecodingConfig | None:
        run_decoding = _make_decoding_config(settings)
        if run_decoding is None:
            return None
        return dataclasses.replace(run_decoding, max_length=length)

    agreed = _find_agreed_setting(path, "DECODING", of_run, DecodingConfig(max_length=length))
    return dataclasses.replace(agreed, **drafting)


def _find_agreed_setting(
    path: Paths, macro: str, of: Callable[[Mapping[str, Setting]], Any], default: Any
) -> Any:
    """Returns the setting that all checkpoints' runs agree on, and logs it once."""
    if not isinstance(path, str | Mapping):
        return default  # `infer` reports the wrong type
    entries = path.values() if isinstance(path, Mapping) else [path]
    paths = [
        checkpoint
        for entry in entries
        for checkpoint in ([entry] if isinstance(entry, str) else entry)
    ]
    values_of_runs = {}  # None = none of our runs wrote the checkpoint, or it has no such setting
    for checkpoint in paths:
        settings = read_settings(model_dir_of(checkpoint_path(checkpoint)))
        values_of_runs[checkpoint] = None if settings is None else of(settings)
    values = {checkpoint: default if v is None else v for checkpoint, v in values_of_runs.items()}
    first = next(iter(values.values()), default)
    for checkpoint, value in values.items():
        if value != first:
            remedy = "--gin_file=decoding/….gin" if macro == "DECODING" else f"--gin.{macro}=…"
            raise ConfigError(
                f"CHECKPOINT_PATH: the models were not trained with the same {macro} "
                f"({paths[0]}: {_setting_text(first)}, {checkpoint}: {_setting_text(value)}); "
                f"give {remedy}."
            )
    if sources := [checkpoint for checkpoint, v in values_of_runs.items() if v is not None]:
        log_once(f"{macro} = {_setting_text(first)}, as {', '.join(sources)} was trained with")
    return first


def _make_decoding_config(settings: Mapping[str, Setting]) -> DecodingConfig | None:
    """Returns a run's DECODING; None = the run decodes nothing, or it cannot be read any more."""
    reference = settings.get(_DECODING)
    if reference is None or not isinstance(reference.value, Reference):
        return None
    make: Any = _DECODINGS.get(reference.value.name.rpartition(".")[2])
    arguments = _collect_arguments(settings, _DECODING)
    try:
        if isinstance(arguments.get("pmi"), Reference):
            arguments["pmi"] = PMIConfig(**_collect_arguments(settings, f"{_DECODING}.pmi"))
        return None if make is None else make(**arguments)
    except (FaithJaxError, TypeError) as error:  # from another version, or a folder has moved
        logger.warning("The DECODING that it was trained with is not taken: %s", error)
        return None


def _collect_arguments(settings: Mapping[str, Setting], name: str) -> dict[str, Any]:
    parts = ((path.rpartition("."), setting.value) for path, setting in settings.items())
    return {argument: value for (above, _, argument), value in parts if above == name}


def _setting_text(value: Any) -> str:
    """Returns a value as text; for a decoding, its non-default settings except the length."""
    if not isinstance(value, DecodingConfig):
        return repr(value)
    usual = DecodingConfig(max_length=value.max_length)
    differs = {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != getattr(usual, field.name)
    }
    return ", ".join(f"{name} = {setting!r}" for name, setting in differs.items()) or "greedy"
