"""The card of a judge: its model's input, and how the model's output becomes a score.

The package's cards are `faith_jax/scoring/presets/*.toml`; docs/judge_cards.md lists the fields.
"""

import functools
import hashlib
import pathlib
import re
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from faith_jax.core.errors import ConfigError
from faith_jax.core.schema import Text, Texts, read_toml_as
from faith_jax.core.settings import Positive, Share, ShareBelow1
from faith_jax.core.types import ScorerCard

PRESETS = pathlib.Path(__file__).parents[1] / "presets"
ENDING = ".toml"
GROUNDING, RESPONSE, QUERY = "grounding", "response", "query"
_FIELD = re.compile(r"\{(\w+)\}")
_ID = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Address = Annotated[
    str, msgspec.Meta(pattern=r"^https?://\S+$", description="an address of the web")
]


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The template of a model's input, with the fields {grounding}, {response} and {query}.

    The query is the last turn of the history, or empty.

    Attributes:
      text: a single text; the tokenizer puts its special tokens around it.
      pair: two texts instead of `text`, which the tokenizer joins by special tokens.
      special_tokens: special tokens that occur within the text, such as "</s>".
    """

    text: Text | None = None
    pair: tuple[Text, Text] | None = None
    special_tokens: list[Text] = []

    @property
    def templates(self) -> tuple[str, ...]:
        """The single text, or both texts of the pair."""
        return self.pair or (self.text or "",)


class ReadClass(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="form",
    tag="class",
    rename={"supported": "class"},
):
    """Reads the class of a classification head which means that the response is supported.

    Attributes:
      supported: the number of the class or its name in the model's config ("class" in the card).
      activation: the "softmax" of all classes' logits, or the "sigmoid" of this class's logit.
      minus: a class whose largest probability over all chunks is subtracted.
    """

    supported: _ID | Text
    activation: Literal["softmax", "sigmoid"] = "softmax"
    minus: _ID | Text | None = None


class ReadTokens(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="form",
    tag="tokens",
    rename={"supported": "class"},
):
    """Reads, for each token of the response, the class which means that it is supported.

    The score of a response is the smallest probability of its tokens.

    Attributes:
      supported: the number of the class or its name in the model's config ("class" in the card).
    """

    supported: _ID | Text


class ReadWords(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="form", tag="words"
):
    """Reads the first token that an encoder-decoder generates.

    Attributes:
      words: the possible answers, the one for a supported response first; only the first token of
        each counts.
      ids: the tokens themselves, instead of words.
      over: whether the softmax is over these "words" or the whole "vocabulary".
    """

    words: Annotated[list[Text], msgspec.Meta(min_length=2)] | None = None
    ids: Annotated[list[_ID], msgspec.Meta(min_length=2)] | None = None
    over: Literal["words", "vocabulary"] = "words"


class Sentences(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="method", tag="sentences"
):
    """Chunks of as many whole sentences as fit; a longer sentence is a chunk of its own.

    Attributes:
      length: the largest length of a chunk, in units.
      unit: "words" between white space, "treebank_words" (NLTK's), the model's "tokens", or
        "sentences".
      joined_by: the text between the sentences of a chunk.
      keep_lines: keep line breaks of the grounding, which then end sentences.
      shortest: ignore sentences with fewer characters.
    """

    length: Positive
    unit: Literal["words", "treebank_words", "tokens", "sentences"]
    joined_by: str = " "
    keep_lines: bool = False
    shortest: Positive = 1


class Windows(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="method", tag="windows"
):
    """Chunks of a fixed length, regardless of where sentences end.

    Attributes:
      length: the length of a chunk, in units.
      unit: "words" between white space, the model's "tokens" of the grounding, or "row_tokens": all
        tokens of the input, so that a long response leaves less room for the chunk.
      overlap: the share of a chunk that is repeated in the next one.
    """

    length: Positive
    unit: Literal["words", "tokens", "row_tokens"]
    overlap: ShareBelow1 = 0.0


class EvenSentences(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="method", tag="even"
):
    """Chunks with equal numbers of sentences and about `length` words each.

    Attributes:
      length: the approximate number of words in a chunk.
    """

    length: Positive


class Response(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a response is read.

    Attributes:
      sentences: "whole" = as one text; otherwise each sentence is read separately, and the score is
        the "mean" or "min" of their scores.
      shortest: ignore sentences with fewer characters.
    """

    sentences: Literal["whole", "mean", "min"] = "whole"
    shortest: Positive = 1


class Histogram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A histogram of a sentence's support by all chunks, used instead of the maximum (SummaC-Conv).

    Attributes:
      file: the file with the weights, in the model's folder; see `judges.scorer`.
      edges: the edges of the bins, from 0 to 1.
    """

    file: Text
    edges: Annotated[list[float], msgspec.Meta(min_length=2)]


class JudgeCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The card of a judge.

    The score of a response, a sentence or a token is its largest score by any chunk, unless a
    histogram combines the chunks.

    Attributes:
      what: a sentence on what the judge measures.
      architectures: model families that the card fits, as `faith-jax` names them: "t5", "roberta" …
      size: the number of parameters of the published model.
      checkpoint: the published model's name on the Hugging Face Hub.
      licence: the licence of the published model.
      source: the address of the model card or of the authors' repository.
      max_length: the most tokens of an input.
      input: the model's input.
      reads: the output of the model that is read.
      threshold: a response with a score above it is supported; None = no threshold is published.
      threshold_source: the source of the threshold.
      chunks: how a grounding is divided; None = it is read whole, and cut if it is too long.
      response: how a response is read.
      histogram: how the support by all chunks is combined; None = the largest counts.
    """

    what: Text
    architectures: Texts
    size: Text
    checkpoint: Text
    licence: Text
    source: _Address
    max_length: Annotated[int, msgspec.Meta(ge=8, le=2**20)]
    input: Input
    reads: ReadClass | ReadTokens | ReadWords
    threshold: Share | None = None
    threshold_source: Text | None = None
    chunks: Sentences | Windows | EvenSentences | None = None
    response: Response = Response()
    histogram: Histogram | None = None

    def scorer_card(self, name: str) -> ScorerCard:
        """Returns the `ScorerCard` of a scorer that uses this card."""
        subtracts = isinstance(self.reads, ReadClass) and self.reads.minus is not None
        return ScorerCard(
            name,
            self.what,
            low=-1.0 if subtracts else 0.0,
            high=1.0,
            source=self.source,
            needs_model=True,
            word_level=self.response.sentences != "whole" or isinstance(self.reads, ReadTokens),
        )


@functools.cache
def preset_names() -> tuple[str, ...]:
    """Returns the names of the package's cards, in alphabetical order."""
    return tuple(sorted(path.stem for path in PRESETS.glob(f"*{ENDING}")))


def read_card(name: str) -> JudgeCard:
    """Returns a card of the package by its name, or the card in a file by its path.

    Raises:
      ConfigError: a field is wrong; the message names the file and the field.
    """
    path = pathlib.Path(name) if name.endswith(ENDING) else PRESETS / f"{name}{ENDING}"
    card = read_toml_as(path, JudgeCard)
    for field, problem in _find_card_problems(card):
        raise ConfigError(f"{path}: field '{field}': {problem}.")
    return card


def card_digest(path: str) -> str:
    """Returns a digest of a card's file; raises as `read_card` does."""
    read_card(path)
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def _find_card_problems(card: JudgeCard) -> Iterable[tuple[str, str]]:
    """Yields fields with problems that their types do not rule out."""
    read, reads = card.input, card.reads
    if (read.text is None) == (read.pair is None):
        yield "input", "expected either 'text' or 'pair'"
    template_text = " ".join(read.templates)
    names = _FIELD.findall(template_text)
    for name in (GROUNDING, RESPONSE):
        if names.count(name) != 1:
            yield "input", f"expected {{{name}}} once, got it {names.count(name)} times"
    if unknown := set(names) - {GROUNDING, RESPONSE, QUERY}:
        fields = ", ".join(f"{{{name}}}" for name in sorted(unknown))
        yield "input", f"expected {{grounding}}, {{response}} and {{query}} alone, got {fields}"
    for token in read.special_tokens:
        if token not in template_text:
            yield "input.special_tokens", f"{token!r} does not occur in the text"
    if (card.threshold is None) != (card.threshold_source is None):
        yield "threshold_source", "says where 'threshold' is from; expected both or neither"
    if isinstance(reads, ReadWords):
        if (reads.words is None) == (reads.ids is None):
            yield "reads", "expected either 'words' or 'ids'"
        listed: list[object] = [*(reads.words or reads.ids or ())]
        if len(set(listed)) != len(listed):
            yield "reads", "expected different words, got one twice"
    elif isinstance(reads, ReadTokens):
        if read.pair is None or f"{{{RESPONSE}}}" not in read.pair[1]:
            yield (
                "input",
                "expected 'pair', whose second text has {response}, of which tokens are read",
            )
        if card.histogram:
            yield "histogram", "reads classes of whole sentences, not of tokens"
    elif reads.minus is not None and reads.activation == "sigmoid":
        yield "reads.minus", "is of a softmax over the classes, not of a sigmoid"
    elif reads.minus is not None and card.histogram:
        yield "reads.minus", "a histogram reads a single probability"
    edges = [] if card.histogram is None else card.histogram.edges
    if edges and not (edges[0] == 0 and edges[-1] == 1 and edges == sorted(set(edges))):
        yield "histogram.edges", "expected numbers that grow from 0 to 1"


def presets_for(architecture: str) -> list[str]:
    """Returns the names of the package's cards that fit a family of models."""
    return [name for name in preset_names() if architecture in read_card(name).architectures]
