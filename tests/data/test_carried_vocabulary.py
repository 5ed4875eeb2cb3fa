import json
import pathlib
import shutil

import pytest

from faith_jax.data import vocabularies
from faith_jax.data.carried_vocabulary import (
    carried_vocabulary,
    is_same_vocabulary,
    write_vocabulary,
)
from faith_jax.data.vocabularies import load_vocabulary, vocabulary_setting
from tests.data.published_tokenizers import FAMILIES, TEXTS

IDS = ("vocab_size", "pad_id", "bos_id", "eos_id", "unk_id", "cls_id", "sep_id", "mask_id")
EMBEDDED = pathlib.Path(vocabularies.__file__).parent / "vocabulary" / "english_4096.model"


def described(vocabulary):
    around = (vocabulary.prefix_ids, vocabulary.suffix_ids, vocabulary.pair_ids)
    texts = [vocabulary.encode(text) for text in TEXTS]
    return *(getattr(vocabulary, name) for name in IDS), around, texts


def published(folder, family):
    folder.mkdir()
    FAMILIES[family](folder)
    return vocabulary_setting(folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_published_tokenizer_is_the_same_without_its_config(tmp_path, family):
    setting = published(tmp_path / "theirs", family)
    (tmp_path / "run").mkdir()
    write_vocabulary(setting, tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()
    carried = carried_vocabulary(tmp_path / "run")
    assert described(load_vocabulary(tmp_path / "run")) == described(
        load_vocabulary(setting.model_file)
    )
    assert is_same_vocabulary(setting, carried)
    for file in (tmp_path / "run").iterdir():
        if file.name != "tokenizer_config.json":
            assert file.read_bytes() == (tmp_path / "theirs" / file.name).read_bytes()
    # A second time, and over itself, nothing changes.
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    write_vocabulary(setting, tmp_path / "run")
    write_vocabulary(carried, tmp_path / "run")
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}


@pytest.mark.parametrize(("extra_ids", "files"), [(100, 1), (7, 2), (0, 2)])
def test_a_sentencepiece_model_of_t5s_convention(tmp_path, extra_ids, files):
    setting = vocabulary_setting("english_4096", extra_ids)
    write_vocabulary(setting, tmp_path)
    assert (tmp_path / "spiece.model").read_bytes() == EMBEDDED.read_bytes()
    assert len(list(tmp_path.iterdir())) == files
    assert load_vocabulary(tmp_path).vocab_size == 4096 + extra_ids
    assert is_same_vocabulary(setting, carried_vocabulary(tmp_path))
    assert not is_same_vocabulary(
        vocabulary_setting("english_4096", 3), carried_vocabulary(tmp_path)
    )


def test_the_file_that_was_meant_is_the_one_that_is_found(tmp_path):
    theirs = tmp_path / "theirs"
    published(theirs, "gemma")
    shutil.copyfile(EMBEDDED, theirs / "spiece.model")
    (tmp_path / "run").mkdir()
    setting = vocabulary_setting(theirs / "tokenizer.json")
    write_vocabulary(setting, tmp_path / "run")
    assert carried_vocabulary(tmp_path / "run").model_file.endswith("tokenizer.json")
    # Another form that the folder holds beside the preferred one is the checkpoint's too.
    assert is_same_vocabulary(setting, carried_vocabulary(theirs))
    assert not is_same_vocabulary(carried_vocabulary(theirs), carried_vocabulary(tmp_path / "run"))


def test_files_of_other_names_get_the_usual_ones(tmp_path):
    (tmp_path / "run").mkdir()
    shutil.copyfile(EMBEDDED, tmp_path / "my.model")
    write_vocabulary(vocabulary_setting(tmp_path / "my.model"), tmp_path / "run")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["spiece.model"]
    for family, old, new in (
        ("llama_model", "tokenizer.model", "tokenizer.model"),
        ("deberta_nli", "spm.model", "spm.model"),
        ("gemma", "tokenizer.json", "tokenizer.json"),
    ):
        theirs, ours = tmp_path / family, tmp_path / f"{family}_run"
        published(theirs, family)
        ours.mkdir()
        mine = theirs / f"mine{pathlib.Path(old).suffix}"
        (theirs / old).rename(mine)
        write_vocabulary(vocabulary_setting(mine), ours)
        assert (ours / new).is_file()
        assert described(load_vocabulary(ours)) == described(load_vocabulary(mine))


def test_another_vocabulary_of_the_same_size_is_another(tmp_path):
    first, second = (published(tmp_path / name, name) for name in ("roberta", "bart"))
    assert is_same_vocabulary(first, second)  # the same file under another family's name
    changed = json.loads((tmp_path / "bart" / "tokenizer.json").read_text())
    changed["model"]["vocab"] = {
        token: 419 - index if index > 9 else index
        for token, index in changed["model"]["vocab"].items()
    }
    (tmp_path / "bart" / "tokenizer.json").write_text(json.dumps(changed))
    assert not is_same_vocabulary(first, second)


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
    write_vocabulary(vocabulary_setting("english_4096"), run)
    assert carried_vocabulary(run / "checkpoints" / "3").model_file == str(run / "spiece.model")
    write_vocabulary(vocabulary_setting("english_4096"), tmp_path / "t5x")
    assert carried_vocabulary(moved).model_file == str(tmp_path / "t5x" / "spiece.model")
    # A model.json that is broken, or names itself, ends the search.
    (base / "tokenizer.json").unlink()
    (base / "vocab.json").unlink()
    (base / "merges.txt").unlink()
    for text in ("{", "[]", json.dumps({"base": {"path": str(base)}})):
        (base / "model.json").write_text(text)
        assert carried_vocabulary(base) is None
