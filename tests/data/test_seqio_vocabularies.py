import copy
import pickle

import pytest
import seqio
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.data import seqio_vocabularies, vocabularies
from faith_jax.errors import ConfigError
from tests.data.test_vocabularies import MODEL

SEQIO = seqio.SentencePieceVocabulary(str(MODEL), extra_ids=100)
OURS = vocabularies.load_vocabulary(str(MODEL), extra_ids=100)
TEXTS = [
    "",
    " ",
    "  two  spaces  ",
    "{query: Is tea better?} {pro: It is calming.} {con: }",
    "<extra_id_0> and <extra_id_99>ly, not jel<extra_id_1>",
    "<extra_id_100> </s> <pad> <unk> <0x41>",
    "tab\tline\nno-break\u00a0space",
    "naïve café — “quoted” ﬁ ² ½ 中文 😀 \u202e",
]


@pytest.mark.parametrize("text", TEXTS)
def test_ours_agrees_with_seqio(text):
    ids = OURS.encode(text)
    assert ids == SEQIO.encode(text) == SEQIO.encode_tf(tf.constant(text)).numpy().tolist()
    assert OURS.decode(ids) == SEQIO.decode(ids)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_ours_agrees_with_seqio_on_any_text(text):
    ids = OURS.encode(text)
    assert ids == SEQIO.encode(text)
    assert OURS.decode(ids) == SEQIO.decode(ids)


@given(st.lists(st.integers(0, 4_300), max_size=20))
def test_any_ids_decode_as_in_seqio(ids):
    assert OURS.decode(ids) == SEQIO.decode(ids)


def test_special_ids_agree_with_seqio():
    for name in ("vocab_size", "pad_id", "eos_id", "unk_id", "extra_ids"):
        assert getattr(OURS, name) == getattr(SEQIO, name), name


def test_default_vocabulary_is_read_at_use(restore_default):
    registered = seqio.Feature(seqio_vocabularies.DefaultVocabulary(), add_eos=True)
    vocabulary = registered.vocabulary
    assert (vocabulary.vocab_size, vocabulary.extra_ids) == (4196, 100)
    assert vocabulary == SEQIO
    vocabularies.set_default_vocabulary("english_4096", extra_ids=3)
    assert (vocabulary.vocab_size, vocabulary.extra_ids) == (4099, 3)
    assert vocabulary.encode_tf(tf.constant("<extra_id_0>")).numpy().tolist() == [4098]
    assert vocabulary.decode([4098]) == "<extra_id_0>"
    assert vocabulary.decode_tf(tf.constant([4098])).numpy().decode() == "<extra_id_0>"
    assert vocabulary != SEQIO
    assert str(MODEL) in str(vocabulary)


def test_copies_follow_the_setting(restore_default):
    vocabulary = seqio_vocabularies.DefaultVocabulary()
    copies = [copy.deepcopy(vocabulary), pickle.loads(pickle.dumps(vocabulary))]
    vocabularies.set_default_vocabulary("english_4096", extra_ids=3)
    assert [c.vocab_size for c in copies] == [4099, 4099]
    assert all(c == vocabulary for c in copies)


def test_a_missing_file_is_reported_before_seqio_meets_it(restore_default, tmp_path):
    model = tmp_path / "spiece.model"
    with pytest.raises(ConfigError, match="there is no such file"):
        vocabularies.set_default_vocabulary(model)
    assert seqio_vocabularies.DefaultVocabulary().vocab_size == 4196


def test_default_vocabulary_for_t5x_sets_what_tasks_use(restore_default):
    registered = seqio_vocabularies.DefaultVocabulary()
    vocabulary = seqio_vocabularies.default_vocabulary(str(MODEL), extra_ids=7)
    assert vocabulary == registered  # T5X compares a task's vocabulary with the model's
    assert registered.vocab_size == 4103
    with pytest.raises(ConfigError, match="no_such"):
        seqio_vocabularies.default_vocabulary("no_such.model")
