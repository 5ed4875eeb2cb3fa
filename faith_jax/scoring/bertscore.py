"""BERTScore: greedy matching of contextual token embeddings (Zhang 2020)."""

import collections
import csv
import functools
import math
import pathlib
from collections.abc import Sequence
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.cutting import CutTokens, Kind, by_name, cut, summed, whole
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.types import Array, GroundedExample, PyTree, Score
from faith_jax.inference.batching import Batch, Batcher, padded, padded_length
from faith_jax.inference.encoder import EncoderModel
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
from faith_jax.scoring.base import BaseScorer, SeenInput, joined
from faith_jax.scoring.model_cards import BERTSCORE
from faith_jax.tokenizers.base import Tokenizer

PARTS = ("precision", "recall", "f1")
# Layers that correlate best with people's judgments, by the number of all (the authors' table).
_BEST_LAYERS = {24: 17, 12: 10}
# A text's ids with special tokens, none if it is empty, and how many of its tokens were cut.
_Row = tuple[list[int], CutTokens]


@functools.partial(jax.jit, static_argnums=0)
def _matches(
    module: Transformer, params: PyTree, responses: Array, references: Array, weights: Array
) -> Array:
    """Returns precision and recall, float32 [rows, 2].

    Args:
      module: an encoder without classification head, as many layers as wanted.
      params: its parameters.
      responses: int32 [rows, length], padded.
      references: int32 [rows, length], padded.
      weights: float32 [2, rows, length], of the tokens of both; those of a row sum to 1.
    """
    pad_id = module.config.pad_id

    def embed(tokens: Array) -> Array:
        hidden: Any = module.apply({"params": params}, tokens, None, False, method="encode")
        return hidden / jnp.linalg.norm(hidden, axis=-1, keepdims=True)

    similarity = jnp.einsum("bqd,bkd->bqk", embed(responses), embed(references))
    both = (responses != pad_id)[:, :, None] & (references != pad_id)[:, None, :]
    similarity = jnp.where(both, similarity, -jnp.inf)
    best = (similarity.max(axis=2), similarity.max(axis=1))
    sums = [jnp.sum(jnp.where(w > 0, w * b, 0.0), axis=1) for w, b in zip(weights, best)]  # noqa: B905
    return jnp.stack(sums, axis=1)


class BERTScorer(BaseScorer):
    """BERTScore of the response against the grounding.

    Args:
      model: an encoder.
      tokenizer: of the same model.
      layer: whose hidden states are compared.
      options: see `BERTScoreOptions`.
    """

    card = BERTSCORE

    def __init__(
        self, model: EncoderModel, tokenizer: Tokenizer, layer: int, options: "BERTScoreOptions"
    ):
        config = model.config.replace(num_encoder_layers=layer, label_names=())
        self._module = Transformer(config)
        encoder = {k: v for k, v in model.params["encoder"].items() if not _is_above(k, layer)}
        self._params = {"token_embedder": model.params["token_embedder"], "encoder": encoder}
        self._tokenizer, self._part = tokenizer, options.get("part", "f1")
        self._max_length = input_limit(model.config, options.get("max_length"), LONGEST_PAIR)
        self._cut_policy = options.get("cut_policy") or "knowledge"
        prefix_space = options.get("prefix_space", False)
        self._space, self._lower = " " * prefix_space, options.get("lower_grounding", False)
        texts, baseline = _texts(options.get("idf")), options.get("baseline")
        # Weights of token ids, and under None of those that are not there; None = all are alike.
        self._idf = None
        if texts is not None:
            self._idf = document_frequencies(tokenizer, texts, prefix_space)
        # Precision, recall and F1 of unrelated texts, which become 0; None = no rescaling.
        self._baseline = None if baseline is None else read_baseline(baseline, layer)
        self._batcher = Batcher("BERTScore", options.get("tokens_per_batch"), on_cpu=2048)

    @property
    def num_compilations(self) -> int:
        """How many shapes the model was compiled for."""
        return self._batcher.num_shapes

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example, NaN where response or grounding is empty."""
        rows = [self._rows(example) for example in examples]
        scored = [i for i, pair in enumerate(rows) if all(ids for ids, _ in pair)]
        found = [Score(math.nan)] * len(examples)
        lengths = [padded_length(max(len(ids) for ids, _ in rows[i])) for i in scored]
        for batch in self._batcher.batches([(length, length) for length in lengths]):
            numbers = [scored[place] for place in batch.rows]
            values = self._match([rows[i] for i in numbers], batch)
            for i, value in zip(numbers, values, strict=False):
                cut = by_name(summed(tokens for _, tokens in rows[i]))
                found[i] = Score(self._value(*map(float, value)), (), cut)
        return found

    def seen(self, example: GroundedExample) -> SeenInput | None:
        """Returns response and grounding, each a text of its own."""
        rows = dict(zip(("response", "grounding"), self._rows(example), strict=True))
        if not all(ids for ids, _ in rows.values()):
            return None
        shown = {name: self._tokenizer.shown(ids) for name, (ids, _) in rows.items()}
        return SeenInput(shown, summed(tokens for _, tokens in rows.values()))

    def _rows(self, example: GroundedExample) -> tuple[_Row, _Row]:
        """Returns the rows of response and grounding."""
        where = f"example {example.id!r}: max_length = {self._max_length}"
        grounding = joined(example.grounding)
        grounding = grounding.lower() if self._lower else grounding
        return (
            self._row(example.response, Kind.RESPONSE, f"{where}, response"),
            self._row(grounding, Kind.KNOWLEDGE, f"{where}, grounding"),
        )

    def _row(self, text: str, kind: Kind, where: str) -> _Row:
        text = text.strip()
        if not text:
            return [], CutTokens()
        ids = np.asarray(self._tokenizer.encode(self._space + text), int)
        room = self._max_length - len(self._tokenizer.add_special_tokens([]))
        keep, tokens = cut(len(ids), [whole(kind, len(ids))], room, self._cut_policy, where)
        row = self._tokenizer.add_special_tokens(ids[keep].tolist())
        return check_ids(list(row), self._module.config.vocab_size), tokens

    def _match(self, rows: Sequence[tuple[_Row, _Row]], batch: Batch) -> np.ndarray:
        pad_id, (length, _) = self._module.config.pad_id, batch.shape
        sides = [[ids for ids, _ in side] for side in zip(*rows, strict=True)]
        tokens = [padded(side, batch.size, length, pad_id) for side in sides]
        weights = np.zeros((2, batch.size, length), np.float32)
        for side, texts in enumerate(sides):
            # Lines that only fill the batch up compare one token with itself.
            tokens[side][len(rows) :, 0] = self._tokenizer.prefix_ids[0]
            for line, ids in zip(weights[side], texts, strict=False):
                line[: len(ids)] = self._weights(ids)
        return np.asarray(_matches(self._module, self._params, *tokens, weights))

    def _weights(self, ids: Sequence[int]) -> np.ndarray:
        """Returns the tokens' weights, summing to 1; those of special tokens are 0."""
        if self._idf is None:
            weights = np.ones(len(ids))
            first, last = len(self._tokenizer.prefix_ids), len(self._tokenizer.suffix_ids)
            weights[:first] = 0
            weights[len(ids) - last :] = 0
        else:
            weights = np.array([self._idf.get(i, self._idf[None]) for i in ids])
        total = weights.sum()
        return weights / total if total else weights

    def _value(self, precision: float, recall: float) -> float:
        total = precision + recall
        f1 = 2 * precision * recall / total if total else 0.0
        number = PARTS.index(self._part)
        value = (precision, recall, f1)[number]
        if self._baseline is None:
            return value
        return (value - self._baseline[number]) / (1 - self._baseline[number])


def _is_above(name: str, layer: int) -> bool:
    return name.startswith("layers_") and int(name.removeprefix("layers_")) >= layer


def document_frequencies(
    tokenizer: Tokenizer, texts: Sequence[str], prefix_space: bool = False
) -> dict[int | None, float]:
    """Returns the inverse document frequency of each token id: log((N + 1) / (df + 1)).

    Args:
      tokenizer: the model's.
      texts: the references.
      prefix_space: see `BERTScoreOptions`.

    Returns:
      By id; that of None is what ids of no text have.
    """
    counts: collections.Counter[int] = collections.Counter()
    space = " " if prefix_space else ""
    for text in texts:
        counts.update(set(tokenizer.add_special_tokens(tokenizer.encode(space + text.strip()))))
    idf: dict[int | None, float] = {None: math.log(len(texts) + 1)}
    idf |= {i: math.log((len(texts) + 1) / (count + 1)) for i, count in counts.items()}
    return idf


def read_baseline(path: str, layer: int) -> tuple[float, float, float]:
    """Reads a layer's row of a baseline file of the authors: LAYER,P,R,F.

    Raises:
      InputError: on another form, and without the layer.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        found = {int(row["LAYER"]): tuple(float(row[c]) for c in "PRF") for row in rows}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}.") from None
    except (UnicodeDecodeError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path}: expected rows of LAYER,P,R,F, as BERTScore's baseline files have them."
        ) from None
    if layer not in found:
        raise InputError(f"{path}: there is no row for layer {layer}.")
    precision, recall, f1 = found[layer]
    return precision, recall, f1


def _texts(given: str | Sequence[str] | None) -> Sequence[str] | None:
    """Returns the texts whose document frequencies weigh the tokens: a list, or a file's lines."""
    if given is None:
        return None
    texts: Any = given
    if isinstance(given, str):
        try:
            lines = pathlib.Path(given).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{given}: not a readable file of texts, one a line ({error})."
            ) from None
        texts = [line for line in lines if line.strip()]
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"idf: expected a file of texts, one a line, or a list, got {given!r}.")
    if not texts:
        raise InputError(f"{given}: expected texts, one a line; there are none.")
    return texts


class BERTScoreOptions(ModelOptions, total=False):
    """The options of BERTScore, which by default reads 512 tokens.

    Each text stands alone, and a longer one loses its end; the policy "error" refuses it.

    Attributes:
      part: "precision", "recall" or "f1", the default.
      layer: whose hidden states are compared; default: the authors' choice, 17 of 24 or 10 of 12.
      idf: a file of texts, one a line, or a list: their document frequencies weigh the tokens.
        With it, special tokens have the weight that the texts give them, which is 0.
      baseline: a file of the authors' baselines to rescale with.
      prefix_space: put a space in front of each text, which changes the first token of RoBERTa's
        vocabulary. The authors' code asks for it, and had it from Transformers before version 5,
        which their baselines are from; since then it is ignored.
      lower_grounding: compare with the grounding in lower case, and the response as it stands: so
        do Q²'s authors, Dziri 2022 and Nandwani 2023, and our tables of these papers.
    """

    part: str
    layer: int | None
    idf: str | Sequence[str] | None
    baseline: str | None
    prefix_space: bool
    lower_grounding: bool


def bertscore_scorer(model: str | None = None, **options: Unpack[BERTScoreOptions]) -> BERTScorer:
    """Returns BERTScore.

    Args:
      model: a folder of an encoder, such as roberta-large.
      **options: see `BERTScoreOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    path = require_model(model)
    check_options(options)
    if options.get("part", "f1") not in PARTS:
        raise ConfigError(f"part: expected one of {', '.join(PARTS)}, got {options['part']!r}.")
    opened = open_model(path, options.get("dtype"))
    if not isinstance(opened, EncoderModel):
        raise ConfigError(
            f"model {path}: expected an encoder-only model (RoBERTa, DeBERTa-v3), got "
            f"{type(opened).__name__}."
        )
    count = opened.config.num_encoder_layers
    layer = options.get("layer")
    layer = _BEST_LAYERS.get(count) if layer is None else layer
    if layer is None:
        raise ConfigError(f"layer: say which of the model's {count} layers is compared.")
    if isinstance(layer, bool) or not isinstance(layer, int) or not 1 <= layer <= count:
        raise ConfigError(f"layer: expected 1 to {count}, the model's layers, got {layer!r}.")
    tokenizer = open_tokenizer(path, options.get("vocabulary"), opened.config)
    return BERTScorer(opened, tokenizer, layer, options)
