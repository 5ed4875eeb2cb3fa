import functools
import json
import pathlib
import pickle
import shutil
import socket
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers import vocabularies
from tests.tokenizers.published_tokenizers import FAMILIES, SAME_PIECES, TEXTS, write_json
from tests.tokenizers.special_tokens import encode_row

SPECIAL_TEXT = "a <s> b </s>c<mask> [SEP] x<|endoftext|>y <bos>z <|end_of_text|> [MASK]"
NAMES = ("pad", "bos", "eos", "unk", "cls", "sep", "mask")

BYTE_LEVEL = ("gpt2", "dialogpt", "roberta", "roberta_old", "bart", "bloom", "llama3", "deberta_v1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a function that builds a family's folder, once."""

    @functools.cache
    def build(family):
        built = tmp_path_factory.mktemp(family)
        FAMILIES[family](built)
        return built

    return build


@pytest.fixture(scope="module")
def load(folder):
    """Returns a function that opens a family's folder."""
    return lambda family: vocabularies.load_vocabulary(folder(family))


@pytest.mark.parametrize(
    ("family", "size", "special"),
    [
        # pad, bos, eos, unk, cls, sep, mask
        ("gpt2", 420, (None, 0, 0, 0, None, None, None)),
        ("dialogpt", 420, (None, 0, 0, 0, None, None, None)),
        ("roberta", 421, (1, 0, 2, 3, 0, 2, 420)),
        ("roberta_old", 420, (1, 0, 2, 3, 0, 2, 4)),
        ("bart", 421, (1, 0, 2, 3, 0, 2, 420)),
        ("bloom", 420, (3, 1, 2, 0, None, None, None)),
        ("llama3", 420, (None, 0, 1, None, None, None, None)),
        ("llama_model", 400, (None, 1, 2, 0, None, None, None)),
        ("gemma", 400, (0, 2, 1, 3, None, None, 4)),
        pytest.param("deberta_nli", 141, (0, 1, 2, 3, 1, 2, 140), marks=SAME_PIECES),
        ("deberta_v1", 420, (0, 1, 2, 3, 1, 2, 4)),
        ("bert", 200, (0, None, None, 1, 2, 3, 4)),
        ("bert_vocab", 200, (0, None, None, 1, 2, 3, 4)),
        ("albert", 130, (0, 2, 3, 1, 2, 3, 4)),
    ],
)
def test_special_ids_by_hand(family, size, special, load):
    vocabulary = load(family)
    names = ("pad", "bos", "eos", "unk", "cls", "sep", "mask")
    assert vocabulary.vocab_size == size
    assert tuple(getattr(vocabulary, f"{name}_id") for name in names) == special


@pytest.mark.parametrize(
    ("family", "single", "pair"),
    [
        ("gpt2", ([], []), ([], [], [])),
        ("bloom", ([], []), ([], [], [])),
        ("roberta", ([0], [2]), ([0], [2, 2], [2])),
        ("bart", ([0], [2]), ([0], [2, 2], [2])),
        ("deberta", ([1], [2]), ([1], [2], [2])),
        ("deberta_v1", ([1], [2]), ([1], [2], [2])),
        ("bert", ([2], [3]), ([2], [3], [3])),
        ("bert_vocab", ([2], [3]), ([2], [3], [3])),
        ("albert", ([2], [3]), ([2], [3], [3])),
        ("gemma", ([2], []), ([2], [2], [])),
        ("llama3", ([0], []), ([0], [0], [])),
    ],
)
def test_special_tokens_around_texts(family, single, pair, load):
    vocabulary = load(family)
    a, b = vocabulary.encode("Tea?"), vocabulary.encode("He skates.")
    assert len(a) > 1
    assert encode_row(vocabulary, "Tea?") == single[0] + a + single[1]
    expected = pair[0] + a + pair[1] + b + pair[2]
    assert encode_row(vocabulary, "Tea?", "He skates.") == expected
    # A caller cuts the premise alone.
    assert vocabulary.add_special_tokens(a[:1], b) == pair[0] + a[:1] + pair[1] + b + pair[2]
    assert vocabulary.add_special_tokens(a, []) == pair[0] + a + pair[1] + pair[2]
    assert encode_row(vocabulary, "Tea?", "") == pair[0] + a + pair[1] + pair[2]


@pytest.mark.parametrize("family", BYTE_LEVEL)
def test_any_text_survives_bytes(family, load):
    vocabulary = load(family)
    special = {t.content for t in vocabulary.tokenizer.get_added_tokens_decoder().values()}

    @settings(deadline=None, max_examples=40)
    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
    def check(text):
        if not any(token in text for token in special):
            assert vocabulary.decode(vocabulary.encode(text)) == text

    check()


@pytest.mark.parametrize("family", ["llama_model", "gemma", "gemma_model"])
def test_text_survives_sentencepiece_with_bytes(family, load):
    vocabulary = load(family)
    for text in TEXTS:
        text = text.lstrip(" ") if family == "llama_model" else text
        assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize("family", FAMILIES)
def test_offsets_lie_in_order_within_the_text(family, load):
    vocabulary = load(family)
    for text in TEXTS:
        ids, spans = vocabulary.encode_with_offsets(text)
        assert ids == vocabulary.encode(text)
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert [s for s, _ in spans] == sorted(s for s, _ in spans)
        # Each character but white space stands in a token, save accents that are composed.
        covered = {i for start, end in spans for i in range(start, end)}
        left = [c for i, c in enumerate(text) if i not in covered and not c.isspace()]
        if not family.startswith("bert"):  # it drops accents, invisible characters and long words
            assert all(unicodedata.combining(c) for c in left), text


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        # t, ea, " c", a, f, two bytes of é, the space, four bytes of the face.
        ("gpt2", [(0, 1), (1, 3), (3, 5), (5, 6), (6, 7), *2 * [(7, 8)], (8, 9), *4 * [(9, 10)]]),
        # RoBERTa's tokenizer leaves white space out, so that a space alone has no width.
        (
            "roberta",
            [(0, 1), (1, 3), (4, 5), (5, 6), (6, 7), *2 * [(7, 8)], (9, 9), *4 * [(9, 10)]],
        ),
        # DeBERTa puts a space mark in front of the text.
        pytest.param(
            "deberta",
            [(0, 1), (0, 1), (1, 3), (3, 5), (5, 6), (6, 7), (7, 8), (8, 9), (9, 10)],
            marks=SAME_PIECES,
        ),
    ],
)
def test_offsets_by_hand(family, expected, load):
    assert load(family).encode_with_offsets("tea café 😀")[1] == expected


def test_decoding_ends_at_the_end_and_drops_what_is_no_text(load):
    vocabulary = load("roberta")
    ids = vocabulary.encode("tea")
    assert vocabulary.decode([0, *ids, 2, *ids]) == "tea"
    assert vocabulary.decode(np.array([0, *ids, 1, 1], np.int32)) == "tea"
    assert vocabulary.decode([*ids, -1, -1]) == "tea"
    assert vocabulary.decode([*ids, 421, 50_000, 2**40]) == "tea"
    assert vocabulary.decode([]) == ""
    assert vocabulary.encode("") == []
    gpt2 = load("gpt2")
    assert gpt2.decode([*gpt2.encode(" tea"), gpt2.eos_id, 7]) == " tea"


def test_special_tokens_in_a_text_become_their_ids(load):
    assert load("gpt2").encode("<|endoftext|>") == [0]
    assert load("bart").encode("a <mask>")[-1] == 420


def test_a_tokenizer_json_without_its_folder(load, tmp_path):
    for family, expected in [("roberta", (1, 0, 2)), ("bloom", (3, 1, 2)), ("gpt2", (None, 0, 0))]:
        file = tmp_path / f"{family}.json"
        shutil.copy(load(family).model_file, file)
        vocabulary = vocabularies.load_vocabulary(file)
        assert (vocabulary.pad_id, vocabulary.bos_id, vocabulary.eos_id) == expected
        assert vocabulary.encode("The tea.") == load(family).encode("The tea.")


def test_equality_and_pickling(load):
    vocabulary = load("gpt2")
    again = pickle.loads(pickle.dumps(vocabulary))
    assert again == vocabulary
    assert again.tokenizer is vocabulary.tokenizer
    assert len({again, vocabulary, load("bart")}) == 2
    assert vocabulary != load("bart")
    assert vocabulary != vocabularies.load_vocabulary()


def test_files_are_found_by_name_too(load):
    folder = load("dialogpt").model_file.removesuffix("/vocab.json")
    for name in ("vocab.json", "merges.txt"):
        assert vocabularies.load_vocabulary(f"{folder}/{name}") == load("dialogpt")
    assert load("gpt2").model_file.endswith("tokenizer.json")


def test_a_folder_of_several_files_gives_the_first_in_order(load, tmp_path):
    def copy(family, name):
        shutil.copy(pathlib.Path(load(family).model_file).with_name(name), tmp_path)

    def found():
        return pathlib.Path(vocabularies.load_vocabulary(tmp_path).model_file).name

    copy("llama_model", "tokenizer.model")
    assert found() == "tokenizer.model"
    copy("deberta", "spm.model")
    assert found() == "spm.model"
    copy("dialogpt", "vocab.json")  # without merges it is nothing yet
    assert found() == "spm.model"
    copy("dialogpt", "merges.txt")
    assert found() == "vocab.json"
    copy("gpt2", "tokenizer.json")
    assert found() == "tokenizer.json"
    shutil.copy(vocabularies.load_vocabulary().model_file, tmp_path / "spiece.model")
    with pytest.raises(ConfigError, match=r"disagree: .* in tokenizer.json but .* spiece.model"):
        found()
    (tmp_path / "tokenizer.json").unlink()
    assert found() == "spiece.model"


def test_extra_ids_are_only_for_t5(load):
    file = load("gpt2").model_file
    assert vocabularies.load_vocabulary(file, extra_ids=0).extra_ids == 0
    with pytest.raises(ConfigError, match="only SentencePiece models and ByT5's"):
        vocabularies.load_vocabulary(file, extra_ids=7)


def test_needs_neither_transformers_nor_a_network(folder, tmp_path, monkeypatch):
    copied = shutil.copytree(folder("gpt2"), tmp_path / "copied")  # which nobody has read
    for name in ("transformers", "torch", "seqio", "gin"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(socket, "socket", None)
    assert vocabularies.load_vocabulary(copied).encode("<|endoftext|>") == [0]


# --- Files, compared with Transformers ---


@pytest.fixture
def reference(monkeypatch):
    """Returns a function that opens a folder with Transformers."""
    transformers = pytest.importorskip("transformers", reason="the extra `parity` is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return lambda folder: transformers.AutoTokenizer.from_pretrained(str(folder))


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_offsets_and_text_are_those_of_transformers(family, folder, reference):
    ours, original = vocabularies.load_vocabulary(folder(family)), reference(folder(family))
    assert ours.vocab_size == len(original)
    for name in NAMES:
        assert getattr(ours, f"{name}_id") == getattr(original, f"{name}_token_id"), name
    for text in [*TEXTS, SPECIAL_TEXT]:
        plain = original(text, add_special_tokens=False, return_offsets_mapping=True)
        assert ours.encode(text) == plain["input_ids"], text
        assert ours.encode_with_offsets(text) == (plain["input_ids"], plain["offset_mapping"])
        assert encode_row(ours, text) == original(text)["input_ids"], text
        pair = original(text, "Tea is good.", return_token_type_ids=True)
        row = encode_row(ours, text, "Tea is good.")
        if family == "deberta_v1":  # it was trained with one [SEP] between texts
            between = len(original(text)["input_ids"])
            assert pair["input_ids"][between - 1 : between + 1] == [2, 2]
            assert row == pair["input_ids"][:between] + pair["input_ids"][between + 1 :], text
            continue
        assert row == pair["input_ids"], text
        if ours.cls_id is not None:  # an encoder's
            second = ours.second_start(len(ours.encode(text)), len(row))
            assert [int(i >= second) for i in range(len(row))] == pair["token_type_ids"], text
    for text in TEXTS:
        ids = ours.encode(text)
        assert ours.decode(ids) == original.decode(ids, skip_special_tokens=True), text


CONTRADICTIONS = [
    ("bert", {"do_lower_case": False}, {"normalizer": {"lowercase": False}}),
    ("bert", {"strip_accents": False}, {"normalizer": {"strip_accents": False}}),
    ("bert", {"tokenize_chinese_chars": False}, {"normalizer": {"handle_chinese_chars": False}}),
    ("gpt2", {"add_prefix_space": True}, {"pre_tokenizer": {"add_prefix_space": True}}),
    (
        "roberta",
        {"add_prefix_space": True},
        {"pre_tokenizer": {"add_prefix_space": True}, "post_processor": {"add_prefix_space": True}},
    ),
]


@pytest.mark.parametrize(("family", "options", "parts"), CONTRADICTIONS)
def test_options_of_the_configuration_count(family, options, parts, folder, tmp_path, caplog):
    """An equivalent tokenizer.json is read in the same way and without a warning."""
    for name in ("contradicting", "agreeing"):
        shutil.copytree(folder(family), tmp_path / name)
        path = tmp_path / name / "tokenizer_config.json"
        written_options = json.loads(path.read_text()) if path.exists() else {}
        write_json(path, written_options | options)
    content = json.loads((tmp_path / "agreeing" / "tokenizer.json").read_text(encoding="utf-8"))
    for part, fields in parts.items():
        content[part] |= fields
    write_json(tmp_path / "agreeing" / "tokenizer.json", content)
    agreeing = vocabularies.load_vocabulary(tmp_path / "agreeing")
    assert caplog.text == ""
    contradicting = vocabularies.load_vocabulary(tmp_path / "contradicting")
    assert contradicting.fingerprint() == agreeing.fingerprint()
    plain = vocabularies.load_vocabulary(folder(family))
    assert contradicting.fingerprint() != plain.fingerprint()
    (option, value), *_ = options.items()
    assert f"tokenizer_config.json says {option} = {json.dumps(value)}, which counts" in caplog.text


def test_special_tokens_in_a_text_may_be_plain_text(folder, tmp_path):
    shutil.copytree(folder("gpt2"), tmp_path / "gpt2")
    (end,) = vocabularies.load_vocabulary(tmp_path / "gpt2").encode("<|endoftext|>")
    write_json(tmp_path / "gpt2" / "tokenizer_config.json", {"split_special_tokens": True})
    split = vocabularies.load_vocabulary(tmp_path / "gpt2")
    ids = split.encode("<|endoftext|>")
    assert end == split.eos_id
    assert end not in ids
    assert split.decode(ids) == "<|endoftext|>"


@pytest.mark.parametrize("family", ["llama_model", "gemma_model"])
def test_sentencepiece_bpe_gives_sentencepiece_ids(family, folder):
    import sentencepiece

    file = str(folder(family) / "tokenizer.model")
    original = sentencepiece.SentencePieceProcessor(model_file=file)
    ours = vocabularies.load_vocabulary(file)
    assert ours.vocab_size == original.get_piece_size()
    for text in TEXTS:
        # Transformers adds no space mark where the text begins with a space; Llama's does.
        assert ours.encode(text.lstrip(" ")) == original.encode(text.lstrip(" ")), text
    # A begin token is Llama's and Gemma's habit, whether or not a file says so.
    assert ours.prefix_ids == (original.bos_id(),)


def test_begin_and_end_tokens_follow_the_configuration(folder, tmp_path):
    shutil.copytree(folder("llama_model"), tmp_path, dirs_exist_ok=True)
    options = json.loads((tmp_path / "tokenizer_config.json").read_text())
    options |= {"add_bos_token": False, "add_eos_token": True}
    write_json(tmp_path / "tokenizer_config.json", options)
    vocabulary = vocabularies.load_vocabulary(tmp_path)
    assert (vocabulary.prefix_ids, vocabulary.suffix_ids) == ((), (2,))
    assert vocabulary.pair_ids == ((), (2,), (2,))


def test_merges_by_hand(tmp_path):
    pieces = ["<|endoftext|>", "t", "e", "a", "s", "Ġ", "te", "Ġte", "tea"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    write_json(tmp_path / "vocab.json", vocab)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt e\nĠ te\nte a\n", encoding="utf-8")
    vocabulary = vocabularies.load_vocabulary(tmp_path)
    # t e a s -> te a s -> tea s; then Ġ t e a -> Ġ te a -> Ġte a, the earlier merge first.
    assert vocabulary.encode("teas tea") == [8, 4, 7, 3]
    assert vocabulary.decode([8, 4, 7, 3, 0, 8]) == "teas tea"
    assert (vocabulary.eos_id, vocabulary.pad_id, vocabulary.vocab_size) == (0, None, 9)


def test_missing_special_tokens_follow_the_vocabulary(folder, tmp_path):
    shutil.copytree(folder("gpt2"), tmp_path, dirs_exist_ok=True)
    pad = {"content": "<|pad|>", "lstrip": False, "normalized": False, "rstrip": False}
    options = {"pad_token": pad, "additional_special_tokens": ["<|user|>", "<|bot|>"]}
    write_json(tmp_path / "tokenizer_config.json", options)
    vocabulary = vocabularies.load_vocabulary(tmp_path)
    assert (vocabulary.vocab_size, vocabulary.pad_id) == (423, 420)
    assert vocabulary.encode("<|bot|><|user|>") == [422, 421]
    assert vocabulary.decode([422, *vocabulary.encode("tea"), 420]) == "tea"


def test_truncation_padding_and_dropout_of_the_file_are_off(folder, tmp_path):
    content = json.loads((folder("gpt2") / "tokenizer.json").read_text(encoding="utf-8"))
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
    write_json(tmp_path / "tokenizer.json", content)
    plain = vocabularies.load_vocabulary(folder("gpt2"))
    text = "The tea wasn't better than coffee."
    assert len(plain.encode(text)) > 4
    assert vocabularies.load_vocabulary(tmp_path).encode(text) == plain.encode(text)


def edited_json(change):
    def edit(folder):
        content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        change(content)
        write_json(folder / "tokenizer.json", content)

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
        ("gpt2", cut, "tokenizer.json: expected a tokenizer.json of Hugging Face's"),
        ("gpt2", written("tokenizer.json", b"\xff\xfe{"), "the library refuses it"),
        ("gpt2", edited_json(lambda c: c["model"].update(type="Charformer")), "refuses it"),
        ("gpt2", written("config.json", b"{,"), "config.json: not valid JSON: Expecting"),
        (
            "gpt2",
            written("tokenizer_config.json", b'{"eos_token": 7}'),
            "in no known form (Expected `str | object | null`, got `int`",
        ),
        ("dialogpt", without("merges.txt"), "vocab.json: expected GPT-2's tokens, with merges.txt"),
        ("dialogpt", written("merges.txt", b"#version: 0.2\nzzz yyy\n"), "with merges.txt of them"),
        ("bert_vocab", written("vocab.txt", b"[UNK]\n[CLS]\n"), "refuses it (no line is [SEP])"),
        ("deberta", written("spm.model", b"text"), "expected a SentencePiece model, got a file"),
        ("deberta", written("added_tokens.json", b'{"[MASK]": "a"}'), "in no known form"),
    ],
)
def test_broken_folders_are_one_clear_line(family, damage, message, folder, tmp_path):
    shutil.copytree(folder(family), tmp_path, dirs_exist_ok=True)
    damage(tmp_path)
    with pytest.raises(ConfigError) as error:
        vocabularies.load_vocabulary(tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_truncated_files_never_escape_as_other_errors(folder, tmp_path):
    rng = np.random.default_rng(0)
    for family, name in [("bloom", "tokenizer.json"), ("llama_model", "tokenizer.model")]:
        content = (folder(family) / name).read_bytes()
        for length in rng.integers(0, len(content), 10):
            cut = tmp_path / f"{family}_{length}"
            cut.mkdir()
            (cut / name).write_bytes(content[:length])
            with pytest.raises(ConfigError):
                vocabularies.load_vocabulary(cut)
