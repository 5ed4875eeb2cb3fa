import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers.special_tokens import model_config, read_tokenizer_config
from tests.tokenizers.published_tokenizers import write_json


def test_no_file_says_nothing(tmp_path):
    config = read_tokenizer_config(tmp_path)
    assert config.tokenizer_class == ""
    assert config.special_tokens("") == {}


@pytest.mark.parametrize(
    ("options", "model", "expected"),
    [
        ({"tokenizer_class": "GPT2TokenizerFast"}, {}, "GPT2Tokenizer"),
        ({"tokenizer_class": "BartTokenizer"}, {"model_type": "bart"}, "RobertaTokenizer"),
        ({}, {"model_type": "deberta-v2"}, "DebertaV2Tokenizer"),
        ({}, {"tokenizer_class": "BertTokenizer", "model_type": "gpt2"}, "BertTokenizer"),
        ({"tokenizer_class": None}, {"model_type": "gemma2"}, "GemmaTokenizer"),
    ],
)
def test_the_class_comes_from_the_tokenizer_before_the_model(options, model, expected, tmp_path):
    write_json(tmp_path / "tokenizer_config.json", options)
    write_json(tmp_path / "config.json", model)
    assert read_tokenizer_config(tmp_path).tokenizer_class == expected


def test_tokens_are_texts_or_objects_and_null_means_none(tmp_path):
    options = {
        "tokenizer_class": "GPT2Tokenizer",
        "bos_token": None,
        "eos_token": {"__type": "AddedToken", "content": "<e>", "lstrip": True, "odd": 1},
        "pad_token": "<p>",
    }
    write_json(tmp_path / "tokenizer_config.json", options)
    config = read_tokenizer_config(tmp_path)
    assert config.special_tokens("GPT2Tokenizer") == {
        "eos": {"content": "<e>", "lstrip": True},
        "unk": {"content": "<|endoftext|>"},
        "pad": {"content": "<p>"},
    }


def test_the_map_counts_only_where_no_newer_form_is(tmp_path):
    write_json(tmp_path / "special_tokens_map.json", {"eos_token": "<old>"})
    write_json(tmp_path / "added_tokens.json", {"<old>": 9, "<word>": 8})
    config = read_tokenizer_config(tmp_path)
    assert config.tokens == {"eos": {"content": "<old>"}}
    word = {"content": "<word>", "normalized": True, "special": False}
    old = {"content": "<old>", "normalized": False, "special": True}
    assert config.added == (word, old)
    write_json(
        tmp_path / "tokenizer_config.json",
        {
            "eos_token": "<new>",
            "added_tokens_decoder": {"10": {"content": "b"}, "9": {"content": "a"}},
        },
    )
    config = read_tokenizer_config(tmp_path)
    assert config.tokens == {"eos": {"content": "<new>"}}
    assert config.added == ({"content": "a"}, {"content": "b"})


def test_extra_tokens_of_both_forms(tmp_path):
    write_json(tmp_path / "tokenizer_config.json", {"additional_special_tokens": ["<a>"]})
    assert read_tokenizer_config(tmp_path).extra == ({"content": "<a>"},)
    write_json(tmp_path / "tokenizer_config.json", {"extra_special_tokens": {"image": "<i>"}})
    assert read_tokenizer_config(tmp_path).extra == ({"content": "<i>"},)


def test_model_ids_take_the_first_of_several_ends(tmp_path):
    ids = {"eos_token_id": [5, 6], "pad_token_id": -1, "bos_token_id": None, "sep_token_id": 4}
    write_json(tmp_path / "config.json", ids)
    assert read_tokenizer_config(tmp_path).model_ids == {"eos": 5, "sep": 4}


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not valid JSON: .* get the file again"), (b"3", "expected a JSON object, got 3")],
)
def test_broken_json_is_one_clear_line(content, message, tmp_path):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=message) as error:
        model_config(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options",
    [
        {"added_tokens_decoder": {"x": "<a>"}},
        {"added_tokens_decoder": ["<a>"]},
        {"pad_token": ["<p>"]},
    ],
)
def test_tokens_of_no_known_form_are_one_clear_line(options, tmp_path):
    write_json(tmp_path / "tokenizer_config.json", options)
    with pytest.raises(ConfigError, match="describes a token in no known form") as error:
        read_tokenizer_config(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_config_of_an_imported_checkpoint(tmp_path):
    assert model_config(tmp_path) == model_config(tmp_path / "nowhere") == {}
    for broken in ("{", "[]", '{"metadata": {"huggingface": {"config_json": "["}}}'):
        (tmp_path / "model.json").write_text(broken)
        assert model_config(tmp_path) == {}
    kept = {"metadata": {"huggingface": {"config_json": '{"model_type": "gpt2"}'}}}
    write_json(tmp_path / "model.json", kept)
    assert model_config(tmp_path) == {"model_type": "gpt2"}
    assert read_tokenizer_config(tmp_path).tokenizer_class == "GPT2Tokenizer"
    write_json(tmp_path / "config.json", {"model_type": "bert"})
    assert model_config(tmp_path) == {"model_type": "bert"}
