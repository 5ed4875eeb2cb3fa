import hashlib
import pickle
import string
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers import vocabularies
from tests.paths import REPOSITORY
from tests.tokenizers.special_tokens import encode_row
from tests.tokenizers.test_vocabularies import MODEL


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.load_vocabulary()


def test_embedded_vocabulary_has_t5_ids(vocabulary):
    assert vocabulary.vocab_size == 4096 + 100
    assert (vocabulary.pad_id, vocabulary.eos_id, vocabulary.unk_id) == (0, 1, 2)
    # The extra ids follow the pieces, in descending order.
    assert vocabulary.encode("<extra_id_99>") == [4096]
    assert vocabulary.encode("a <extra_id_0> b")[1:-1] == [4195]
    assert vocabulary.decode([4196 - 1]) == "<extra_id_0>"


def test_note_states_the_hash_of_the_model():
    note = (MODEL.parent / "english_4096.md").read_text(encoding="utf-8")
    assert hashlib.sha256(MODEL.read_bytes()).hexdigest() in note


def test_each_printable_ascii_character_is_a_piece(vocabulary):
    for character in string.ascii_letters + string.digits + string.punctuation:
        assert vocabulary.tokenizer.piece_to_id(character) > 258, character


def test_braces_colons_and_digits_stand_alone(vocabulary):
    pieces = vocabulary.tokenizer.encode("{pro: in 1995: x}", out_type=str)
    assert [p for p in pieces if set(p) & set("{}:0123456789")] == list("{:1995:}")


def test_characters_outside_the_vocabulary_become_bytes(vocabulary):
    pieces = vocabulary.tokenizer.encode("😀", out_type=str)
    assert pieces == ["▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]
    assert vocabulary.unk_id not in vocabulary.encode("\x07 ﬁ ² 中文 \u202e 😀")


# Cs are lone surrogates (no text), ▁ is SentencePiece's own mark of a space.
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=40))
def test_all_but_white_space_survives(text):
    vocabulary = vocabularies.load_vocabulary()
    assert vocabulary.decode(vocabulary.encode(text)) == " ".join(text.split())


def test_decoding_stops_at_the_first_end_and_skips_padding(vocabulary):
    ids = vocabulary.encode("Views differ.")
    assert vocabulary.decode([*ids, 1, *ids]) == "Views differ."
    assert vocabulary.decode(np.array([*ids, 0, 0], np.int32)) == "Views differ."
    assert vocabulary.decode([]) == ""
    assert vocabulary.encode("") == []


def test_ids_behind_the_vocabulary_are_unknown(vocabulary):
    # Embedding tables are padded: T5 has 32,128 rows for 32,100 ids.
    assert vocabulary.decode([4196, 5000]) == vocabulary.decode([2, 2])


def test_equality_and_pickling(vocabulary):
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary
    assert vocabulary != vocabularies.load_vocabulary(extra_ids=5)
    assert len({vocabulary, vocabularies.load_vocabulary(str(MODEL))}) == 1


def test_foreign_id_conventions_are_refused(tmp_path):
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(MODEL.read_bytes())
    model.trainer_spec.pad_piece = "<elsewhere>"
    (tmp_path / "llama.model").write_bytes(model.SerializeToString())
    with pytest.raises(ConfigError, match="expected padding id 0"):
        vocabularies.load_vocabulary(tmp_path / "llama.model")


def test_special_tokens_are_those_of_t5(vocabulary):
    a, b = vocabulary.encode("Is tea good?"), vocabulary.encode("Yes.")
    assert (vocabulary.bos_id, vocabulary.cls_id, vocabulary.sep_id) == (None, None, None)
    assert encode_row(vocabulary, "Is tea good?") == [*a, 1]
    assert encode_row(vocabulary, "Is tea good?", "Yes.") == [*a, 1, *b, 1]
    assert vocabulary.add_special_tokens(a[:2], []) == [*a[:2], 1, 1]


def test_offsets_by_hand(vocabulary):
    # A space mark, "te", "a", a space, "ca", "f", "é", a space, four bytes, an extra id.
    spans = [(0, 0), (0, 2), (2, 3), (3, 4), (4, 6), (6, 7), (7, 8), (8, 9), *4 * [(9, 10)]]
    ids, offsets = vocabulary.encode_with_offsets("tea café 😀 <extra_id_0>")
    assert offsets == [*spans, (10, 23)]
    assert ids == vocabulary.encode("tea café 😀 <extra_id_0>")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_offsets_lie_in_order_within_the_text(text):
    vocabulary = vocabularies.load_vocabulary()
    ids, spans = vocabulary.encode_with_offsets(text)
    assert ids == vocabulary.encode(text)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [s for s, _ in spans] == sorted(s for s, _ in spans)


def test_warnings_of_sentencepiece_do_not_end_the_process():
    """Warnings during the library's import would crash Python if they were errors."""
    code = "import faith_jax.tokenizers.sentencepiece"
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=REPOSITORY, check=True)
