"""What models that generate share: decoding options and seeds, checked."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.types import Array
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.encoder_decoder import row_keys
from faith_jax.inference.base import BaseModel


class GenerativeModel(BaseModel):
    """A model that generates, with its parameters."""

    def _decoding(self, options: dict[str, Any], *, pmi: bool = False) -> DecodingConfig:
        """Returns the config of decoding options.

        Args:
          options: what was given, fields of `DecodingConfig`.
          pmi: whether it is for PMI-Decode, by default with `PMIConfig()`.

        Raises:
          ConfigError: on an unknown option, on one out of its range, on tokens outside the model's
            vocabulary, and on a `pmi` where there is none, or none where there is one.
        """
        known = [field.name for field in dataclasses.fields(DecodingConfig)]
        for name in options:
            if name not in known:
                raise ConfigError(f"decoding: there is no option {name!r}.{_advice(name, known)}")
        config = DecodingConfig(**({"pmi": PMIConfig()} if pmi else {}) | options)
        if pmi and config.pmi is None:
            raise ConfigError("decoding: pmi = None; expected a PMIConfig, or call decode.")
        if config.pmi is not None and not pmi:
            raise ConfigError(
                f"decoding: pmi = {config.pmi!r}; expected None: PMI-Decode is decode_pmi, which "
                "takes the inputs with and without the document."
            )
        config.check_vocabulary(self.config.vocab_size)
        return config


def _advice(name: str, known: list[str]) -> str:
    """Returns what to give in place of an unknown option."""
    if name in [field.name for field in dataclasses.fields(PMIConfig)]:
        return f" It is one of PMI-Decode: decode_pmi(…, pmi=PMIConfig({name}=…))."
    if name.startswith("input_lengths"):
        return " An encoder-decoder's inputs end where their padding begins."
    known = ["seed", *known]
    return f"{did_you_mean(name, known)} The options: {', '.join(known)}."


def sampling_keys(seed: Any, batch: int) -> Array:
    """Returns one random key for each row of a batch.

    Raises:
      ConfigError: for a seed that is not a whole number of 32 bits, which is what keys hold.
    """
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < 2**32:
        raise ConfigError(
            f"decoding: seed = {seed!r}; expected a whole number from 0 to 2**32 - 1."
        )
    return row_keys(int(seed), jnp.arange(batch))
