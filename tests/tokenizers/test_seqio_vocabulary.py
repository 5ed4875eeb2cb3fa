import copy
import pickle

import numpy as np
import pytest
import seqio
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers import seqio_vocabulary
from faith_jax.tokenizers.vocabularies import load_vocabulary, tasks_use, tokenizer_of
from tests.tokenizers import published_tokenizers
from tests.tokenizers.test_vocabularies import MODEL

SEQIO = seqio.SentencePieceVocabulary(str(MODEL), extra_ids=100)
OURS = load_vocabulary(str(MODEL), extra_ids=100)
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


def test_default_vocabulary_is_read_at_use():
    vocabulary = seqio.Feature(seqio_vocabulary.DefaultVocabulary(), add_eos=True).vocabulary
    copies = [vocabulary, copy.deepcopy(vocabulary), pickle.loads(pickle.dumps(vocabulary))]
    assert (vocabulary.vocab_size, vocabulary.extra_ids) == (4196, 100)
    assert vocabulary == SEQIO
    with tasks_use(load_vocabulary("english_4096", extra_ids=3)):
        assert [(c.vocab_size, c.extra_ids) for c in copies] == 3 * [(4099, 3)]
        assert all(c == vocabulary for c in copies)
        assert vocabulary.encode_tf(tf.constant("<extra_id_0>")).numpy().tolist() == [4098]
        assert vocabulary.decode([4098]) == "<extra_id_0>"
        assert vocabulary.decode_tf(tf.constant([4098])).numpy().decode() == "<extra_id_0>"
        assert vocabulary != SEQIO
        assert str(MODEL) in str(vocabulary)


def test_default_vocabulary_for_t5x_sets_what_tasks_use():
    registered = seqio_vocabulary.DefaultVocabulary()
    with tasks_use(None):
        vocabulary = seqio_vocabulary.default_vocabulary(str(MODEL), extra_ids=7)
        assert vocabulary == registered  # T5X compares a task's vocabulary with the model's
        assert registered.vocab_size == 4103
        with pytest.raises(ConfigError, match="no_such"):
            seqio_vocabulary.default_vocabulary("no_such.model")
        assert registered.vocab_size == 4103


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Returns published folders by family."""
    built = {family: tmp_path_factory.mktemp(family) for family in ("gpt2", "bart", "gemma")}
    for family, folder in built.items():
        published_tokenizers.FAMILIES[family](folder)
    return built


@pytest.mark.parametrize("family", ["gpt2", "bart", "gemma"])
def test_seqio_view_of_a_published_tokenizer_agrees_with_it(family, folders):
    plain = load_vocabulary(folders[family])
    view = seqio_vocabulary.TokenizerVocabulary(plain)
    assert (view.vocab_size, view.eos_id, view.bos_id) == (
        plain.vocab_size,
        plain.eos_id,
        plain.bos_id,
    )
    assert view.unk_id == plain.unk_id
    assert view.pad_id == (plain.pad_id or 0)
    for text in TEXTS:
        ids = plain.encode(text)
        assert view.encode(text) == ids
        assert view.encode_tf(tf.constant(text)).numpy().tolist() == ids
        assert view.decode(ids) == plain.decode(ids)
        assert view.decode_tf(tf.constant(ids, tf.int32)).numpy().decode() == plain.decode(ids)
    many = view.encode_tf(tf.constant(TEXTS))
    assert many.to_list() == [plain.encode(text) for text in TEXTS]
    decoded = [text.decode() for text in view.decode_tf(many).numpy()]
    assert decoded == [plain.decode(plain.encode(text)) for text in TEXTS]
    assert view.encode_tf(tf.constant([], tf.string)).to_list() == []


def test_seqio_view_decodes_up_to_the_end_and_beyond_the_vocabulary(folders):
    view = seqio_vocabulary.TokenizerVocabulary(load_vocabulary(folders["gpt2"]))
    ids = view.encode("tea")
    # GPT-2's unknown and end tokens are the same: ids of padded embeddings must not end the text.
    rows = np.array([[10_000, *ids, 0, 5], [-1, *ids, -1, -1]], np.int32)
    assert [text.decode() for text in view.decode_tf(rows).numpy()] == ["tea", "tea"]
    assert view.decode(rows[0]) == view.decode(tf.constant(rows[0])) == "tea"


def test_the_separator_ends_texts_where_nothing_else_does(tmp_path):
    published_tokenizers.FAMILIES["bert"](tmp_path)
    view = seqio_vocabulary.TokenizerVocabulary(load_vocabulary(tmp_path))
    assert (view.ours.eos_id, view.eos_id) == (None, view.ours.sep_id)


@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_default_vocabulary_may_be_a_published_tokenizer(family, folders):
    vocabulary, plain = seqio_vocabulary.DefaultVocabulary(), load_vocabulary(folders[family])
    with tasks_use(plain):
        assert (vocabulary.vocab_size, vocabulary.extra_ids) == (plain.vocab_size, 0)
        assert (vocabulary.eos_id, vocabulary.unk_id) == (plain.eos_id, plain.unk_id)
        assert vocabulary.tokenizer is plain.tokenizer
        assert vocabulary == seqio_vocabulary.TokenizerVocabulary(plain)
        assert vocabulary != SEQIO
        assert copy.deepcopy(vocabulary) == pickle.loads(pickle.dumps(vocabulary)) == vocabulary
        assert str(folders[family]) in str(vocabulary)
        features = {"targets": seqio.Feature(vocabulary, add_eos=True)}
        texts = ["The tea.", "He skates on the lake."]
        dataset = tf.data.Dataset.from_tensor_slices({"targets": texts})
        dataset = seqio.preprocessors.tokenize(dataset, features, copy_pretokenized=False)
        dataset = seqio.preprocessors.append_eos(dataset, features)
        targets = [row["targets"].tolist() for row in dataset.as_numpy_iterator()]
    assert targets == [[*plain.encode(text), plain.eos_id] for text in texts]
    assert vocabulary == SEQIO


def test_our_tokenizer_of_a_tasks_vocabulary(folders):
    bart = load_vocabulary(folders["bart"])
    assert tokenizer_of(seqio_vocabulary.TokenizerVocabulary(bart)) is bart
    assert tokenizer_of(bart) is bart
    assert tokenizer_of(seqio_vocabulary.DefaultVocabulary()) == load_vocabulary()
    assert tokenizer_of(SEQIO) == OURS
    vocabularies = [seqio.ByteVocabulary(), seqio.SentencePieceVocabulary("/no/such/a.model")]
    assert [tokenizer_of(vocabulary) for vocabulary in vocabularies] == vocabularies


def test_seqio_views_compare_by_file(folders):
    views = [
        seqio_vocabulary.TokenizerVocabulary(load_vocabulary(folders[family]))
        for family in ("gpt2", "gpt2", "bart")
    ]
    assert views[0] == views[1] == pickle.loads(pickle.dumps(views[0]))
    assert views[0] != views[2]
    assert views[0] != SEQIO
    assert len(set(views)) == 2
