"""Published folders against Transformers' AutoTokenizer, where it is installed."""

import json
import shutil

import numpy as np
import pytest

from faith_jax.data import huggingface_tokenizers, vocabularies
from faith_jax.data.sentencepiece_vocabulary import read_model
from faith_jax.errors import ConfigError
from tests.data import published_tokenizers
from tests.data.published_tokenizers import FAMILIES, TEXTS
from tests.data.test_vocabularies import MODEL

SPECIAL_TEXT = "a <s> b </s>c<mask> [SEP] x<|endoftext|>y <bos>z <|end_of_text|> [MASK]"
NAMES = ("pad", "bos", "eos", "unk", "cls", "sep", "mask")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Returns a function that builds the folder of a family, once."""
    built = {}

    def build(family):
        if family not in built:
            built[family] = tmp_path_factory.mktemp(family)
            FAMILIES[family](built[family])
        return built[family]

    return build


@pytest.fixture
def reference(monkeypatch):
    """Returns a function that opens a folder with Transformers."""
    transformers = pytest.importorskip("transformers", reason="the extra `parity` is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return lambda folder: transformers.AutoTokenizer.from_pretrained(str(folder))


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_offsets_and_text_are_those_of_transformers(family, folders, reference):
    ours, theirs = vocabularies.load_vocabulary(folders(family)), reference(folders(family))
    assert ours.vocab_size == len(theirs)
    for name in NAMES:
        assert getattr(ours, f"{name}_id") == getattr(theirs, f"{name}_token_id"), name
    for text in [*TEXTS, SPECIAL_TEXT]:
        plain = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
        assert ours.encode(text) == plain["input_ids"], text
        assert ours.encode_with_offsets(text) == (plain["input_ids"], plain["offset_mapping"])
        assert ours.encode_with_special_tokens(text) == theirs(text)["input_ids"], text
        pair = theirs(text, "Tea is good.")["input_ids"]
        assert ours.encode_with_special_tokens(text, "Tea is good.") == pair, text
    for text in TEXTS:
        ids = ours.encode(text)
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True), text


@pytest.mark.parametrize("lower", [False, True])
def test_deberta_options_are_those_of_transformers(lower, folders, reference, tmp_path):
    shutil.copytree(folders("deberta"), tmp_path, dirs_exist_ok=True)
    options = {"do_lower_case": lower, "split_by_punct": True, "vocab_type": "spm"}
    published_tokenizers.write_json(tmp_path / "tokenizer_config.json", options)
    ours, theirs = vocabularies.load_vocabulary(tmp_path), reference(tmp_path)
    for text in TEXTS:
        assert ours.encode_with_special_tokens(text) == theirs(text)["input_ids"], text


@pytest.mark.parametrize("family", ["llama_model", "gemma_model"])
def test_sentencepiece_bpe_gives_sentencepiece_ids(family, folders):
    import sentencepiece

    file = str(folders(family) / "tokenizer.model")
    theirs = sentencepiece.SentencePieceProcessor(model_file=file)
    ours = vocabularies.load_vocabulary(file)
    assert ours.vocab_size == theirs.get_piece_size()
    for text in TEXTS:
        # Transformers adds no space mark where the text begins with a space; Llama's does.
        assert ours.encode(text.lstrip(" ")) == theirs.encode(text.lstrip(" ")), text
    # A begin token is Llama's and Gemma's habit, whether or not a file says so.
    assert ours.prefix_ids == (theirs.bos_id(),)


def test_begin_and_end_tokens_follow_the_configuration(folders, tmp_path):
    shutil.copytree(folders("llama_model"), tmp_path, dirs_exist_ok=True)
    options = json.loads((tmp_path / "tokenizer_config.json").read_text())
    options |= {"add_bos_token": False, "add_eos_token": True}
    published_tokenizers.write_json(tmp_path / "tokenizer_config.json", options)
    vocabulary = vocabularies.load_vocabulary(tmp_path)
    assert (vocabulary.prefix_ids, vocabulary.suffix_ids) == ((), (2,))
    assert vocabulary.pair_ids == ((), (2,), (2,))


def test_kinds_of_sentencepiece_models(folders):
    def is_other(file):
        return huggingface_tokenizers.is_sentencepiece_of_transformers(read_model(str(file)))

    assert not is_other(MODEL)
    assert is_other(folders("deberta") / "spm.model")
    assert is_other(folders("llama_model") / "tokenizer.model")
    assert is_other(folders("gemma_model") / "tokenizer.model")


def test_merges_by_hand(tmp_path):
    pieces = ["<|endoftext|>", "t", "e", "a", "s", "Ġ", "te", "Ġte", "tea"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    published_tokenizers.write_json(tmp_path / "vocab.json", vocab)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt e\nĠ te\nte a\n", encoding="utf-8")
    vocabulary = vocabularies.load_vocabulary(tmp_path)
    # t e a s -> te a s -> tea s; then Ġ t e a -> Ġ te a -> Ġte a, the earlier merge first.
    assert vocabulary.encode("teas tea") == [8, 4, 7, 3]
    assert vocabulary.decode([8, 4, 7, 3, 0, 8]) == "teas tea"
    assert (vocabulary.eos_id, vocabulary.pad_id, vocabulary.vocab_size) == (0, None, 9)


def test_missing_special_tokens_follow_the_vocabulary(folders, tmp_path):
    shutil.copytree(folders("gpt2"), tmp_path, dirs_exist_ok=True)
    pad = {"content": "<|pad|>", "lstrip": False, "normalized": False, "rstrip": False}
    options = {"pad_token": pad, "additional_special_tokens": ["<|user|>", "<|bot|>"]}
    published_tokenizers.write_json(tmp_path / "tokenizer_config.json", options)
    vocabulary = vocabularies.load_vocabulary(tmp_path)
    assert (vocabulary.vocab_size, vocabulary.pad_id) == (423, 420)
    assert vocabulary.encode("<|bot|><|user|>") == [422, 421]
    assert vocabulary.decode([422, *vocabulary.encode("tea"), 420]) == "tea"


def test_truncation_padding_and_dropout_of_the_file_are_off(folders, tmp_path):
    content = json.loads((folders("gpt2") / "tokenizer.json").read_text(encoding="utf-8"))
    assert content["truncation"]["max_length"] == 4
    content["model"]["dropout"] = 0.9
    content["padding"] = {
        "strategy": {"Fixed": 64},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }
    published_tokenizers.write_json(tmp_path / "tokenizer.json", content)
    plain = vocabularies.load_vocabulary(folders("gpt2"))
    text = "The tea wasn't better than coffee."
    assert len(plain.encode(text)) > 4
    assert vocabularies.load_vocabulary(tmp_path).encode(text) == plain.encode(text)


def edited_json(change):
    def edit(folder):
        content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        change(content)
        published_tokenizers.write_json(folder / "tokenizer.json", content)

    return edit


def cut(folder):
    file = folder / "tokenizer.json"
    file.write_bytes(file.read_bytes()[:3000])


def without(name):
    return lambda folder: (folder / name).unlink()


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("family", "damage", "message"),
    [
        ("gpt2", cut, "tokenizer.json: expected JSON, got a truncated or foreign file"),
        ("gpt2", written("tokenizer.json", b"\xff\xfe{"), "expected JSON in UTF-8, got byte 0xff"),
        ("gpt2", written("tokenizer.json", b"[1]"), "expected a JSON object, got list"),
        ("gpt2", written("tokenizer.json", b"{}"), 'got JSON without "model"'),
        ("gpt2", written("tokenizer.json", b"[" * 10**6), "expected JSON, got a truncated"),
        (
            "gpt2",
            edited_json(lambda c: c["model"].update(type="Charformer")),
            "got a model of type 'Charformer'",
        ),
        (
            "gpt2",
            edited_json(lambda c: c["model"].update(merges=["zzz yyy"])),
            "the library refuses it",
        ),
        ("gpt2", written("config.json", b"{,"), "config.json: expected JSON"),
        (
            "gpt2",
            written("tokenizer_config.json", b'{"eos_token": 7}'),
            "eos_token: expected a token's text or an object with its content, got '7'",
        ),
        ("dialogpt", without("merges.txt"), "vocab.json: expected merges.txt beside it"),
        ("dialogpt", without("vocab.json"), "merges.txt: expected vocab.json beside it"),
        ("dialogpt", written("vocab.json", b"{'a': 1}"), "vocab.json: expected JSON"),
        (
            "dialogpt",
            written("merges.txt", b"#version: 0.2\nzzz yyy\n"),
            "merges.txt: expected the",
        ),
        ("dialogpt", written("merges.txt", b"\xff\xfe\n"), "merges.txt: expected the merges"),
        ("deberta", written("spm.model", b"text"), "expected a SentencePiece model, got a file"),
        ("deberta", written("added_tokens.json", b'{"[MASK]": "1"}'), "expected an id for"),
        ("deberta", without("spm.model"), "the folder has none of spiece.model"),
    ],
)
def test_broken_folders_are_one_clear_line(family, damage, message, folders, tmp_path):
    shutil.copytree(folders(family), tmp_path, dirs_exist_ok=True)
    damage(tmp_path)
    with pytest.raises(ConfigError) as error:
        vocabularies.load_vocabulary(tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_truncated_files_never_escape_as_other_errors(folders, tmp_path):
    rng = np.random.default_rng(0)
    for family, name in [("bloom", "tokenizer.json"), ("llama_model", "tokenizer.model")]:
        content = (folders(family) / name).read_bytes()
        for length in rng.integers(0, len(content), 10):
            folder = tmp_path / f"{family}_{length}"
            folder.mkdir()
            (folder / name).write_bytes(content[:length])
            with pytest.raises(ConfigError):
                vocabularies.load_vocabulary(folder)
