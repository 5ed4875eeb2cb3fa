import json
import pickle

import pytest

from faith_jax.checkpoints.checkpoint import Checkpoint
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.core.errors import ConfigError
from faith_jax.runs import convert
from faith_jax.tokenizers.carried import (
    carried_vocabulary,
    check_vocabulary,
    is_same_vocabulary,
    keep_vocabulary,
)
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.checkpoints.synthetic import tiny_params
from tests.models.tiny import TINY
from tests.tokenizers.special_tokens import encode_row

CONFIG = TINY.replace(vocab_size=384)
TEXT = "{é <x>\n😀"


def byt5(folder, tokenizer_config=None, **config):
    """Writes the JSON files of a ByT5's folder."""
    folder.mkdir(exist_ok=True)
    fields = {"model_type": "t5", "vocab_size": 384} | config
    (folder / "config.json").write_text(json.dumps(fields))
    if tokenizer_config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    return folder


@pytest.mark.parametrize(
    ("tokenizer_config", "config"),
    [
        ({"tokenizer_class": "ByT5Tokenizer"}, {}),
        ({"extra_ids": 125, "eos_token": "</s>"}, {}),  # of 384 ids, and no file of pieces
        (None, {"tokenizer_class": "ByT5Tokenizer"}),
    ],
)
def test_no_file_is_needed(tmp_path, tokenizer_config, config):
    vocabulary = load_vocabulary(byt5(tmp_path / "byt5", tokenizer_config, **config))
    assert vocabulary.vocab_size == 384
    assert (vocabulary.pad_id, vocabulary.eos_id, vocabulary.unk_id) == (0, 1, 2)
    ids = vocabulary.encode(TEXT)
    assert ids == [byte + 3 for byte in TEXT.encode()]
    assert vocabulary.decode([*ids, 1, 70]) == TEXT
    assert vocabulary.decode([0, -1, 300, *ids[:2], 383]) == "{"  # half a character
    assert vocabulary.encode_with_offsets("aé")[1] == [(0, 1), (1, 2), (1, 2)]
    assert encode_row(vocabulary, "a", "b") == [100, 1, 101, 1]
    assert [vocabulary.piece_text(i) for i in (1, 100, 200, 300)] == ["</s>", "a", "<0xC5>", "#300"]
    assert pickle.loads(pickle.dumps(vocabulary)).encode(TEXT) == ids


def test_seqio_has_the_same_ids(tmp_path):
    seqio = pytest.importorskip("seqio")
    from faith_jax.tokenizers.seqio_vocabulary import TokenizerVocabulary

    ours = load_vocabulary(byt5(tmp_path / "byt5", {"tokenizer_class": "ByT5Tokenizer"}))
    reference, view = seqio.ByteVocabulary(extra_ids=125), TokenizerVocabulary(ours)
    assert ours.vocab_size == view.vocab_size == reference.vocab_size == 384
    ids = reference.encode(TEXT)
    assert ids == ours.encode(TEXT) == view.encode_tf(TEXT).numpy().tolist()
    assert ours.decode(ids) == reference.decode(ids) == TEXT


def test_tokens_that_the_files_add(tmp_path):
    fields = {"tokenizer_class": "ByT5Tokenizer", "added_tokens_decoder": {}}
    tokens = {0: "<pad>", 1: "</s>", 2: "<unk>", 259: "<extra_id_0>", 384: "<knowledge>"}
    fields["added_tokens_decoder"] = {str(i): {"content": text} for i, text in tokens.items()}
    vocabulary = load_vocabulary(byt5(tmp_path / "byt5", fields))
    assert vocabulary.vocab_size == 385
    text = "a<knowledge>b <extra_id_0>"
    ids = vocabulary.encode(text)
    assert ids == [100, 384, 101, 35, 259]
    assert vocabulary.decode(ids) == text
    (tmp_path / "run").mkdir()
    keep_vocabulary(vocabulary, tmp_path / "run")
    assert load_vocabulary(tmp_path / "run").encode(text) == ids
    fields["added_tokens_decoder"]["384"]["content"] = "<extra_id_0>"
    with pytest.raises(ConfigError, match=r"'<extra_id_0>' has the id 384 .* but 259 in"):
        load_vocabulary(byt5(tmp_path / "other", fields))


def test_a_checkpoint_carries_it(tmp_path):
    folder = tmp_path / "byt5"
    write_huggingface(Checkpoint(CONFIG, tiny_params(CONFIG)), folder)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    vocabulary = carried_vocabulary(folder)
    assert check_vocabulary(CONFIG, vocabulary, "ByT5", True, folder) == 0
    convert.import_checkpoint(str(folder), str(tmp_path / "ours"))
    kept = carried_vocabulary(tmp_path / "ours")
    assert is_same_vocabulary(kept, vocabulary)
    assert not is_same_vocabulary(load_vocabulary(), kept)
    assert not is_same_vocabulary(kept, load_vocabulary())


@pytest.mark.parametrize(
    ("tokenizer_config", "config"),
    [
        (None, {}),
        ({}, {"vocab_size": 400}),
        ({"tokenizer_class": "T5Tokenizer"}, {}),
        ({"extra_ids": 100}, {"model_type": "bart"}),
    ],
)
def test_folders_of_other_models_have_none(tmp_path, tokenizer_config, config):
    folder = byt5(tmp_path / "other", tokenizer_config, **config)
    assert carried_vocabulary(folder) is None
    with pytest.raises(ConfigError, match=r"the folder has none of spiece.model"):
        load_vocabulary(folder)
    with pytest.raises(ConfigError, match=r"expected a tokenizer.json"):
        load_vocabulary(folder / "config.json")
