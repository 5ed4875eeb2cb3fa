"""The metrics of a SeqIO task: the model outputs that they need, and their values.

SeqIO has metrics of (targets, predictions), of (targets, scores), where scores are log-likelihoods
of the targets, and of (targets, predictions, aux_values).
"""

import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, InputError, MetricError, reason
from faith_jax.inference.batching import pad_rows
from faith_jax.input.task_batches import DatasetConfig
from faith_jax.input.task_examples import TaskExamples, postprocessor

logger = logging.getLogger("faith_jax")

_TRIED = 2  # rows on which metrics are tried first


class ModelOutputs(NamedTuple):
    """The outputs of a model for the rows of a task, in their order; None = not needed.

    Attributes:
      predictions: token ids of each response.
      scores: natural log-likelihood of each target, a sum over its tokens.
      ranks: the value by which the search ranks each response.
    """

    predictions: Sequence[Sequence[int]] | None = None
    scores: Sequence[float] | None = None
    ranks: Sequence[float] | None = None


def needed_outputs(task: Any) -> set[str]:
    """Returns the kinds of outputs that a task's metrics need: "predictions", "scores".

    Raises:
      ConfigError: SeqIO does not know a metric's arguments, or a metric needs the intermediate
        states of the model.
    """
    kinds = {metric.model_output_type.name: name for name, metric in _named_metrics(task)}
    if name := kinds.get("SCORE_WITH_INTERMEDIATES"):
        raise ConfigError(
            f"{task.name}: its metric {name} needs the model's intermediate states, which are not "
            "kept here; leave it out, or set DECODING = None."
        )
    return {"scores" if kind == "SCORE" else "predictions" for kind in kinds}


def task_metrics(
    task: Any, rows: Sequence[Mapping[str, Any]], outputs: ModelOutputs
) -> dict[str, Any]:
    """Returns the values of a SeqIO task's metrics by name, for rows with all fields.

    Values are numbers, texts, lists of numbers, or SeqIO's values such as `seqio.metrics.Image`.

    Raises:
      MetricError: a metric or a postprocessor fails; its `metrics` are the values of the others.
    """
    import seqio

    if task.postprocessor is not None:  # so that its errors are not blamed on the metrics
        task = task.replace(postprocess_fn=postprocessor(task))
    values, failures, targets = dict[str, Any](), list[str](), None
    output: Any
    for name, metric in _named_metrics(task):
        if isinstance(metric, seqio.metrics.LegacyMetric):  # drop the rows of its last use
            metric = metric.replace(metric_fn_kwargs={}, targets_and_inferences={})
        try:
            if metric.model_output_type.name == "SCORE":
                output = np.asarray(outputs.scores)
            else:
                vocabulary = task.output_features["targets"].vocabulary
                # In our tokenizers the padding id may stand for a text; but they ignore all tokens
                # after an end token, so pad with that.
                fills_with_end = hasattr(vocabulary, "ours") and vocabulary.eos_id is not None
                filler = vocabulary.eos_id if fills_with_end else vocabulary.pad_id
                responses = outputs.predictions or []
                output = pad_rows(responses, max(map(len, responses), default=0), filler)
                if metric.model_output_type.name != "PREDICTION":
                    output = output, {"scores": np.asarray(outputs.ranks)}
            collected = metric.from_model_output(rows, output, task.output_features, "targets")
            if isinstance(collected, seqio.metrics.CollectingMetric):
                # Targets are postprocessed once for all metrics, as SeqIO does.
                features = task.output_features
                result, computed = collected.actual_compute(rows, features, "targets", targets)
                targets = computed["targets"]
            else:
                result = collected.compute()
            plain = {str(key): _convert_metric_value(value) for key, value in dict(result).items()}
            if twice := sorted(plain.keys() & values.keys()):
                raise ValueError(f"another metric is called {twice[0]!r} too")
            values |= plain
        except InputError as error:  # from the postprocessor
            failures.append(str(error).removesuffix("."))
        except Exception as error:  # whatever users' code raises
            logger.debug("%s: its metric %s", task.name, name, exc_info=True)
            failures.append(f"{task.name}: its metric {name} fails: {reason(error)}")
    if failures:
        raise MetricError("; ".join(dict.fromkeys(failures)), values)
    return values


def try_metrics(config: DatasetConfig, task: Any) -> None:
    """Tries a task's metrics and postprocessor on two rows, with the targets as responses.

    If a metric fails on two rows, as a correlation may, all rows are tried.

    Raises:
      ConfigError: a metric or the postprocessor fails, or a metric is of an unknown kind.
    """
    if not needed_outputs(task):
        return
    for count in (_TRIED, None):
        rows = list(itertools.islice(TaskExamples(config, task), count))
        scores = [-1.0 - number / len(rows) for number in range(len(rows))]
        outputs = ModelOutputs([row["targets"].tolist() for row in rows], scores, scores)
        try:
            task_metrics(task, rows, outputs)
            return
        except MetricError as error:
            failure = error
    raise ConfigError(
        f"{failure} (with the targets of split {config.split!r} as responses). Repair it, or set "
        "DECODING = None, which measures the loss alone."
    )


def _named_metrics(task: Any) -> list[tuple[str, Any]]:
    """Returns a task's metrics with their names."""
    import seqio

    try:
        metrics, functions = list(task.metric_objs), list(task.metric_fns)
    except ValueError as error:
        raise ConfigError(f"{task.name}: its metrics: {reason(error)}.") from None
    objects = metrics[: len(metrics) - len(functions)]
    names = [getattr(metric, "__name__", type(metric).__name__) for metric in objects]
    names += map(seqio.utils.function_name, functions)
    return list(zip(names, metrics, strict=True))


def _convert_metric_value(value: Any) -> Any:
    """Returns a metric's value, unwrapped to plain Python if it holds a number or a text."""
    value = getattr(value, "value", value)
    text = getattr(value, "textdata", value)
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    if isinstance(text, str):
        return text
    if hasattr(type(value), "__dataclass_fields__"):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"expected a number or a value of seqio.metrics, got {value!r}")
    return float(array.item()) if array.size == 1 else array.astype(float).tolist()


def text_of(value: Any) -> str:
    """Returns a metric's value as a short text on one line.

    >>> text_of(0.25), text_of([1.0, 2.0]), text_of("two words")
    ('0.2500', '2 values', 'two words')
    """
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, list):
        return f"{len(value)} values"
    if not isinstance(value, str):
        return type(value).__name__
    line = " ".join(value.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
