"""CTranslate2's side of tools/benchmark.py: a T5 of the same shape with random parameters.

The parameters are written in CTranslate2's own format, in float32 and in 8 bits, and read by its
C++ runtime. Tokens go in and come out as strings, since its Python interface takes strings.
"""

import tempfile
from collections.abc import Mapping
from typing import Any

import benchmark_decoding
import numpy as np

from faith_jax.models.config import TransformerConfig

# The special tokens, the first three of the vocabulary as in T5.
PAD, EOS, UNKNOWN = range(3)
COMPUTE_TYPES = {"": "float32", "_int8": "int8"}


def parts(config: TransformerConfig, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns greedy search, beam search and scoring, in float32 and ("_int8") in 8 bits."""
    inputs, targets = (
        [[f"t{token}" for token in row] for row in batch[name].tolist()]
        for name in ("encoder_input_tokens", "decoder_target_tokens")
    )
    length = len(targets[0])
    runs_by_part = {}
    for suffix, compute_type in COMPUTE_TYPES.items():
        translator = _translator(config, compute_type)
        # Rows never end, so that all sides decode the same number of tokens.
        searches = {"max_decoding_length": length, "min_decoding_length": length}

        def greedy(translator=translator, searches=searches):
            translator.translate_batch(inputs, beam_size=1, **searches)

        def beam(translator=translator, searches=searches):
            few = inputs[: benchmark_decoding.BATCH]
            translator.translate_batch(few, beam_size=benchmark_decoding.BEAMS, **searches)

        def score(translator=translator):
            translator.score_batch(inputs, targets)

        runs_by_part |= {f"greedy{suffix}": greedy, f"beam{suffix}": beam, f"score{suffix}": score}
    return runs_by_part


def _translator(config: TransformerConfig, compute_type: str) -> Any:
    """Writes a model of this shape to a temporary folder, and opens it."""
    import ctranslate2
    from ctranslate2.specs import common_spec, transformer_spec

    rng = np.random.default_rng(0)
    width = config.num_heads * config.head_dim

    def set_matrix(spec: Any, outputs: int, inputs: int, stddev: float | None = None) -> None:
        matrix = rng.normal(size=(outputs, inputs)) * (stddev or inputs**-0.5)
        spec.weight = matrix.astype(np.float32)

    def set_norm(spec: Any) -> None:
        spec.gamma = np.ones(config.emb_dim, np.float32)

    layers = config.num_encoder_layers, config.num_decoder_layers
    spec = transformer_spec.TransformerSpec.from_config(
        layers,
        config.num_heads,
        pre_norm=True,
        activation=common_spec.Activation.GELUTanh,
        ffn_glu=True,
        relative_attention_bias=True,
        rms_norm=True,
    )
    for stack in (spec.encoder, spec.decoder):
        embeddings = stack.embeddings
        embeddings = embeddings[0] if isinstance(embeddings, list) else embeddings
        set_matrix(embeddings, config.vocab_size, config.emb_dim, stddev=1.0)
        stack.scale_embeddings = False
        set_norm(stack.layer_norm)
        # As in T5, all layers share the first layer's bias.
        bias = rng.normal(size=(32, config.num_heads)).astype(np.float32)
        for layer in stack.layer:
            attention = layer.self_attention
            attention.queries_scale = 1.0
            set_matrix(attention.linear[0], 3 * width, config.emb_dim)
            set_matrix(attention.linear[1], config.emb_dim, width)
            attention.relative_attention_bias = bias
            attention.relative_attention_max_distance = np.int32(128)
            set_norm(attention.layer_norm)
            if stack is spec.decoder:
                cross = layer.attention
                cross.queries_scale = 1.0
                set_matrix(cross.linear[0], width, config.emb_dim)
                set_matrix(cross.linear[1], 2 * width, config.emb_dim)
                set_matrix(cross.linear[2], config.emb_dim, width)
                set_norm(cross.layer_norm)
            set_matrix(layer.ffn.linear_0, config.mlp_dim, config.emb_dim)
            set_matrix(layer.ffn.linear_0_noact, config.mlp_dim, config.emb_dim)
            set_matrix(layer.ffn.linear_1, config.emb_dim, config.mlp_dim)
            set_norm(layer.ffn.layer_norm)
    set_matrix(spec.decoder.projection, config.vocab_size, config.emb_dim)
    tokens = [f"t{token}" for token in range(config.vocab_size)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.bos_token = spec.config.decoder_start_token = tokens[PAD]
    spec.config.eos_token, spec.config.unk_token = tokens[EOS], tokens[UNKNOWN]
    spec.validate()
    spec.optimize(quantization=compute_type)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        return ctranslate2.Translator(folder, device="cpu", compute_type=compute_type)
