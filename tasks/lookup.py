"""Finding registered tasks and mixtures by name, with errors that name the nearest ones."""

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

# How splits are called that are not trained on, by their beginnings.
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
      ConfigError: no task or mixture has this name; names the setting that gave it.
    """
    names = {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}
    if name not in names:
        check_task_name(name, setting, task_names())
    return seqio.get_mixture_or_task(name)


def check_split(task: Any, split: str | None, setting: str = "") -> None:
    """Checks that a task or a mixture has a split; messages name the macro `setting`.

    Raises:
      ConfigError: it has no such split.
      InputError: its data is missing, so its splits are unknown.
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
    # Nobody who asks for a validation split wants the training rows.
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
    """Returns how often the members of a mixture that have a split are read, as relative rates.

    A rate may be a function of a task, such as SeqIO's of its number of examples. If a task's
    source does not know this number, it is the number of its rows, of `counts`; without these,
    rates are only checked. Of a task that is no mixture the rate is 1.

    Raises:
      ConfigError: a rate cannot be computed, or is no number that can be a rate.
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
    """Within, a task whose source does not know its number of examples has so many of a split."""
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


def check_steered(task: Any | None) -> None:
    """Checks that the control tokens that gin asks for, if any, are asked of inputs that have some.

    None are the inputs of no task.

    Raises:
      ConfigError: they are not, naming the tasks that have some; or there are no such tokens.
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
    """Whether gin's control tokens reach a task's inputs; our own tasks wrap their steps."""
    steps = ((step, getattr(step, "__wrapped__", None)) for step in task.preprocessors)
    return any(faithdial.steer in pair for pair in steps)


def error_labels(task: Any) -> dict[str, str] | None:
    """Returns the texts of the labels that a task or mixture teaches a classifier of NPOV errors.

    They are by the arguments of `npov.error_labels`; None where its targets are other texts.
    """
    steps = [
        [getattr(step, "__wrapped__", None) for step in part.preprocessors]
        for part in getattr(task, "tasks", [task])
    ]
    if not all(any(getattr(s, "func", None) is npov.classify for s in part) for part in steps):
        return None
    no_error, error = npov.error_labels().values()
    return {"no_error": no_error, "error": error}


def check_cached(task: Any, module: str | None = None) -> None:
    """Checks that a task or all tasks of a mixture have an offline cache.

    Raises:
      ConfigError: naming the command that makes it, with the module that registers the task.
    """
    for part in getattr(task, "tasks", [task]):
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
