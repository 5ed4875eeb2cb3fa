"""Finding registered tasks and mixtures by name, with errors that name the nearest ones."""

from typing import Any

import seqio

import faith_jax.tasks  # noqa: F401  (registers our tasks)
from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.datasets.task_data import check_task_name
from faith_jax.tasks import faithdial


def task_names() -> list[str]:
    """Returns the names of all registered tasks and mixtures, in alphabetical order."""
    return sorted({*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()})


def get_task(name: str) -> Any:
    """Returns a `seqio.Task` or `seqio.Mixture`.

    Args:
      name: its registered name.

    Raises:
      ConfigError: no task or mixture has this name.
    """
    check_task_name(name, task_names())
    return seqio.get_mixture_or_task(name)


def check_split(task: Any, split: str) -> None:
    """Checks that a task or a mixture has a split.

    Args:
      task: from `get_task`.
      split: the name of a split, such as "validation".

    Raises:
      ConfigError: it has no such split.
      InputError: its data is missing, so its splits are unknown.
    """
    known = list(task.splits)
    if split not in known:
        raise ConfigError(
            f"{task.name} has no split {split!r}.{did_you_mean(str(split), known)} "
            f"Its splits: {', '.join(known)}."
        )


def check_steered(task: Any | None) -> None:
    """Checks that the control tokens that gin asks for, if any, are asked of inputs that have some.

    Args:
      task: from `get_task`, or None for inputs that are no task's.

    Raises:
      ConfigError: they are not, naming the tasks that have some; or there are no such tokens.
    """
    if faithdial.steering() is None:
        return
    parts = [] if task is None else getattr(task, "tasks", [task])
    if not parts or not all(map(_is_steered, parts)):
        tasks = map(seqio.TaskRegistry.get, seqio.TaskRegistry.names())
        steered = [task.name for task in tasks if _is_steered(task)]
        what = "rows of INPUT_FILE" if task is None else f"{task.name}: its inputs"
        raise ConfigError(
            f"CONTROL_TOKENS: {what} have no control tokens; leave decoding/control_tokens.gin "
            f"out, or choose one of {', '.join(sorted(steered))}."
        )


def _is_steered(task: Any) -> bool:
    """Whether gin's control tokens reach a task's inputs; our own tasks wrap their steps."""
    steps = ((step, getattr(step, "__wrapped__", None)) for step in task.preprocessors)
    return any(faithdial.steer in pair for pair in steps)


def check_cached(task: Any) -> None:
    """Checks that a task or all tasks of a mixture have an offline cache.

    Args:
      task: from `get_task`.

    Raises:
      ConfigError: naming the command that makes it.
    """
    for part in getattr(task, "tasks", [task]):
        if not part.supports_caching:
            raise ConfigError(f"USE_CACHED_TASKS: {part.name} cannot be cached; set it to False.")
        if part.cache_dir is None:
            folders = ", ".join(map(str, seqio.utils.get_global_cache_dirs())) or "no folder"
            raise ConfigError(
                f"USE_CACHED_TASKS: {part.name} is not cached (looked in {folders}). Cache it: "
                f"seqio_cache_tasks --module_import=faith_jax.tasks --tasks={part.name} "
                "--output_cache_dir=FOLDER, and add --seqio_additional_cache_dirs=FOLDER."
            )
