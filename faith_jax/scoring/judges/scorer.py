"""A single scorer for all judges, driven by their cards."""

import dataclasses
import logging
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Unpack

import msgspec
import numpy as np
import scipy.special

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.hugging_face.families import family_name
from faith_jax.checkpoints.tensors import read_header
from faith_jax.core.cutting import CutTokens, sum_cuts
from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.settings import check_value
from faith_jax.core.types import GroundedExample, Grounding, WordScore
from faith_jax.core.words import Piece, is_blank, locate_sentences
from faith_jax.inference.class_probabilities import ClassificationEngine, LabelTexts
from faith_jax.inference.encoder import EncoderModel
from faith_jax.inference.encoder_decoder import EncoderDecoderModel
from faith_jax.inference.opening import (
    ModelOptions,
    check_ids,
    check_options,
    has_independent_classes,
    input_limit,
    open_model,
    open_tokenizer,
    require_model,
)
from faith_jax.scoring.base import Judgement, ModelScorer, remembers_last, sentence_words
from faith_jax.scoring.judges.card import (
    QUERY,
    Histogram,
    JudgeCard,
    ReadClass,
    ReadTokens,
    ReadWords,
    Sentences,
    presets_for,
    read_card,
)
from faith_jax.scoring.judges.chunks import text_between
from faith_jax.scoring.judges.rows import ChunkRow, JudgeEncoder, Offsets
from faith_jax.tokenizers.base import Tokenizer

logger = logging.getLogger("faith_jax")

Reading = Literal["whole", "mean", "min"]
# The layers of SummaC-Conv, named as in the authors' code, and their sizes.
_LINEAR, _FINAL = "mlp", "layer_final"
_CLASSES, _FEATURES = 2, 3
_SUPPORTED = 1
_REMEDY = "give a model that was trained for this judge, or another card"


@dataclasses.dataclass(frozen=True)
class _HistogramWeights:
    """The weights that SummaC-Conv adds to its NLI model (Laban et al. 2022).

    They score a sentence by the histogram of its support by all chunks, not by its largest support
    alone, as in the authors' summac/model_summac.py.

    Attributes:
      edges: the edges of the bins of support, float64 [bins + 1], in [0, 1].
      linear: the weights of the bins' counts, float64 [bins].
      bias: added to the weighted sum of the counts.
      final: weights from a response's three features to the logits of "not supported" and
        "supported", [2, 3].
      final_bias: added to the logits, [2].
    """

    edges: np.ndarray
    linear: np.ndarray
    bias: float
    final: np.ndarray
    final_bias: np.ndarray

    def feature(self, support: np.ndarray) -> float:
        """Returns the feature of a sentence; whether higher is better depends on the weights.

        Args:
          support: support of the sentence by each chunk, [chunks], in [0, 1].
        """
        counts, _ = np.histogram(support, self.edges)
        return float(counts @ self.linear) + self.bias

    def probability(self, feature: float) -> float:
        """Returns a feature's probability of support, in [0, 1]; higher = more faithful."""
        # The layer has inputs for the smallest, the mean and the largest feature; the published
        # weights were trained with the mean in all three places.
        logits = self.final @ np.full(_FEATURES, feature) + self.final_bias
        return float(scipy.special.softmax(logits)[_SUPPORTED])


def _read_histogram(card: Histogram, folder: pathlib.Path) -> _HistogramWeights:
    """Returns the weights stored beside a model.

    Raises:
      ConfigError: the file is missing, or its tensors do not fit the number of the card's bins.
      CheckpointError: the file is malformed.
    """
    path = folder / card.file
    if not path.is_file():
        raise ConfigError(
            f"{path}: there is no such file, from which the card reads the weights of its "
            "histogram; docs/judges.md says how to make it."
        )
    bins = len(card.edges) - 1
    shapes = {
        f"{_LINEAR}.weight": (1, bins),
        f"{_LINEAR}.bias": (1,),
        f"{_FINAL}.weight": (_CLASSES, _FEATURES),
        f"{_FINAL}.bias": (_CLASSES,),
    }
    stored, _ = read_header(path)
    for name, shape in shapes.items():
        actual = stored[name].shape if name in stored else None
        if actual != shape:
            raise ConfigError(
                f"{path}: {name}: expected a tensor {list(shape)}, of {bins} bins, "
                f"{'got none' if actual is None else f'got {list(actual)}'}."
            )
    arrays = {name: np.asarray(stored[name].floats(), np.float64) for name in shapes}
    return _HistogramWeights(
        np.array(card.edges),
        arrays[f"{_LINEAR}.weight"][0],
        float(arrays[f"{_LINEAR}.bias"][0]),
        arrays[f"{_FINAL}.weight"],
        arrays[f"{_FINAL}.bias"],
    )


@dataclasses.dataclass(eq=False)
class Judge:
    """A judge's model, with the outputs that its card reads.

    Attributes:
      places: the index, among the engine's classes, of the class that means supported, and of the
        class that is subtracted, if any.
      tokens: the tokens that stand for the engine's classes; empty if the model has a head.
      histogram: the weights that combine the support by all chunks; None = the largest counts.
    """

    card: JudgeCard
    engine: ClassificationEngine
    encode: JudgeEncoder
    places: tuple[int, ...]
    tokens: tuple[int, ...] = ()
    histogram: _HistogramWeights | None = None

    @remembers_last
    def support(self, rows: Sequence[ChunkRow]) -> list[np.ndarray]:
        """Returns each row's probability of support, and of the class that is subtracted.

        Returns:
          float64 [1 or 2] for each row; if the card reads tokens, [tokens] of the row's response.
        """
        ids, second = [row.row.ids for row in rows], [row.row.second for row in rows]
        reads, engine = self.card.reads, self.engine
        if isinstance(reads, ReadTokens):
            of_rows = engine.token_probabilities(ids)
            (place,) = self.places
            return [
                of_row[row.response : row.response + len(row.offsets), place].astype(np.float64)
                for row, of_row in zip(rows, of_rows, strict=True)
            ]
        # `probabilities` becomes [rows, classes].
        if isinstance(reads, ReadWords):
            words = reads.words or list(map(str, reads.ids or ()))
            # `warn_of_rare_labels` reuses this result, so it must come second to cost nothing.
            read = (
                engine.label_probabilities if reads.over == "vocabulary" else engine.probabilities
            )
            probabilities = read(ids)
            engine.warn_of_rare_labels(ids, words, _REMEDY)
        elif isinstance(reads, ReadClass) and reads.activation == "sigmoid":
            probabilities = scipy.special.expit(engine.logits(ids, second).astype(np.float64))
        else:
            probabilities = engine.probabilities(ids, second)
        return list(probabilities.astype(np.float64)[:, self.places])

    def of_sentence(self, support: np.ndarray) -> float:
        """Returns a sentence's part of the score, from its support [chunks, 1, 2 or tokens].

        The part of a sentence without tokens is NaN.
        """
        if isinstance(self.card.reads, ReadTokens):
            return float(support.max(axis=0).min()) if support.size else math.nan
        if self.histogram is not None:
            return self.histogram.feature(support[:, 0])
        supported, *subtracted = support.max(axis=0).tolist()
        return float(supported - sum(subtracted))

    def score(self, of_sentences: Sequence[float]) -> float:
        """Returns the score of some sentences from the `of_sentence` value of each."""
        of_all = min if self.card.response.sentences == "min" else np.mean
        value = float(of_all(of_sentences))
        return value if self.histogram is None else self.histogram.probability(value)


class _JudgeRow(NamedTuple):
    """The input of a judge for an example.

    Attributes:
      sentences: the sentences of the response, or the whole response as one.
      rows: for each sentence, a row for each chunk of the grounding.
    """

    sentences: list[Piece]
    rows: list[list[ChunkRow]]
    cut: CutTokens


class JudgeScorer(ModelScorer[_JudgeRow]):
    """The score of a judge: for each sentence, its largest support by a chunk of the grounding.

    The evidence for a sentence is the chunk that decided its score, or the first such chunk. If a
    histogram reads all chunks, it is the chunk with the most support. The score is undefined if the
    grounding is blank.

    Args:
      name: the name of a card of the package, or the path of a card.
      model: the folder of the judge's model.
      sentences: how the response is read, overriding the card: "whole", or by sentences, whose
        scores are combined by their "mean" or "min".
      **options: see `ModelOptions`; by default the card says how long an input may be.

    Raises:
      ConfigError: without a model, for a wrong option, or for a model that the card does not fit.
    """

    def __init__(
        self,
        name: str,
        model: str | None = None,
        sentences: Reading | None = None,
        **options: Unpack[ModelOptions],
    ):
        card = read_card(name)
        if sentences is not None:
            check_value("sentences", sentences, Reading)
            response = msgspec.structs.replace(card.response, sentences=sentences)
            card = msgspec.structs.replace(card, response=response)
        self.judge = open_judge(card, model, **options)
        self.card = card.scorer_card(name)
        self._reads = card.response
        self._has_warned = not any(f"{{{QUERY}}}" in text for text in card.input.templates)

    def why_unread(self, example: GroundedExample) -> str:
        """Returns why there is nothing to read in the grounding or the response."""
        if all(is_blank(text) for text in example.grounding.texts):
            return "the grounding is empty"
        rule = self.judge.card.chunks
        if isinstance(rule, Sentences) and not self.judge.encode.chunks(example.grounding.texts):
            return f"no sentence of the grounding has {rule.shortest} characters"
        return f"no sentence of the response has {self._reads.shortest} characters"

    def read(self, example: GroundedExample) -> _JudgeRow | None:
        encode, response = self.judge.encode, example.response
        chunks = encode.chunks(example.grounding.texts)
        sentences = [Piece(response, 0, len(response))]
        if self._reads.sentences != "whole":
            shortest = self._reads.shortest
            sentences = [s for s in locate_sentences(response) if len(s.text) >= shortest]
        if not (chunks and sentences):
            return None
        query, name = " ".join(example.history[-1:]), f"example {example.id!r}"
        rows = [encode.rows(chunks, sentence.text, query, name) for sentence in sentences]
        cuts = (pair.row.cut for part in rows for pair in part)
        return _JudgeRow(sentences, rows, sum_cuts(cuts))

    def _warn_of_no_query(self, examples: Sequence[GroundedExample]) -> None:
        """Logs a warning, once, if the judge's prompt has a query and some examples have none."""
        without = [example.id for example in examples if not example.history]
        if without and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s: its prompt has the query, the last turn before the response, and %d of the "
                "first %d responses have none, such as that of example %r; they are read with an "
                "empty one",
                self.card.name,
                len(without),
                len(examples),
                without[0],
            )

    def choose_shapes(self, rows: Sequence[_JudgeRow], window: int, total: int) -> None:
        ids = [pair.row.ids for row in rows for part in row.rows for pair in part]
        limit = self.judge.encode.max_length
        self.judge.engine.choose_shapes(ids, limit, window, total, len(rows))

    def texts(self, row: _JudgeRow) -> dict[str, str]:
        """Returns the input for the first chunk."""
        count = sum(map(len, row.rows))
        text = self.judge.encode.tokenizer.to_readable(row.rows[0][0].row.ids)
        return {f"chunk 1 of {count}" if count > 1 else "input": text}

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[_JudgeRow]
    ) -> list[Judgement]:
        self._warn_of_no_query(examples)
        pairs = [pair for row in rows for part in row.rows for pair in part]
        support = iter(self.judge.support(pairs))
        judgements = []
        by_tokens = isinstance(self.judge.card.reads, ReadTokens)
        for example, row in zip(examples, rows, strict=True):
            of_sentences, words, evidence = list[float](), list[WordScore](), list[WordScore]()
            for sentence, part in zip(row.sentences, row.rows, strict=True):
                of_chunks = np.stack([next(support) for _ in part])
                of_sentences.append(self.judge.of_sentence(of_chunks))
                score = self.judge.score(of_sentences[-1:])
                # If the card reads tokens, the least supported one decides.
                decides = of_chunks.min(axis=1, initial=np.inf) if by_tokens else of_chunks[:, 0]
                chunk = part[int(decides.argmax())].chunk
                evidence += _find_chunk_passages(example.grounding, self.judge.card, chunk, score)
                if by_tokens:
                    words += token_words(sentence, part[0].offsets, of_chunks.max(axis=0))
                elif self._reads.sentences != "whole":
                    words += sentence_words(sentence.text, sentence.start, score)
            value = self.judge.score(of_sentences)
            judgements.append(Judgement(value, tuple(words), tuple(evidence)))
        return judgements


def token_words(
    sentence: Piece, offsets: Offsets, probabilities: Sequence[float] | np.ndarray
) -> Iterator[WordScore]:
    """Yields the score of each word of a sentence: the smallest of its tokens' probabilities.

    Words without tokens are left out. A token of only white space counts for the next word, or at
    the end for the last one, so that the smallest score of all words is that of all tokens.
    """
    text = sentence.text
    spans = []
    for start, end in offsets:
        if text[start:end].strip():
            spans.append((start, end))
        else:
            rest = text[end:].lstrip()
            place = len(text) - len(rest) if rest else len(text.rstrip()) - 1
            spans.append((place, place + 1))
    for word in sentence_words(text, sentence.start, math.nan):
        first, last = word.start - sentence.start, word.end - sentence.start
        of_word = [
            float(probability)
            for (start, end), probability in zip(spans, probabilities, strict=True)
            if start < last and end > first
        ]
        if of_word:
            yield dataclasses.replace(word, score=min(of_word))


def _find_chunk_passages(
    grounding: Grounding, card: JudgeCard, chunk: Piece, score: float
) -> list[WordScore]:
    """Returns the passages of the grounding's texts that make up a chunk."""
    passages, start = list[WordScore](), 0
    for number, text in enumerate(grounding.texts):
        first, last = max(chunk.start - start, 0), min(chunk.end - start, len(text))
        if first < last and text[first:last].strip():
            passages.append(WordScore(text[first:last], first, last, score, number))
        start += len(text) + len(text_between(card.chunks))
    return passages


def open_judge(card: JudgeCard, model: str | None, **options: Unpack[ModelOptions]) -> Judge:
    """Opens the model of a judge.

    Raises:
      ConfigError: without a model, for a wrong option, or for a model that the card does not fit.
    """
    path = require_model(model)
    check_options(options)
    policy = options.get("cut_policy") or "knowledge"
    if policy not in ("knowledge", "error"):
        raise ConfigError(
            f"cut_policy: expected knowledge or error, got {policy!r}; a judge never cuts a "
            "response."
        )
    opened = open_model(path, options.get("dtype"), options.get("num_partitions"))
    config = opened.config
    family = family_name(config)
    if family not in card.architectures:
        fitting = presets_for(family)
        raise ConfigError(
            f"model {path}: is a model of the family {family}, but this judge's card is for "
            f"{' or '.join(card.architectures)}. Cards for {family}: "
            f"{', '.join(fitting) or 'none'}."
        )
    max_length = options.get("max_length")
    if max_length is None and config.positions == "disentangled":
        max_length = card.max_length  # relative positions have no limit
    limit = input_limit(config, max_length, card.max_length)
    if max_length is None and limit < card.max_length:
        message = "%s reads %d tokens at most, fewer than the card's max_length = %d"
        logger.warning(message, path, limit, card.max_length)
    # Special tokens written in a grounding or a response must not end it for the judge.
    tokenizer = open_tokenizer(path, options.get("vocabulary"), config).of_plain_text()
    labels, places = _what_is_read(card, opened, tokenizer, path)
    engine = ClassificationEngine(opened, labels, None, options.get("tokens_per_batch"))
    encode = JudgeEncoder(card, tokenizer, config.vocab_size, limit, policy)
    tokens = () if labels is None else tuple(labels.tokens[:, 0].tolist())
    histogram = None
    if card.histogram is not None:
        histogram = _read_histogram(card.histogram, checkpoint_path(path))
    return Judge(card, engine, encode, places, tokens, histogram)


def _what_is_read(
    card: JudgeCard, opened: Any, tokenizer: Tokenizer, path: str
) -> tuple[LabelTexts | None, tuple[int, ...]]:
    """Returns the tokens that stand for the classes (None = a head), and the classes that count."""
    reads = card.reads
    if isinstance(reads, ReadClass | ReadTokens):
        of_tokens = isinstance(reads, ReadTokens)
        names: tuple[str, ...] = ()
        if isinstance(opened, EncoderModel):
            names = opened.config.token_label_names if of_tokens else opened.label_names
        if not names:
            head = "classification head on its tokens" if of_tokens else "classification head"
            raise ConfigError(
                f"model {path}: has no {head}, whose class {reads.supported!r} the card reads; "
                "give the judge's own checkpoint."
            )
        subtracted = None if isinstance(reads, ReadTokens) else reads.minus
        classes = [reads.supported] + ([] if subtracted is None else [subtracted])
        is_softmax = isinstance(reads, ReadClass) and reads.activation == "softmax"
        if is_softmax and has_independent_classes(path):
            logger.warning(
                "%s: the problem_type in config.json is multi_label_classification, whose classes "
                'have sigmoids; the card reads a softmax; write activation = "sigmoid" for the '
                "model's own probabilities",
                path,
            )
        return None, tuple(_class_number(name, names, path) for name in classes)
    if not isinstance(opened, EncoderDecoderModel):
        raise ConfigError(
            f"model {path}: is no encoder-decoder, whose words the card reads; give the judge's "
            "own checkpoint."
        )
    ids = reads.ids or [token for word in reads.words or () for token in tokenizer.encode(word)[:1]]
    if len(set(ids)) != len(reads.ids or reads.words or ()):
        words, tokens = ", ".join(map(repr, reads.words or ())), ", ".join(map(str, ids))
        raise ConfigError(
            f"reads.words: expected words that begin with different tokens of the model's "
            f"tokenizer; {words} begin with {tokens}."
        )
    check_ids(ids, opened.config.vocab_size)
    return LabelTexts.of([[token] for token in ids], "sum"), (0,)


def _class_number(name: int | str, names: Sequence[str], path: str) -> int:
    lower = [name.lower() for name in names]
    if isinstance(name, str) and lower.count(name.lower()) == 1:
        return lower.index(name.lower())
    if isinstance(name, int) and name < len(names):
        return name
    hint = did_you_mean(name, names) if isinstance(name, str) else ""
    raise ConfigError(
        f"model {path}: has no class {name!r}, which the card reads.{hint} Its classes: "
        f"{', '.join(f'{number} = {name}' for number, name in enumerate(names))}."
    )
