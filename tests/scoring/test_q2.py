import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from faith_jax.core.cutting import CutTokens, Kind
from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import NliLabel
from faith_jax.datasets.augmentation.tagging import Entity, NounChunk, TaggedText
from faith_jax.inference.generated_texts import Prompt, TextGenerator
from faith_jax.scoring import q2
from faith_jax.scoring.registry import load_scorer, scorer_card
from tests.scoring import tiny_models

NLI = {NliLabel.CONTRADICTION: 0, NliLabel.ENTAILMENT: 1, NliLabel.NEUTRAL: 2}
KNOWLEDGE = "Tea came to Lisbon by ship. It is drunk hot in the high hills."
RESPONSE = "Tea came to Porto, and I drink it in the hills with my dog."


class Tagger:
    """Porto is an entity; Tea, Porto, I, the hills and my dog are noun chunks."""

    def tag(self, texts):
        tagged = []
        for text in texts:
            chunks = [c for c in ("Tea", "Porto", "I", "the hills", "my dog") if c in text]
            places = [(c, text.index(c), text.index(c) + len(c)) for c in chunks]
            entities = tuple(Entity(*p, "GPE") for p in places if p[0] == "Porto")
            tagged.append(TaggedText(text, (), entities, tuple(NounChunk(*p) for p in places)))
        return tagged


class Generator:
    """Answers questions from a table, others not at all. Counts its questions."""

    def __init__(self, table):
        self.table, self.asked, self.searches = table, [], []

    def __call__(self, prompts, num_beams=1, **search):
        texts = [prompt.text for prompt in prompts]
        self.asked += texts
        self.searches.append(search)
        cuts = [CutTokens({p.parts[0].kind: len(p.text) % 3}) for p in prompts]
        return [self.table.get(t, [""])[:num_beams] for t in texts], cuts


class Classifier:
    """Classifies pairs by a table, others as neutral. Keeps the pairs."""

    def __init__(self, table=None):
        self.table, self.asked = table or {}, []

    def __call__(self, pairs):
        self.asked += pairs
        cuts = [CutTokens({Kind.KNOWLEDGE: 9}) for _ in pairs]
        return np.eye(3)[[self.table.get(pair, 2) for pair in pairs]], cuts


def ask(answer, *questions):
    return q2.ASK.format(answer=answer, context=RESPONSE), list(questions)


def answer(question, context, *answers):
    return q2.ANSWER.format(question=question, context=context), list(answers)


QUESTIONS = dict(
    [
        # The first question is not answered by the span, the second is; the third comes too late.
        ask("Porto", "Who came?", "question: Where did tea come to?", "To which town?"),
        ask("Tea", "What came to Porto?"),
        ask("the hills", "Where do I drink it?", "Where is it drunk?"),
        ask("my dog", "With whom is it drunk?"),
    ]
)
ANSWERS = dict(
    [
        answer("Who came?", RESPONSE, "Tea"),
        answer("Where did tea come to?", RESPONSE, "Porto"),
        answer("To which town?", RESPONSE, "Porto"),
        answer("What came to Porto?", RESPONSE, "tea"),
        answer("Where do I drink it?", RESPONSE, "the hills"),
        answer("Where is it drunk?", RESPONSE, "In the hills!"),
        answer("With whom is it drunk?", RESPONSE, "unanswerable"),
        answer("Where did tea come to?", KNOWLEDGE, "Lisbon"),
        answer("What came to Porto?", KNOWLEDGE, "No answer"),
        answer("Where is it drunk?", KNOWLEDGE, "the high hills"),
    ]
)


def scorer_of(name, classify=None, personal=False, answers=ANSWERS):
    asker = q2.QuestionAsker(
        Tagger(),
        Generator(QUESTIONS),
        q2.WrittenAnswers(Generator(answers), q2.ANSWER, frozenset(q2.NO_ANSWERS)),
        3,
        q2.ASK,
        personal,
    )
    return q2.Q2Scorer(name, asker, classify, NLI), asker


def test_candidates_are_entities_then_other_noun_chunks_without_i():
    (text,) = Tagger().tag([RESPONSE])
    assert q2.answer_candidates(text) == ["Porto", "Tea", "the hills", "my dog"]
    twice = TaggedText("", (), (Entity("Rio", 0, 3, "GPE"),) * 2, (NounChunk("rio", 0, 3),) * 2)
    assert q2.answer_candidates(twice) == ["Rio", "Rio"]


@pytest.mark.parametrize(
    ("expected", "found", "value"),
    [
        ("the Hills", "hills.", 1.0),
        ("high hills", "hills", 2 / 3),
        ("a a b", "a b b", 2 / 3),  # "a" is an article
        ("x x y", "x y y", 2 / 3),
        ("hills", "", 0.0),
        ("the", "in", 0.0),
    ],
)
def test_answers_are_compared_by_words(expected, found, value):
    assert q2.answer_f1(expected, found) == pytest.approx(value)
    assert q2.answer_f1(found, expected) == pytest.approx(value)


def test_f1_is_the_mean_over_the_first_valid_question_of_each_span():
    scorer, asker = scorer_of("q2_f1", Classifier())
    (score,) = scorer.score([KNOWLEDGE], [RESPONSE])
    # Porto: Lisbon, 0; Tea: no answer, 0; the hills: 2/3; my dog: no valid question.
    assert score.value == pytest.approx((0 + 0 + 2 / 3) / 3)
    lengths = [len(q2.ANSWER.format(question=q, context=KNOWLEDGE)) % 3 for q in
               ("Where did tea come to?", "What came to Porto?", "Where is it drunk?")]  # fmt: skip
    assert score.cut["knowledge"] == max(lengths)
    sizes = [len(text) % 3 for text in (*QUESTIONS, *asker.answer.model.asked) if RESPONSE in text]
    assert score.cut["response"] == max(sizes)
    count = len(asker.answer.model.asked)
    assert scorer.score([KNOWLEDGE], [RESPONSE]) == [score]
    assert len(asker.answer.model.asked) == count  # remembered
    # As q-squared's code searches for questions.
    assert asker.ask.searches == [{"no_repeat_ngram": 3, "early_stopping": True}]
    assert asker.answer.model.searches == [{}] * len(asker.answer.model.searches)


def test_personal_questions_may_stay():
    scorer, asker = scorer_of("q2_f1_no_fallback", personal=True)
    scorer.score([KNOWLEDGE], [RESPONSE])
    prompt = q2.ANSWER.format(question="Where do I drink it?", context=KNOWLEDGE)
    assert prompt in asker.answer.model.asked  # it is the first valid one of the hills then


@pytest.mark.parametrize(("label", "value"), [(1, 1.0), (0, 0.0), (2, 2 / 3)])
def test_inference_decides_on_differing_answers(label, value):
    pair = ("Where is it drunk? the high hills.", "Where is it drunk? the hills.")
    towns = ("Where did tea come to? Lisbon.", "Where did tea come to? Porto.")
    scorer, _ = scorer_of("q2_nli", Classifier({pair: label, towns: 0}))
    (score,) = scorer.score([KNOWLEDGE], [RESPONSE])
    assert score.value == pytest.approx((0 + 0 + value) / 3)


@pytest.mark.parametrize(
    ("name", "label", "value"), [("q2_f1", 1, 1.0), ("q2_nli", 0, 0.0), ("q2_nli", 2, 0.5)]
)
def test_without_a_valid_question_inference_judges_the_whole(name, label, value):
    """Both in lower case, and the classifier is asked about nothing else."""
    classify = Classifier({(KNOWLEDGE.lower(), RESPONSE.lower()): label})
    scorer, _ = scorer_of(name, classify, answers={})
    (score,) = scorer.score([KNOWLEDGE], [RESPONSE])
    assert score.value == value
    assert score.cut["knowledge"] == 9  # of the inference model's premise
    assert classify.asked == [(KNOWLEDGE.lower(), RESPONSE.lower())]


def test_both_forms_are_of_the_same_rows():
    """One with valid questions, one without, and an empty one, which has no score in either."""
    rows = ([KNOWLEDGE] * 3, [RESPONSE, "Nothing of the kind.", " "])
    values = {}
    for name in ("q2_f1", "q2_nli", "q2_f1_no_fallback"):
        inference = None if name == "q2_f1_no_fallback" else Classifier()
        scores = scorer_of(name, inference)[0].score(*rows)
        values[name] = [score.value for score in scores]
    f1 = (0 + 0 + 2 / 3) / 3
    np.testing.assert_allclose(values["q2_f1"], [f1, 0.5, math.nan])
    np.testing.assert_allclose(values["q2_nli"], [f1, 0.5, math.nan])
    np.testing.assert_allclose(values["q2_f1_no_fallback"], [f1, math.nan, math.nan])


@pytest.fixture(scope="module")
def generator():
    return TextGenerator.open("mini", 12, {"max_length": 64})


def test_beams_come_best_first(generator):
    ((first, *rest),), _ = generator([Prompt("copy: Tea is a leaf.")], num_beams=3)
    # What the search is asked for besides reaches it.
    with pytest.raises(ConfigError, match=r"no_repeat_ngram: expected .*, got -1"):
        generator([Prompt("copy: Tea is a leaf.")], num_beams=3, no_repeat_ngram=-1)
    assert len({first, *rest}) == 3
    assert "Tea is a leaf" in first


def test_the_question_stays_wherever_the_template_has_it():
    long = "The harbour opens early. " * 60
    for template in (q2.ANSWER, "context: {context} question: {question}"):
        prompt = q2._fill_template(template, long, Kind.KNOWLEDGE, question="When does it open?")
        model = TextGenerator.open("mini", 12, {"max_length": 48})
        ids, cut = model.encode(prompt)
        assert len(ids) == 48
        assert "When does it open?" in model.reader.tokenizer.decode(ids)
        assert set(cut) == {Kind.KNOWLEDGE}


@pytest.mark.slow
def test_the_scorer_runs_on_models(tmp_path):
    names = ("contradiction", "neutral", "entailment")
    nli = tiny_models.write_model(tmp_path / "nli", "deberta_nli", label_names=names)
    options = {"model": "mini", "tagger": "rules", "num_beams": 2, "max_question_length": 8}
    scorer = load_scorer("q2_nli", nli_model=nli, **options)
    (score,) = scorer.score(["Tea came to Lisbon in 1662."], ["It came to Porto in 1663."])
    assert 0 <= score.value <= 1
    plain = load_scorer("q2_f1_no_fallback", **options)
    (score,) = plain.score(["Tea came to Lisbon."], ["It came to Porto in 1663."])
    assert math.isnan(score.value) or 0 <= score.value <= 1
    assert json.loads(json.dumps(scorer_card("q2_f1").low)) == 0.0


def test_a_reader_of_spans_answers_too(tmp_path, monkeypatch):
    folder = tiny_models.write_span_reader(tmp_path / "reader")
    options = {"model": "mini", "answer_model": folder, "tagger": "rules"}
    scorer = load_scorer("q2_f1_no_fallback", max_question_length=8, **options)
    asker = scorer._asker
    # It answers all questions with the first token of the text, here of "Tea".
    (first,), _ = asker.answer([q2.TextQuestion("What?", RESPONSE)])
    assert first
    assert "Tea".startswith(first)
    text = TaggedText(RESPONSE, (), (Entity(first, 0, len(first), "FOOD"),), ())
    monkeypatch.setattr(asker, "tagger", SimpleNamespace(tag=lambda texts: [text] * len(texts)))
    table = {q2.ASK.format(answer=first, context=RESPONSE): ["What came?"]}
    monkeypatch.setattr(asker, "ask", Generator(table))
    scores = scorer.score([KNOWLEDGE, f"Lisbon. {KNOWLEDGE}"], [RESPONSE, RESPONSE])
    assert [score.value for score in scores] == [1.0, 0.0]
    with pytest.raises(ConfigError, match=r"answer_template: model .* reads no template"):
        load_scorer("q2_f1_no_fallback", answer_template="{question} {context} ?", **options)


def test_all_that_is_wrong_with_the_models_is_said_at_once(tmp_path):
    wrong = {"model": tmp_path / "ask", "answer_model": tmp_path / "answer", "nli_model": "nowhere"}
    with pytest.raises(ConfigError) as caught:
        load_scorer("q2_f1", tagger="x", **{name: str(path) for name, path in wrong.items()})
    parts = str(caught.value).split(" And: ")
    assert [str(path) in part for path, part in zip(wrong.values(), parts[1:], strict=True)] == [
        True
    ] * 3
    assert parts[0].startswith("q2_f1: There is no tagger 'x'")
    with pytest.raises(
        ConfigError, match=r"q2_nli: needs a model: .* And: nli_model: give the fol"
    ):
        load_scorer("q2_nli", tagger="rules")


def test_inference_needs_a_model_of_three_classes(tmp_path):
    for name in ("q2_f1", "q2_nli"):
        with pytest.raises(ConfigError, match=rf"{name}: nli_model: give the folder .* none"):
            load_scorer(name, model="mini", tagger="rules")
    two = tiny_models.write_model(tmp_path / "two", "roberta", label_names=("no", "yes"))
    with pytest.raises(ConfigError, match=r"the model has 2 classes"):
        load_scorer("q2_nli", model="mini", tagger="rules", nli_model=two)
    with pytest.raises(ConfigError, match=r"expected an encoder-decoder|encoder-only"):
        load_scorer("q2_f1_no_fallback", model=two, tagger="rules")
