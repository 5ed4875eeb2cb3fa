"""Q2: questions about a response, answered from it and from the grounding (Honovich 2021).

For each span of the response, a model asks questions that have the span as their answer. A question
is valid if a second model, reading the response, answers it with that span. The score compares the
span with the second model's answer from the grounding.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from faith_jax.core.cutting import CutTokens, Kind, Part, by_name
from faith_jax.core.errors import ConfigError, all_of
from faith_jax.core.labels import NliLabel
from faith_jax.core.types import GroundedExample, Score
from faith_jax.datasets.augmentation.tagging import DEFAULT_TAGGER, TaggedText, Tagger, load_tagger
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.generated_texts import Prompt, TextGenerator
from faith_jax.inference.opening import ModelOptions, check_options, open_model, require_model
from faith_jax.inference.span_reader import SpanReader, TextQuestion
from faith_jax.scoring.base import BaseScorer, SeenInput, join_texts, remembers_last
from faith_jax.scoring.model_cards import CARDS
from faith_jax.scoring.nli import nli_label_numbers
from faith_jax.scoring.pair_classifier import PairClassifier, pair_classifier
from faith_jax.statistics.texts.text_metrics import bag_f1, f1_words

ASK = "answer: {answer}  context: {context}"
ANSWER = "question: {question}  context: {context}"
NO_ANSWERS = ("", "unanswerable", "no answer")
# Settings of the published code's search for questions, apart from the number of beams.
_SEARCH = {"no_repeat_ngram": 3, "early_stopping": True}
_PERSONAL = frozenset({"i", "you", "my", "your"})
# A private-use character that stands for the context while an input is assembled.
_MARK = "\ue000"
_NO_FALLBACK = "q2_f1_no_fallback"
_UNASKED = "there is no valid question"
_VALUES = {NliLabel.ENTAILMENT: 1.0, NliLabel.NEUTRAL: 0.5, NliLabel.CONTRADICTION: 0.0}


def answer_f1(expected: str, answer: str) -> float:
    """Returns the F1 of two answers' words, see `f1_words`, from 0 to 1.

    >>> answer_f1("the high Andes", "Andes")
    0.6666666666666666
    """
    return bag_f1(*map(f1_words, (expected, answer)))


def answer_candidates(text: TaggedText) -> list[str]:
    """Returns the spans to ask about: entities, then other noun chunks, without "I"."""
    candidates = [entity.text for entity in text.entities]
    seen = {"i", *(entity.lower() for entity in candidates)}
    for chunk in text.noun_chunks:
        if chunk.text.lower() not in seen:
            seen.add(chunk.text.lower())
            candidates.append(chunk.text)
    return [span for span in candidates if span.lower() != "i"]


def _fill_template(template: str, context: str, kind: Kind, **fields: str) -> Prompt:
    """Returns a model input from a template; only the context may be cut."""
    fields = {name: text.replace(_MARK, " ") for name, text in fields.items()}
    before, _, after = template.format(context=_MARK, **fields).partition(_MARK)
    start, end = len(before), len(before) + len(context)
    return Prompt(before + context + after, (Part(kind, start, start, end, end),))


def _maximum_by_kind(first: CutTokens, second: CutTokens) -> CutTokens:
    """Returns, for each kind, the larger of two counts of tokens that were cut."""
    larger = {kind: max(first.get(kind, 0), second.get(kind, 0)) for kind in {**first, **second}}
    return CutTokens(larger, max(first.knowledge, second.knowledge))


class Question(NamedTuple):
    """A valid question, the response's span that answers it, and the grounding's answer if any."""

    text: str
    span: str
    answer: str


# Valid questions, and the most tokens of each kind that were cut from an input to find them.
_ValidQuestions = tuple[list[Question], CutTokens]


class _Answerer(Protocol):
    """A model that answers questions about texts."""

    def __call__(self, questions: Sequence[TextQuestion]) -> tuple[list[str], list[CutTokens]]:
        """Returns the answers ("" = none), and how many tokens of each text were cut."""
        ...

    def to_readable(self, text_question: TextQuestion, name: str) -> tuple[str, CutTokens]:
        """Returns the model's input for a question, as text, and the tokens that were cut."""
        ...


@dataclasses.dataclass(frozen=True)
class WrittenAnswers:
    """An `_Answerer` that generates its answers.

    Attributes:
      template: the template of the model's input.
      no_answers: outputs that mean there is no answer, in lower case.
    """

    model: TextGenerator
    template: str
    no_answers: frozenset[str]

    def __call__(self, questions: Sequence[TextQuestion]) -> tuple[list[str], list[CutTokens]]:
        answer_lists, cut = self.model([self._fill_template(question) for question in questions])
        texts = [
            "" if answers[0].lower() in self.no_answers else answers[0] for answers in answer_lists
        ]
        return texts, cut

    def to_readable(self, text_question: TextQuestion, name: str) -> tuple[str, CutTokens]:
        read = self.model.encode(self._fill_template(text_question), name)
        return self.model.reader.to_readable(read.ids), read.cut

    def _fill_template(self, text_question: TextQuestion) -> Prompt:
        return _fill_template(
            self.template, text_question.text, text_question.kind, question=text_question.question
        )


@dataclasses.dataclass
class QuestionAsker:
    """Finds the valid questions of responses, caching the last result for scorers that share it.

    Attributes:
      tagger: finds spans.
      ask: the model that asks questions.
      answer: the model that answers them.
      num_beams: questions tried for each span; the first valid one counts.
      template: the template of the asking model's input.
      personal: keep questions with I, you, my or your.
    """

    tagger: Tagger
    ask: TextGenerator
    answer: _Answerer
    num_beams: int
    template: str
    personal: bool

    @remembers_last
    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[_ValidQuestions]:
        """Returns the valid questions of each grounding and response, and the most that was cut."""
        valid_questions: list[_ValidQuestions] = [([], CutTokens()) for _ in pairs]
        tagged = self.tagger.tag([response for _, response in pairs])
        spans = [(n, span) for n, text in enumerate(tagged) for span in answer_candidates(text)]
        prompts = [self.to_ask(pairs[n][1], span) for n, span in spans]
        question_lists, cut = self.ask(prompts, self.num_beams, **_SEARCH)
        for (n, _), tokens in zip(spans, cut, strict=True):
            valid_questions[n] = ([], _maximum_by_kind(valid_questions[n][1], tokens))
        tried = [
            (place, question)
            for place, questions in enumerate(question_lists)
            for question in (q.replace("question: ", "", 1).strip() for q in questions)
            if question
            and (self.personal or _PERSONAL.isdisjoint(re.findall(r"\w+", question.lower())))
        ]
        response_answers, _ = self.answer(
            [TextQuestion(q, pairs[spans[place][0]][1], Kind.RESPONSE) for place, q in tried]
        )
        valid: dict[int, str] = {}  # the first valid question of each span
        for (place, question), answer in zip(tried, response_answers, strict=True):
            if answer and f1_words(answer) == f1_words(spans[place][1]):
                valid.setdefault(place, question)
        answers, cut = self.answer(
            [TextQuestion(q, pairs[spans[place][0]][0]) for place, q in valid.items()]
        )
        for (place, question), answer, tokens in zip(valid.items(), answers, cut, strict=True):
            n, span = spans[place]
            questions, most_cut = valid_questions[n]
            valid_questions[n] = (
                [*questions, Question(question, span, answer)],
                _maximum_by_kind(most_cut, tokens),
            )
        return valid_questions

    def to_ask(self, response: str, span: str) -> Prompt:
        """Returns the input of the model that asks questions."""
        return _fill_template(self.template, response, Kind.RESPONSE, answer=span)


class Q2Scorer(BaseScorer):
    """The mean score of a response's valid questions.

    Args:
      name: "q2_f1", the token F1 of span and answer, or "q2_nli", which asks a natural language
        inference model if there is an answer with an F1 below 1: the question counts 1 if question
        and answer entail question and span, 0 if they contradict it, else the F1. Under both names,
        a response without a valid question scores 1, 0.5 or 0 if the grounding entails it, is
        neutral or contradicts it, both in lower case. "q2_f1_no_fallback" is "q2_f1", but undefined
        for such a response.
      asker: finds the questions; the scorers can share it.
      classify: the inference model; None with "q2_f1_no_fallback".
      numbers: the numbers of the inference model's classes.
    """

    def __init__(
        self,
        name: str,
        asker: QuestionAsker,
        classify: PairClassifier | None,
        numbers: Mapping[NliLabel, int],
    ):
        self.card = CARDS[name]
        self._asker, self._classify = asker, classify
        self._labels = {number: label for label, number in numbers.items()}

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example; see `name` for those without a valid question."""
        pairs = [(join_texts(e.grounding), e.response) for e in examples]
        valid_questions = self._asker(pairs)
        values = [
            [answer_f1(q.span, q.answer) for q in questions] for questions, _ in valid_questions
        ]
        if self.card.name == "q2_nli":
            # If an answer differs from the span, inference decides unless it is neutral.
            differing = [
                (question_values, place, question)
                for (questions, _), question_values in zip(valid_questions, values, strict=True)
                for place, question in enumerate(questions)
                if question.answer and question_values[place] < 1
            ]
            answer_labels, _ = self._infer_labels(
                [(f"{q.text} {q.answer}.", f"{q.text} {q.span}.") for _, _, q in differing]
            )
            for (question_values, place, _), decided in zip(differing, answer_labels, strict=True):
                if decided is not NliLabel.NEUTRAL:
                    question_values[place] = _VALUES[decided]
        unasked = [
            pair for pair, question_values in zip(pairs, values, strict=True) if not question_values
        ]
        labels = self._infer_labels(
            [(grounding.lower(), response.lower()) for grounding, response in unasked]
        )
        fallback = zip(*labels, strict=True)
        scores = list[Score]()
        for question_values, (_, cut) in zip(values, valid_questions, strict=True):
            if question_values:
                scores.append(Score(float(np.mean(question_values)), (), by_name(cut)))
                continue
            label, more = next(fallback, (None, CutTokens()))
            value, undefined = (math.nan, _UNASKED) if label is None else (_VALUES[label], "")
            scores.append(Score(value, (), by_name(_maximum_by_kind(cut, more)), undefined))
        return scores

    def inputs(self, example: GroundedExample) -> SeenInput | None:
        """Returns the inputs of both models, without spans and questions, as they come later."""
        asker, name = self._asker, f"example {example.id!r}"
        first = asker.ask.encode(asker.to_ask(example.response, ""), name)
        to_answer, cut = asker.answer.to_readable(
            TextQuestion("", join_texts(example.grounding)), name
        )
        texts = {"to ask": asker.ask.reader.to_readable(first.ids), "to answer": to_answer}
        return SeenInput(texts, _maximum_by_kind(first.cut, cut))

    def _infer_labels(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[list[NliLabel], list[CutTokens]]:
        """Returns the inferred label of each pair, and the tokens cut; empty without a model."""
        if self._classify is None or not pairs:
            return [], []
        probabilities, cuts = self._classify(pairs)
        return [self._labels[int(number)] for number in probabilities.argmax(axis=1)], cuts


def q2_scorer(
    name: str,
    model: str | None = None,
    answer_model: str | None = None,
    nli_model: str | None = None,
    labels: str | Sequence[str] | None = None,
    tagger: str = DEFAULT_TAGGER,
    num_beams: int = 5,
    personal: bool = False,
    max_length: int | None = None,
    cut_policy: str = "knowledge",
    max_question_length: int = 64,
    vocabulary: str | None = None,
    question_template: str = ASK,
    answer_template: str = ANSWER,
    no_answers: Sequence[str] = NO_ANSWERS,
) -> Q2Scorer:
    """Returns a Q2 scorer.

    Args:
      name: see `Q2Scorer`.
      model: a folder of an encoder-decoder that asks questions.
      answer_model: a folder of a model that answers them; default: `model`, which must then do both
        tasks. A model for extractive question answering, such as the authors' ALBERT, answers with
        spans of the text; answer_template and no_answers are for models that generate answers.
      nli_model: a folder of a classifier with three classes; only `q2_f1_no_fallback` needs none.
      labels: see `nli_label_numbers`.
      tagger: finds entities and noun chunks, see `load_tagger`; "rules" finds no noun chunks.
      num_beams: questions tried for each span.
      personal: keep questions with I, you, my or your, which the paper drops.
      max_length: the most tokens of an input; default: 1,024, or the model's positions if fewer.
      cut_policy: which part of a longer input is cut, see `core.cutting`; by default the text that
        is asked about, never the question.
      max_question_length: the most tokens of a question or an answer.
      vocabulary: the tokenizer of both models, if they carry none.
      question_template: the asking model's input, with {answer} and {context}.
      answer_template: the answering model's input, with {question} and {context}.
      no_answers: outputs of the answering model that mean there is no answer, in any case.

    Raises:
      ConfigError: without a model, or for a wrong option; lists all problems of the models.

    Reference: Honovich 2021, section 2, and its published code: an answer must have the same
    `f1_words` as the span, the first valid question of a span counts, and both scores cover the
    same rows, as inference judges responses without a valid question. The published code answers
    with ALBERT trained on SQuAD 2.0, starts and ends the answer's span at the highest logit of each
    kind, forbids repeated three-token sequences in questions, and finds personal questions by
    parsing.
    """
    check_options(
        {
            "num_beams": num_beams,
            "max_question_length": max_question_length,
            "answer_model": answer_model,
            "nli_model": nli_model,
        }
    )
    for option, template, fields in (
        ("question_template", question_template, ("answer", "context")),
        ("answer_template", answer_template, ("question", "context")),
    ):
        try:
            filled = template.format(**dict.fromkeys(fields, "\x00"))
        except (KeyError, IndexError, ValueError, AttributeError):
            filled = ""
        if filled.count("\x00") != len(fields):
            expected = " and ".join(f"{{{field}}}" for field in fields)
            raise ConfigError(f"{option}: expected a text with {expected}, got {template!r}.")
    reading = ModelOptions(vocabulary=vocabulary, max_length=max_length, cut_policy=cut_policy)
    order = functools.partial(nli_label_numbers, labels=labels)

    def generator(folder: str | None) -> TextGenerator:
        return TextGenerator.open(require_model(folder), max_question_length, reading)

    def answerer() -> _Answerer:
        folder = require_model(answer_model or model)
        if isinstance(open_model(folder), EncoderModel):
            if answer_template != ANSWER:
                raise ConfigError(f"answer_template: model {folder} reads no template.")
            return SpanReader.open(folder, max_question_length, reading)
        no_answer_texts = frozenset(text.strip().lower() for text in no_answers)
        return WrittenAnswers(generator(folder), answer_template, no_answer_texts)

    def classifier() -> PairClassifier | None:
        if name == _NO_FALLBACK:
            if nli_model:
                raise ConfigError(f"nli_model: {name} asks no inference model; q2_f1 does.")
            return None
        if not nli_model:
            raise ConfigError(
                "nli_model: give the folder of a natural language inference model, which judges "
                f"responses without a valid question; {_NO_FALLBACK} needs none."
            )
        return pair_classifier(nli_model, check_classes=order, cut_policy=cut_policy)

    found_tagger, ask, answer, classify = all_of(
        lambda: load_tagger(tagger),
        lambda: generator(model),
        answerer,
        classifier,
    )
    asker = QuestionAsker(found_tagger, ask, answer, num_beams, question_template, personal)
    return Q2Scorer(name, asker, classify, order(classify.label_names) if classify else {})
