"""The part of tools/benchmark.py about salience.

Shape: T5 1.1 small as in tools/benchmark.py; one row of 128 input and 64 target tokens, gradient x
input of all earlier tokens. Inseq runs with its defaults and `attribute_target`, so that both sides
compute the whole map. The floor is the cost of plain compiled passes for our map: one forward pass
and 64 backward passes, one for each target token.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import benchmark_decoding
import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer, output_layer
from faith_jax.scoring.salience.maps import salience_maps, target_logits

Part = Callable[[], Any]


def is_installed(part: str) -> bool:
    """Returns whether the other side of a part is installed; prints a notice if it is not."""
    if part != "salience" or importlib.util.find_spec("inseq"):
        return True
    print("salience: Inseq is not installed (pip install inseq); ours alone", file=sys.stderr)
    return False


def our_salience(
    config: TransformerConfig, inputs: np.ndarray, fed: np.ndarray, targets: np.ndarray
) -> dict[str, Part]:
    """Returns our map and its floor.

    Args:
      config: the config of the model.
      inputs: int32 [1, length].
      fed: int32 [1, targets], the decoder's inputs.
      targets: int32 [1, targets].
    """
    config = config.replace(dropout_rate=0.0)
    module, params = Transformer(config), benchmark_decoding.random_params(config)
    variables = {"params": params}

    def embed(tokens: np.ndarray) -> Any:
        return module.apply(variables, tokens, method=lambda m, t: m.token_embedder(t))

    @jax.jit
    def forward(params: Any, embeddings: Any) -> Any:
        def logits(embeddings: Any) -> Any:
            variables = {"params": params}
            encoded = module.apply(
                variables, inputs, enable_dropout=False, embeddings=embeddings[0], method="encode"
            )
            hidden = module.apply(
                variables, encoded, inputs, None, enable_dropout=False,
                embeddings=embeddings[1], method="decode_hidden",
            )  # fmt: skip
            return target_logits(output_layer(module, params), hidden, targets)

        return jax.vjp(logits, embeddings)

    @jax.jit
    def backward(pull_back: Any, embeddings: Any, column: Any) -> Any:
        (gradients,) = pull_back(jax.nn.one_hot(column, targets.shape[1])[None])
        return jax.tree.map(lambda g, e: jnp.sum(g * e, axis=-1), gradients, embeddings)

    embeddings = (embed(inputs), embed(fed))

    def floor() -> None:
        _, pull_back = forward(params, embeddings)
        for column in range(targets.shape[1]):
            jax.block_until_ready(backward(pull_back, embeddings, column))

    def salience() -> None:
        jax.block_until_ready(salience_maps(module, params, inputs, fed, targets))

    return {"salience": salience, "salience_floor": floor}


def inseq_salience(model: Any, inputs: np.ndarray, targets: np.ndarray) -> dict[str, Part]:
    """Returns Inseq's map with a Transformers T5 of the same shape.

    Args:
      model: the T5; a tokenizer with one word per token is made for it.
      inputs: int32 [1, length].
      targets: int32 [1, length].
    """
    import inseq
    import tokenizers
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    words = {"<pad>": 0, "</s>": 1, "<unk>": 2}
    words |= {f"w{number}": number for number in range(3, model.config.vocab_size)}
    word_tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    word_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    attribution = inseq.load_model(model.eval(), "input_x_gradient", tokenizer=tokenizer)
    source, target = (
        " ".join(f"w{max(3, token)}" for token in row[0]) for row in (inputs, targets)
    )

    def salience() -> None:
        attribution.attribute(source, target, attribute_target=True, show_progress=False)

    return {"salience": salience}
