import json
import pathlib
import shutil

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers import vocabularies
from faith_jax.tokenizers.carried import (
    carried_vocabulary,
    check_kept_vocabulary,
    is_same_vocabulary,
    write_vocabulary,
)
from faith_jax.tokenizers.vocabularies import load_vocabulary
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
    theirs, run = published(tmp_path / "theirs", family), tmp_path / "run"
    run.mkdir()
    write_vocabulary(theirs, run)
    assert {file.name for file in run.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    carried = carried_vocabulary(run)
    assert described(carried) == described(theirs)
    assert is_same_vocabulary(theirs, carried)
    assert is_same_vocabulary(carried, theirs)
    # And so is a copy of the copy.
    (tmp_path / "again").mkdir()
    write_vocabulary(carried, tmp_path / "again")
    again = load_vocabulary(tmp_path / "again")
    assert described(again) == described(theirs)
    assert is_same_vocabulary(theirs, again)


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
    theirs = tmp_path / "theirs"
    published(theirs, "gemma")
    shutil.copyfile(EMBEDDED, theirs / "spiece.model")
    (tmp_path / "run").mkdir()
    setting = load_vocabulary(theirs / "tokenizer.json")
    write_vocabulary(setting, tmp_path / "run")
    assert carried_vocabulary(tmp_path / "run").model_file.endswith("tokenizer.json")
    # Another form that the folder holds beside the preferred one is the checkpoint's too.
    assert is_same_vocabulary(setting, carried_vocabulary(theirs))
    assert not is_same_vocabulary(carried_vocabulary(theirs), carried_vocabulary(tmp_path / "run"))


def test_files_of_other_names_get_the_usual_ones(tmp_path):
    (tmp_path / "run").mkdir()
    shutil.copyfile(EMBEDDED, tmp_path / "my.model")
    write_vocabulary(load_vocabulary(tmp_path / "my.model"), tmp_path / "run")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["spiece.model"]


def test_the_settings_of_the_folder_are_kept(tmp_path):
    theirs, run = published(tmp_path / "theirs", "llama_model"), tmp_path / "run"
    run.mkdir()
    write_vocabulary(theirs, run)
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
    theirs = published(tmp_path / "theirs", "deberta_nli")
    run = shutil.copytree(tmp_path / "theirs", tmp_path / "run")
    (run / "config.json").unlink()
    kept = carried_vocabulary(run)
    assert kept.model_file.endswith("spm.model")
    assert described(kept) == described(theirs)
    check_kept_vocabulary(theirs, run)
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
