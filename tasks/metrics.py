"""Metric functions of the tasks, over the results of their postprocessors.

Each takes SeqIO's `targets` and `predictions`, and returns means in [0, 1], higher = better. Rows
for which a metric is undefined do not count in its mean; a mean over no rows is NaN.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from faith_jax.core import templates
from faith_jax.statistics.texts import text_metrics

Target = Mapping[str, Any]


def npov_postprocess(
    text: str, example: Mapping[str, Any] | None = None, is_target: bool = False
) -> str | dict[str, Any]:
    """Returns the response in a text in the curly braces format.

    For a target, returns {"id", "response", "pro", "con"}; pro and con are lists of arguments.
    """
    response = templates.npov_response(text)
    if not is_target:
        return response
    example = example or {}
    return {
        "id": _text(example.get("id", "")),
        "response": response,
        "pro": [_text(argument) for argument in example.get("pro_arguments", ())],
        "con": [_text(argument) for argument in example.get("con_arguments", ())],
    }


def response_postprocess(
    text: str, example: Mapping[str, Any] | None = None, is_target: bool = False
) -> str | dict[str, Any]:
    """Returns a decoded response; for a target, {"id", "response", "knowledge"}."""
    if not is_target:
        return text
    example = example or {}
    return {
        "id": _text(example.get("id", "")),
        "response": text,
        "knowledge": _text(example.get("knowledge", "")),
    }


def label_postprocess(
    text: str, example: Mapping[str, Any] | None = None, is_target: bool = False
) -> str:
    """Returns the label in a decoded text: the text itself, without white space around it."""
    return text.strip()


def npov_label_postprocess(
    text: str, example: Mapping[str, Any] | None = None, is_target: bool = False
) -> str:
    """Returns the label in an error classifier's decoded text."""
    return templates.npov_label(text)


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def token_f1(targets: Sequence[Target], predictions: Sequence[str]) -> dict[str, float]:
    """Returns the mean `token_f1` of the responses against the gold responses."""
    overlaps = _against_gold(text_metrics.token_overlap, targets, predictions)
    return {"token_f1": _mean(overlap.f1 for overlap in overlaps)}


def rouge(targets: Sequence[Target], predictions: Sequence[str]) -> dict[str, float]:
    """Returns the mean F1 of `rouge1`, `rouge2`, `rougeL` against the gold responses."""
    scores = _against_gold(text_metrics.rouge, targets, predictions)
    return {name: _mean(score[name].f1 for score in scores) for name in text_metrics.ROUGE_TYPES}


def knowledge_f1(targets: Sequence[Target], predictions: Sequence[str]) -> dict[str, float]:
    """Returns the mean `token_f1` of the responses against their knowledge (F1(u, K))."""
    scores = [
        text_metrics.token_overlap(prediction, target["knowledge"]).f1
        for target, prediction in zip(targets, predictions, strict=True)
        if target["knowledge"]
    ]
    return {"knowledge_f1": _mean(scores)}


def classification(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """Returns accuracy and macro F1 over the targets' labels, and the share of unknown labels.

    Returns:
      `accuracy`, `macro_f1`: in [0, 1], higher = better; a label that is never predicted has an
        F1 of 0. `unknown_labels`: share of predictions that are not labels of any target, lower =
        better; they count as wrong.
    """
    if not targets:
        return dict.fromkeys(("accuracy", "macro_f1", "unknown_labels"), math.nan)
    from sklearn import metrics  # takes a second to import

    labels = sorted(set(targets))
    f1 = metrics.f1_score(targets, predictions, labels=labels, average="macro", zero_division=0)
    return {
        "accuracy": float(metrics.accuracy_score(targets, predictions)),
        "macro_f1": float(f1),
        "unknown_labels": _mean(float(label not in labels) for label in predictions),
    }


classification.reads_labels = True  # type: ignore[attr-defined]  # of the targets


def _against_gold(
    metric: Callable[[str, str], Any], targets: Sequence[Target], predictions: Sequence[str]
) -> list[Any]:
    """Applies a metric to the rows that have a gold response."""
    return [
        metric(prediction, target["response"])
        for target, prediction in zip(targets, predictions, strict=True)
        if target["response"]
    ]


def arguments(targets: Sequence[Target], predictions: Sequence[str]) -> dict[str, float]:
    """Returns argument precision and recall of the responses (Chang 2024, section 3.1).

    Returns:
      `argument_precision`: mean share of a response's content words in its arguments; low →
        hallucination. Undefined for a response without content words.
      `argument_recall`: mean of the smaller perspective's share of content words in the
        response; low → coverage errors.
      `empty_responses`: share of responses without content words; lower = better.
    """
    overlaps = [
        text_metrics.argument_overlap(prediction, {"pro": target["pro"], "con": target["con"]})
        for target, prediction in zip(targets, predictions, strict=True)
    ]
    return {
        "argument_precision": _mean(overlap.precision for overlap in overlaps),
        "argument_recall": _mean(overlap.recall for overlap in overlaps),
        "empty_responses": _mean(float(not overlap.response_words) for overlap in overlaps),
    }


# Options of `registering.add_text_task`.
CLASSIFICATION: dict[str, Any] = {
    "postprocess": label_postprocess,
    "metric_fns": [classification],
}
GENERATION: dict[str, Any] = {
    "postprocess": response_postprocess,
    "metric_fns": [token_f1, rouge, knowledge_f1],
}


def _mean(values: Iterable[float]) -> float:
    """Returns the mean of the values that are not NaN; NaN if there are none."""
    defined = [value for value in values if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan
