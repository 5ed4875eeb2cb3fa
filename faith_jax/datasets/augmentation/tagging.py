"""Parts of speech and entities of texts, behind one small interface.

>>> tagger = load_tagger("rules")
>>> [(entity.text, entity.type) for entity in tagger.tag(["It met in Oslo in 1931."])[0].entities]
[('Oslo', 'MISC'), ('1931', 'DATE')]
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.antonyms import ANTONYM_PAIRS

SPACY = "spacy:"
RULES = "rules"
DEFAULT_TAGGER = "spacy:en_core_web_sm"


class Token(NamedTuple):
    """A word with its grammar.

    Attributes:
      text: as it stands.
      start: its first character's place in the text.
      end: behind its last one.
      part: of speech, in Universal POS tags ("VERB", "ADJ"); "" = unknown.
      tag: the finer tag of the Penn Treebank ("VBZ", "JJR"); "" = unknown.
      lemma: the word's base form.
    """

    text: str
    start: int
    end: int
    part: str
    tag: str
    lemma: str


class Entity(NamedTuple):
    """A named entity; places are of characters, `type` is the tagger's ("PERSON", "DATE")."""

    text: str
    start: int
    end: int
    type: str


class NounChunk(NamedTuple):
    """A noun with what describes it ("the old harbour"); places are of characters."""

    text: str
    start: int
    end: int


class TaggedText(NamedTuple):
    """A text with its tokens, entities and noun chunks, each in order and without overlaps.

    The tagger of rules finds no noun chunks.
    """

    text: str
    tokens: tuple[Token, ...]
    entities: tuple[Entity, ...]
    noun_chunks: tuple[NounChunk, ...] = ()


class Tagger(Protocol):
    """What finds tokens and entities."""

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """Returns each text with its tokens and entities."""
        ...


def load_tagger(name: str = DEFAULT_TAGGER) -> Tagger:
    """Returns a tagger by its name.

    Args:
      name: "spacy:" and the name of an installed spaCy pipeline or a folder that holds one; or
        "rules", which needs no model: it knows numbers, dates, capitalised names (all of type
        MISC), and a few hundred verbs and adjectives, and misses the rest.

    Raises:
      ConfigError: for an unknown name, and where spaCy or its pipeline is not installed.
    """
    if name == RULES:
        return RuleTagger()
    if name.startswith(SPACY):
        return SpacyTagger(name.removeprefix(SPACY))
    raise ConfigError(
        f"There is no tagger {name!r}: expected {SPACY}PIPELINE, such as {DEFAULT_TAGGER}, or "
        f"{RULES}."
    )


class Replacement(NamedTuple):
    """A piece of a text and what takes its place."""

    start: int
    end: int
    old: str
    new: str


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """Returns the text with pieces replaced; what lies between them stays as it is.

    Where "a" or "an" stands before a piece, it agrees with what takes the piece's place.

    Args:
      text: the text.
      replacements: in order, none overlapping another.

    >>> replaced("She ate an apple.", [Replacement(11, 16, "apple", "pear")])
    'She ate a pear.'
    """
    parts, last = [], 0
    for replacement in replacements:
        between = _with_article(text[last : replacement.start], replacement.new)
        parts += [between, replacement.new]
        last = replacement.end
    return "".join([*parts, text[last:]])


_ARTICLE = re.compile(r"\b([Aa])n?(\s+)$")


def _with_article(before: str, following: str) -> str:
    """Returns the text before a word, its article at the end agreeing with the word."""
    vowel = following[:1].lower() in tuple("aeiou")
    return _ARTICLE.sub(r"\1n\2" if vowel else r"\1\2", before)


class SpacyTagger:
    """Tags with a spaCy pipeline.

    Args:
      name: of an installed pipeline package, or a folder that holds a pipeline.

    Raises:
      ConfigError: where spaCy or the pipeline is not installed.
    """

    def __init__(self, name: str):
        self._pipeline = _loaded(name)

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """See `Tagger`."""
        return [_tagged(document) for document in self._pipeline.pipe(texts)]


def _loaded(name: str) -> Any:
    try:
        import spacy
    except ImportError:
        raise ConfigError(
            "spaCy is not installed; install the extra (pip install 'faith_jax[augmentation]', or "
            f"'.[augmentation]' in a clone) and python -m spacy download {name}, or choose the "
            "tagger 'rules', which needs neither."
        ) from None
    try:
        return spacy.load(name)
    except OSError as error:
        problem = str(error).split("\n")[0]
        raise ConfigError(
            f"The spaCy pipeline {name!r} cannot be loaded ({problem}). Install it: python -m "
            f"spacy download {name}; or name a folder that holds a pipeline; or choose the tagger "
            "'rules', which needs none."
        ) from None


def _tagged(document: Any) -> TaggedText:
    tokens = tuple(
        Token(t.text, t.idx, t.idx + len(t.text), t.pos_, t.tag_, t.lemma_ or t.lower_)
        for t in document
        if not t.is_space
    )
    entities = tuple(Entity(e.text, e.start_char, e.end_char, e.label_) for e in document.ents)
    chunks: tuple[NounChunk, ...] = ()
    if document.has_annotation("DEP"):  # a pipeline may have no parser
        chunks = tuple(NounChunk(c.text, c.start_char, c.end_char) for c in document.noun_chunks)
    return TaggedText(document.text, tokens, entities, chunks)


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
# The first that matches counts.
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
# Capitalised inside a sentence, and no name.
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


def _doubled(verb: str) -> bool:
    """Whether a verb doubles its last letter before -ed and -ing: stop, drop, cut, run."""
    return bool(re.fullmatch(rf"[^{_VOWELS}]*[{_VOWELS}][^{_VOWELS}wxy]", verb))


def _third_person(verb: str) -> str:
    if verb.endswith(("s", "x", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search(rf"[^{_VOWELS}]y$", verb) else f"{verb}s"


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    if re.search(rf"[^{_VOWELS}]y$", verb):
        return f"{verb[:-1]}ied"
    return f"{verb}{verb[-1]}ed" if _doubled(verb) else f"{verb}ed"


def _gerund(verb: str) -> str:
    if verb.endswith("e") and not verb.endswith("ee"):
        return f"{verb[:-1]}ing"
    return f"{verb}{verb[-1]}ing" if _doubled(verb) else f"{verb}ing"


def _verb_forms() -> dict[str, tuple[str, str]]:
    """Returns Penn tag and lemma of each form; of forms that coincide, the first counts."""
    forms: dict[str, tuple[str, str]] = {}
    for entry in (_VERBS + _IRREGULAR_VERBS).split():
        verb, *irregular = entry.split(":")
        past, participle = irregular or (_past(verb), _past(verb))
        for form, tag in (
            (verb, "VB"),
            (_third_person(verb), "VBZ"),
            (past, "VBD"),
            (participle, "VBN"),
            (_gerund(verb), "VBG"),
        ):
            forms.setdefault(form, (tag, verb))
    return forms


_VERB_FORMS = _verb_forms()
_ADJECTIVES = frozenset(word for pair in ANTONYM_PAIRS for word in pair)


class RuleTagger:
    """Tags by rules and short word lists, for where no model can be had.

    It finds what can be told from the letters alone: numbers, dates, amounts, and capitalised names
    inside a sentence, which all have the type MISC since letters do not tell a person from a place.
    Verbs and adjectives are those of the lists here, in their regular forms. It misses the rest.
    """

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        """See `Tagger`."""
        return [TaggedText(text, tuple(_tokens(text)), tuple(_entities(text))) for text in texts]


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        word = match.group().lower()
        part, tag, lemma = "", "", word
        if word in _ADJECTIVES:
            part, tag = "ADJ", "JJ"
        elif word in _VERB_FORMS:
            part, (tag, lemma) = "VERB", _VERB_FORMS[word]
        yield Token(match.group(), match.start(), match.end(), part, tag, lemma)


def _entities(text: str) -> Iterator[Entity]:
    for match in _ENTITY.finditer(text):
        kind, start, end = str(match.lastgroup), match.start(), match.end()
        if kind == "MISC":
            start = _name_start(text, start, end)
        if start < end:
            yield Entity(text[start:end], start, end, kind)


def _name_start(text: str, start: int, end: int) -> int:
    """Returns where a name begins behind words that are capitalised for another reason.

    Such are the first word of a sentence and forms of "I".
    """
    first = bool(_SENTENCE_START.search(text[:start]))
    for word in re.finditer(r"\S+", text[start:end]):
        if not first and word.group() not in _NO_NAMES and word.group()[0].isupper():
            return start + word.start()
        first = False
    return end
