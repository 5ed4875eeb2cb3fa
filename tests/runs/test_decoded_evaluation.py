import pytest

from faith_jax.decoding.config import DecodingConfig
from faith_jax.errors import ConfigError
from faith_jax.models.transformer import Transformer
from faith_jax.runs.decoded_evaluation import BatchDecoder
from tests.models import families, tiny


@pytest.mark.parametrize("config", [tiny.TINY, families.GPT2])
def test_tokens_outside_the_vocabulary_are_refused_before_a_run_begins(config):
    decoding = DecodingConfig(max_length=4, eos_id=(1, 50))
    with pytest.raises(ConfigError, match=r"eos_id = \(1, 50\); expected .* vocabulary size of 50"):
        BatchDecoder(Transformer(config), None, decoding, batch_size=2)
