"""Class probabilities of many rows of any length, with dropout or without.

The classes are the outputs of an encoder's classification head, on texts or on their tokens, or
label texts that a language model writes, such as the YES and NO of
`scoring.npov_error_classifier`. A label text's score is the sum or the mean of its tokens'
log-probabilities; the softmax over the labels gives probabilities. An input is read once for all
labels.

Rows are packed (`inference.packing`), except with Monte-Carlo dropout, whose masks depend on the
shape of a row: there each row has a line of its own.

Reference: Steen 2023, section 2.2, for the mean over Monte-Carlo dropout masks (Gal 2016).
"""

import dataclasses
import functools
import logging
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float, Integer, Key

from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import NotNegative, check_value
from faith_jax.core.types import Array, PyTree
from faith_jax.inference.base import BaseModel
from faith_jax.inference.batching import (
    LENGTHS,
    Batcher,
    FilledLines,
    pad_rows,
    padded_length,
    token_types,
)
from faith_jax.inference.encoder_decoder import shift_right
from faith_jax.inference.opening import check_options
from faith_jax.inference.packing import Group, Packed, PackedEngine
from faith_jax.inference.pipeline import queue
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow, token_log_probs
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer, output_layer

logger = logging.getLogger("faith_jax")

# Padded lengths for language models, whose inputs may be longer than those of classifiers.
_LADDER = (*LENGTHS, 768, 1024)
# A trained classifier nearly always writes one of its labels; a model that was trained with other
# labels, or not at all, stays far below this.
LEAST_LABEL_MASS = 0.01
_CHECKED_ROWS = 16  # enough for a mean, and cheap compared with a file of rows


class LabelTexts(NamedTuple):
    """The label texts of a language model's classes, as tokens.

    Attributes:
      tokens: int32 [classes, length], padded at the end.
      weights: float32 [classes, length], weights of the tokens' log-probabilities in a class's
        score: 1 in a sum, 1 / tokens in a mean, 0 after the label.
      prefix: int32 [prefix length], target tokens before every label, not scored.
    """

    tokens: np.ndarray
    weights: np.ndarray
    prefix: np.ndarray

    @classmethod
    def of(
        cls, labels: Sequence[Sequence[int]], normalisation: str, prefix: Sequence[int] = ()
    ) -> "LabelTexts":
        """Returns the label texts with these token ids.

        Args:
          labels: for each class, at least one token.
          normalisation: "sum", a label's log-likelihood; or "mean", its mean over tokens (the log
            perplexity of Chang 2024, section 3.3), which does not favour short labels. For labels
            of one token each, both are the same.
          prefix: see `LabelTexts`.
        """
        longest = max(len(ids) for ids in labels)
        lengths = np.array([[len(ids)] for ids in labels])
        # 1 for a label's own tokens, 0 after them: [classes, longest].
        weights = (np.arange(longest) < lengths).astype(np.float32)
        if normalisation == "mean":
            weights /= lengths
        return cls(pad_rows(labels, longest, 0), weights, np.array(prefix, np.int32))


@dataclasses.dataclass(frozen=True)
class DropoutPasses:
    """Monte-Carlo dropout: the mean of the probabilities over exactly `count` masks.

    Attributes:
      count: the paper's k; 0 = one pass without dropout.
      seed: None = 0. A row's masks depend only on the seed and its tokens, so that neither order
        nor batch changes its score.
      rate: in (0, 1); None = the rates that the model was trained with.

    Raises:
      ConfigError: on an invalid value, and on a seed or rate that would have no effect.
    """

    count: int = 0
    seed: int | None = None
    rate: float | None = None

    def __post_init__(self):
        check_value("dropout_passes", self.count, NotNegative)
        options = {"seed": self.seed, "dropout_rate": self.rate}
        check_options(options)
        for name, value in options.items():
            if value is not None and not self.count:
                raise ConfigError(f"{name}: needs dropout_passes too, such as 15.")

    def keys(self, tokens: np.ndarray, pad_id: int) -> Array:
        """Returns the dropout key of each row, from the tokens int32 [rows, length]."""
        # A checksum of a row's own tokens: the same in any order, batch and padded length.
        sums = [zlib.crc32(row[row != pad_id].tobytes()) for row in tokens]
        key = jax.random.key(self.seed or 0)
        return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.asarray(sums, jnp.uint32))

    def config_of(self, config: TransformerConfig) -> TransformerConfig:
        """Returns the configuration of a model with this dropout.

        Raises:
          ConfigError: if the model was trained without dropout and no rate is set.
        """
        if self.rate is not None:
            names = ("dropout_rate", "attention_dropout_rate", "classifier_dropout_rate")
            return config.replace(**dict.fromkeys(names, self.rate))
        if self.count and not config.has_dropout:
            raise ConfigError(
                "dropout_passes: the model was trained without dropout, so that all passes would "
                "be the same; give dropout_rate=0.1 or another."
            )
        return config


@functools.partial(jax.jit, static_argnums=0)
def _packed_logits(
    module: Transformer,
    params: PyTree,
    tokens: Integer[Array, "lines length"],
    segments: Integer[Array, "lines length"],
    token_types: Integer[Array, "lines length"] | None,
    first: Integer[Array, "lines texts"],
) -> Any:
    """Returns the logits of a head for packed rows, [lines, texts or tokens, classes]."""
    return module.apply(
        {"params": params}, tokens, segments, token_types, first, method="classify_packed"
    )


def _head_logits(
    module: Transformer,
    params: PyTree,
    tokens: Integer[Array, "rows length"],
    token_types: Integer[Array, "rows length"] | None,
    keys: Key[Array, "rows"],
) -> Float[Array, "rows classes"]:
    """Returns the logits of a classification head with dropout."""

    def one_row(row: Array, types: Array | None, key: Array) -> Array:
        types = None if types is None else types[None]
        logits: Any = module.apply(
            {"params": params}, row[None], True, types, method="classify", rngs={"dropout": key}
        )
        return logits[0]

    # Map over rows, since Flax draws dropout from one key for a whole batch.
    return jax.vmap(one_row)(tokens, token_types, keys)


def _label_scores(
    module: Transformer,
    params: PyTree,
    tokens: Integer[Array, "rows length"],
    lengths: Integer[Array, "rows"],
    keys: Key[Array, "rows"],
    labels: LabelTexts,
) -> Float[Array, "rows classes"]:
    """Returns the score of each label text as a response to each row, with dropout."""
    variables, prefix = {"params": params}, len(labels.prefix)
    classes, length = labels.tokens.shape
    # The decoder's targets for each class: [classes, prefix + length].
    before = jnp.tile(labels.prefix, (classes, 1))
    targets = jnp.concatenate([before, labels.tokens], axis=1)
    # If each label is one token, the decoder reads the same for all labels, and their logits have
    # the same normalizer.
    is_one_token = length == 1

    def hidden_of(row: Array, row_length: Array, key: Array) -> Array:
        """Returns [classes, length, embed]; all classes of a row have the same dropout."""
        inputs = row[None]
        options: Any = {"enable_dropout": True, "rngs": {"dropout": key}}
        encoded: Any = None
        if not module.config.is_decoder_only:
            encoded = module.apply(variables, inputs, method="encode", **options)

        def read_target(target: Array) -> Array:
            if module.config.is_decoder_only:
                # The target goes where the row's padding begins.
                line = jnp.pad(row, (0, prefix + length))
                read = jax.lax.dynamic_update_slice(line, target, (row_length,))
                # The state before a token predicts it; labels follow the row and the prefix.
                first, seen = row_length - 1 + prefix, None
            else:
                read = shift_right(target[None], module.config.decoder_start_id)[0]
                # Shifted to the right, state t predicts target t.
                first, seen = jnp.int32(prefix), inputs
            hidden: Any = module.apply(
                variables, encoded, seen, read[None], method="decode_hidden", **options
            )
            return jax.lax.dynamic_slice_in_dim(hidden[0], first, length)

        # Map over targets only, so that an encoder reads the row once for all labels.
        return jax.vmap(read_target)(targets[:1] if is_one_token else targets)

    # [rows, classes, length, embed], with one class if the decoder reads the same for all.
    hidden = jax.vmap(hidden_of)(tokens, lengths, keys)
    layer = output_layer(module, params)
    if is_one_token:
        # The normalizer over the vocabulary is the same for all classes: their softmax cancels it.
        return layer.logits_of(hidden[:, 0, 0], labels.tokens[:, 0])
    # [rows * classes * length], in the order of the hidden states.
    label_tokens = jnp.tile(labels.tokens, (len(tokens), 1)).reshape(-1)
    places, count = jnp.arange(label_tokens.size, dtype=jnp.int32), jnp.int32(label_tokens.size)
    states = hidden.reshape(label_tokens.size, -1)
    log_probs = token_log_probs(states, layer, places, label_tokens, count)
    log_probs = log_probs.reshape(-1, classes, length)
    # Log-probabilities after a label may be -inf, and -inf times a weight of 0 is NaN.
    weights = jnp.asarray(labels.weights)[None]
    return jnp.where(weights > 0, log_probs * weights, 0.0).sum(axis=-1)


@functools.partial(jax.jit, static_argnums=(0, 7))
def _average_dropout_passes(
    module: Transformer,
    params: PyTree,
    tokens: Integer[Array, "rows length"],
    lengths: Integer[Array, "rows"],
    token_types: Integer[Array, "rows length"] | None,
    keys: Key[Array, "rows"],
    labels: LabelTexts | None,
    passes: int,
) -> Float[Array, "rows classes"]:
    """Returns the mean class probabilities over exactly `passes` masks; each row sums to 1."""

    def softmax(keys: Array) -> Array:
        if labels is None:
            logits = _head_logits(module, params, tokens, token_types, keys)
        else:
            logits = _label_scores(module, params, tokens, lengths, keys, labels)
        return jax.nn.softmax(logits, axis=-1)

    def one_pass(number: Array) -> Array:
        # Pass number n has the keys of all rows with n folded in.
        return softmax(jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number))

    # The mean of the passes' probabilities, not of their logits (Steen 2023, section 2.2).
    # The passes run one after the other, to need the memory of only one.
    return jnp.mean(jax.lax.map(one_pass, jnp.arange(passes)), axis=0)


# For each row, its line in a batch, and its index (texts) or its span of tokens in that line.
_Places = dict[int, tuple[int, int | slice]]


class _HeadEngine(PackedEngine):
    """Computes the logits of a model's head on texts or on their tokens."""

    def choose_shapes(
        self, rows: Sequence[Sequence[int]], limit: int, window: int, total: int
    ) -> None:
        """See `ClassificationEngine.choose_shapes`."""
        prompt = self.model.config.encoder_prompt_length
        window = min(window, self._packer.window)
        self._packer.choose(self._group_rows(rows, range(len(rows))), prompt + limit, window, total)
        self._compile_ahead(
            {
                (length, size): functools.partial(self._compile_shape, length, size)
                for length, size in self._packer.sizes.items()
            }
        )

    def _compile_shape(self, length: int, size: int) -> None:
        """Computes a batch without rows, in a shape that `_queue_window` uses."""
        config, packed = self.model.config, Packed(length, size, [[]])
        of_tokens = bool(config.token_label_names)  # token heads get no token types
        texts = 1 if of_tokens else length // 2
        second: list[int] | None = [] if config.num_token_types > 1 and not of_tokens else None
        for _, wait in self._queue_batches(packed, texts, [], second):
            wait()

    def _group_rows(self, rows: Sequence[Sequence[int]], numbers: Iterable[int]) -> list[Group]:
        # Each row is a group of its own, whose input is the whole row.
        prompt = self.model.config.encoder_prompt_length
        return [Group(prompt + len(rows[n]), [(0, n)]) for n in numbers]

    def logits(
        self, rows: Sequence[Sequence[int]], second: Sequence[int] | None = None
    ) -> list[np.ndarray]:
        """Returns the logits of each row, float32 [classes] or [tokens, classes]."""
        if self.model.config.num_token_types < 2:  # the model has no types to tell texts apart
            second = None
        all_logits = [np.zeros(0)] * len(rows)
        batches = self._compute_batches(
            range(len(rows)), "classes", lambda window: self._queue_window(rows, second, window)
        )
        for places, logits in batches:
            for number, place in places.items():
                all_logits[number] = logits[place]
        return all_logits

    def _queue_window(
        self,
        rows: Sequence[Sequence[int]],
        second: Sequence[int] | None,
        window: Sequence[int],
    ) -> Iterator[tuple[_Places, Callable[[], Any]]]:
        groups = self._group_rows(rows, window)
        for packed in map(self._packer.reuse, self._packer.lines(groups)):
            most_texts, length = max(len(line) for line in packed.lines), packed.length
            # The number of texts in a line is part of the shape: always the same if each row has
            # at least two tokens.
            of_tokens = self.model.config.token_label_names
            texts = 1 if of_tokens else padded_length(most_texts, (length // 2, length))
            self._shapes.add((length, packed.size, texts))
            # Wait if a job's program is still being compiled; other calls go on meanwhile.
            self._compiled.wait((length, packed.size))
            yield from self._queue_batches(packed, texts, rows, second)

    def _queue_batches(
        self,
        packed: Packed,
        texts: int,
        rows: Sequence[Sequence[int]],
        second: Sequence[int] | None,
    ) -> Iterator[tuple[_Places, Callable[[], Any]]]:
        """Yields, for each batch, the places of its rows, and a function that waits for its logits.

        The logits are [lines, texts or tokens, classes].
        """
        config = self.model.config
        # A soft prompt's vectors replace these tokens, which must not be padding, since padding is
        # masked.
        room = [int(config.pad_id == 0)] * config.encoder_prompt_length
        bound = functools.partial(_packed_logits, self.model.module, self.model.params)
        for lines in packed.batches():
            filled = FilledLines(packed.size, packed.length, config.pad_id)
            types = np.zeros_like(filled.tokens)
            first = np.zeros((packed.size, texts), np.int32)
            places: _Places = {}
            for number, line in enumerate(lines):
                for segment, placed in enumerate(line, 1):
                    row = placed.rows[0][1]
                    span = filled.append(number, [*room, *rows[row]], segment)
                    begin = span.start + len(room)
                    if second is not None:
                        types[number, begin + second[row] : span.stop] = 1
                    if config.token_label_names:
                        places[row] = number, slice(begin, span.stop)
                        continue
                    # The head reads a text from its first token on, after the soft prompt.
                    first[number, segment - 1] = begin
                    places[row] = number, segment - 1
            self._tokens += sum(filled.ends)
            if places:  # a batch without rows only compiles ahead
                self._slots += filled.tokens.size
            seen_types = None if second is None else types
            arrays = (filled.tokens, filled.segments, seen_types, first)
            yield places, queue(self.model.partitioner, bound, *arrays)


class _LabelEngine:
    """Scores label texts as responses of a language model to each row; labels share the row.

    Attributes:
      likelihoods: likelihood engine of the model.
      first_masses: float64, total probability of all labels, for each of the first rows whose
        labels were scored; None = no row was scored yet.
    """

    def __init__(self, model: Any, labels: LabelTexts, tokens_per_batch: int | None):
        self._labels, self.likelihoods = labels, LikelihoodEngine(model, tokens_per_batch)
        self.first_masses: np.ndarray | None = None
        is_decoder_only: bool = model.config.is_decoder_only
        prefix: list[int] = labels.prefix.tolist()
        # A decoder-only model reads the prefix with the input, once for all labels.
        self._front, self._start = (prefix, []) if is_decoder_only else ([], prefix)
        # A decoder-only model then reads the same for all labels. With an encoder, this would save
        # little, and the labels' own probabilities say more.
        self._reads_once = is_decoder_only and labels.tokens.shape[1] == 1

    def choose_shapes(
        self, rows: Sequence[Sequence[int]], limit: int, window: int, total: int
    ) -> None:
        """See `ClassificationEngine.choose_shapes`."""
        texts = self._build_rows(rows, not self._reads_once)
        each = len(texts) // len(rows)
        self.likelihoods.choose_shapes(texts, limit, each * window, each * total)

    def logits(
        self, rows: Sequence[Sequence[int]], second: Sequence[int] | None = None
    ) -> np.ndarray:
        """Returns the score of each label as a response to each row, float32 [rows, classes]."""
        labels = self._labels
        if self._reads_once:
            # The logits' normalizer is the same for all labels.
            texts = self._build_rows(rows, each_label=False)
            return self.likelihoods.label_logits(texts, labels.tokens[:, 0].tolist())
        # Only the weights of the labels' own tokens: as many as there are log-probabilities.
        weights = [weights[weights > 0] for weights in labels.weights]
        log_probs = self._log_probs(rows)
        scores = [of_label @ weights[n % len(weights)] for n, of_label in enumerate(log_probs)]
        return np.reshape(np.array(scores, np.float32), (len(rows), len(weights)))

    def probabilities(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns the probability of each label, float64 [rows, classes]."""
        return self._multiply(self._log_probs(rows))

    def _multiply(self, log_probs: Sequence[np.ndarray]) -> np.ndarray:
        # A label text's probability is the product over its tokens.
        probabilities = np.exp([of_label.sum(dtype=np.float64) for of_label in log_probs])
        return probabilities.reshape(-1, len(self._labels.tokens))

    def _log_probs(self, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns the token log-probabilities of label c given row i at index i * classes + c.

        Each is float32 [tokens], for the label's own tokens without the prefix.
        """
        all_log_probs = self.likelihoods.log_probs(self._build_rows(rows, each_label=True))
        # Kept for `warn_of_rare_labels`, so that it need not compute them again.
        if self.first_masses is None and rows:
            first = all_log_probs[: _CHECKED_ROWS * len(self._labels.tokens)]
            self.first_masses = self._multiply(first).sum(axis=1)
        return all_log_probs

    def _build_rows(self, rows: Sequence[Sequence[int]], each_label: bool) -> list[LikelihoodRow]:
        """Returns a likelihood row for each row and label, or one for all labels of a row."""
        # The 0 stands in for the label: only the state before it is used.
        texts = [[0]]
        if each_label:
            labels = zip(self._labels.tokens, self._labels.weights, strict=True)
            texts = [ids[weights > 0].tolist() for ids, weights in labels]
        return [
            LikelihoodRow([*row, *self._front], text, self._start) for row in rows for text in texts
        ]


class ClassificationEngine:
    """Classifies rows with one model.

    Args:
      model: with a classification head on texts or tokens; with `labels`, a language model.
      labels: the texts of a language model's classes; None = the classes of the head.
      dropout: Monte-Carlo dropout; None = none.
      tokens_per_batch: tokens of a batch, padding included; default: for each device that shares
        the rows, 2,048 on a CPU, else as many as fit its memory (labels: see `LikelihoodEngine`);
        with dropout, 32,768, but on a CPU 2,048 for a head and 1,024 for labels.

    Raises:
      ConfigError: on dropout passes for a model without dropout, and on a model without classes.
    """

    def __init__(
        self,
        model: BaseModel,
        labels: LabelTexts | None = None,
        dropout: DropoutPasses | None = None,
        tokens_per_batch: int | None = None,
    ):
        config = model.config
        self._num_classes = len(config.label_names if labels is None else labels.tokens)
        if labels is None and not (config.label_names or config.token_label_names):
            raise ConfigError(
                "the model has no classification head; give a checkpoint that was fine-tuned for "
                "sequence classification."
            )
        self.model, self.dropout, self._labels = model, dropout or DropoutPasses(), labels
        # Another dropout rate leaves the parameters unchanged.
        self._module = Transformer(self.dropout.config_of(model.config))
        # With dropout, a row's shape must not depend on other rows: it determines the masks.
        self._batcher = Batcher(
            "classes",
            tokens_per_batch,
            on_cpu=2048 if labels is None else 1024,
            multiple_of=model.partitioner.data_parallelism,
            fill=False,
        )
        self._classes: Any  # a head's or label texts' engine
        self._packed: PackedEngine
        if labels is None:
            self._classes = self._packed = _HeadEngine(model, tokens_per_batch, on_cpu=2048)
        else:
            self._classes = _LabelEngine(model, labels, tokens_per_batch)
            self._packed = self._classes.likelihoods
        self._has_checked_labels = labels is None

    @property
    def num_compilations(self) -> int:
        """The number of shapes that were compiled for this engine."""
        return self._packed.num_compilations + self._batcher.num_shapes

    @property
    def padding(self) -> float:
        """The share of padding among the tokens of packed rows, in [0, 1)."""
        return self._packed.padding

    def choose_shapes(
        self,
        rows: Sequence[Sequence[int]],
        limit: int,
        window: int,
        total: int,
        examples: int | None = None,
    ) -> None:
        """Chooses the shapes of a job of `total` examples, `window` per call, from a sample's rows.

        `limit` is the largest number of tokens that a row may have; see `Packer.choose`. The rows
        belong to `examples` examples; None = one row each. With dropout nothing is chosen, since
        the masks depend on a row's shape.
        """
        if rows and not self.dropout.count:
            each = len(rows) / (examples or len(rows))
            window, total = math.ceil(each * window), math.ceil(each * total)
            self._classes.choose_shapes(rows, limit, window, total)

    def probabilities(
        self, rows: Sequence[Sequence[int]], second: Sequence[int] | None = None
    ) -> np.ndarray:
        """Returns the class probabilities, float32 [rows, classes]; each row sums to 1.

        Args:
          rows: token ids with special tokens, in any order.
          second: index of each row's first token of type 1, see `PairRow`; None = all are type 0.
        """
        if not self.dropout.count:
            return scipy.special.softmax(self.logits(rows, second), axis=-1)
        if self.model.config.num_token_types < 2:
            second = None
        labels, pad_id = self._labels, self.model.pad_id
        if self.model.config.is_decoder_only:  # no token attends to padding
            pad_id = max(0, pad_id)
        all_probabilities = np.zeros((len(rows), self._num_classes), np.float32)
        ladder = LENGTHS if labels is None else _LADDER
        bound = functools.partial(
            _average_dropout_passes, self._module, self.model.params, labels=labels,
            passes=self.dropout.count,
        )  # fmt: skip
        # With dropout, each row has a line, whose padded length depends only on the row.
        for batch in self._batcher.batches([(padded_length(len(row), ladder),) for row in rows]):
            tokens = pad_rows([rows[n] for n in batch.rows], batch.shape[0], pad_id, batch.size)
            # Padding lines count as one token, so that no mask is empty.
            lengths = np.ones(batch.size, np.int32)
            lengths[: len(batch.rows)] = [len(rows[n]) for n in batch.rows]
            types = None
            if second is not None:
                starts = np.zeros(batch.size, np.int32)
                starts[: len(batch.rows)] = [second[n] for n in batch.rows]
                types = token_types(starts, batch.shape[0])
            keys = self.dropout.keys(tokens, pad_id)
            probabilities = self.model.partitioner.compute(bound, tokens, lengths, types, keys)
            all_probabilities[batch.rows] = probabilities[: len(batch.rows)]
        return all_probabilities

    def logits(
        self, rows: Sequence[Sequence[int]], second: Sequence[int] | None = None
    ) -> np.ndarray:
        """Returns the logits of `probabilities` without dropout, float32 [rows, classes].

        With labels, only the differences within a row are meaningful.
        """
        logits = np.array(self._classes.logits(rows, second), np.float32)
        return logits.reshape(len(rows), self._num_classes)

    def token_probabilities(self, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns the class probabilities of each row's tokens, float32 [tokens, classes]."""
        return [scipy.special.softmax(logits, axis=-1) for logits in self._classes.logits(rows)]

    def label_probabilities(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns the probability that a language model writes each of its labels.

        The probabilities are float64 [rows, labels], in [0, 1]; labels exclude each other.
        """
        probabilities: np.ndarray = self._classes.probabilities(rows)
        return probabilities

    def warn_of_rare_labels(
        self, rows: Sequence[Sequence[int]], words: Sequence[str], remedy: str
    ) -> None:
        """Logs a warning if a language model hardly ever writes one of its labels.

        The softmax over the labels hides this, since it only compares the labels with each other.
        For the first rows of the first call, the mean total probability of the labels is compared
        with `LEAST_LABEL_MASS`. This costs nothing after a call of `label_probabilities`, or of
        `probabilities` with labels of several tokens.

        The warning names the labels by `words` and advises with the clause `remedy`.
        """
        if self._has_checked_labels or not rows:
            return
        self._has_checked_labels = True
        if self._classes.first_masses is None:
            self.label_probabilities(rows[:_CHECKED_ROWS])
        mass = float(self._classes.first_masses.mean())
        if mass < LEAST_LABEL_MASS:
            logger.warning(
                "model %s: it hardly ever writes %s (mean probability %.2g together, below %g), "
                "so that the scores mean little; %s",
                self.model.path,
                " or ".join(map(repr, words)),
                mass,
                LEAST_LABEL_MASS,
                remedy,
            )
