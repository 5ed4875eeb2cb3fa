import json
import pathlib
import shutil
import types

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers import vocabularies
from faith_jax.tokenizers.carried import (
    carried_vocabulary,
    check_kept_vocabulary,
    check_vocabulary,
    is_same_vocabulary,
    write_vocabulary,
)
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.models import families
from tests.models.tiny import TINY
from tests.tokenizers.published_tokenizers import FAMILIES, TEXTS

IDS = ("vocab_size", "pad_id", "bos_id", "eos_id", "unk_id", "cls_id", "sep_id", "mask_id")
EMBEDDED = pathlib.Path(vocabularies.__file__).parent / "vocabulary" / "english_4096.model"


def described(vocabulary):
    around = (vocabulary.prefix_ids, vocabulary.suffix_ids, vocabulary.pair_ids)
    texts = [vocabulary.encode(text) for text in TEXTS]
    return *(getattr(vocabulary, name) for name in IDS), around, texts


def published(folder, family):
    folder.mkdir()
    FAMILIES[family](folder)
    return load_vocabulary(folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_published_tokenizer_is_the_same_without_its_folder(tmp_path, family):
    source, run = published(tmp_path / "theirs", family), tmp_path / "run"
    run.mkdir()
    write_vocabulary(source, run)
    assert {file.name for file in run.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    carried = carried_vocabulary(run)
    assert described(carried) == described(source)
    assert is_same_vocabulary(source, carried)
    assert is_same_vocabulary(carried, source)
    # And so is a copy of the copy.
    (tmp_path / "again").mkdir()
    write_vocabulary(carried, tmp_path / "again")
    again = load_vocabulary(tmp_path / "again")
    assert described(again) == described(source)
    assert is_same_vocabulary(source, again)


@pytest.mark.parametrize(("extra_ids", "files"), [(100, 1), (7, 2), (0, 2)])
def test_a_sentencepiece_model_of_t5s_convention(tmp_path, extra_ids, files):
    setting = load_vocabulary("english_4096", extra_ids)
    write_vocabulary(setting, tmp_path)
    assert (tmp_path / "spiece.model").read_bytes() == EMBEDDED.read_bytes()
    assert len(list(tmp_path.iterdir())) == files
    assert load_vocabulary(tmp_path).vocab_size == 4096 + extra_ids
    assert is_same_vocabulary(setting, carried_vocabulary(tmp_path))
    assert not is_same_vocabulary(load_vocabulary("english_4096", 3), carried_vocabulary(tmp_path))


def test_the_file_that_was_meant_is_the_one_that_is_found(tmp_path):
    source = tmp_path / "theirs"
    published(source, "gemma")
    shutil.copyfile(EMBEDDED, source / "spm.model")
    (tmp_path / "run").mkdir()
    setting = load_vocabulary(source / "spm.model")
    write_vocabulary(setting, tmp_path / "run")
    assert carried_vocabulary(tmp_path / "run").model_file.endswith("spiece.model")
    # Another form that the folder holds beside the preferred one is the checkpoint's too.
    assert is_same_vocabulary(setting, carried_vocabulary(source))
    assert not is_same_vocabulary(carried_vocabulary(source), carried_vocabulary(tmp_path / "run"))


def test_files_of_other_names_get_the_usual_ones(tmp_path):
    (tmp_path / "run").mkdir()
    shutil.copyfile(EMBEDDED, tmp_path / "my.model")
    write_vocabulary(load_vocabulary(tmp_path / "my.model"), tmp_path / "run")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["spiece.model"]


def test_the_settings_of_the_folder_are_kept(tmp_path):
    source, run = published(tmp_path / "theirs", "llama_model"), tmp_path / "run"
    run.mkdir()
    write_vocabulary(source, run)
    before, after = (
        json.loads((folder / "tokenizer_config.json").read_text())
        for folder in (tmp_path / "theirs", run)
    )
    names = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
    texts = ("<s>", "</s>", "<unk>", None, None, None, None)
    tokens = {f"{name}_token": text for name, text in zip(names, texts, strict=True)}
    assert after == before | tokens


def test_a_tokenizer_that_a_run_kept_as_it_was_published(tmp_path):
    """MODEL_DIRs of former versions hold copies of the published files."""
    source = published(tmp_path / "theirs", "deberta_nli")
    run = shutil.copytree(tmp_path / "theirs", tmp_path / "run")
    (run / "config.json").unlink()
    kept = carried_vocabulary(run)
    assert kept.model_file.endswith("spm.model")
    assert described(kept) == described(source)
    check_kept_vocabulary(source, run)
    with pytest.raises(ConfigError, match="began with another vocabulary"):
        check_kept_vocabulary(load_vocabulary(), run)


def test_another_vocabulary_of_the_same_size_is_another(tmp_path):
    first, second = (published(tmp_path / name, name) for name in ("roberta", "bart"))
    assert is_same_vocabulary(first, second)  # the same file under another family's name
    changed = json.loads((tmp_path / "bart" / "tokenizer.json").read_text())
    changed["model"]["vocab"] = {
        token: 419 - index if index > 9 else index
        for token, index in changed["model"]["vocab"].items()
    }
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "tokenizer.json").write_text(json.dumps(changed))
    assert not is_same_vocabulary(first, load_vocabulary(tmp_path / "another"))


def test_steps_runs_and_bases_lead_to_the_tokenizer(tmp_path):
    base, run, moved = tmp_path / "base", tmp_path / "run", tmp_path / "t5x" / "checkpoint_7"
    setting = published(base, "gpt2")
    (run / "checkpoints" / "3").mkdir(parents=True)
    moved.mkdir(parents=True)
    assert carried_vocabulary(run) is carried_vocabulary(moved) is None
    assert carried_vocabulary(tmp_path / "nowhere") is None
    (run / "model.json").write_text(json.dumps({"base": {"path": str(base)}}))
    for folder in (run, run / "checkpoints" / "3"):
        assert carried_vocabulary(folder) == setting
        assert load_vocabulary(folder) == load_vocabulary(base)
    write_vocabulary(load_vocabulary("english_4096"), run)
    assert carried_vocabulary(run / "checkpoints" / "3").model_file == str(run / "spiece.model")
    write_vocabulary(load_vocabulary("english_4096"), tmp_path / "t5x")
    assert carried_vocabulary(moved).model_file == str(tmp_path / "t5x" / "spiece.model")
    # A model.json that is broken, or names itself, ends the search.
    (base / "tokenizer.json").unlink()
    (base / "vocab.json").unlink()
    (base / "merges.txt").unlink()
    for text in ("{", "[]", json.dumps({"base": {"path": str(base)}})):
        (base / "model.json").write_text(text)
        assert carried_vocabulary(base) is None


def vocabulary(size, pad, bos, eos, unk=None):
    return types.SimpleNamespace(vocab_size=size, pad_id=pad, bos_id=bos, eos_id=eos, unk_id=unk)


T5 = TINY.replace(vocab_size=32128)
BART = families.BART.replace(vocab_size=50264, pad_id=1, eos_ids=(2,), decoder_start_id=2)
GPT2 = families.GPT2.replace(vocab_size=50257, pad_id=-1, eos_ids=(50256,))
BLOOM = families.BLOOM.replace(vocab_size=250880, pad_id=3, eos_ids=(2,))
LLAMA3 = families.LLAMA.replace(vocab_size=128256, pad_id=-1, eos_ids=(128001,))
LLAMA2 = families.LLAMA.replace(vocab_size=32000, pad_id=0, eos_ids=(2,))
ROBERTA = families.ROBERTA.replace(vocab_size=50265, pad_id=1)

T5S = vocabulary(32100, 0, None, 1, 2)
BARTS = vocabulary(50265, 1, 0, 2, 3)
GPT2S = vocabulary(50257, None, 50256, 50256, 50256)
BLOOMS = vocabulary(250680, 3, 1, 2, 0)
LLAMA2S = vocabulary(32000, None, 1, 2, 0)


@pytest.mark.parametrize(
    ("config", "published", "missing"),
    [
        (T5, T5S, 0),
        (BART, BARTS, 1),
        (BLOOM, BLOOMS, 0),
        (LLAMA2, vocabulary(32001, 32000, 1, 2, 0), 1),
        # DeepSeek's embeddings are rounded up by 2 %.
        (LLAMA2.replace(vocab_size=102400), vocabulary(100015, None, 0, 2, None), 0),
    ],
)
def test_published_models_go_with_their_tokenizers(config, published, missing):
    assert check_vocabulary(config, published, "own", is_own=True) == missing


@pytest.mark.parametrize(
    ("config", "other", "parts"),
    [
        (BART, BARTS, ["50265 ids", "the model 50264"]),
        (T5.replace(vocab_size=50304), GPT2S, ["end token is id 50256", "is id 1"]),
        (T5.replace(vocab_size=50304, eos_ids=(2,)), BARTS, ["padding is id 1", "id 0"]),
        (T5, vocabulary(32100, 0, None, None), ["end token is no such token", "id 1"]),
        (
            BART.replace(vocab_size=50265, decoder_start_id=9),
            BARTS,
            ["starts with id 9", "pad 1, bos 0, eos 2"],
        ),
        (LLAMA3, vocabulary(128256, None, 128000, 128009), ["id 128009", "id 128001"]),
    ],
)
def test_what_differs_is_named_with_both_ids(config, other, parts):
    with pytest.raises(ConfigError) as caught:
        check_vocabulary(config, other, "another")
    for part in (*parts, "(another", "do not belong together", "VOCABULARY"):
        assert part in str(caught.value)


def test_what_files_say_besides(tmp_path):
    published = vocabulary(128256, None, 128000, 128009)
    with pytest.raises(ConfigError, match="end token is id 128009"):
        check_vocabulary(LLAMA3, published, "v", checkpoint=tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"bos_token_id": 128000}))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [128001, 128009]}')
    assert check_vocabulary(LLAMA3, published, "v", checkpoint=tmp_path) == 0
    with pytest.raises(
        ConfigError, match=r"begin token is id 5 \(v\) but the model's is id 128000"
    ):
        check_vocabulary(LLAMA3, vocabulary(128256, None, 5, 128009), "v", checkpoint=tmp_path)
    (tmp_path / "config.json").unlink()
    kept = {"metadata": {"huggingface": {"config_json": '{"bos_token_id": 3}'}}}
    (tmp_path / "model.json").write_text(json.dumps(kept))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 7}')
    three = vocabulary(128256, None, 3, 7)
    assert check_vocabulary(LLAMA3, three, "v", checkpoint=tmp_path) == 0
    with pytest.raises(ConfigError, match="begin token is id 128000"):
        check_vocabulary(LLAMA3, vocabulary(128256, None, 128000, 7), "v", checkpoint=tmp_path)


def test_the_embedded_vocabulary_is_the_mini_models():
    embedded = load_vocabulary()
    assert check_vocabulary(TINY.replace(vocab_size=4224), embedded, "english_4096") == 0
    for size in (4195, 4196 + 256):
        with pytest.raises(ConfigError, match=f"4196 ids .* the model {size}"):
            check_vocabulary(TINY.replace(vocab_size=size), embedded, "english_4096")
