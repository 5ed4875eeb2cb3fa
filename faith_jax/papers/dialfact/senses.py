"""Texts of similar sense, such as other towns for a town (Gupta 2022, section 4.1.1).

The paper uses sense2vec. Here, the source is chosen by name: vectors of sense2vec, spaCy or any
file of word vectors, WordNet, or a short list.
"""

import functools
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.datasets.augmentation.tagging import SPACY, load_pipeline, load_vectors
from faith_jax.papers.dialfact.antonyms import is_wordnet, open_wordnet

# Maps a text and its entity type ("" = unknown) to texts of similar sense.
Senses = Callable[[str, str], tuple[str, ...]]

LIST, NONE, VECTORS = "list", "none", "vectors:"
_MOST = 10
# The short list: each line has texts of one sense.
_GROUPS = """
    January, February, March, April, May, June, July, August, September, October, November, December
    Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday
    Mercury, Venus, Mars, Jupiter, Saturn, Uranus, Neptune
    Africa, Asia, Europe, North America, South America, Australia, Antarctica
    Austria, Belgium, Denmark, Finland, France, Germany, Greece, Hungary, Ireland, Italy, Norway
    Argentina, Bolivia, Brazil, Chile, Colombia, Ecuador, Mexico, Peru, Uruguay, Venezuela
    China, India, Indonesia, Japan, Korea, Malaysia, Nepal, Pakistan, Thailand, Turkey, Vietnam
    Algeria, Egypt, Ethiopia, Ghana, Kenya, Morocco, Nigeria, Senegal, Tanzania, Tunisia, Uganda
    Alaska, Arizona, California, Florida, Georgia, Nevada, Ohio, Oregon, Texas, Utah, Virginia
    Boston, Chicago, Dallas, Denver, Detroit, Houston, Miami, New York, Philadelphia, Seattle
    Amsterdam, Athens, Berlin, Brussels, Dublin, Lisbon, London, Madrid, Oslo, Paris, Rome, Vienna
    Bangkok, Beijing, Delhi, Hanoi, Jakarta, Manila, Mumbai, Seoul, Shanghai, Singapore, Tokyo
    Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Portuguese, Spanish, Turkish
    Buddhism, Christianity, Hinduism, Islam, Judaism
    Atlantic, Pacific, Indian Ocean, Arctic Ocean
    Amazon, Danube, Ganges, Mississippi, Nile, Rhine, Thames, Volga
    Alps, Andes, Carpathians, Himalayas, Pyrenees, Rocky Mountains
    accordion, cello, clarinet, drum, flute, guitar, harp, oboe, piano, trumpet, viola, violin
    baseball, basketball, cricket, football, golf, hockey, rugby, tennis, volleyball
    blues, country, folk, funk, hip hop, jazz, opera, punk, reggae, rock, soul
    cat, cow, dog, donkey, goat, horse, pig, rabbit, sheep
    eagle, falcon, hawk, owl, parrot, pigeon, raven, sparrow, swan
    cod, herring, mackerel, salmon, trout, tuna
    apple, apricot, banana, cherry, grape, lemon, orange, peach, pear, plum
    beer, chocolate, cider, coffee, juice, milk, tea, water, wine
    beech, birch, chestnut, maple, oak, pine, willow
    black, blue, brown, green, orange, purple, red, white, yellow
    copper, gold, iron, lead, nickel, silver, tin, zinc
    bicycle, boat, bus, car, motorcycle, plane, ship, train, tram, truck
    brother, sister, father, mother, son, daughter, uncle, aunt, cousin
    actor, dancer, director, novelist, painter, photographer, poet, sculptor, singer
    baker, butcher, carpenter, doctor, engineer, farmer, lawyer, nurse, plumber, teacher
"""


def load_senses(name: str) -> Senses:
    """Returns a function that maps a text and its entity type to texts of similar sense.

    Args:
      name: "list", this module's short list; "wordnet" or "wordnet:FOLDER" (co-hyponyms, see
        `open_wordnet`); "vectors:PATH", a file in word2vec's text format, or a folder of sense2vec;
        "spacy:PIPELINE", a pipeline with vectors; or "none".

    Raises:
      ConfigError: on another name, and if the named source does not exist.
      InputError: on a broken file of vectors.

    >>> load_senses("list")("Venus", "")[:3]
    ('Mercury', 'Mars', 'Jupiter')
    """
    if name == NONE:
        return lambda text, kind: ()
    if name == LIST:
        by_text: dict[str, list[str]] = {}
        for line in _GROUPS.strip().splitlines():
            texts = [text.strip() for text in line.split(",")]
            for text in texts:
                by_text.setdefault(text.casefold(), texts)

        def senses(text: str, kind: str) -> tuple[str, ...]:
            group = by_text.get(text.casefold(), ())
            return tuple(member for member in group if member.casefold() != text.casefold())

        return senses
    if is_wordnet(name):
        return _co_hyponyms(name)
    if name.startswith(VECTORS):
        path = pathlib.Path(name.removeprefix(VECTORS)).expanduser()
        return Neighbours(*(_read_sense2vec(path) if path.is_dir() else _read_word2vec(path)))
    if name.startswith(SPACY):
        vocabulary = load_pipeline(name.removeprefix(SPACY)).vocab
        rows = {key: row for key, row in vocabulary.vectors.key2row.items() if row >= 0}
        if not rows:
            raise ConfigError(
                f"The spaCy pipeline {name.removeprefix(SPACY)!r} has no vectors; take one with "
                "them, such as en_core_web_md."
            )
        keys = [vocabulary.strings[key] for key in rows]
        return Neighbours(keys, vocabulary.vectors.data[list(rows.values())])
    raise ConfigError(
        f"There are no senses {name!r}: expected {LIST}, wordnet, wordnet:FOLDER, {VECTORS}PATH, "
        f"{SPACY}PIPELINE or {NONE}."
    )


def _co_hyponyms(name: str) -> Senses:
    """Returns the nouns that have the same hypernym as a noun's first, most frequent sense."""
    wordnet = open_wordnet(name)

    @functools.lru_cache(maxsize=10_000)
    def co_hyponyms(text: str) -> tuple[str, ...]:
        senses = wordnet.synsets(text.replace(" ", "_"), pos="n")
        if not senses:
            return ()
        above = senses[0].hypernyms() + senses[0].instance_hypernyms()
        beside = [
            synset
            for hypernym in above
            for synset in hypernym.hyponyms() + hypernym.instance_hyponyms()
            if synset != senses[0]
        ]
        lemmas = (synset.lemmas()[0].name().replace("_", " ") for synset in beside)
        return tuple(lemma for lemma in dict.fromkeys(lemmas) if _is_other(lemma, text))

    return lambda text, kind: co_hyponyms(text)


class Neighbours:
    """The nearest neighbours of texts by the cosine of their vectors, nearest first, at most ten.

    With keys such as sense2vec's `New_York|GPE`, only keys of the same sense are neighbours. A
    text's sense is its entity type, or else its first sense in the table.

    Args:
      keys: words, or words and senses; spaces are underscores.
      vectors: float32 [keys, dimensions].
    """

    def __init__(self, keys: Sequence[str], vectors: np.ndarray):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        self._vectors = vectors / np.where(norms > 0, norms, 1)
        self._words, self._senses, self._places = [], [], dict[str, list[int]]()
        for place, key in enumerate(keys):
            word, _, sense = key.rpartition("|") if "|" in key[1:-1] else (key, "", "")
            self._words.append(word.replace("_", " "))
            self._senses.append(sense)
            self._places.setdefault(self._words[-1].casefold(), []).append(place)
        kinds = {sense: n for n, sense in enumerate(dict.fromkeys(self._senses))}
        self._kinds = np.array([kinds[sense] for sense in self._senses])
        self._cached_nearest = functools.lru_cache(maxsize=10_000)(self._find_nearest_words)

    def __call__(self, text: str, kind: str) -> tuple[str, ...]:
        """Returns the neighbours of a text; empty if it is unknown."""
        places = self._places.get(text.casefold(), ())
        # If there are several, prefer the same sense, then the same capitals.
        best = max(
            places,
            key=lambda place: (self._senses[place] == kind, self._words[place] == text, -place),
            default=None,
        )
        return () if best is None else self._cached_nearest(best)

    def _find_nearest_words(self, place: int) -> tuple[str, ...]:
        likeness = self._vectors @ self._vectors[place]
        likeness[self._kinds != self._kinds[place]] = -np.inf
        neighbours = list[str]()
        for candidate in np.argsort(-likeness, kind="stable"):
            if likeness[candidate] <= 0 or len(neighbours) == _MOST:
                break
            word = self._words[candidate]
            if _is_other(word, self._words[place]) and word not in neighbours:
                neighbours.append(word)
        return tuple(neighbours)


def _is_other(text: str, than: str) -> bool:
    """Whether a text is not just another form of `than`, such as a part of it, or its plural."""
    folded, than_folded = text.casefold(), than.casefold()
    return folded not in than_folded and than_folded not in folded


def _read_word2vec(path: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """Reads word2vec's text format: a line with the numbers of vectors and values, then vectors."""
    keys, rows = list[str](), np.zeros((0, 0), np.float32)
    for number, line in _read_lines(path):
        parts = line.rstrip().split(" ")
        try:
            if number == 1:
                count, size = map(int, parts)
                rows = np.zeros((count, size), np.float32)
                continue
            rows[len(keys)] = np.array(parts[-rows.shape[1] :], np.float32)
            keys.append(" ".join(parts[: -rows.shape[1]]))
        except (ValueError, IndexError):
            expected = (
                "the number of vectors and of their values"
                if number == 1
                else f"a word and {rows.shape[1]} numbers, on {len(rows)} lines"
            )
            raise InputError(f"{path}:{number}: expected {expected}, got {line[:60]!r}.") from None
    if len(keys) != len(rows) or not keys:
        raise InputError(f"{path}: has {len(keys)} vectors, its first line says {len(rows)}.")
    return keys, rows


def _read_lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from enumerate(file, 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: no text in UTF-8; word2vec's binary form is not read.") from None


def _read_sense2vec(folder: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """Returns the keys and vectors of a sense2vec folder, the most frequent first."""
    vectors, strings = load_vectors(folder)
    keys = {key: row for key, row in vectors.key2row.items() if row >= 0}
    frequencies = {}
    if (folder / "freqs.json").is_file():
        frequencies = dict(json.loads((folder / "freqs.json").read_text("utf-8")))
    order = sorted(keys, key=lambda key: -(frequencies.get(key) or 0))
    return [strings[key] for key in order], vectors.data[[keys[key] for key in order]]
