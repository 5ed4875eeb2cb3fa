"""BERTScore: greedy matching of contextual token embeddings (Zhang 2020)."""

import collections
import csv
import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.cutting import CutTokens, Kind, by_name, check_policy, cut, summed, whole
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.progress import Progress
from faith_jax.core.types import Array, GroundedExample, PyTree, Score
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.opening import (
    check_ids,
    check_text,
    check_whole,
    open_classifier,
    open_tokenizer,
    require_model,
    shown_ids,
)
from faith_jax.inference.row_likelihoods import rung
from faith_jax.inference.text_pairs import row_length
from faith_jax.models.transformer import Transformer
from faith_jax.scoring.base import BaseScorer, SeenInput, joined
from faith_jax.scoring.model_cards import BERTSCORE
from faith_jax.tokenizers.base import Tokenizer

PARTS = ("precision", "recall", "f1")
# Layers that correlate best with people's judgments, by the number of all (the authors' table).
_BEST_LAYERS = {24: 17, 12: 10}
_LENGTHS = (32, 64, 128, 256, 384, 512)
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
      part: "precision", "recall" or "f1".
      idf: the weight of each token id, and of those that are not in it (None); None = all alike.
      baseline: precision, recall and F1 of unrelated texts, which become 0; None = no rescaling.
      max_length: tokens of a text, special ones included. Each text stands alone, and a longer one
        loses its end.
      cut_policy: "error" refuses longer texts; all others are the same here.
      prefix_space: see `bertscore_scorer`.
      tokens_per_batch: tokens of a batch, padding included; default: 2,048 on a CPU, else 32,768.
      lower_grounding: see `bertscore_scorer`.
    """

    card = BERTSCORE

    def __init__(
        self,
        model: EncoderModel,
        tokenizer: Tokenizer,
        layer: int,
        part: str,
        idf: Mapping[int | None, float] | None,
        baseline: tuple[float, float, float] | None,
        max_length: int,
        cut_policy: str,
        prefix_space: bool,
        tokens_per_batch: int | None,
        lower_grounding: bool = False,
    ):
        config = model.config.replace(num_encoder_layers=layer, label_names=())
        self._module = Transformer(config)
        encoder = {k: v for k, v in model.params["encoder"].items() if not _is_above(k, layer)}
        self._params = {"token_embedder": model.params["token_embedder"], "encoder": encoder}
        self._tokenizer, self._part, self._idf = tokenizer, part, idf
        self._baseline, self._max_length, self._cut_policy = baseline, max_length, cut_policy
        self._space = " " if prefix_space else ""
        self._lower = lower_grounding
        if tokens_per_batch is None:
            tokens_per_batch = 2048 if jax.default_backend() == "cpu" else 32768
        self._tokens_per_batch = tokens_per_batch
        self._compiled: set[tuple[int, int]] = set()

    @property
    def num_compilations(self) -> int:
        """How many shapes the model was compiled for."""
        return len(self._compiled)

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example, NaN where response or grounding is empty."""
        rows = [self._rows(example) for example in examples]
        scored = [i for i, pair in enumerate(rows) if all(ids for ids, _ in pair)]
        found = [Score(math.nan)] * len(examples)
        by_length: dict[int, list[int]] = {}
        for i in scored:
            by_length.setdefault(rung(max(len(ids) for ids, _ in rows[i]), _LENGTHS), []).append(i)
        progress = Progress("BERTScore of row", len(scored))
        for length, numbers in by_length.items():
            size = max(1, self._tokens_per_batch // (2 * length))
            self._compiled.add((length, size))
            for start in range(0, len(numbers), size):
                batch = numbers[start : start + size]
                values = self._match([rows[i] for i in batch], length, size)
                for i, value in zip(batch, values, strict=False):
                    cut = by_name(summed(tokens for _, tokens in rows[i]))
                    found[i] = Score(self._value(*map(float, value)), (), cut)
                progress.add(len(batch))
        return found

    def seen(self, example: GroundedExample) -> SeenInput | None:
        """Returns response and grounding, each a text of its own."""
        rows = dict(zip(("response", "grounding"), self._rows(example), strict=True))
        if not all(ids for ids, _ in rows.values()):
            return None
        shown = {name: shown_ids(self._tokenizer, ids) for name, (ids, _) in rows.items()}
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

    def _match(self, rows: Sequence[tuple[_Row, _Row]], length: int, size: int) -> np.ndarray:
        tokens = np.full((2, size, length), self._module.config.pad_id, np.int32)
        # Rows that only fill the batch up compare one token with itself.
        tokens[:, len(rows) :, 0] = self._tokenizer.prefix_ids[0] if rows else 0
        weights = np.zeros((2, size, length), np.float32)
        for i, pair in enumerate(rows):
            for side, (ids, _) in enumerate(pair):
                tokens[side, i, : len(ids)] = ids
                weights[side, i, : len(ids)] = self._weights(ids)
        return np.asarray(_matches(self._module, self._params, tokens[0], tokens[1], weights))

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
      prefix_space: see `bertscore_scorer`.

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


def _read_texts(path: str) -> list[str]:
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable file of texts, one a line ({error}).") from None
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise InputError(f"{path}: expected texts, one a line; there are none.")
    return texts


def _are_texts(given: Any) -> bool:
    return isinstance(given, Sequence) and all(isinstance(text, str) for text in given)


def bertscore_scorer(
    model: str | None = None,
    vocabulary: str | None = None,
    part: str = "f1",
    layer: int | None = None,
    idf: str | Sequence[str] | None = None,
    baseline: str | None = None,
    max_length: int | None = None,
    cut_policy: str = "knowledge",
    prefix_space: bool = False,
    dtype: str | None = None,
    tokens_per_batch: int | None = None,
    lower_grounding: bool = False,
) -> BERTScorer:
    """Returns BERTScore.

    Args:
      model: a folder of an encoder, such as roberta-large.
      vocabulary: where the tokenizer is, if not with the model.
      part: "precision", "recall" or "f1".
      layer: whose hidden states are compared; default: the authors' choice, 17 of 24 or 10 of 12.
      idf: a file of texts, one a line, or a list: their document frequencies weigh the tokens.
        With it, special tokens have the weight that the texts give them, which is 0.
      baseline: a file of the authors' baselines to rescale with.
      max_length: tokens of a text; default: 512, or fewer where the positions end before.
      cut_policy: see `BERTScorer`.
      prefix_space: put a space in front of each text, which changes the first token of RoBERTa's
        vocabulary. The authors' code asks for it, and had it from Transformers before version 5,
        which their baselines are from; since then it is ignored.
      dtype: of activations.
      tokens_per_batch: see `BERTScorer`.
      lower_grounding: compare with the grounding in lower case, and the response as it stands: so
        do Q²'s authors, Dziri 2022 and Nandwani 2023, and our tables of these papers.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    path = require_model(model)
    check_whole("max_length", max_length, 8)
    check_whole("tokens_per_batch", tokens_per_batch, 1)
    for name, value in (("vocabulary", vocabulary), ("dtype", dtype), ("baseline", baseline)):
        check_text(name, value)
    check_policy(cut_policy, "cut_policy")
    for name, flag in (("prefix_space", prefix_space), ("lower_grounding", lower_grounding)):
        if not isinstance(flag, bool):
            raise ConfigError(f"{name}: expected True or False, got {flag!r}.")
    if part not in PARTS:
        raise ConfigError(f"part: expected one of {', '.join(PARTS)}, got {part!r}.")
    opened = open_classifier(path, dtype)
    count = opened.config.num_encoder_layers
    if layer is None:
        if count not in _BEST_LAYERS:
            raise ConfigError(f"layer: say which of the model's {count} layers is compared.")
        layer = _BEST_LAYERS[count]
    if isinstance(layer, bool) or not isinstance(layer, int) or not 1 <= layer <= count:
        raise ConfigError(f"layer: expected 1 to {count}, the model's layers, got {layer!r}.")
    tokenizer = open_tokenizer(path, vocabulary, opened.config)
    texts = _read_texts(idf) if isinstance(idf, str) else idf
    if texts is not None and not _are_texts(texts):
        raise ConfigError(f"idf: expected a file of texts, one a line, or a list, got {idf!r}.")
    return BERTScorer(
        opened,
        tokenizer,
        layer,
        part,
        None if texts is None else document_frequencies(tokenizer, texts, prefix_space),
        None if baseline is None else read_baseline(baseline, layer),
        row_length(opened.config, max_length),
        cut_policy,
        prefix_space,
        tokens_per_batch,
        lower_grounding,
    )
