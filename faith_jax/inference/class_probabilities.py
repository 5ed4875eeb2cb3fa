"""Class probabilities of many rows of any length, with dropout or without.

The classes are those of an encoder's classification head, on texts or on their tokens, or label
texts that a language model writes. A label's text is scored by the sum or by the mean of its
tokens' log-probabilities; the softmax over the labels is the probability. An input is read once for
all labels.

Rows are packed (`inference.packing`), except with Monte-Carlo dropout, whose masks are a function
of a row's own shape: there each row has a line.

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

# Of language models, whose inputs may by default be longer than those of classifiers.
_LADDER = (*LENGTHS, 768, 1024)
# A trained classifier writes one of its labels nearly always; one that was trained with other
# labels, or not at all, stays far below this.
LEAST_LABEL_MASS = 0.01
_CHECKED_ROWS = 16  # enough for a mean, and no cost beside a file of rows


class LabelTexts(NamedTuple):
    """The label texts of a language model's classes, as tokens.

    Attributes:
      tokens: int32 [classes, length], filled up behind.
      weights: float32 [classes, length], of the tokens' log-probabilities in a class's score: 1 in
        a sum, 1 / tokens in a mean, 0 behind the label.
      prefix: int32 [prefix length], tokens of the target in front of every label, not scored.
    """

    tokens: np.ndarray
    weights: np.ndarray
    prefix: np.ndarray

    @classmethod
    def of(
        cls, labels: Sequence[Sequence[int]], normalisation: str, prefix: Sequence[int] = ()
    ) -> "LabelTexts":
        """Returns the labels of token ids.

        Args:
          labels: of each class, at least one token.
          normalisation: "sum", a label's log-likelihood; or "mean", that of its tokens (the log
            perplexity of Chang 2024, section 3.3), which does not favour short labels. Labels of
            one token each are the same in both.
          prefix: see `LabelTexts`.
        """
        longest = max(len(ids) for ids in labels)
        lengths = np.array([[len(ids)] for ids in labels])
        # 1 for a label's own tokens, 0 behind them: [classes, longest].
        weights = (np.arange(longest) < lengths).astype(np.float32)
        if normalisation == "mean":
            weights /= lengths
        return cls(pad_rows(labels, longest, 0), weights, np.array(prefix, np.int32))


@dataclasses.dataclass(frozen=True)
class DropoutPasses:
    """Monte-Carlo dropout: the mean of the probabilities over exactly `count` masks.

    Attributes:
      count: the paper's k; 0 = one pass without dropout.
      seed: None = 0. A row's masks are a function of the seed and of its tokens, so that neither
        order nor batch changes its score.
      rate: in (0, 1); None = as the model was trained.

    Raises:
      ConfigError: on a wrong value, and on a seed or rate that nothing would be done with.
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
        """Returns the key of each row's dropout, from the tokens int32 [rows, length]."""
        # A checksum of a row's own tokens: the same in any order, batch and padded length.
        sums = [zlib.crc32(row[row != pad_id].tobytes()) for row in tokens]
        key = jax.random.key(self.seed or 0)
        return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.asarray(sums, jnp.uint32))

    def config_of(self, config: TransformerConfig) -> TransformerConfig:
        """Returns the configuration of a model with this dropout.

        Raises:
          ConfigError: where the model was trained without any.
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

    # By row, since Flax draws dropout from one key for a whole batch.
    return jax.vmap(one_row)(tokens, token_types, keys)


def _label_scores(
    module: Transformer,
    params: PyTree,
    tokens: Integer[Array, "rows length"],
    lengths: Integer[Array, "rows"],
    keys: Key[Array, "rows"],
    labels: LabelTexts,
) -> Float[Array, "rows classes"]:
    """Returns the score of each label text behind each row, with dropout."""
    variables, prefix = {"params": params}, len(labels.prefix)
    classes, length = labels.tokens.shape
    # What the decoder writes for each class: [classes, prefix + length].
    before = jnp.tile(labels.prefix, (classes, 1))
    targets = jnp.concatenate([before, labels.tokens], axis=1)
    # Labels of one token each: the decoder reads the same for all, and what normalises their
    # logits is the same too.
    is_one_token = length == 1

    def hidden_of(row: Array, row_length: Array, key: Array) -> Array:
        """Returns [classes, length, embed]; all classes of a row have the same dropout."""
        inputs = row[None]
        options: Any = {"enable_dropout": True, "rngs": {"dropout": key}}
        encoded: Any = None
        if not module.config.is_decoder_only:
            encoded = module.apply(variables, inputs, None, method="encode", **options)

        def read_target(target: Array) -> Array:
            if module.config.is_decoder_only:
                # The target goes where the row's padding begins.
                line = jnp.pad(row, (0, prefix + length))
                read = jax.lax.dynamic_update_slice(line, target, (row_length,))
                # The state in front of a token predicts it: behind the row and the prefix.
                first, seen = row_length - 1 + prefix, None
            else:
                read = shift_right(target[None], module.config.decoder_start_id)[0]
                # Shifted to the right, state t predicts target t.
                first, seen = jnp.int32(prefix), inputs
            hidden: Any = module.apply(
                variables, encoded, seen, read[None], method="decode_hidden", **options
            )
            return jax.lax.dynamic_slice_in_dim(hidden[0], first, length)

        # Over targets alone, so that an encoder reads the row once for all of them.
        return jax.vmap(read_target)(targets[:1] if is_one_token else targets)

    # [rows, classes, length, embed], with one class where all read the same.
    hidden = jax.vmap(hidden_of)(tokens, lengths, keys)
    layer = output_layer(module, params)
    if is_one_token:
        # The softmax over classes cancels the sum over the vocabulary, which is the same for all.
        return layer.logits_of(hidden[:, 0, 0], labels.tokens[:, 0])
    # [rows * classes * length], in the order of the hidden states.
    label_tokens = jnp.tile(labels.tokens, (len(tokens), 1)).reshape(-1)
    places, count = jnp.arange(label_tokens.size, dtype=jnp.int32), jnp.int32(label_tokens.size)
    states = hidden.reshape(label_tokens.size, -1)
    log_probs = token_log_probs(states, layer, places, label_tokens, count)
    log_probs = log_probs.reshape(-1, classes, length)
    # What stands behind a label may be -inf, which no weight of 0 undoes.
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
    """Returns probabilities that sum to 1 in each row; the mean over exactly `passes` masks."""

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
    # One after the other, so that memory is that of one pass.
    return jnp.mean(jax.lax.map(one_pass, jnp.arange(passes)), axis=0)


# The line of each row in a batch, and its number there, or where its tokens are.
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
        """Computes a batch without rows, in the shape that `_queue_window` gives to others."""
        config, packed = self.model.config, Packed(length, size, [[]])
        of_tokens = bool(config.token_label_names)  # these are read without types
        texts = 1 if of_tokens else length // 2
        second: list[int] | None = [] if config.num_token_types > 1 and not of_tokens else None
        for _, wait in self._queue_batches(packed, texts, [], second):
            wait()

    def _group_rows(self, rows: Sequence[Sequence[int]], numbers: Iterable[int]) -> list[Group]:
        # Each row is a group of its own, all of whose tokens are its input.
        prompt = self.model.config.encoder_prompt_length
        return [Group(prompt + len(rows[n]), [(0, n)]) for n in numbers]

    def logits(
        self, rows: Sequence[Sequence[int]], second: Sequence[int] | None = None
    ) -> list[np.ndarray]:
        """Returns the logits of each row, float32 [classes] or [tokens, classes]."""
        if self.model.config.num_token_types < 2:  # no types by which to tell two texts apart
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
            # How many texts a line has is a shape too: one, where rows have two tokens or more.
            of_tokens = self.model.config.token_label_names
            texts = 1 if of_tokens else padded_length(most_texts, (length // 2, length))
            self._shapes.add((length, packed.size, texts))
            # A job's program may still be compiling; another call has its turn meanwhile.
            self._compiled.wait((length, packed.size))
            yield from self._queue_batches(packed, texts, rows, second)

    def _queue_batches(
        self,
        packed: Packed,
        texts: int,
        rows: Sequence[Sequence[int]],
        second: Sequence[int] | None,
    ) -> Iterator[tuple[_Places, Callable[[], Any]]]:
        """Yields where each row's logits are in those of a batch, and what waits for these.

        They are [lines, texts or tokens, classes].
        """
        config = self.model.config
        # The vectors of a soft prompt take the places of these tokens, which must not be padding,
        # since padding is masked.
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
                    # The head reads a text from its first token on, behind the soft prompt.
                    first[number, segment - 1] = begin
                    places[row] = number, segment - 1
            self._tokens += sum(filled.ends)
            if places:  # not of a batch that is compiled ahead
                self._slots += filled.tokens.size
            seen_types = None if second is None else types
            arrays = (filled.tokens, filled.segments, seen_types, first)
            yield places, queue(self.model.partitioner, bound, *arrays)


class _LabelEngine:
    """Scores label texts as responses of a language model to each row, which they share.

    Attributes:
      likelihoods: of the model.
      first_masses: float64, the probability of all labels together, of the first rows whose labels
        were scored; None = there were none.
    """

    def __init__(self, model: Any, labels: LabelTexts, tokens_per_batch: int | None):
        self._labels, self.likelihoods = labels, LikelihoodEngine(model, tokens_per_batch)
        self.first_masses: np.ndarray | None = None
        is_decoder_only: bool = model.config.is_decoder_only
        prefix: list[int] = labels.prefix.tolist()
        # A decoder-only model reads the prefix with the input, once for all labels.
        self._front, self._start = (prefix, prefix[:0]) if is_decoder_only else (prefix[:0], prefix)
        # It reads the same for all labels of one token each. Behind an encoder there is little to
        # save, and the labels' own probabilities tell more.
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
        """Returns the score of each label behind each row, float32 [rows, classes]."""
        labels = self._labels
        if self._reads_once:
            # What normalises the logits is the same for all labels.
            texts = self._build_rows(rows, each_label=False)
            return self.likelihoods.label_logits(texts, labels.tokens[:, 0].tolist())
        # Of the labels' own tokens alone, as many as there are log-probabilities.
        weights = [weights[weights > 0] for weights in labels.weights]
        log_probs = self._log_probs(rows)
        scores = [of_label @ weights[n % len(weights)] for n, of_label in enumerate(log_probs)]
        return np.reshape(np.array(scores, np.float32), (len(rows), len(weights)))

    def probabilities(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns the probability of each label, float64 [rows, classes]."""
        return self._multiply(self._log_probs(rows))

    def _multiply(self, log_probs: Sequence[np.ndarray]) -> np.ndarray:
        # Of a label's text the product over its tokens.
        probabilities = np.exp([of_label.sum(dtype=np.float64) for of_label in log_probs])
        return probabilities.reshape(-1, len(self._labels.tokens))

    def _log_probs(self, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns the log-probabilities of the tokens of label c behind row i, at i * classes + c.

        Each is float32 [tokens], of the label's own tokens alone, without the prefix.
        """
        all_log_probs = self.likelihoods.log_probs(self._build_rows(rows, each_label=True))
        all_log_probs = [log_probs[len(self._start) :] for log_probs in all_log_probs]
        # Kept for `warn_of_rare_labels`, which then computes nothing.
        if self.first_masses is None and rows:
            first = all_log_probs[: _CHECKED_ROWS * len(self._labels.tokens)]
            self.first_masses = self._multiply(first).sum(axis=1)
        return all_log_probs

    def _build_rows(self, rows: Sequence[Sequence[int]], each_label: bool) -> list[LikelihoodRow]:
        """Returns the inputs and targets of each row and label, or of a row for all its labels."""
        # The 0 is in the label's place: only the state in front of it is used.
        texts = [[*self._start, 0]]
        if each_label:
            labels = zip(self._labels.tokens, self._labels.weights, strict=True)
            texts = [[*self._start, *ids[weights > 0].tolist()] for ids, weights in labels]
        return [LikelihoodRow([*row, *self._front], text) for row in rows for text in texts]


class ClassificationEngine:
    """Classifies rows with one model.

    Args:
      model: with a classification head on texts or tokens; with `labels`, a language model.
      labels: the texts of a language model's classes; None = the classes are those of the head.
      dropout: of Monte-Carlo dropout.
      tokens_per_batch: tokens of a batch, padding included; default: on a CPU 2,048 of a head's
        rows and 1,024 of others, else what the device's memory has room for (with dropout
        32,768), for each device that shares the rows.

    Raises:
      ConfigError: for dropout passes in a model without dropout, and without classes.
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
        # With other rates of dropout the parameters are the same.
        self._module = Transformer(self.dropout.config_of(model.config))
        # With dropout a row's shape depends on it alone: another would draw other masks.
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
        """How many shapes were compiled for this engine."""
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
        """Chooses the shapes of a job of `total` examples, `window` in a call, by a sample's rows.

        `limit` is the number of tokens of the longest row that there may be; see `Packer.choose`.
        The rows are of so many `examples`; None = of one each. Dropout's masks are a function of a
        row's shape, which stays.
        """
        if rows and not self.dropout.count:
            each = len(rows) / (examples or len(rows))
            window, total = math.ceil(each * window), math.ceil(each * total)
            self._classes.choose_shapes(rows, limit, window, total)

    def probabilities(
        self, rows: Sequence[Sequence[int]], second: Sequence[int] | None = None
    ) -> np.ndarray:
        """Returns float32 [rows, classes], each row sums to 1.

        Args:
          rows: token ids with special tokens, in any order.
          second: where each row's tokens of type 1 begin, see `PairRow`; None = nowhere.
        """
        if not self.dropout.count:
            return scipy.special.softmax(self.logits(rows, second), axis=-1)
        if self.model.config.num_token_types < 2:
            second = None
        labels, pad_id = self._labels, self.model.pad_id
        if self.model.config.is_decoder_only:  # padding is seen by nothing
            pad_id = max(0, pad_id)
        all_probabilities = np.zeros((len(rows), self._num_classes), np.float32)
        ladder = LENGTHS if labels is None else _LADDER
        bound = functools.partial(
            _average_dropout_passes, self._module, self.model.params, labels=labels,
            passes=self.dropout.count,
        )  # fmt: skip
        # With dropout each row has a line; lengths and batches depend on the rows alone.
        for batch in self._batcher.batches([(padded_length(len(row), ladder),) for row in rows]):
            tokens = pad_rows([rows[n] for n in batch.rows], batch.shape[0], pad_id, batch.size)
            # Lines that only fill up count as one token, so that no mask is empty.
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

        Of a head these are its logits; of labels only their differences mean anything.
        """
        logits = np.array(self._classes.logits(rows, second), np.float32)
        return logits.reshape(len(rows), self._num_classes)

    def token_probabilities(self, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns the class probabilities of each row's tokens, float32 [tokens, classes]."""
        return [scipy.special.softmax(logits, axis=-1) for logits in self._classes.logits(rows)]

    def label_probabilities(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns the probability that a language model writes each of its labels.

        They are float64 [rows, labels], in [0, 1]; the labels exclude each other.
        """
        probabilities: np.ndarray = self._classes.probabilities(rows)
        return probabilities

    def warn_of_rare_labels(
        self, rows: Sequence[Sequence[int]], words: Sequence[str], remedy: str
    ) -> None:
        """Logs a warning where a language model hardly ever writes one of its labels.

        The softmax over the labels hides this: it compares them alone. Only the first rows of the
        first call are looked at; the mean of their labels' probabilities together is compared with
        `LEAST_LABEL_MASS`. It costs nothing behind a call of `label_probabilities`, or of
        `probabilities` with labels of several tokens.

        The warning names the labels by `words`, and says what to do by the clause `remedy`.
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
