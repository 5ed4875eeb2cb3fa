"""Batches of rows for each model family: padded or packed rows, one sequence or two."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from faith_jax.inference.batching import FilledLines, pad_rows, token_types
from faith_jax.inference.texts.row_tokens import InputLayout
from faith_jax.models.config import TransformerConfig


def batch_features(
    rows: Sequence[Mapping[str, Any]], layout: InputLayout, lengths: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns a batch of rows for a language model.

    Returns:
      `decoder_input_tokens`, `decoder_target_tokens`, `decoder_loss_weights` (1 on target tokens)
      and, with an encoder, `encoder_input_tokens`, DoHA's `knowledge_input_tokens`, int32
      [rows, length], and `negatives`, int32 [rows, texts, length].
    """
    config = layout.config
    inputs = [row["inputs"] for row in rows]
    targets = [row["targets"] for row in rows]
    if config.is_decoder_only:
        length = lengths["inputs"] + lengths["targets"] - 1
        joined = [np.concatenate(pair) for pair in zip(inputs, targets, strict=True)]
        weights = [
            np.r_[np.zeros(len(i) - 1, int), np.ones(len(t), int)]
            for i, t in zip(inputs, targets, strict=True)
        ]
        return {
            "decoder_input_tokens": pad_rows([ids[:-1] for ids in joined], length, config.pad_id),
            "decoder_target_tokens": pad_rows([ids[1:] for ids in joined], length, config.pad_id),
            "decoder_loss_weights": pad_rows(weights, length, 0),
        }
    length = lengths["targets"]
    features = {
        "encoder_input_tokens": pad_rows(inputs, lengths["inputs"], config.pad_id),
        "decoder_input_tokens": pad_rows(
            [[config.decoder_start_id, *ids[:-1]] for ids in targets], length, config.pad_id
        ),
        "decoder_target_tokens": pad_rows(targets, length, config.pad_id),
        "decoder_loss_weights": pad_rows([np.ones(len(ids)) for ids in targets], length, 0),
    }
    if config.knowledge_attention:
        knowledge = [row["knowledge"] for row in rows]
        features["knowledge_input_tokens"] = pad_rows(knowledge, lengths["inputs"], config.pad_id)
    if "negatives" in lengths:
        count, max_tokens = lengths["negatives"]
        features["negatives"] = np.full((len(rows), count, max_tokens), config.pad_id, np.int32)
        for texts, row in zip(features["negatives"], rows, strict=True):
            negatives = pad_rows(row["negatives"], max_tokens, config.pad_id)
            texts[: len(negatives)] = negatives
    return features


def packed_features(
    rows: Sequence[Sequence[Mapping[str, Any]]], lengths: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns a batch of packed rows of a T5: several examples each, with segment ids.

    Returns:
      The features of `batch_features`, and `encoder_segment_ids` and `decoder_segment_ids`: 1 for
      the tokens of the first example, 2 for the second, 0 for padding.
    """
    inputs, targets = (FilledLines(len(rows), lengths[name], 0) for name in ("inputs", "targets"))
    decoder_inputs = np.zeros_like(targets.tokens)
    for line, examples in enumerate(rows):
        for number, row in enumerate(examples, 1):
            inputs.append(line, row["inputs"], number)
            span = targets.append(line, row["targets"], number)
            decoder_inputs[line, span] = [0, *row["targets"][:-1]]
    return {
        "encoder_input_tokens": inputs.tokens,
        "encoder_segment_ids": inputs.segments,
        "decoder_input_tokens": decoder_inputs,
        "decoder_target_tokens": targets.tokens,
        "decoder_segment_ids": targets.segments,
        "decoder_loss_weights": (targets.segments > 0).astype(np.int32),
    }


def passage_features(
    rows: Sequence[Mapping[str, Any]], lengths: Mapping[str, Any], pad_id: int
) -> dict[str, np.ndarray]:
    """Returns a batch of queries and passages for one encoder.

    Returns:
      `encoder_input_tokens`, the queries, and `passage_tokens`, int32 [rows, length], and
      `label_weights`, float32 [rows], all 1.
    """
    return {
        "encoder_input_tokens": pad_rows(
            [row["inputs"] for row in rows], lengths["inputs"], pad_id
        ),
        "passage_tokens": pad_rows([row["knowledge"] for row in rows], lengths["passages"], pad_id),
        "label_weights": np.ones(len(rows), np.float32),
    }


def pair_features(
    rows: Sequence[Mapping[str, Any]], length: int, config: TransformerConfig
) -> dict[str, np.ndarray]:
    """Returns a batch for a classification head.

    Returns:
      `encoder_input_tokens` and, for models of several token types, `token_types`, int32
      [rows, length]; `labels`, int32 [rows]; and `label_weights`, float32 [rows], all 1.
    """
    types = {}
    if config.num_token_types > 1:
        types = {"token_types": token_types([row["second"] for row in rows], length)}
    return types | {
        "encoder_input_tokens": pad_rows([row["inputs"] for row in rows], length, config.pad_id),
        "labels": np.array([row["label"] for row in rows], np.int32),
        "label_weights": np.ones(len(rows), np.float32),
    }
