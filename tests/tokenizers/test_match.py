import json
import types

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers.match import check_vocabulary
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.models import families
from tests.models.tiny import TINY


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
        (BART.replace(vocab_size=50265), BARTS, 0),
        (BART, BARTS, 1),
        (GPT2, GPT2S, 0),
        (BLOOM, BLOOMS, 0),
        (LLAMA2, LLAMA2S, 0),
        (LLAMA2, vocabulary(32001, 32000, 1, 2, 0), 1),
        (ROBERTA, BARTS, 0),
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
        (T5, GPT2S, ["50257 ids", "the model 32128"]),
        (T5.replace(vocab_size=50304), GPT2S, ["end token is id 50256", "is id 1"]),
        (T5.replace(vocab_size=50304), BARTS, ["end token is id 2", "eos_ids=(2,)"]),
        (T5.replace(vocab_size=50304, eos_ids=(2,)), BARTS, ["padding is id 1", "id 0"]),
        (T5, vocabulary(32100, 0, None, None), ["end token is no such token", "id 1"]),
        (T5, vocabulary(32100, None, None, 1), ["padding is no such token", "id 0"]),
        (
            BART.replace(vocab_size=50265, decoder_start_id=9),
            BARTS,
            ["starts with id 9", "pad 1, bos 0, eos 2"],
        ),
        (BLOOM, vocabulary(250680, 0, 1, 2, 3), ["padding is id 0", "id 3"]),
        (LLAMA3, vocabulary(128256, None, 128000, 128009), ["id 128009", "id 128001"]),
        (ROBERTA, vocabulary(50257, 0, 1, 2), ["padding is id 0", "id 1"]),
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
