import json
import pickle
import shutil

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers.carried import check_kept_vocabulary, keep_vocabulary
from faith_jax.tokenizers.vocabularies import load_vocabulary, tokenizer_of
from tests.tokenizers.test_vocabularies import MODEL

FIRST = 4196  # behind the 4096 pieces and the 100 extra ids


def folder_with(folder, **files):
    """Writes our vocabulary as spiece.model, with JSON files beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(MODEL, folder / "spiece.model")
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def decoder(tokens, **flags):
    return {
        "added_tokens_decoder": {str(i): {"content": t} | flags for t, i in tokens.items()},
        "tokenizer_class": "T5Tokenizer",
    }


def tokenizer_json(tokens, pieces=None):
    plain = load_vocabulary(MODEL).tokenizer
    pieces = pieces or [plain.id_to_piece(i) for i in range(4096)]
    extra = [f"<extra_id_{i}>" for i in range(99, -1, -1)]
    vocabulary = [[piece, -1.0] for piece in [*pieces, *extra]]
    added = [{"id": i, "content": t, "special": True} for t, i in tokens.items()]
    return {"added_tokens": added, "model": {"type": "Unigram", "vocab": vocabulary}}


TAGS = {"<knowledge>": FIRST, "<wizard>": FIRST + 1}
FILES = {"tokenizer_config": decoder(TAGS), "added_tokens": TAGS, "tokenizer": tokenizer_json(TAGS)}


@pytest.mark.parametrize("names", [*[[name] for name in FILES], list(FILES)])
def test_added_tokens_keep_their_ids(tmp_path, names):
    plain = load_vocabulary()
    folder = folder_with(tmp_path / "t5", **{name: FILES[name] for name in names})
    vocabulary = load_vocabulary(folder)
    assert vocabulary.vocab_size == FIRST + 2
    assert vocabulary.encode("<knowledge>") == [FIRST]
    text = "Tea <knowledge> is a leaf. <wizard> <extra_id_0> yes"
    ids = vocabulary.encode(text)
    assert ids == [
        *plain.encode("Tea"),
        FIRST,
        *plain.encode("is a leaf."),
        FIRST + 1,
        *plain.encode("<extra_id_0> yes"),
    ]
    assert vocabulary.decode([*ids, 1, 5]) == text
    assert vocabulary.encode("no tags") == plain.encode("no tags")
    assert vocabulary.piece_text(FIRST) == "<knowledge>"
    assert vocabulary.decode([FIRST + 7]) == plain.decode([2])


def test_offsets_are_those_of_the_whole_text(tmp_path):
    vocabulary = load_vocabulary(folder_with(tmp_path / "t5", added_tokens=TAGS))
    text = "é tea<knowledge>😀 leaf <wizard>"
    ids, spans = vocabulary.encode_with_offsets(text)
    assert ids == vocabulary.encode(text)
    place = ids.index(FIRST)
    assert spans[place] == (5, 16)
    assert text[slice(*spans[place + 2])] == "😀"
    covered = "".join(text[slice(*span)] for span in dict.fromkeys(spans))
    assert covered.replace(" ", "") == text.replace(" ", "")
    assert text[slice(*spans[-1])] == "<wizard>"


def test_settings_of_tokens(tmp_path):
    words = {"tea": FIRST, "teapot": FIRST + 1}
    single = load_vocabulary(
        folder_with(tmp_path / "single", tokenizer_config=decoder(words, single_word=True))
    )
    plain = load_vocabulary()
    assert single.encode("tea teapots teapot") == [FIRST, *plain.encode("teapots"), FIRST + 1]
    each = load_vocabulary(folder_with(tmp_path / "each", tokenizer_config=decoder(words)))
    assert each.encode("teapots") == [FIRST + 1, *plain.encode("s")]
    later = decoder({"<a>": FIRST}) | {"legacy": False}
    later = load_vocabulary(folder_with(tmp_path / "later", tokenizer_config=later))
    ids = later.encode("x <a>y <a> z")
    assert ids == [*plain.encode("x"), FIRST, *_inside(plain, "y"), FIRST, *plain.encode("z")]
    assert later.decode(ids) == "x <a>y <a> z"
    assert later.encode_with_offsets("x <a>y")[1][-1] == (5, 6)


def _inside(vocabulary, text):
    return [vocabulary.tokenizer.piece_to_id(character) for character in text]


def test_extra_ids_of_the_files_are_the_same(tmp_path):
    extra = {f"<extra_id_{i}>": 4096 + 99 - i for i in range(100)}
    special = {"<pad>": 0, "</s>": 1, "<unk>": 2}
    files = {"tokenizer_config": decoder(special | extra), "added_tokens": extra}
    vocabulary = load_vocabulary(folder_with(tmp_path / "t5", **files))
    assert (vocabulary.vocab_size, vocabulary.added_tokens) == (FIRST, {})
    assert vocabulary.fingerprint() == load_vocabulary().fingerprint()


def test_it_is_carried_whole(tmp_path):
    folder = folder_with(tmp_path / "t5", tokenizer_config=decoder(TAGS) | {"legacy": False})
    vocabulary = load_vocabulary(folder)
    (tmp_path / "run").mkdir()
    keep_vocabulary(vocabulary, tmp_path / "run")
    kept = load_vocabulary(tmp_path / "run")
    text = "a <knowledge>b"
    assert (
        kept.encode(text)
        == vocabulary.encode(text)
        == pickle.loads(pickle.dumps(vocabulary)).encode(text)
    )
    assert kept.fingerprint() == vocabulary.fingerprint() != load_vocabulary().fingerprint()
    check_kept_vocabulary(vocabulary, tmp_path / "run")
    with pytest.raises(ConfigError, match="began with another vocabulary"):
        check_kept_vocabulary(load_vocabulary(), tmp_path / "run")


def test_seqios_view_has_the_same_ids(tmp_path):
    seqio = pytest.importorskip("seqio")
    from faith_jax.tokenizers.seqio_vocabulary import TokenizerVocabulary

    folder = folder_with(tmp_path / "t5", added_tokens=TAGS)
    ours = load_vocabulary(folder)
    view = TokenizerVocabulary(ours)
    text = "Tea <knowledge> is a leaf."
    assert view.vocab_size == ours.vocab_size
    assert view.encode(text) == view.encode_tf(text).numpy().tolist() == ours.encode(text)
    assert view.decode_tf(view.encode_tf(text)).numpy().decode() == text
    # SeqIO's own class knows no added tokens, so it is not ours.
    reference = seqio.SentencePieceVocabulary(str(folder / "spiece.model"), 100)
    assert tokenizer_of(reference) is reference


# Bad input.


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        (
            {"tokenizer_config": decoder({"<a>": FIRST}), "added_tokens": {"<b>": FIRST}},
            [f"the id {FIRST} is '<b>' in added_tokens.json but '<a>' in tokenizer_config.json"],
        ),
        (
            {"added_tokens": {"<a>": FIRST}, "tokenizer": tokenizer_json({"<a>": FIRST + 1})},
            [f"'<a>' has the id {FIRST + 1} in tokenizer.json but {FIRST} in added_tokens.json"],
        ),
        ({"added_tokens": {"<a>": 300}}, ["the id 300 is '<a>' in added_tokens.json", "spiece"]),
        (
            {"added_tokens": {"<extra_id_0>": FIRST}},
            [f"the id {FIRST}", "but 4195 in spiece.model"],
        ),
        (
            {"tokenizer": tokenizer_json({}, ["<pad>", "</s>", "<unk>", "x"] + ["y"] * 4092)},
            ["the id 3 is 'x' in tokenizer.json but"],
        ),
        ({"tokenizer": {"added_tokens": 3}}, ["tokenizer.json: expected a tokenizer"]),
    ],
)
def test_files_that_disagree(tmp_path, files, parts):
    folder = folder_with(tmp_path / "t5", **files)
    with pytest.raises(ConfigError) as caught:
        load_vocabulary(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    for part in parts:
        assert part in message
