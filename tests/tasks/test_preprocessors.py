import functools

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faith_jax.core import templates
from faith_jax.core.templates import Notation
from faith_jax.tasks import preprocessors
from faith_jax.tokenizers.vocabularies import load_vocabulary, tasks_use
from tests.tokenizers import without_braces

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ODD = st.sampled_from(["", " \t\n", "<seeker> {x}", "a\u2003b  ", "naïve 😀", "nul\x00byte"])
SETTINGS = settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SETTINGS
@given(TEXT | ODD, st.lists(TEXT | ODD, max_size=5), st.integers(0, 4))
def test_dialogue_inputs_agree_with_the_template(in_tensorflow, knowledge, history, last):
    in_tasks = functools.partial(preprocessors.dialogue_inputs, last=last)
    expected = templates.dialogue_inputs(knowledge, history, last)
    assert in_tensorflow(in_tasks, knowledge, history) == expected


@SETTINGS
@given(st.lists(st.sampled_from(["<entailed>", "<low-prec>"]), max_size=3), TEXT | ODD)
def test_controlled_inputs_agree_with_the_template(in_tensorflow, tokens, knowledge):
    for history in ([], ["Hi.", "Oh?"]):
        expected = templates.controlled_dialogue_inputs(tokens, knowledge, history)
        found = in_tensorflow(preprocessors.controlled_dialogue_inputs, tokens, knowledge, history)
        assert found == expected


@SETTINGS
@given(TEXT | ODD, TEXT | ODD, TEXT | ODD)
def test_classifier_inputs_agree_with_the_templates(in_tensorflow, knowledge, message, response):
    expected = templates.attribution_inputs(knowledge, message, response)
    assert in_tensorflow(preprocessors.attribution_inputs, knowledge, message, response) == expected
    expected = templates.knowledge_response_inputs(knowledge, response)
    assert in_tensorflow(preprocessors.knowledge_response_inputs, knowledge, response) == expected


@SETTINGS
@given(st.lists(TEXT | ODD, max_size=4), TEXT | ODD, st.lists(TEXT | ODD, max_size=7))
def test_dialfact_inputs_agree_with_the_templates(in_tensorflow, context, claim, sentences):
    titles = [f"T {i}" for i in range(len(sentences))]
    expected = templates.dialfact_inputs(context, claim, titles, sentences)
    found = in_tensorflow(preprocessors.dialfact_inputs, context, claim, titles, sentences)
    assert found == expected
    expected = templates.dialfact_pair(context, claim, titles, sentences)
    for place, text in enumerate(expected):
        part = lambda *given, place=place: preprocessors.dialfact_pair(*given)[place]  # noqa: E731
        assert in_tensorflow(part, context, claim, titles, sentences) == text
    expected = templates.dense_query(context, claim)
    assert in_tensorflow(preprocessors.dense_query, context, claim) == expected
    expected = templates.dialfact_claim_inputs(context, claim)
    assert in_tensorflow(preprocessors.dialfact_claim_inputs, context, claim) == expected
    expected = templates.nli_inputs(claim, " ".join(context))
    assert in_tensorflow(preprocessors.nli_inputs, claim, " ".join(context)) == expected


def test_speakers_alternate_back_from_the_seeker():
    found = templates.dialogue_inputs("K.", ["a", "b", "c", "d"])
    assert found == "<knowledge> K. <seeker> b <wizard> c <seeker> d"
    assert templates.dialogue_inputs("", ["a"]) == "<seeker> a"
    assert templates.dialogue_inputs("K.", []) == "<knowledge> K."


@pytest.mark.parametrize(("label", "text"), [(0, "no"), (1, "yes")])
def test_label_texts(label, text):
    found = preprocessors.label_text(tf.constant(label, tf.int64), {0: "no", 1: "yes"})
    assert found.numpy().decode() == text


@pytest.fixture(scope="module")
def without_brace_vocabulary(tmp_path_factory):
    return load_vocabulary(without_braces.write(tmp_path_factory.mktemp("t5")))


@settings(SETTINGS, max_examples=20)
@given(st.lists(TEXT | ODD, min_size=3, max_size=3), st.lists(TEXT | ODD, max_size=3))
def test_tasks_write_what_python_writes(without_brace_vocabulary, values, turns):
    """Inputs and targets of each format, and texts of none, in the vocabulary's delimiters."""
    notation = without_brace_vocabulary.notation
    assert notation == Notation("[]", "[]")
    texts = [
        templates.npov_classifier_inputs(*values[:2], values[2:], ["[a] <b>"]),
        templates.npov_generate_targets(values[0]),
        templates.dialogue_inputs(values[0], turns),
        "<extra_id_9> <extra_id_1> " + templates.dialogue_inputs(values[1], ["Hi!"]),
        templates.controlled_dialogue_inputs(["<entailed>"], values[2], ["Hi!"]),
        templates.dialfact_claim_inputs(turns, values[0]),
        templates.nli_inputs(values[0], "{query: [a]}"),
        values[0],
    ]
    with tasks_use(without_brace_vocabulary):
        examples = tf.data.Dataset.from_tensor_slices({"inputs": texts, "targets": texts[::-1]})
        written = list(preprocessors.write_notation(examples).as_numpy_iterator())
    assert [row["inputs"].decode() for row in written] == [*map(notation.to_model_notation, texts)]
    assert [row["targets"].decode() for row in written] == [
        *map(notation.to_model_notation, texts[::-1])
    ]
