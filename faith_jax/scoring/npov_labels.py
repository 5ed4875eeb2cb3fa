"""Error classifiers of NPOV responses: a language model that says YES (no error) or NO.

Reference: Chang 2024, section 3.3 and appendix B.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import TypedDict, Unpack

from faith_jax.core import templates
from faith_jax.core.cutting import CutTokens, by_name, check_policy, fit
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.labels import ErrorLabel
from faith_jax.core.types import GroundedExample, Score
from faith_jax.inference.opening import (
    check_ids,
    check_text,
    check_whole,
    input_limit,
    open_language_model,
    open_tokenizer,
    require_model,
    shown_ids,
)
from faith_jax.inference.row_likelihoods import LikelihoodEngine
from faith_jax.scoring.base import BaseScorer, SeenInput
from faith_jax.scoring.model_cards import NPOV_LABELS
from faith_jax.tokenizers.base import Tokenizer

_SIDES = ("pro", "con")


@dataclasses.dataclass(frozen=True)
class LabelTokens:
    """Two labels as the model's targets: what stands in front of both, and their own tokens.

    Attributes:
      prefix: token ids that both targets begin with.
      no_error: token ids of the label for no error.
      error: token ids of the other one.
    """

    prefix: tuple[int, ...]
    no_error: tuple[int, ...]
    error: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer, no_error: str, error: str) -> "LabelTokens":
        """Returns the tokens of labels, in the format in which classifiers are trained.

        Raises:
          ConfigError: where the labels are the same or the model cannot tell them apart.
        """
        targets = [templates.npov_classifier_targets(label) for label in (no_error, error)]
        first, second = (tokenizer.encode(target) for target in targets)
        same = _same_at_start(first, second)
        if min(len(first), len(second)) == same:
            raise ConfigError(
                f"no_error_label and error_label: expected two different texts, got {no_error!r} "
                f"and {error!r}."
            )
        behind = _same_at_start(first[same:][::-1], second[same:][::-1])
        ends = [len(ids) - min(behind, len(ids) - same - 1) for ids in (first, second)]
        return cls(tuple(first[:same]), tuple(first[same : ends[0]]), tuple(second[same : ends[1]]))


def _same_at_start(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


class NpovLabelScorer(BaseScorer):
    """The probability of the label for no error, of the two.

    Args:
      name: "npov_hallucination" or "npov_coverage".
      engine: of the model.
      tokenizer: of the same model.
      labels: of the same model.
      max_length: tokens of an input at most.
      cut_policy: what a longer input loses, see `core.cutting`; by default the perspectives
        lose their ends, the longer one first, while query and response stay.
    """

    def __init__(
        self,
        name: str,
        engine: LikelihoodEngine,
        tokenizer: Tokenizer,
        labels: LabelTokens,
        max_length: int,
        cut_policy: str = "knowledge",
    ):
        self.card = NPOV_LABELS[name]
        self._engine, self._tokenizer, self._labels = engine, tokenizer, labels
        self._max_length, self._cut_policy = max_length, cut_policy

    @property
    def num_compilations(self) -> int:
        """How many shapes the model was compiled for."""
        return self._engine.num_compilations

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example.

        Raises:
          InputError: where an example has other perspectives than pro and con, or none, and where
            it is too long and cannot be cut.
        """
        rows = [self._row(example) for example in examples]
        labels = self._labels
        probabilities = self._engine.label_probabilities(
            [ids for ids, _ in rows], [labels.no_error, labels.error], labels.prefix
        )
        return [
            Score(float(value), (), by_name(cut))
            for value, (_, cut) in zip(probabilities[:, 0], rows, strict=True)
        ]

    def seen(self, example: GroundedExample) -> SeenInput:
        """Returns the classifier's input."""
        ids, cut = self._row(example)
        return SeenInput({"input": shown_ids(self._tokenizer, ids)}, cut)

    def _row(self, example: GroundedExample) -> tuple[list[int], CutTokens]:
        config = self._engine.model.config
        suffix = [] if config.is_decoder_only else list(self._tokenizer.suffix_ids)
        prefix = list(self._tokenizer.prefix_ids)
        longest = max(len(self._labels.no_error), len(self._labels.error))
        target = len(self._labels.prefix) + longest if config.is_decoder_only else 0
        room = self._max_length - len(prefix) - len(suffix) - target
        where = f"example {example.id!r}: max_length = {self._max_length}"
        fitted = fit(self._tokenizer, classifier_input(example), room, self._cut_policy, where)
        return check_ids([*prefix, *fitted.ids, *suffix], config.vocab_size), fitted.cut


def classifier_input(example: GroundedExample) -> str:
    """Returns the text that an error classifier reads of an example.

    Raises:
      InputError: where it has other perspectives than pro and con, or none.
    """
    grounding = example.grounding
    if not grounding.perspectives:
        raise InputError(
            f"example {example.id!r} has no perspectives; error classifiers judge pro and con "
            "arguments (--grounding-column=pro=NAME,con=NAME)."
        )
    for name in grounding.perspectives:
        if name not in _SIDES:
            raise InputError(
                f"example {example.id!r}: expected the perspectives pro and con, got {name!r}."
            )
    query = example.history[-1] if example.history else ""
    pro, con = (grounding.of(side) for side in _SIDES)
    return templates.npov_classifier_inputs(query, example.response, pro, con)


class NpovLabelOptions(TypedDict, total=False):
    """The options of error classifiers.

    Attributes:
      vocabulary: where the tokenizer is, if not with the model.
      max_length: tokens that the model reads at most; default: 1,024, or fewer where its positions
        end before.
      cut_policy: what is cut of a longer input, see `core.cutting`.
      no_error_label: as the model was trained; default: YES.
      error_label: likewise; default: NO.
      dtype: of activations.
      tokens_per_batch: see `LikelihoodEngine`.
    """

    vocabulary: str | None
    max_length: int | None
    cut_policy: str
    no_error_label: str
    error_label: str
    dtype: str | None
    tokens_per_batch: int | None


def npov_label_scorer(
    name: str, model: str | None = None, **options: Unpack[NpovLabelOptions]
) -> NpovLabelScorer:
    """Returns the scorer of an error classifier.

    Args:
      name: "npov_hallucination" or "npov_coverage", by what the model was trained for.
      model: its folder, such as the MODEL_DIR of a run.
      **options: see `NpovLabelOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    path = require_model(model)
    for option in ("vocabulary", "dtype", "no_error_label", "error_label"):
        check_text(option, options.get(option))
    for option, least in (("max_length", 8), ("tokens_per_batch", 1)):
        check_whole(option, options.get(option), least)
    cut_policy = options.get("cut_policy", "knowledge")
    check_policy(cut_policy, "cut_policy")
    opened = open_language_model(path, options.get("dtype"))
    tokenizer = open_tokenizer(path, options.get("vocabulary"), opened.config)
    labels = LabelTokens.of(
        tokenizer,
        options.get("no_error_label", ErrorLabel.NO_ERROR.value),
        options.get("error_label", ErrorLabel.ERROR.value),
    )
    limit = input_limit(opened.config, options.get("max_length"))
    engine = _engine(path, options.get("dtype"), options.get("tokens_per_batch"))
    return NpovLabelScorer(name, engine, tokenizer, labels, limit, cut_policy)


@functools.lru_cache(maxsize=4)
def _engine(model: str, dtype: str | None, tokens_per_batch: int | None) -> LikelihoodEngine:
    return LikelihoodEngine(open_language_model(model, dtype), tokens_per_batch)
