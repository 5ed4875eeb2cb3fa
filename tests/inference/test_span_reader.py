import jax
import numpy as np
import pytest

from faith_jax.core.cutting import Kind
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.inference import load_model
from faith_jax.inference.span_reader import SpanReader, TextQuestion, best_spans
from tests.checkpoints import family_folders
from tests.scoring import tiny_models
from tests.tokenizers.special_tokens import encode_row

spans = jax.jit(best_spans, static_argnums=3)
TEXT = "The bridge over the river was closed for repairs in 1994."
QUESTIONS = [
    TextQuestion("Which bridge?", TEXT),
    TextQuestion("tea", "Tea is better than coffee"),
    TextQuestion("Which bridge?", "", Kind.RESPONSE),
    TextQuestion("", TEXT),
]


def brute_force(logits, first, behind, longest):
    """Returns the best (sum, start, end) of one row."""
    spans = [
        (logits[i, 0] + logits[j, 1], i, j)
        for i in range(first, behind)
        for j in range(i, min(i + longest, behind))
    ]
    return max(spans, key=lambda span: (span[0], -span[1], -span[2]))


@pytest.mark.parametrize("longest", [1, 3, 20])
def test_the_best_span_is_that_of_all_spans(longest):
    rng = np.random.default_rng(0)
    logits = rng.integers(-2, 3, (40, 9, 2)).astype(np.float32)  # with ties
    first = rng.integers(1, 8, 40).astype(np.int32)
    behind = np.minimum(first + rng.integers(1, 8, 40), 9).astype(np.int32)
    best = spans(logits, first, behind, longest)
    rows = zip(logits, first, behind, strict=True)
    expected = [brute_force(*row, longest) for row in rows]
    np.testing.assert_array_equal(
        np.stack([best.score, best.start, best.end], axis=1), np.array(expected)
    )
    np.testing.assert_array_equal(best.null, logits[:, 0].sum(axis=1))


SQUAD = [case for case in family_folders.cases() if case.endswith("_squad")]


@pytest.mark.parametrize("case", SQUAD)
def test_spans_are_those_of_transformers(case):
    """Its choice among the second half of each row, and whether "no answer" is better."""
    expected = family_folders.expected_of(case)
    behind = expected["input_mask"].sum(axis=1).astype(np.int32)
    best = spans(expected["span_logits"], behind // 2, behind, 3)
    none = np.asarray(best.null > best.score)
    np.testing.assert_array_equal(
        np.stack([best.start, best.end, none], axis=1), expected["best_spans"]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("squad") / "bert"
    return tiny_models.write_model(path, "bert", span_head=True, max_positions=128)


@pytest.fixture(scope="module")
def reader(folder):
    return SpanReader.open(folder, 3, {"max_length": 64})


def by_hand(reader, model, entry):
    """Answers one question with the model's logits."""
    tokens = reader.tokenizer
    question = encode_row(tokens, entry.question)
    text, offsets = tokens.encode_with_offsets(entry.text)
    if not text:
        return ""
    row = [*question, *text, tokens.sep_id]
    types = [0] * len(question) + [1] * (len(text) + 1)
    (logits,) = model.span_logits([row], [types])
    score, start, end = brute_force(logits, len(question), len(row) - 1, reader.longest)
    if logits[0].sum() > score:
        return ""
    return entry.text[offsets[start - len(question)][0] : offsets[end - len(question)][1]]


def test_answers_are_spans_of_the_texts(reader, folder):
    model = load_model(folder)
    answers, cut = reader([*QUESTIONS, QUESTIONS[0]])
    assert answers == [by_hand(reader, model, question) for question in [*QUESTIONS, QUESTIONS[0]]]
    assert answers[2] == ""
    assert cut == [{}] * 5
    assert reader.to_readable(QUESTIONS[1], "it")[0].startswith("[CLS]")


def test_equal_sums_are_an_answer_not_none(tmp_path):
    reader = SpanReader.open(tiny_models.write_span_reader(tmp_path / "first"), 3, {})
    first = [TEXT[slice(*reader.tokenizer.encode_with_offsets(TEXT)[1][0])], "Tea"]
    answers, _ = reader(QUESTIONS)
    assert (answers[0], answers[2], answers[3]) == (first[0], "", first[0])
    assert first[1].startswith(answers[1])


def test_the_text_is_cut_but_not_the_question(reader):
    long = TextQuestion("Which bridge?", f"{TEXT} " * 9)
    row = reader.encode(long)
    assert len(row.ids) == 64
    tokens = reader.tokenizer
    question = encode_row(tokens, long.question)
    assert row.ids[: len(question)] == question
    assert (row.start, row.second) == (len(question), len(question))
    kept = 64 - len(question) - 1
    assert len(row.offsets) == kept
    assert row.cut == {Kind.KNOWLEDGE: len(tokens.encode(long.text)) - kept}
    (answer,), (cut,) = reader([long])
    assert answer in long.text
    assert cut == row.cut
    with pytest.raises(InputError, match="a question: max_length = 64"):
        reader.encode(TextQuestion("Which bridge? " * 40, TEXT))


def test_other_models_are_refused(tmp_path, folder):
    nli = tiny_models.write_model(tmp_path / "nli", "bert", label_names=("a", "b"))
    with pytest.raises(ConfigError, match="expected a model of extractive question answering"):
        SpanReader.open(nli, 3, {})
    with pytest.raises(InputError, match="no classification head"):
        load_model(folder).classify([[2, 5, 3]])
