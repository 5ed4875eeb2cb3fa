"""BERTScore: greedy matching of contextual token embeddings (Zhang 2020)."""

import collections
import csv
import functools
import math
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.cutting import CutTokens, Kind, cut, one_part, sum_cuts
from faith_jax.core.errors import ConfigError, InputError, all_of
from faith_jax.core.types import Array, GroundedExample, PyTree
from faith_jax.inference.batching import Batcher, pad_rows, padded_length
from faith_jax.inference.opening import (
    LONGEST_PAIR,
    ModelOptions,
    check_ids,
    check_options,
    input_limit,
    open_model,
    open_tokenizer,
    require_model,
)
from faith_jax.models.transformer import Transformer
from faith_jax.scoring.base import Judgement, ModelScorer, join_texts
from faith_jax.scoring.model_cards import CARDS
from faith_jax.tokenizers.base import Tokenizer

PARTS = ("precision", "recall", "f1")
# The authors' choice of layer for RoBERTa, by the number of layers; for BERT they use 18 and 9.
_BEST_LAYERS = {24: 17, 12: 10}


class _TextIds(NamedTuple):
    """The token ids of response and grounding, including special tokens."""

    response: list[int]
    grounding: list[int]
    cut: CutTokens


@functools.partial(jax.jit, static_argnums=0)
def _compute_precision_recall(
    module: Transformer, params: PyTree, responses: Array, references: Array, weights: Array
) -> Array:
    """Returns precision and recall, float32 [rows, 2].

    Args:
      module: an encoder without classification head, up to the layer that is compared.
      params: the encoder's parameters.
      responses: int32 [rows, length], padded.
      references: int32 [rows, length], padded.
      weights: float32 [rows, 2, length], token weights of both texts; each text's sum to 1.
    """
    pad_id = module.config.pad_id

    def embed(tokens: Array) -> Array:
        options: Any = {"enable_dropout": False, "method": "encode"}
        hidden: Any = module.apply({"params": params}, tokens, **options)
        return hidden / jnp.linalg.norm(hidden, axis=-1, keepdims=True)

    similarity = jnp.einsum("bqd,bkd->bqk", embed(responses), embed(references))
    real_pairs = (responses != pad_id)[:, :, None] & (references != pad_id)[:, None, :]
    similarity = jnp.where(real_pairs, similarity, -jnp.inf)  # cosines, [rows, response, reference]
    best = (similarity.max(axis=2), similarity.max(axis=1))
    return jnp.sum(jnp.where(weights > 0, weights * jnp.stack(best, axis=1), 0.0), axis=2)


class BERTScoreOptions(ModelOptions, total=False):
    """The options of BERTScore, which by default reads 512 tokens.

    Each text is read separately. A longer text loses its end, or is an error by the policy "error".

    Attributes:
      part: "precision", "recall" or "f1", the default.
      layer: the layer whose hidden states are compared; default: the authors' choice for RoBERTa,
        17 of 24 or 10 of 12. For BERT they take 18 and 9.
      idf: texts as a list or as a file with one a line; tokens are weighted by their inverse
        document frequency in these texts. Special tokens, which all texts have, then weigh 0.
      baseline: a file of the authors' baselines to rescale with.
      prefix_space: put a space in front of each text, which changes the first token in RoBERTa's
        vocabulary. The authors' code requests this; Transformers did it before version 5, with
        which their baselines were computed, and ignores it since.
      lower_grounding: compare with the grounding in lower case, but leave the response as it is, as
        do Q²'s authors, Dziri 2022 and Nandwani 2023, and our tables of these papers.
    """

    part: str
    layer: int | None
    idf: str | Sequence[str] | None
    baseline: str | None
    prefix_space: bool
    lower_grounding: bool


class BERTScorer(ModelScorer[_TextIds]):
    """BERTScore of the response against the grounding; NaN if one of them is empty.

    Args:
      model: a folder of an encoder, such as roberta-large.
      **options: see `BERTScoreOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
      InputError: a file of texts or baselines cannot be read.
    """

    card = CARDS["bertscore"]

    def __init__(self, model: str | None = None, **options: Unpack[BERTScoreOptions]):
        path = require_model(model)
        check_options(options)
        self._part = options.get("part", "f1")
        if self._part not in PARTS:
            raise ConfigError(f"part: expected one of {', '.join(PARTS)}, got {self._part!r}.")
        opened = open_model(path, options.get("dtype"), options.get("num_partitions"))
        if not opened.config.is_encoder_only:
            raise ConfigError(
                f"model {path}: expected an encoder-only model (BERT, RoBERTa, DeBERTa …), got one "
                "with a decoder."
            )
        layer, tokenizer, self._max_length = all_of(
            lambda: _choose_layer(options.get("layer"), opened.config.num_encoder_layers),
            lambda: open_tokenizer(path, options.get("vocabulary"), opened.config),
            lambda: input_limit(opened.config, options.get("max_length"), LONGEST_PAIR),
        )
        config = opened.config.without_heads.replace(num_encoder_layers=layer)
        self._module, self._tokenizer = Transformer(config), tokenizer
        # Layers above the compared one are not computed.
        above = {f"layers_{number}" for number in range(layer, opened.config.num_encoder_layers)}
        encoder = {k: v for k, v in opened.params["encoder"].items() if k not in above}
        self._params = {"token_embedder": opened.params["token_embedder"], "encoder": encoder}
        self._cut_policy = options.get("cut_policy") or "knowledge"
        prefix_space = options.get("prefix_space", False)
        self._space, self._lower = " " * prefix_space, options.get("lower_grounding", False)
        source, baseline = options.get("idf"), options.get("baseline")
        # Weights of token ids, with the weight of all other ids under None; None = equal weights.
        self._idf = None
        if source is not None:
            self._idf = _document_frequencies(tokenizer, _read_idf_texts(source), prefix_space)
        # Precision, recall and F1 of unrelated texts, rescaled to 0; None = no rescaling.
        self._baseline = None if baseline is None else _read_baseline(baseline, layer)
        self._partitioner = opened.partitioner
        self._batcher = Batcher(
            "BERTScore",
            options.get("tokens_per_batch"),
            on_cpu=2048,
            multiple_of=self._partitioner.data_parallelism,
        )

    def read(self, example: GroundedExample) -> _TextIds | None:
        """Returns the ids of both texts."""
        response, grounding = example.response.strip(), join_texts(example.grounding).strip()
        if not grounding:
            return None
        where = f"example {example.id!r}: max_length = {self._max_length}"
        grounding = grounding.lower() if self._lower else grounding
        ids, cut_response = self._encode_text(response, Kind.RESPONSE, f"{where}, response")
        grounding_ids, cut_grounding = self._encode_text(
            grounding, Kind.KNOWLEDGE, f"{where}, grounding"
        )
        return _TextIds(ids, grounding_ids, sum_cuts([cut_response, cut_grounding]))

    def _encode_text(self, text: str, kind: Kind, where: str) -> tuple[list[int], CutTokens]:
        ids = np.asarray(self._tokenizer.encode(self._space + text), int)
        room = self._max_length - len(self._tokenizer.add_special_tokens([]))
        keep, tokens = cut(len(ids), [one_part(kind, len(ids))], room, self._cut_policy, where)
        row = self._tokenizer.add_special_tokens(ids[keep].tolist())
        return check_ids(list(row), self._module.config.vocab_size), tokens

    def texts(self, row: _TextIds) -> dict[str, str]:
        """Returns response and grounding as separate inputs."""
        to_readable = self._tokenizer.to_readable
        return {"response": to_readable(row.response), "grounding": to_readable(row.grounding)}

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[_TextIds]
    ) -> list[Judgement]:
        values, number = np.zeros(len(rows)), PARTS.index(self._part)
        pad_id = self._module.config.pad_id
        bound = functools.partial(_compute_precision_recall, self._module, self._params)
        lengths = [padded_length(max(len(row.response), len(row.grounding))) for row in rows]
        for batch in self._batcher.batches([(length, length) for length in lengths]):
            length, _ = batch.shape
            sides = [rows[i].response for i in batch.rows], [rows[i].grounding for i in batch.rows]
            tokens = [pad_rows(side, length, pad_id, batch.size) for side in sides]
            weights = np.zeros((batch.size, 2, length), np.float32)
            for side, texts in enumerate(sides):
                # Rows that only fill up the batch compare one token with itself.
                tokens[side][len(batch.rows) :, 0] = self._tokenizer.prefix_ids[0]
                for line, ids in zip(weights[:, side], texts, strict=False):
                    line[: len(ids)] = self._weigh_tokens(ids)
            pairs = np.asarray(self._partitioner.compute(bound, *tokens, weights))
            # A text whose tokens all weigh 0 cannot be compared.
            pairs = np.where(weights.sum(axis=2) > 0, pairs, np.nan)
            for i, (precision, recall) in zip(batch.rows, pairs.tolist(), strict=False):
                total = precision + recall
                f1 = 2 * precision * recall / total if total else 0.0
                values[i] = (precision, recall, f1)[number]
        if self._baseline is not None:
            values = (values - self._baseline[number]) / (1 - self._baseline[number])
        return [Judgement(value) for value in values.tolist()]

    def _weigh_tokens(self, ids: Sequence[int]) -> np.ndarray:
        """Returns the weights of tokens, which sum to 1; special tokens weigh 0."""
        if self._idf is None:
            weights = np.ones(len(ids))
            first, last = len(self._tokenizer.prefix_ids), len(self._tokenizer.suffix_ids)
            weights[:first] = 0
            weights[len(ids) - last :] = 0
        else:
            weights = np.array([self._idf.get(i, self._idf[None]) for i in ids])
        total = weights.sum()
        return weights / total if total else weights


def _choose_layer(option: int | None, count: int) -> int:
    """Returns the number of the layer to compare: the option's, or the choice for RoBERTa."""
    layer = _BEST_LAYERS.get(count) if option is None else option
    if layer is None:
        raise ConfigError(f"layer: say which of the model's {count} layers is compared.")
    if isinstance(layer, bool) or not isinstance(layer, int) or not 1 <= layer <= count:
        raise ConfigError(f"layer: expected 1 to {count}, the model's layers, got {layer!r}.")
    return layer


def _document_frequencies(
    tokenizer: Tokenizer, texts: Sequence[str], prefix_space: bool = False
) -> dict[int | None, float]:
    """Returns the inverse document frequency of each token id: log((N + 1) / (df + 1)).

    The value under None is for ids that occur in no text.
    """
    counts: collections.Counter[int] = collections.Counter()
    space = " " if prefix_space else ""
    for text in texts:
        counts.update(set(tokenizer.add_special_tokens(tokenizer.encode(space + text.strip()))))
    idf: dict[int | None, float] = {None: math.log(len(texts) + 1)}
    idf |= {i: math.log((len(texts) + 1) / (count + 1)) for i, count in counts.items()}
    return idf


def _read_baseline(path: str, layer: int) -> tuple[float, float, float]:
    """Reads a layer's row (LAYER,P,R,F) of one of the authors' baseline files."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        baselines = {int(row["LAYER"]): tuple(float(row[c]) for c in "PRF") for row in rows}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}.") from None
    except (UnicodeDecodeError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path}: expected rows of LAYER,P,R,F, as BERTScore's baseline files have them."
        ) from None
    if layer not in baselines:
        raise InputError(f"{path}: there is no row for layer {layer}.")
    precision, recall, f1 = row = baselines[layer]
    if not max(row) < 1:  # scores are divided by 1 - baseline
        raise InputError(f"{path}: layer {layer}: expected numbers below 1, got {row}.")
    return precision, recall, f1


def _read_idf_texts(source: str | Sequence[str]) -> Sequence[str]:
    """Returns the texts for document frequencies, from a list or a file's lines."""
    texts: Any = source
    if isinstance(source, str):
        try:
            lines = pathlib.Path(source).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{source}: not a readable file of texts, one a line ({error})."
            ) from None
        texts = [line for line in lines if line.strip()]
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"idf: expected a file of texts, one a line, or a list, got {source!r}.")
    if not texts:
        raise InputError(f"{source}: expected texts, one a line; there are none.")
    return texts
