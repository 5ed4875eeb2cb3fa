"""Classes that an encoder-decoder model writes as words, such as the labels of T5's inference.

A class's probability is the softmax over the classes' log-likelihoods. An input is encoded once for
all classes.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core import templates
from faith_jax.core.cutting import fit
from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import CriticLabel, NliLabel
from faith_jax.core.types import Array, PyTree
from faith_jax.inference import EncoderDecoderModel
from faith_jax.inference.class_probabilities import (
    check_dropout,
    length_batches,
    row_keys,
    with_dropout,
)
from faith_jax.inference.encoder_decoder import shift_right
from faith_jax.inference.opening import check_ids, input_limit
from faith_jax.inference.row_likelihoods import token_log_probs
from faith_jax.inference.text_pairs import PairRow
from faith_jax.models.transformer import Transformer, output_layer
from faith_jax.tokenizers.base import Tokenizer

_LENGTHS = (32, 64, 128, 256, 384, 512, 768, 1024)
NOT_ENTAILED = "not_entailment"


@dataclasses.dataclass(frozen=True)
class LabelForm:
    """What such a model reads of two texts, and what it writes.

    Attributes:
      classes: their names, in the order in which words for them are given.
      inputs: makes the input of the two texts.
    """

    classes: tuple[str, ...]
    inputs: Callable[[str, str], str]

    def named(self, words: Sequence[str]) -> tuple[str, ...]:
        """Returns the names of the classes that words are given for.

        Raises:
          ConfigError: for another number of words, and for words that are not different texts.
        """
        classes = self.classes
        if len(words) == 2 and len(classes) == 3:
            classes = (classes[0], NOT_ENTAILED)
        texts = [word.strip() for word in words if isinstance(word, str)]
        if len(words) != len(classes) or not all(texts) or len(set(texts)) != len(words):
            raise ConfigError(
                f"label_words: expected {len(self.classes)} different texts, for "
                f"{', '.join(self.classes)}; got {', '.join(map(repr, words))}."
            )
        return classes


NLI_FORM = LabelForm(tuple(label.value for label in NliLabel), templates.nli_inputs)
CRITIC_FORM = LabelForm(
    tuple(label.value for label in CriticLabel), templates.knowledge_response_inputs
)


def label_tokens(tokenizer: Tokenizer, words: Sequence[str]) -> list[list[int]]:
    """Returns the target of each class, no longer than it takes to tell them apart.

    What ends all targets, such as T5's end token, is left out unless a word begins with another.

    >>> from faith_jax.tokenizers.vocabularies import load_vocabulary
    >>> lengths = [len(ids) for ids in label_tokens(load_vocabulary("english_4096"), ["a", "b"])]
    >>> lengths
    [1, 1]
    """
    targets = [list(tokenizer.encode(word)) for word in words]
    for ids in targets:
        for other in targets:
            if ids is not other and other[: len(ids)] == ids:
                return [[*target, *tokenizer.suffix_ids] for target in targets]
    return targets


@functools.partial(jax.jit, static_argnums=0)
def _probabilities(
    module: Transformer, params: PyTree, tokens: Array, targets: Array, keys: Array | None
) -> Array:
    """Returns float32 [rows, classes], each row sums to 1.

    Args:
      module: the model.
      params: its.
      tokens: int32 [rows, length].
      targets: int32 [classes, target_length], padded behind with -1.
      keys: of each row's dropout, [rows]; None = no dropout.
    """
    variables, dropout = {"params": params}, keys is not None
    known = jnp.maximum(targets, 0)
    fed = shift_right(known, module.config.decoder_start_id)
    is_one_token = targets.shape[1] == 1  # then the decoder reads the same for all classes

    def hidden_of(row: Array, key: Array | None) -> Array:
        """Returns [classes, target_length, embed]; all classes of a row have the same masks."""
        inputs, rngs = row[None], None if key is None else {"dropout": key}
        encoded = module.apply(variables, inputs, None, dropout, method="encode", rngs=rngs)

        def decoded(target: Array) -> Any:
            options: Any = {"enable_dropout": dropout, "method": "decode_hidden", "rngs": rngs}
            return module.apply(variables, encoded, inputs, target[None], **options)

        return jax.vmap(decoded)(fed[:1] if is_one_token else fed)[:, 0]

    hidden = jax.vmap(hidden_of)(tokens, keys) if dropout else _without(hidden_of, tokens)
    layer = output_layer(module, params)
    if is_one_token:  # what normalises the logits is the same too
        logits = layer.logits_of(hidden[:, 0, 0], targets[:, 0])
    else:
        wanted = jnp.tile(known, (len(tokens), 1)).reshape(-1)
        places, count = jnp.arange(wanted.size, dtype=jnp.int32), jnp.int32(wanted.size)
        states = hidden.reshape(wanted.size, -1)
        found = token_log_probs(states, layer, places, wanted, count).reshape(-1, *targets.shape)
        logits = jnp.where(targets >= 0, found, 0.0).sum(axis=-1)
    return jax.nn.softmax(logits, axis=-1)


def _without(hidden_of: Callable[..., Array], tokens: Array) -> Array:
    return jax.vmap(lambda row: hidden_of(row, None))(tokens)


@functools.partial(jax.jit, static_argnums=(0, 5))
def _mean_with_dropout(
    module: Transformer, params: PyTree, tokens: Array, targets: Array, keys: Array, passes: int
) -> Array:
    """Returns the mean probabilities over exactly `passes` dropout masks a row."""

    def one_pass(number: Array) -> Array:
        numbered = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
        return _probabilities(module, params, tokens, targets, numbered)

    return jnp.mean(jax.lax.map(one_pass, jnp.arange(passes)), axis=0)


class LabelWordEngine:
    """Class probabilities of many rows of any length, in few compiled shapes.

    Args:
      model: an encoder-decoder.
      targets: token ids of each class's words.
      dropout_passes: k of Monte-Carlo dropout; 0 = one pass without dropout.
      seed: of the dropout, None = 0; a row's masks depend on it and on the row's tokens alone.
      dropout_rate: of Monte-Carlo dropout, in (0, 1); None = as the model was trained.
      tokens_per_batch: tokens of a batch, padding included; default: 1,024 on a CPU, else 32,768.

    Raises:
      ConfigError: for dropout passes in a model without dropout, and as `check_dropout`.
    """

    def __init__(
        self,
        model: EncoderDecoderModel,
        targets: Sequence[Sequence[int]],
        dropout_passes: int = 0,
        seed: int | None = None,
        dropout_rate: float | None = None,
        tokens_per_batch: int | None = None,
    ):
        check_dropout(dropout_passes, seed, dropout_rate)
        self.model, self.dropout_passes, self._seed = model, dropout_passes, seed or 0
        self._module = model.module
        if dropout_passes:
            self._module = Transformer(with_dropout(model.config, dropout_rate))
        longest = max(len(ids) for ids in targets)
        self._targets = np.full((len(targets), longest), -1, np.int32)
        for line, ids in zip(self._targets, targets, strict=True):
            line[: len(ids)] = ids
        if tokens_per_batch is None:
            tokens_per_batch = 1024 if jax.default_backend() == "cpu" else 32768
        self._tokens_per_batch = tokens_per_batch
        self._compiled: set[tuple[int, int]] = set()

    @property
    def num_compilations(self) -> int:
        """How many shapes were compiled for this engine."""
        return len(self._compiled)

    def probabilities(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns float32 [rows, classes], each row sums to 1.

        Args:
          rows: token ids with special tokens, in any order.
        """
        found = np.zeros((len(rows), len(self._targets)), np.float32)
        for tokens, numbers in length_batches(
            rows, _LENGTHS, self._tokens_per_batch, self.model.config.pad_id
        ):
            self._compiled.add(tokens.shape)
            found[numbers] = np.asarray(self._classify(tokens))[: len(numbers)]
        return found

    def _classify(self, tokens: np.ndarray) -> Array:
        known = self._module, self.model.params, tokens, self._targets
        if not self.dropout_passes:
            return _probabilities(*known, None)
        keys = row_keys(self._seed, tokens, self.model.config.pad_id)
        return _mean_with_dropout(*known, keys, self.dropout_passes)


@dataclasses.dataclass(frozen=True)
class LabelWordEncoder:
    """Makes rows of two texts in the form that the model was trained with.

    Attributes:
      tokenizer: the model's.
      inputs: see `LabelForm`.
      vocab_size: of the model.
      max_length: tokens of a row, special ones included.
      cut_policy: what a longer row loses, see `core.cutting`; by default the premise's end.
    """

    tokenizer: Tokenizer
    inputs: Callable[[str, str], str]
    vocab_size: int
    max_length: int
    cut_policy: str = "knowledge"

    def __call__(self, premise: str, hypothesis: str, name: str = "a pair") -> PairRow:
        """Returns the row of a premise and a hypothesis; see `PairEncoder`."""
        limit = self.max_length - len(self.tokenizer.add_special_tokens([]))
        fitted = fit(
            self.tokenizer,
            self.inputs(premise, hypothesis),
            limit,
            self.cut_policy,
            f"{name}: max_length = {self.max_length}",
        )
        row = self.tokenizer.add_special_tokens(fitted.ids)
        return PairRow(check_ids(list(row), self.vocab_size), fitted.cut)


def open_label_words(
    model: EncoderDecoderModel,
    tokenizer: Tokenizer,
    form: LabelForm,
    words: Sequence[str] | None,
    max_length: int | None,
    cut_policy: str,
    **engine: Any,
) -> tuple[tuple[str, ...], LabelWordEngine, LabelWordEncoder]:
    """Returns the classes, the engine and the encoder of a model.

    Args:
      model: an encoder-decoder.
      tokenizer: its.
      form: what it reads, and the classes.
      words: what it writes for each of the form's classes; None = their names. Two words where the
        form has three classes are the first of these and all others together, as those of TRUE's
        T5, "1" and "0".
      max_length: tokens of an input; None = 1,024, or fewer where the positions end before.
      cut_policy: see `LabelWordEncoder`.
      **engine: see `LabelWordEngine`.

    Raises:
      ConfigError: for wrong words or lengths, and for a model of two inputs (DoHA).
    """
    if model.config.knowledge_attention:
        raise ConfigError("the model reads two inputs (DoHA); expected a T5 or BART.")
    given = form.classes if words is None else tuple(words)
    names = form.named(given)
    targets = [check_ids(ids, model.config.vocab_size) for ids in label_tokens(tokenizer, given)]
    limit = input_limit(model.config, max_length)
    encode = LabelWordEncoder(tokenizer, form.inputs, model.config.vocab_size, limit, cut_policy)
    return names, LabelWordEngine(model, targets, **engine), encode
