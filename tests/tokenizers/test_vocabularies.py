import inspect
import pathlib

import pytest

from faith_jax.checkpoints.manifest import COMPANIONS
from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers import vocabularies

MODEL = pathlib.Path(vocabularies.__file__).parent / "vocabulary" / "english_4096.model"


def test_tasks_use_the_embedded_vocabulary_but_within_a_run(tmp_path):
    (tmp_path / "spiece.model").write_bytes(MODEL.read_bytes())
    own_vocabulary = vocabularies.load_vocabulary(tmp_path, extra_ids=7)

    @vocabularies.with_own_vocabulary
    def run(vocabulary, fails=False):
        assert vocabularies.default_vocabulary() == vocabularies.load_vocabulary("english_4096")
        vocabularies.set_default_vocabulary(vocabulary)
        assert not fails
        return vocabularies.default_vocabulary().vocab_size

    assert list(inspect.signature(run).parameters) == ["vocabulary", "fails"]
    with vocabularies.tasks_use(own_vocabulary):
        assert run(vocabularies.load_vocabulary(extra_ids=0)) == 4096
        with pytest.raises(AssertionError):
            run(None, fails=True)
        assert vocabularies.default_vocabulary() is own_vocabulary
    assert vocabularies.default_vocabulary() == vocabularies.load_vocabulary()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("english_409", r"'english_409': there is no such file. Did you mean 'english_4096'\?"),
        ("https://host/spiece.model", "unknown storage; expected gs://, s3:// or a local path"),
        (
            "FOLDER",
            "the folder has none of spiece.model, sentencepiece.model, tokenizer.json, vocab.json",
        ),
        ("FOLDER/spiec.mod", r"no such file. Did you mean 'spieces\.model'"),
        ("FOLDER/text.model", "expected a SentencePiece model, got a file that is not one"),
        ("FOLDER/empty.model", "expected a SentencePiece model, got a file that is not one"),
        ("FOLDER/cut.model", "expected a SentencePiece model, got a file that is not one"),
        ("FOLDER/lfs.model", "lfs.model: is a pointer of Git LFS .* run `git lfs pull`"),
        ("FOLDER/lfs/vocab.json", "merges.txt: is a pointer of Git LFS .* run `git lfs pull`"),
    ],
)
def test_wrong_vocabularies_are_one_clear_line(name, message, tmp_path):
    (tmp_path / "spieces.model").write_bytes(MODEL.read_bytes())
    (tmp_path / "text.model").write_text('{"model": "unigram"}')
    (tmp_path / "empty.model").write_bytes(b"")
    (tmp_path / "cut.model").write_bytes(MODEL.read_bytes()[:30_000])
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 9\n"
    (tmp_path / "lfs.model").write_text(pointer)
    (tmp_path / "lfs").mkdir()
    (tmp_path / "lfs" / "vocab.json").write_text('{"a": 0}')
    (tmp_path / "lfs" / "merges.txt").write_text(pointer)
    with pytest.raises(ConfigError, match=message) as error:
        vocabularies.load_vocabulary(name.replace("FOLDER", str(tmp_path)))
    assert "\n" not in str(error.value)


def test_all_files_of_tokenizers_are_copied_with_a_checkpoint():
    assert set(vocabularies.TOKENIZER_FILES) <= set(COMPANIONS)


@pytest.mark.parametrize("extra_ids", [-1, 1.5, True])
def test_extra_ids_must_be_a_count(extra_ids):
    with pytest.raises(ConfigError, match="extra_ids must be an integer >= 0"):
        vocabularies.load_vocabulary(extra_ids=extra_ids)


def test_a_changed_file_is_read_again(tmp_path):
    file = tmp_path / "spiece.model"
    file.write_bytes(MODEL.read_bytes())
    first = vocabularies.load_vocabulary(tmp_path)
    assert vocabularies.load_vocabulary(tmp_path) is first
    (tmp_path / "tokenizer_config.json").write_text("{}")
    again = vocabularies.load_vocabulary(tmp_path)
    assert again is not first
    assert vocabularies.load_vocabulary(tmp_path) is again
