import json

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.models.config import TransformerConfig
from tests.models.tiny import TINY


def test_to_dict_is_json_and_comes_back_equal():
    config = TransformerConfig(
        vocab_size=100, mlp_activations=("gelu", "linear"), encoder_prompt_length=5
    )
    fields = json.loads(json.dumps(config.to_dict()))
    assert TransformerConfig.from_dict(fields) == config
    assert hash(TransformerConfig.from_dict(fields)) == hash(config)  # static under jit
    assert fields["mlp_activations"] == ["gelu", "linear"]


def test_replace_changes_one_field_and_checks_it():
    config = TransformerConfig(vocab_size=100)
    assert config.replace(dtype="bfloat16").to_dict() == config.to_dict() | {"dtype": "bfloat16"}
    with pytest.raises(ConfigError, match="dtype"):
        config.replace(dtype="float16")


def test_names_of_the_input_kernels_are_t5s():
    config = TransformerConfig(vocab_size=100)
    assert config.mlp_kernels == ("wi",)
    assert config.replace(mlp_activations=("gelu", "linear")).mlp_kernels == ("wi_0", "wi_1")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("vocab_size", 0, "expected a positive whole number, got 0"),
        ("num_decoder_layers", -1, "expected 0 to 1,000 layers, got -1"),
        ("dropout_rate", 1.0, r"expected a share in \[0, 1\), got 1.0"),
        ("mlp_activations", (), "expected one or two, got"),
        ("relative_attention_num_buckets", 5, "expected an even number >= 4, got 5"),
        ("relative_attention_max_distance", 16, "expected more than half of the 32 buckets"),
        ("pad_id", 100, "expected a token of the vocabulary of 100, or -1, got 100"),
        ("pad_id", -2, "expected a token id, or -1, got -2"),
        ("decoder_start_id", 100, "expected a token of the vocabulary of 100, got 100"),
    ],
)
def test_values_out_of_range_name_the_field(field, value, message):
    with pytest.raises(ConfigError, match=f"TransformerConfig.{field}: {message}"):
        TransformerConfig(**({"vocab_size": 100} | {field: value}))


def test_unknown_and_missing_settings_are_named():
    with pytest.raises(ConfigError, match=r"'num_head'\. Did you mean 'num_heads'"):
        TransformerConfig.from_dict({"vocab_size": 100, "num_head": 8})
    with pytest.raises(ConfigError, match="no 'vocab_size'"):
        TransformerConfig.from_dict({"emb_dim": 8})


HALF = TINY.replace(dtype="bfloat16", head_dim=8)
OTHER_DROPOUT = HALF.replace(broadcast_dropout=False)
ROTARY = HALF.replace(positions="rotary", num_encoder_layers=0)


@pytest.mark.parametrize(
    ("config", "platform", "deterministic", "kernel"),
    [
        (HALF, "gpu", True, "cudnn"),
        (HALF, "gpu", False, "cudnn"),  # T5's dropout drops the same keys for all queries
        (OTHER_DROPOUT, "gpu", True, "cudnn"),
        (OTHER_DROPOUT, "gpu", False, "blocks"),
        (OTHER_DROPOUT.with_dropout(0.0), "gpu", False, "cudnn"),
        (OTHER_DROPOUT.replace(attention_dropout_rate=0.0), "gpu", False, "cudnn"),
        (HALF, "cpu", True, "blocks"),
        (HALF, "tpu", True, "blocks"),  # position bias
        (TINY.replace(head_dim=8), "gpu", True, "blocks"),  # float32
        (HALF.replace(attention_softcap=3.0), "gpu", True, "blocks"),
        (ROTARY, "tpu", True, "splash"),
        (ROTARY, "tpu", False, "splash"),
        (ROTARY.replace(broadcast_dropout=False), "tpu", False, "blocks"),
        (ROTARY.replace(sliding_window=4, sliding_window_layers=(0,)), "tpu", True, "splash"),
        (HALF.replace(attention_kernel="blocks"), "gpu", True, "blocks"),
    ],
)
def test_the_kernel_of_a_device_is_taken_where_it_fits(config, platform, deterministic, kernel):
    assert config.kernel_on(platform, deterministic) == kernel


def test_an_encoders_window_has_no_kernel_on_tpus():
    config = HALF.replace(
        num_decoder_layers=0, positions="rotary", sliding_window=5, sliding_window_layers=(0,)
    )
    assert config.kernel_on("tpu", deterministic=True) == "blocks"
    assert config.kernel_on("gpu", deterministic=True) == "cudnn"
