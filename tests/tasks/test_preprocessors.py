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
def test_templates_get_texts_and_lists_as_they_are(knowledge, history, last):
    text = preprocessors.apply_template(
        templates.dialogue_inputs,
        tf.constant(knowledge),
        tf.constant(history, tf.string, shape=[len(history)]),
        last=last,
    )
    assert text.shape == ()
    assert text.numpy().decode() == templates.dialogue_inputs(knowledge, history, last)
    for value in (knowledge, knowledge + "\0", b"not UTF-8: \xff"):
        same = preprocessors.apply_template(lambda text: text, tf.constant(value))
        assert same.numpy() == (value if isinstance(value, bytes) else value.encode())


def test_speakers_alternate_back_from_the_seeker():
    inputs = templates.dialogue_inputs("K.", ["a", "b", "c", "d"])
    assert inputs == "<knowledge> K. <seeker> b <wizard> c <seeker> d"
    assert templates.dialogue_inputs("", ["a"]) == "<seeker> a"
    assert templates.dialogue_inputs("K.", []) == "<knowledge> K."


@pytest.mark.parametrize(("label", "text"), [(0, "no"), (1, "yes")])
def test_label_texts(label, text):
    label_text = preprocessors.label_text(tf.constant(label, tf.int64), {0: "no", 1: "yes"})
    assert label_text.numpy().decode() == text


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
