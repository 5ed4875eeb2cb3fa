"""Base classes of all scorers: the forms of their input, and the rows of models."""

import abc
import functools
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from faith_jax.core.cutting import CutTokens, by_name
from faith_jax.core.types import GroundedExample, Grounding, Score, ScorerCard, WordScore
from faith_jax.core.words import is_blank

logger = logging.getLogger("faith_jax")

Result = TypeVar("Result")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EMPTY_RESPONSE = "the response is empty"
_FEW_SCORES = 4  # so few responses may well have equal scores


def remembers_last(compute: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates a method that takes a list of rows to cache its last two results.

    This lets several scorers of one run share a model's computation. Two results are kept because a
    run starts to score the next rows before it has the scores of the previous ones.
    """

    @functools.wraps(compute)
    def wrapper(self: Any, rows: Sequence[Any]) -> Result:
        key = tuple(rows)
        for last, last_result in self.__dict__.get("_last", ()):
            if last == key:
                return last_result  # type: ignore[no-any-return]
        result = compute(self, rows)
        self.__dict__["_last"] = ((key, result), *self.__dict__.get("_last", ())[:1])
        return result

    return wrapper


class SeenInput(NamedTuple):
    """The inputs of a scorer's model for an example, as texts.

    Attributes:
      texts: the inputs, rebuilt from their tokens, by a short description such as "with document".
      cut: the numbers of tokens that were cut from the inputs.
    """

    texts: Mapping[str, str]
    cut: CutTokens


class BaseScorer(abc.ABC):
    """A scorer that judges a list of examples; subclasses define `card` and `score_examples`."""

    card: ScorerCard

    @abc.abstractmethod
    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example, in order; `score` has removed empty responses."""

    def seen(self, example: GroundedExample) -> SeenInput | None:
        """Returns the inputs of the scorer's model for an example, without running the model.

        Returns None if the response is empty, or if the scorer reads the texts directly and cuts
        nothing, like scorers without models.

        Raises:
          InputError: an example is too long and cannot be cut.
        """
        return None if is_blank(example.response) else self.inputs(example)

    def inputs(self, example: GroundedExample) -> SeenInput | None:
        """Returns the inputs for an example whose response is not empty; see `seen`."""
        return None

    def prepare(  # noqa: B027
        self, examples: Sequence[GroundedExample], window: int, total: int
    ) -> None:
        """Chooses the shapes of a job's batches by a sample of its examples; by default a no-op.

        Args:
          examples: the sample.
          window: the number of examples that are scored at once.
          total: the number of examples of the job.
        """

    def score(
        self,
        examples: Sequence[Any],
        responses: Sequence[str] | None = None,
        histories: Sequence[Sequence[str] | str] | None = None,
    ) -> list[Score]:
        """Returns the score of each example, in order; undefined if the response is empty.

        A response with only white space and invisible characters counts as empty.

        If `responses` are given, one for each example, the examples are only groundings: a text,
        several texts, or texts by perspective. Histories, if given, then also have one entry for
        each example, with the oldest utterance first.

        Raises:
          ValueError: the lengths differ, or an example lacks a part that the card requires.

        >>> from faith_jax import load_scorer
        >>> scorer = load_scorer("token_f1")
        >>> [score.value for score in scorer.score(["Tea is hot."], ["The tea is hot!"])]
        [1.0]
        """
        items = list(examples)
        if responses is not None:
            items = _pair_texts(items, responses, histories)
        elif histories is not None:
            raise ValueError("Histories come with groundings and responses, not with examples.")
        for number, example in enumerate(items):
            if not isinstance(example, GroundedExample):
                raise ValueError(
                    f"Item {number} is no GroundedExample; groundings come with responses."
                )
            if self.card.needs_history and not example.history:
                raise ValueError(f"{self.card.name} needs a history, which item {number} lacks.")
        scores = [Score(math.nan, undefined=_EMPTY_RESPONSE)] * len(items)
        places = [place for place, e in enumerate(items) if not is_blank(e.response)]
        item_scores = self.score_examples([items[place] for place in places]) if places else []
        for place, score in zip(places, item_scores, strict=True):
            scores[place] = score
        return scores


class Judgement(NamedTuple):
    """A value with its word scores and evidence; see `Score`."""

    value: float
    words: tuple[WordScore, ...] = ()
    evidence: tuple[WordScore, ...] = ()


class ScoreRange(NamedTuple):
    """The number of scores, and the lowest and highest."""

    number: int
    lowest: float
    highest: float


def warn_of_equal_scores(scorer: str, scores: ScoreRange) -> None:
    """Logs a warning if a scorer gives equal scores to more than a few responses."""
    if scores.number > _FEW_SCORES and scores.lowest == scores.highest:
        logger.warning(
            "%s: all %d scores are %g, so that they tell no response from another; check the "
            "scorer's model and options, and the columns that it reads",
            scorer,
            scores.number,
            scores.lowest,
        )


class _ReadRow(Protocol):
    """A model's input for an example, with the number of tokens that were cut."""

    @property
    def cut(self) -> CutTokens:
        """The numbers of tokens that were cut, by kind of text."""


Row = TypeVar("Row", bound=_ReadRow)
_NOTHING_READ = "its model has nothing to read"
_NOTHING_JUDGED = "its model finds nothing to judge"


class ModelScorer(BaseScorer, Generic[Row]):
    """A scorer with a model that reads each example as a row, and judges the rows."""

    @abc.abstractmethod
    def read(self, example: GroundedExample) -> Row | None:
        """Returns an example's row; None if there is nothing to score, so that the score is NaN."""

    def why_unread(self, example: GroundedExample) -> str:
        """Returns why `read` returns no row for an example."""
        return _NOTHING_READ

    @abc.abstractmethod
    def texts(self, row: Row) -> dict[str, str]:
        """Returns the inputs of a row, rebuilt from their tokens, by a short description."""

    @abc.abstractmethod
    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[Row]
    ) -> list[Judgement]:
        """Returns the judgement of each example, based on its row."""

    def prepare(self, examples: Sequence[GroundedExample], window: int, total: int) -> None:
        """Chooses the shapes of a job's batches by the rows of a sample."""
        rows = [self.read(example) for example in examples if not is_blank(example.response)]
        self.choose_shapes([row for row in rows if row is not None], window, total)

    def choose_shapes(self, rows: Sequence[Row], window: int, total: int) -> None:
        """Chooses the shapes of a job's batches by a sample of its rows; by default a no-op.

        Args:
          rows: the sample, one row for each of its examples.
          window: the number of examples that are scored at once.
          total: the number of examples of the job.
        """

    def inputs(self, example: GroundedExample) -> SeenInput | None:
        """Returns the texts of an example's row."""
        row = self.read(example)
        return None if row is None else SeenInput(self.texts(row), row.cut)

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example."""
        read = {place: row for place, e in enumerate(examples) if (row := self.read(e)) is not None}
        scores = [
            Score(math.nan, undefined="" if place in read else self.why_unread(example))
            for place, example in enumerate(examples)
        ]
        judged = self.judge_rows([examples[place] for place in read], list(read.values()))
        for (place, row), (value, words, evidence) in zip(read.items(), judged, strict=True):
            undefined = _NOTHING_JUDGED if math.isnan(value) else ""
            scores[place] = Score(value, words, by_name(row.cut), undefined, evidence)
        return scores


def _pair_texts(
    groundings: Sequence[Any],
    responses: Sequence[str],
    histories: Sequence[Sequence[str] | str] | None,
) -> list[GroundedExample]:
    if isinstance(groundings, str) or isinstance(responses, str):
        raise ValueError("Groundings and responses are lists, also of a single one.")
    turns: Sequence[Sequence[str] | str] = (
        [()] * len(groundings) if histories is None else histories
    )
    counts = {"groundings": len(groundings), "responses": len(responses)}
    counts |= {} if histories is None else {"histories": len(histories)}
    if len(set(counts.values())) > 1:
        count_list = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise ValueError(f"Expected as many of each, got {count_list}.")
    examples = []
    for number, (source, response, history) in enumerate(
        zip(groundings, responses, turns, strict=True)
    ):
        name, grounding = f"Grounding {number}", source
        if isinstance(source, Mapping):
            sides = {side: _to_texts(texts, f"{name}, {side}") for side, texts in source.items()}
            names = tuple(side for side, texts in sides.items() for _ in texts)
            grounding = Grounding(tuple(text for texts in sides.values() for text in texts), names)
        elif not isinstance(source, Grounding):
            grounding = Grounding(_to_texts(source, name))
        history_texts = _to_texts(history, f"History {number}")
        text = _to_text(response, f"Response {number}")
        examples.append(GroundedExample(str(number), grounding, history_texts, text))
    return examples


def _to_texts(texts: Any, name: str) -> tuple[str, ...]:
    if isinstance(texts, str):
        return (texts,)
    if not isinstance(texts, Iterable):
        raise ValueError(f"{name}: expected a list of texts, got {texts!r}.")
    return tuple(_to_text(item, name) for item in texts)


def _to_text(text: Any, name: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{name}: expected a text, got {text!r}.")
    if not text.isascii() and _SURROGATE.search(text):
        raise ValueError(f"{name}: holds half of a surrogate pair, no character.")
    return text


def sentence_words(
    sentence: str, start: int, score: float, number: int | None = None
) -> Iterator[WordScore]:
    """Yields a sentence's score for each of its words; the sentence begins at `start` of its text.

    `number` is the number of the text in the grounding; None = the text is the response.
    """
    for word in re.finditer(r"\S+", sentence):
        yield WordScore(word.group(), start + word.start(), start + word.end(), score, number)


def join_texts(grounding: Grounding) -> str:
    """Returns all texts of a grounding as one text, in order."""
    return " ".join(grounding.texts)
