"""Words of similar meaning, for the pairs of `mini_nli`: near by word vectors, linked in WordNet.

Words with near vectors occur in the same contexts, but may be opposites. WordNet tells which of
them have the same or a narrower meaning. The neighbours keep their inflection.
"""

import collections
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from faith_jax.core.errors import InputError

PARTS = ("noun", "verb", "adj", "adv")
NEIGHBOURS = 40  # nearest words; those that WordNet links are kept
LEAST_COSINE = 0.45
MOST_SYNONYMS = 8
# WordNet's pointers: hypernym, hyponym, similar to, derivation, participle of, pertainym.
_LINKS = frozenset(("@", "~", "&", "+", "<", "\\"))
_ENDINGS = (
    ("ies", "y"), ("es", ""), ("es", "e"), ("s", ""), ("ing", ""), ("ing", "e"), ("ed", ""),
    ("ed", "e"), ("ied", "y"), ("er", ""), ("er", "e"), ("est", ""), ("est", "e"),
)  # fmt: skip
# Some copies of WordNet lack its lists of irregular forms.
_IRREGULAR = dict(
    pair.split("=")
    for pair in [
        "children=child",
        "men=man",
        "women=woman",
        "people=person",
        "feet=foot",
        "teeth=tooth",
        "lives=life",
        "paid=pay",
        "sold=sell",
        "bought=buy",
        "kept=keep",
        "lost=lose",
        "held=hold",
        "made=make",
        "gave=give",
        "given=give",
        "took=take",
        "taken=take",
        "grew=grow",
        "grown=grow",
        "knew=know",
        "known=know",
        "thought=think",
        "taught=teach",
        "spent=spend",
        "built=build",
        "felt=feel",
        "left=leave",
        "met=meet",
        "began=begin",
        "begun=begin",
        "broke=break",
        "broken=break",
        "chose=choose",
        "chosen=choose",
        "drove=drive",
        "driven=drive",
        "ate=eat",
        "eaten=eat",
        "fell=fall",
        "fallen=fall",
        "fought=fight",
        "found=find",
        "went=go",
        "gone=go",
        "hid=hide",
        "hidden=hide",
        "said=say",
        "saw=see",
        "seen=see",
        "sent=send",
        "spoke=speak",
        "spoken=speak",
        "stood=stand",
        "stole=steal",
        "stolen=steal",
        "told=tell",
        "won=win",
        "wore=wear",
        "worn=wear",
        "wrote=write",
        "written=write",
        "worse=bad",
        "worst=bad",
        "better=good",
        "best=good",
        "fewer=few",
        "less=little",
    ]
)
_DOUBLED = re.compile(r"(.*(.))\2(?:ed|ing|er|est)")


def similar_words(
    words: Sequence[str], vectors: np.ndarray, wordnet: pathlib.Path
) -> dict[str, list[str]]:
    """Returns words of similar meaning for each word that has some.

    Args:
      words: lower-case words.
      vectors: their vectors, such as GloVe: [words, size].
      wordnet: the folder with data.noun and so on.
    """
    senses, linked = _read(wordnet)
    numbers = [i for i, word in enumerate(words) if word.isalpha() and len(word) > 2]
    of = {i: _senses(words[i], senses) for i in numbers}
    numbers = [i for i in numbers if of[i]]
    units = vectors[numbers] - vectors[numbers].mean(0)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    similar: dict[str, list[str]] = {}
    for start in range(0, len(numbers), 1000):
        cosines = units[start : start + 1000] @ units.T
        near = np.argpartition(-cosines, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        for row, columns in enumerate(near):
            row_number = numbers[start + row]
            best = sorted(columns.tolist(), key=lambda c, r=row: -cosines[r, c])
            synonyms = [
                words[numbers[c]]
                for c in best
                if numbers[c] != row_number
                and cosines[row, c] >= LEAST_COSINE
                and _are_linked(of[row_number], of[numbers[c]], linked)
            ]
            if synonyms:
                similar[words[row_number]] = synonyms[:MOST_SYNONYMS]
    return similar


def _are_linked(
    some: frozenset[str], second_senses: frozenset[str], linked: Mapping[str, frozenset[str]]
) -> bool:
    return not some.isdisjoint(second_senses) or any(
        not linked[s].isdisjoint(second_senses) for s in some
    )


def _senses(word: str, senses: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Returns the senses of a word and of its possible base forms."""
    forms = {word, _IRREGULAR.get(word, word)}
    forms |= {word.removesuffix(e) + ending for e, ending in _ENDINGS if word.endswith(e)}
    doubled = _DOUBLED.fullmatch(word)
    if doubled:
        forms.add(doubled.group(1))
    return frozenset(s for form in forms for s in senses.get(form, ()))


def _read(folder: pathlib.Path) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """Returns the senses of each word, and the senses that each sense links to."""
    senses: dict[str, set[str]] = collections.defaultdict(set)
    linked: dict[str, frozenset[str]] = {}
    for part in PARTS:
        for line in _lines(folder / f"data.{part}"):
            fields = line.split(" | ")[0].split()
            kind = "a" if fields[2] == "s" else fields[2]
            sense, count = kind + fields[0], int(fields[3], 16)
            for word in fields[4 : 4 + 2 * count : 2]:
                senses[word.partition("(")[0].lower()].add(sense)
            links = fields[5 + 2 * count :]
            linked[sense] = frozenset(
                ("a" if links[i + 2] == "s" else links[i + 2]) + links[i + 1]
                for i in range(0, 4 * int(fields[4 + 2 * count]), 4)
                if links[i] in _LINKS
            )
    return {word: frozenset(word_senses) for word, word_senses in senses.items()}, linked


def _lines(path: pathlib.Path) -> Iterator[str]:
    try:
        with path.open(encoding="latin-1") as file:
            yield from (line for line in file if not line.startswith(" "))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected WordNet's files.") from None
