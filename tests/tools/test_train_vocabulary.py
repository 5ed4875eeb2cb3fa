import pytest

from faith_jax.tokenizers import vocabularies
from tools import train_vocabulary


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Some people drink tea.\n\nOthers prefer coffee in the morning.\n" * 20)
    return path


def test_training_twice_gives_the_same_bytes(text, tmp_path, capsys):
    for name in ("a.model", "b.model"):
        arguments = [str(text), "--output", str(tmp_path / name), "--vocab_size", "600"]
        assert train_vocabulary.main([*arguments, "--held_out", str(text)]) == 0
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()
    assert "tokens a word" in capsys.readouterr().out
    vocabulary = vocabularies.load_vocabulary(tmp_path / "a.model", extra_ids=10)
    assert vocabulary.vocab_size == 610
    assert vocabulary.decode(vocabulary.encode("{Zoë 1/2}")) == "{Zoë 1/2}"


def test_tokens_per_word_by_hand():
    model = vocabularies.load_vocabulary(extra_ids=0)
    serialised = model.tokenizer.serialized_model_proto()
    # "▁the", "▁people", "." are pieces: three for two words.
    assert train_vocabulary.tokens_per_word(serialised, ["the people."]) == 3 / 2
