"""The examples of a SeqIO task, with errors that name the failing step.

Neither SeqIO nor TensorFlow says which step of a task raised an error. So if reading fails, the
task is read again up to each of its steps in turn, until one fails: the source, a preprocessor, or
the final check, if features are missing or have another dtype.
"""

import contextlib
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from faith_jax.core.errors import (
    FaithJaxError,
    InputError,
    format_value,
    pluralize,
    storage_failure,
)
from faith_jax.input.numpy_examples import numpy_examples

if TYPE_CHECKING:
    from faith_jax.input.task_batches import DatasetConfig

_SEEDS = 10_007  # difference between the seeds of successive parts of a task
_OF_TENSORFLOW = re.compile(
    r"\{\{.*?\}\}|\[\[.*?\]\]|\[Op:\w+\].*|Traceback \(most recent call last\).*"
    r"|Error in user-defined function passed to \S+ transformation with iterator: \S+: ",
    re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class TaskExamples:
    """One pass over the examples of a task's split, in order, with all of their fields as NumPy.

    Each of several parts has its own random draws. Preprocessors that require lengths get them;
    SeqIO then cuts longer features, too.

    Attributes:
      config: of the split.
      task: the SeqIO task.
      part: the index of this part, from 0.
      parts: the number of parts.
      first: the number of the first example to read, from 0.

    Raises:
      InputError: the task's source or one of its steps fails.
    """

    config: "DatasetConfig"
    task: Any
    part: int = 0
    parts: int = 1
    first: int = 0

    @functools.cached_property
    def _task_dataset(self) -> Any:
        import seqio

        config, part, parts = self.config, self.part, self.parts
        with blamed_steps(config, self.task):
            return self.task.get_dataset(
                _select_required_lengths(config, self.task), split=config.split, shuffle=False,
                use_cached=config.use_cached, num_epochs=1, seed=config.seed + _SEEDS * part,
                shard_info=seqio.ShardInfo(part, parts) if parts > 1 else None,
                try_in_mem_cache=False,
            )  # fmt: skip

    @property
    def names(self) -> set[str]:
        """The names of the fields."""
        return set(self._task_dataset.element_spec)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        dataset = self._task_dataset.skip(self.first)
        with blamed_steps(self.config, self.task):
            for example in numpy_examples(dataset):
                # SeqIO also keeps ids that a vocabulary passes through as "_pretokenized".
                yield {
                    name: value
                    for name, value in example.items()
                    if not name.endswith("_pretokenized")
                    or getattr(getattr(value, "dtype", None), "kind", "") not in ("i", "u")
                }


@contextlib.contextmanager
def blamed_steps(config: "DatasetConfig", task: Any) -> Iterator[None]:
    """Turns an error of a task's source or of one of its steps into one that names the step.

    Raises:
      InputError: a step failed; the message names the task, the step and the cause.
    """
    try:
        yield
    except FaithJaxError:
        raise
    except Exception as error:  # whatever users' code raises
        message = None if storage_failure(error) else _describe_failure(config, task)
        if message is None:  # no step fails
            raise
        raise InputError(message) from error


def postprocessor(task: Any) -> Callable[..., Any]:
    """Returns a task's postprocessor, called as SeqIO calls it; its errors name it.

    Raises:
      InputError: a call fails; the message names the task, the function, the text and the cause.
    """

    def postprocess(text: str, **options: Any) -> Any:
        try:
            return task.postprocess_fn(text, **options)
        except FaithJaxError:
            raise
        except Exception as error:  # whatever users' code raises
            raise InputError(
                f"{task.name}: its postprocessor {_name_function(task.postprocessor)} fails for "
                f"{format_value(text)}: {_describe_cause(error)}."
            ) from error

    return postprocess


def _describe_failure(config: "DatasetConfig", task: Any) -> str | None:
    """Returns a message on the failing step of a task and the cause; None if no step fails."""
    import seqio

    where = f"{task.name}, split {config.split!r}"
    try:
        steps = list(task.preprocessors)
    except Exception as error:
        return f"{task.name}: its preprocessors: {_describe_cause(error)}."
    cached = [n for n, step in enumerate(steps) if isinstance(step, seqio.CacheDatasetPlaceholder)]
    for number in cached:
        steps = steps[number + 1 :] if config.use_cached else steps[:number] + steps[number + 1 :]
    for count in range(len(steps) + 1):
        examples = 0
        try:
            source = task._get_cached_source(config.split) if config.use_cached else task.source
            source.num_input_examples(config.split)
            with seqio.utils.map_seed_manager(config.seed):
                dataset = source.get_dataset(split=config.split, shuffle=False, seed=config.seed)
                lengths = _select_required_lengths(config, task)
                dataset = task._preprocess_dataset(dataset, steps[:count], lengths)
            for _ in dataset.as_numpy_iterator():
                examples += 1
        except Exception as error:
            if count:
                step = f"preprocessor {_name_function(steps[count - 1])}"
            else:
                step = f"source {type(task.source).__name__}"
                if function := getattr(task.source, "_dataset_fn", None):
                    step += f" of {_name_function(function)}"
            place = f" after {pluralize(examples, 'example')}" if examples else ""
            return f"{where}: its {step} fails{place}: {_describe_cause(error)}."
    try:
        task._validate_preprocessing(dataset)
    except Exception as error:
        names = ", ".join(map(_name_function, steps)) or "none"
        remedy = "" if "tokenize" in names else " Is seqio.preprocessors.tokenize missing?"
        return f"{where}: its preprocessors ({names}): {_describe_cause(error)}.{remedy}"
    return None


def _select_required_lengths(config: "DatasetConfig", task: Any) -> dict[str, int] | None:
    """Returns the lengths of a task's features if a preprocessor requires them, else None."""
    for preprocessor in task.preprocessors:
        argument = inspect.signature(preprocessor).parameters.get("sequence_length")
        if argument is not None and argument.default is inspect.Parameter.empty:
            lengths = config.task_feature_lengths
            return {name: lengths[name] for name in task.output_features if name in lengths}
    return None


def _name_function(step: Any) -> str:
    """Returns the name of a function, also inside `functools.partial`."""
    while isinstance(step, functools.partial):
        step = step.func
    return str(getattr(step, "__name__", type(step).__name__))


def _describe_cause(error: Exception) -> str:
    """Returns the error of a step as text, without TensorFlow's graph and tracebacks."""
    text = str(error)
    if text.startswith("in user code:"):  # AutoGraph: the error's type and message come last
        return text.strip().splitlines()[-1].strip().removesuffix(".")
    message = " ".join(_OF_TENSORFLOW.sub("", text).split())
    return f"{type(error).__name__}: {message}".removesuffix(".")
