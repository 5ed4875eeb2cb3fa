"""Parts of speech and entities of texts, behind one small interface.

>>> tagger = load_tagger("rules")
>>> [(entity.text, entity.type) for entity in tagger.tag(["It met in Oslo in 1931."])[0].entities]
[('Oslo', 'MISC'), ('1931', 'DATE')]
"""

import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.adjectives import ANTONYM_PAIRS

SPACY = "spacy:"
RULES = "rules"
DEFAULT_TAGGER = "spacy:en_core_web_sm"


class TaggedToken(NamedTuple):
    """A word at characters `start` to `end` of a text.

    `part` is its Universal POS tag ("VERB", "ADJ"), `tag` its finer Penn Treebank tag ("VBZ",
    "JJR"); "" = unknown. `lemma` is its base form.
    """

    text: str
    start: int
    end: int
    part: str
    tag: str
    lemma: str


class Entity(NamedTuple):
    """A named entity; `type` is the tagger's label ("PERSON", "DATE")."""

    text: str
    start: int
    end: int
    type: str


class NounChunk(NamedTuple):
    """A noun with the words that describe it ("the old harbour")."""

    text: str
    start: int
    end: int


class TaggedText(NamedTuple):
    """A text with its tokens, entities and noun chunks, each in order and without overlaps."""

    text: str
    tokens: tuple[TaggedToken, ...]
    entities: tuple[Entity, ...]
    noun_chunks: tuple[NounChunk, ...] = ()


class Tagger(Protocol):
    """Finds tokens, entities and noun chunks."""

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """Returns the texts with their tokens, entities and noun chunks."""
        ...


def load_tagger(name: str = DEFAULT_TAGGER) -> Tagger:
    """Returns the tagger "rules" (`RuleTagger`), which needs no model, or "spacy:PIPELINE".

    PIPELINE is an installed spaCy pipeline, or a folder that contains one.

    Raises:
      ConfigError: the name is unknown, or spaCy or the pipeline is not installed.
    """
    if name == RULES:
        return RuleTagger()
    if name.startswith(SPACY):
        return _SpacyTagger(name.removeprefix(SPACY))
    raise ConfigError(
        f"There is no tagger {name!r}: expected {SPACY}PIPELINE, such as {DEFAULT_TAGGER}, or "
        f"{RULES}."
    )


class Replacement(NamedTuple):
    """A piece of a text and its replacement."""

    start: int
    end: int
    old: str
    new: str


_ARTICLE = re.compile(r"\b([Aa])n?(\s+)$")


def replace_pieces(text: str, replacements: Sequence[Replacement]) -> str:
    """Returns the text with pieces replaced, adapting a preceding "a" or "an" to the new piece.

    `replacements` are in order and do not overlap.

    >>> replace_pieces("She ate an apple.", [Replacement(11, 16, "apple", "pear")])
    'She ate a pear.'
    """
    parts, last = [], 0
    for start, end, _, new in replacements:
        article = r"\1n\2" if new[:1].lower() in tuple("aeiou") else r"\1\2"
        parts += [_ARTICLE.sub(article, text[last:start]), new]
        last = end
    return "".join([*parts, text[last:]])


def load_pipeline(name: str) -> Any:
    """Returns a spaCy pipeline: an installed package, or one in a folder.

    Raises:
      ConfigError: spaCy or the pipeline is not installed.
    """
    try:
        import spacy
    except ImportError:
        raise ConfigError(
            "spaCy is not installed; install the extra (pip install 'faith_jax[augmentation]', "
            f"or '.[augmentation]' in a clone) and python -m spacy download {name}, or choose "
            "the tagger 'rules' and the senses 'list', which need neither."
        ) from None
    try:
        return spacy.load(name)
    except OSError as error:
        problem = str(error).split("\n")[0]
        raise ConfigError(
            f"The spaCy pipeline {name!r} cannot be loaded ({problem}). Install it: python -m "
            f"spacy download {name}; or name a folder that contains a pipeline; or choose the "
            "tagger 'rules', which needs none, and the senses 'list'."
        ) from None


def load_vectors(folder: pathlib.Path) -> tuple[Any, Any]:
    """Returns the vectors in a folder that spaCy or sense2vec wrote, and the strings of their keys.

    Raises:
      ConfigError: spaCy is not installed, or the folder does not hold such vectors.
    """
    try:
        from spacy.strings import StringStore
        from spacy.vectors import Vectors
    except ImportError:
        raise ConfigError(
            "sense2vec's vectors are read with spaCy: pip install 'faith_jax[augmentation]'."
        ) from None
    try:
        return Vectors().from_disk(folder), StringStore().from_disk(folder / "strings.json")
    except (OSError, ValueError) as error:
        problem = str(error).split("\n")[0]
        raise ConfigError(f"{folder}: not a folder of sense2vec's vectors ({problem}).") from None


class _SpacyTagger:
    """Tags with a spaCy pipeline: an installed package, or a folder that contains one."""

    def __init__(self, name: str):
        self._pipeline = load_pipeline(name)

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """Returns the texts with the tokens, entities and noun chunks that the pipeline finds."""
        tagged = []
        for document in self._pipeline.pipe(texts):
            tokens = tuple(
                TaggedToken(
                    t.text, t.idx, t.idx + len(t.text), t.pos_, t.tag_, t.lemma_ or t.lower_
                )
                for t in document
                if not t.is_space
            )
            entities = (Entity(e.text, e.start_char, e.end_char, e.label_) for e in document.ents)
            # A pipeline may have no parser.
            chunks = document.noun_chunks if document.has_annotation("DEP") else ()
            noun_chunks = (NounChunk(c.text, c.start_char, c.end_char) for c in chunks)
            tagged.append(TaggedText(document.text, tokens, tuple(entities), tuple(noun_chunks)))
        return tagged


_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_NUMBER_WORDS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred "
    "thousand million billion"
)
_NUMBER = r"\d+(?:[.,]\d+)*"
_NUMBER_WORD = rf"(?:{'|'.join(_NUMBER_WORDS.split())})"
_NAME_WORD = r"[A-Z](?:\.|[\w'\u2019-]*)"
_NAME = rf"{_NAME_WORD}(?:\s+(?:(?:of|the|de|von|van)\s+)*{_NAME_WORD})*"
# The first pattern that matches counts.
_PATTERNS = {
    "MONEY": rf"[$\u20ac\u00a3]\s?{_NUMBER}(?:\s(?:thousand|million|billion))?",
    "PERCENT": rf"{_NUMBER}\s?(?:%|per\s?cent\b)",
    "DATE": (
        rf"(?:\d{{1,2}}\s+)?(?:{_MONTHS})\b(?:\s+\d{{1,2}}\b,?)?(?:\s+\d{{4}}\b)?"
        r"|\b(?:1[0-9]|20)\d\d\b(?![.,]\d)"
    ),
    "CARDINAL": rf"\b{_NUMBER}\b|\b{_NUMBER_WORD}(?:[\s-]{_NUMBER_WORD})*(?:-one)?\b",
    "MISC": rf"\b{_NAME}",
}
_ENTITY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PATTERNS.items()))
_TOKEN = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]")
_SENTENCE_START = re.compile(r"(?:^|[.!?]['\")\]]*\s+)['\"(\[]*$")
# Words that are capitalised inside a sentence but are not names.
_NO_NAMES = frozenset({"I", "I'm", "I've", "I'd", "I'll", "I\u2019m", "I\u2019ve", "I\u2019ll"})

_VERBS = """
    accept add appear ask attack avoid believe burn call carry cause change clean climb close
    collect cook count cover create cross dance deliver describe destroy develop discover drop
    earn enter explain fill finish follow gather hate help invent join jump kill learn lift like
    live love mark marry measure mix move open paint perform plant play point pour praise
    produce promise protect publish pull push raise reach receive record reduce refuse remember
    remove repair repeat replace return save serve share start stay stop study touch train
    travel turn use visit wait walk want warm wash watch work
"""
# Base form, past, participle.
_IRREGULAR_VERBS = """
    begin:began:begun break:broke:broken build:built:built buy:bought:bought choose:chose:chosen
    come:came:come cut:cut:cut draw:drew:drawn drink:drank:drunk drive:drove:driven
    eat:ate:eaten fall:fell:fallen feed:fed:fed fight:fought:fought find:found:found
    give:gave:given grow:grew:grown hide:hid:hidden hold:held:held keep:kept:kept
    know:knew:known lead:led:led leave:left:left lend:lent:lent lose:lost:lost make:made:made
    meet:met:met pay:paid:paid read:read:read ride:rode:ridden rise:rose:risen run:ran:run
    see:saw:seen sell:sold:sold send:sent:sent show:showed:shown sing:sang:sung
    sleep:slept:slept speak:spoke:spoken spend:spent:spent steal:stole:stolen swim:swam:swum
    take:took:taken teach:taught:taught tell:told:told throw:threw:thrown wear:wore:worn
    win:won:won write:wrote:written
"""
_VOWELS = "aeiou"


def _verb_forms() -> dict[str, tuple[str, str]]:
    """Returns Penn tag and lemma of each verb form; the first entry counts if forms coincide."""
    forms: dict[str, tuple[str, str]] = {}
    for entry in (_VERBS + _IRREGULAR_VERBS).split():
        verb, *irregular = entry.split(":")
        third = f"{verb}es" if verb.endswith(("s", "x", "ch", "sh", "o")) else f"{verb}s"
        if re.search(rf"[^{_VOWELS}]y$", verb):
            third, regular, gerund = f"{verb[:-1]}ies", f"{verb[:-1]}ied", f"{verb}ing"
        elif verb.endswith("e"):
            regular, gerund = f"{verb}d", f"{verb if verb.endswith('ee') else verb[:-1]}ing"
        else:
            # Short verbs such as stop, drop, cut and run double their last letter.
            is_short = re.fullmatch(rf"[^{_VOWELS}]*[{_VOWELS}][^{_VOWELS}wxy]", verb)
            stem = f"{verb}{verb[-1]}" if is_short else verb
            regular, gerund = f"{stem}ed", f"{stem}ing"
        past, participle = irregular or (regular, regular)
        tags = {"VB": verb, "VBZ": third, "VBD": past, "VBN": participle, "VBG": gerund}
        for tag, form in tags.items():
            forms.setdefault(form, (tag, verb))
    return forms


_VERB_FORMS = _verb_forms()
_ADJECTIVES = frozenset(word for pair in ANTONYM_PAIRS for word in pair)


class RuleTagger:
    """Tags by rules and short word lists, without a model.

    It finds numbers, dates, amounts, capitalised names inside a sentence (all of type MISC), and
    the verbs and adjectives of short lists. It misses all else and finds no noun chunks.
    """

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """Returns the texts with the tokens and entities that the rules find."""
        return [
            TaggedText(text, tuple(_find_tokens(text)), tuple(_find_entities(text)))
            for text in texts
        ]


def _find_tokens(text: str) -> Iterator[TaggedToken]:
    for match in _TOKEN.finditer(text):
        word = match.group().lower()
        part, tag, lemma = "", "", word
        if word in _ADJECTIVES:
            part, tag = "ADJ", "JJ"
        elif word in _VERB_FORMS:
            part, (tag, lemma) = "VERB", _VERB_FORMS[word]
        yield TaggedToken(match.group(), match.start(), match.end(), part, tag, lemma)


def _find_entities(text: str) -> Iterator[Entity]:
    for match in _ENTITY.finditer(text):
        kind, start, end = str(match.lastgroup), match.start(), match.end()
        if kind == "MISC":
            # A name does not include the first word of a sentence or forms of "I".
            is_first = bool(_SENTENCE_START.search(text[:start]))
            words = list(re.finditer(r"\S+", text[start:end]))[is_first:]
            names = (w for w in words if w.group() not in _NO_NAMES and w.group()[0].isupper())
            start = next((start + word.start() for word in names), end)
        if start < end:
            yield Entity(text[start:end], start, end, kind)
