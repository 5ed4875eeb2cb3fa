"""Lookup of registered tasks and mixtures by name, with errors that suggest similar names."""

import contextlib
import functools
import math
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import seqio

import faith_jax.tasks  # noqa: F401  (registers our tasks)
from faith_jax.core.errors import ConfigError, FaithJaxError, InputError, did_you_mean, reason
from faith_jax.core.user_modules import load_entry_points, locate_user_module
from faith_jax.datasets.task_data import TASK_ENTRY_POINTS, check_task_name
from faith_jax.tasks import faithdial, npov
from faith_jax.tokenizers.vocabularies import fingerprint_of, has_texts, name_of, tokenizer_of

# Beginnings of the names of splits that are not for training.
_VALIDATION = ("validation", "valid", "val", "development", "dev", "eval", "test")


@functools.cache
def _load_entry_points() -> None:
    load_entry_points(TASK_ENTRY_POINTS)


def task_names() -> list[str]:
    """Returns the names of all registered tasks and mixtures, in alphabetical order."""
    _load_entry_points()
    return sorted({*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()})


def get_task(name: str, setting: str = "task") -> Any:
    """Returns a `seqio.Task` or `seqio.Mixture` by its registered name.

    Raises:
      ConfigError: if no task or mixture has this name; mentions the setting with the name.
    """
    names = {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}
    if name not in names:
        check_task_name(name, setting, task_names())
    return seqio.get_mixture_or_task(name)


def check_split(task: Any, split: str | None, setting: str = "") -> None:
    """Checks that a task or a mixture has a split; messages name the macro `setting`.

    Raises:
      ConfigError: if it has no such split.
      InputError: if its splits cannot be read, for example because data is missing.
    """
    try:
        splits = list(task.splits)
    except FaithJaxError:
        raise
    except Exception as error:  # whatever a user's source raises
        raise InputError(f"{task.name}: its splits cannot be read: {reason(error)}.") from error
    if split in splits:
        return
    place = f"{setting} = {split!r}: " if setting else ""
    # Do not suggest the training split to users who ask for a validation split.
    validation_splits = [n for start in _VALIDATION for n in sorted(splits) if n.startswith(start)]
    if validation_splits and split in _VALIDATION:
        validation_splits = list(dict.fromkeys(validation_splits))
        hint = f" Did you mean {' or '.join(map(repr, validation_splits))}?"
    else:
        hint = did_you_mean(str(split), set(splits) - {"train"} if split in _VALIDATION else splits)
    if setting == "EVAL_SPLIT":
        hint += " EVAL_SPLIT=None trains without validation."
    raise ConfigError(
        f"{place}{task.name} has no split {split!r}.{hint} Its splits: {', '.join(sorted(splits))}."
    )


def member_rates(task: Any, split: str, counts: Sequence[int] | None = None) -> list[float]:
    """Returns the relative rates at which the members of a mixture that have a split are read.

    A rate may be a function of a task, such as SeqIO's function of its number of examples. If a
    task's source does not know this number, the number of its rows in `counts` is used; without
    `counts`, rates are only checked. A task that is not a mixture has the rate 1.

    Raises:
      ConfigError: if a rate cannot be computed or is not a valid rate.
    """
    if not hasattr(task, "tasks"):
        return [1.0]
    members = [member for member in task.tasks if split in member.splits]
    rates = []
    with contextlib.ExitStack() as stack:
        for member, count in zip(members, counts or [1] * len(members), strict=True):
            stack.enter_context(_counted_rows(member, split, count))
        for member in members:
            try:
                rates.append(float(task.get_rate(member)))
            except Exception as error:  # whatever users' functions raise
                raise ConfigError(
                    f"{task.name}: the rate of {member.name} cannot be computed "
                    f"({reason(error)}). Give the mixture numbers as rates, the source of "
                    f"{member.name} num_input_examples, or cache its tasks."
                ) from error
    if not all(0 <= rate < math.inf for rate in rates) or not any(rates):
        rate_list = ", ".join(f"{m.name} {r:g}" for m, r in zip(members, rates, strict=True))
        raise ConfigError(f"{task.name}: expected rates above 0, got {rate_list}.")
    return rates


@contextlib.contextmanager
def _counted_rows(task: Any, split: str, count: int) -> Iterator[None]:
    """Makes a task report `count` examples in a split if its source does not know the number."""
    of_source = task.num_input_examples

    def num_input_examples(asked: str) -> int | None:
        try:
            number = of_source(asked)
        except (KeyError, NotImplementedError):
            number = None
        return count if number is None and asked == split else number

    task.num_input_examples = num_input_examples
    try:
        yield
    finally:
        del task.num_input_examples


def check_features(task: Any) -> None:
    """Checks that a task's inputs and targets are tokens of one vocabulary.

    Raises:
      ConfigError: if a feature is missing, is no list of whole numbers, or has other ids.
    """
    if "targets" not in task.output_features:
        raise ConfigError(
            f"{task.name}: its features are {', '.join(task.output_features)}; "
            "expected 'targets', and 'inputs' but for a decoder-only model."
        )
    features = {
        n: task.output_features[n] for n in ("inputs", "targets") if n in task.output_features
    }
    for name, feature in features.items():
        if feature.rank != 1 or not feature.dtype.is_integer:
            raise ConfigError(
                f"{task.name}: expected a list of token ids as feature {name!r}, got values of "
                f"{feature.dtype.name} with rank {feature.rank}."
            )
    vocabularies = [tokenizer_of(feature.vocabulary) for feature in features.values()]
    if len(set(map(fingerprint_of, filter(has_texts, vocabularies)))) > 1:
        raise ConfigError(
            f"{task.name}: its inputs have the vocabulary {name_of(vocabularies[0])}, its targets "
            f"{name_of(vocabularies[1])}; give both that of the model."
        )


def check_steered(task: Any | None) -> None:
    """Checks that a task's inputs have control tokens if gin sets some; None = no task.

    Raises:
      ConfigError: if the inputs have none (names the tasks that do), or gin's tokens are unknown.
    """
    if faithdial.steering() is None:
        return
    parts = [] if task is None else getattr(task, "tasks", [task])
    if not parts or not all(map(_is_steered, parts)):
        tasks = map(seqio.TaskRegistry.get, seqio.TaskRegistry.names())
        steered = [task.name for task in tasks if _is_steered(task)]
        rejected = "rows of INPUT_FILE" if task is None else f"{task.name}: its inputs"
        raise ConfigError(
            f"CONTROL_TOKENS: {rejected} have no control tokens; leave decoding/control_tokens.gin "
            f"out, or choose one of {', '.join(sorted(steered))}."
        )


def _is_steered(task: Any) -> bool:
    """Whether a task uses gin's control tokens; our own tasks wrap their preprocessors."""
    steps = ((step, getattr(step, "__wrapped__", None)) for step in task.preprocessors)
    return any(faithdial.steer in pair for pair in steps)


def error_labels(task: Any) -> dict[str, str] | None:
    """Returns the label texts of a task or mixture of NPOV error classification.

    Keys are the arguments of `npov.error_labels`. None = the task has other targets.
    """
    steps = [
        [getattr(step, "__wrapped__", None) for step in part.preprocessors]
        for part in getattr(task, "tasks", [task])
    ]
    if not all(any(getattr(s, "func", None) is npov.classify for s in part) for part in steps):
        return None
    no_error, error = npov.error_labels().values()
    return {"no_error": no_error, "error": error}


def check_cached(task: Any, use_cached: bool, module: str | None = None) -> None:
    """Checks that a task or all tasks of a mixture have an offline cache if it is used.

    Raises:
      ConfigError: names the command that makes the cache, with the module of the task; or a task
        that is read from its cache only.
    """
    for part in getattr(task, "tasks", [task]):
        if not use_cached:
            if part.requires_caching:
                raise ConfigError(f"{part.name} is only read cached; set USE_CACHED_TASKS = True.")
            continue
        if not part.supports_caching:
            raise ConfigError(f"USE_CACHED_TASKS: {part.name} cannot be cached; set it to False.")
        if part.cache_dir is None:
            name, folder = locate_user_module(module) if module else ("faith_jax.tasks", None)
            # SeqIO's command does not search the working folder.
            path = f"PYTHONPATH={shlex.quote(str(folder))} " if folder else ""
            folders = ", ".join(map(str, seqio.utils.get_global_cache_dirs())) or "no folder"
            raise ConfigError(
                f"USE_CACHED_TASKS: {part.name} is not cached (looked in {folders}). Cache it: "
                f"{path}seqio_cache_tasks --module_import={name} "
                f"--tasks={part.name} --output_cache_dir=FOLDER, and add "
                "--seqio_additional_cache_dirs=FOLDER."
            )
