"""Error classifiers of NPOV responses: language models that answer YES (no error) or NO.

Reference: Chang 2024, section 3.3 and appendix B.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Unpack

from faith_jax.core import templates
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.labels import ErrorLabel
from faith_jax.core.templates import check_label
from faith_jax.core.types import SIDES, GroundedExample
from faith_jax.inference.class_probabilities import ClassificationEngine, LabelTexts
from faith_jax.inference.opening import ModelOptions, require_model, trained_error_labels
from faith_jax.inference.texts.text_reader import ReadText, open_text_reader
from faith_jax.scoring.base import Judgement, ModelScorer
from faith_jax.scoring.model_cards import CARDS
from faith_jax.tokenizers.base import Tokenizer

_REMEDY = (
    "give a model that was trained on npov_hallucination or npov_coverage, or no_error_label and "
    "error_label as it was trained"
)
_REMEDY_OF_A_RUN = "train it for more steps"


def _label_tokens(
    tokenizer: Tokenizer, no_error: str, error: str
) -> tuple[list[int], list[int], list[int]]:
    """Returns the tokens with which both labels' targets begin, and each label's own tokens.

    The targets have the format in which classifiers are trained.

    Raises:
      ConfigError: the labels are the same, or the model cannot tell them apart.
    """
    targets = [templates.npov_classifier_targets(label) for label in (no_error, error)]
    for name, label in (("no_error_label", no_error), ("error_label", error)):
        check_label(name, label, tokenizer.notation)
    first, second = (tokenizer.encode(tokenizer.notation.to_model_notation(t)) for t in targets)
    start = _same_at_start(first, second)
    if min(len(first), len(second)) == start:
        raise ConfigError(
            f"no_error_label and error_label: expected two different texts, got {no_error!r} "
            f"and {error!r}."
        )
    end = _same_at_start(first[start:][::-1], second[start:][::-1])
    ends = [len(ids) - min(end, len(ids) - start - 1) for ids in (first, second)]
    return first[:start], first[start : ends[0]], second[start : ends[1]]


def _same_at_start(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


class NpovLabelOptions(ModelOptions, total=False):
    """The options of error classifiers.

    Attributes:
      no_error_label: the label for no error in training; default: as in MODEL_DIR, else YES.
      error_label: the label for an error in training; default: as in MODEL_DIR, else NO.
    """

    no_error_label: str
    error_label: str


class NpovErrorClassifier(ModelScorer[ReadText]):
    """The probability of YES after the input: exp(y) / (exp(y) + exp(n)).

    y and n are the mean log-probabilities of the tokens of the labels for no error and for an error
    (`inference.class_probabilities`).

    By default the perspectives of an input that is too long lose their ends, the longer one first;
    query and response are kept. A warning is logged if the model hardly ever writes one of the
    labels, see `LEAST_LABEL_MASS`.

    Args:
      name: "npov_hallucination" or "npov_coverage", depending on the model's training.
      model: the model's folder, such as the MODEL_DIR of a run.
      **options: see `NpovLabelOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """

    def __init__(self, name: str, model: str | None = None, **options: Unpack[NpovLabelOptions]):
        opened, reader = open_text_reader(model, options)
        trained = trained_error_labels(require_model(model))
        words = (
            options.get("no_error_label", trained.get("no_error", ErrorLabel.NO_ERROR.value)),
            options.get("error_label", trained.get("error", ErrorLabel.ERROR.value)),
        )
        prefix, *labels = _label_tokens(reader.tokenizer, *words)
        if reader.causal:
            reserved_tokens = len(prefix) + max(map(len, labels))
            reader = dataclasses.replace(reader, reserved_tokens=reserved_tokens)
        texts = LabelTexts.of(labels, "mean", [*reader.response_start, *prefix])
        tokens_per_batch = options.get("tokens_per_batch")
        self.card, self._reader, self._words = CARDS[name], reader, words
        self._remedy = _REMEDY_OF_A_RUN if words == tuple(trained.values()) else _REMEDY
        self._engine = ClassificationEngine(opened, texts, tokens_per_batch=tokens_per_batch)

    def read(self, example: GroundedExample) -> ReadText:
        """Returns the classifier's input; raises InputError for perspectives except pro and con."""
        return self._reader.read(_classifier_input(example), f"example {example.id!r}")

    def choose_shapes(self, rows: Sequence[ReadText], window: int, total: int) -> None:
        ids = [row.ids for row in rows]
        self._engine.choose_shapes(ids, self._reader.max_length, window, total)

    def texts(self, row: ReadText) -> dict[str, str]:
        return {"input": self._reader.to_readable(row.ids)}

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[ReadText]
    ) -> list[Judgement]:
        ids = [row.ids for row in rows]
        probabilities = self._engine.probabilities(ids)
        self._engine.warn_of_rare_labels(ids, self._words, self._remedy)
        return [Judgement(float(value)) for value in probabilities[:, 0]]


def _classifier_input(example: GroundedExample) -> str:
    """Returns the text that an error classifier reads for an example.

    Raises:
      InputError: the example has no perspectives, or others than pro and con.
    """
    grounding = example.grounding
    if not grounding.perspectives:
        raise InputError(
            f"example {example.id!r} has no perspectives; error classifiers judge pro and con "
            "arguments (--grounding-column=pro=NAME,con=NAME)."
        )
    for name in grounding.perspectives:
        if name not in SIDES:
            raise InputError(
                f"example {example.id!r}: expected the perspectives pro and con, got {name!r}."
            )
    query = example.history[-1] if example.history else ""
    pro, con = (grounding.of(side) for side in SIDES)
    return templates.npov_classifier_inputs(query, example.response, pro, con)
