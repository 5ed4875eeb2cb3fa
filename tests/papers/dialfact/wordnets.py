"""Writes a WordNet of a few words in the format of its database (`wninput(5WN)`, `wndb(5WN)`)."""

from typing import NamedTuple

_HEAD = "  1 Of our own, as the licence stands in WordNet's files.  \n"
PARTS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}


class Synset(NamedTuple):
    """Words of a part of speech, and pointers: a symbol, and the number of another synset."""

    part: str
    words: tuple[str, ...]
    pointers: tuple[tuple[str, int], ...]
    gloss: str = "of our own"


# Pointers: @ hypernym, ~ hyponym (@i and ~i for instances), ! antonym.
SYNSETS = (
    Synset("n", ("instrument",), (("~", 1), ("~", 2), ("~", 3))),
    Synset("n", ("lute",), (("@", 0),)),
    Synset("n", ("zither",), (("@", 0),)),
    Synset("n", ("hurdy_gurdy", "wheel_fiddle"), (("@", 0),)),
    Synset("n", ("harbour_town",), (("~i", 5), ("~i", 6))),
    Synset("n", ("Turku", "Abo"), (("@i", 4),)),
    Synset("n", ("Bergen",), (("@i", 4),)),
    Synset("n", ("lute",), (("@", 4),), "a second sense, which is rarer"),
    Synset("a", ("cool",), (("!", 9),)),
    Synset("a", ("warm",), (("!", 8),)),
)


def write(folder, synsets=SYNSETS):
    """Writes the database; returns its folder."""
    folder.mkdir(parents=True)
    by_part = {part: [n for n, it in enumerate(synsets) if it.part == part] for part in PARTS}
    offsets = dict.fromkeys(range(len(synsets)), 0)

    def line(number):
        it = synsets[number]
        words = " ".join(f"{word} 0" for word in it.words)
        pointers = [
            f"{symbol} {offsets[to]:08d} {synsets[to].part} {'0101' if symbol == '!' else '0000'}"
            for symbol, to in it.pointers
        ]
        refs = " ".join([f"{len(pointers):03d}", *pointers])
        return (
            f"{offsets[number]:08d} 00 {it.part} {len(it.words):02x} {words} {refs} | {it.gloss}\n"
        )

    for part, name in PARTS.items():
        start = len(_HEAD)
        for number in by_part[part]:  # all offsets have the same number of digits
            offsets[number] = start
            start += len(line(number).encode())
        (folder / f"{name}.exc").write_text("lutes lute\n" if part == "n" else "")
    for part, name in PARTS.items():
        (folder / f"data.{name}").write_text(_HEAD + "".join(map(line, by_part[part])))
        senses = {}
        for number in by_part[part]:
            for word in synsets[number].words:
                senses.setdefault(word.lower(), []).append(number)
        index = []
        for word, numbers in sorted(senses.items()):
            symbols = list(dict.fromkeys(s for n in numbers for s, _ in synsets[n].pointers))
            counts = f"{len(numbers)} {len(symbols)} {' '.join(symbols)}"
            places = " ".join(f"{offsets[n]:08d}" for n in numbers)
            index.append(f"{word} {part} {counts} {len(numbers)} 0 {places}\n")
        (folder / f"index.{name}").write_text(_HEAD + "".join(index))
    (folder / "lexnames").write_text("00\tall\t3\n")
    for name in ("index.sense", "cntlist.rev", "citation.bib"):
        (folder / name).write_text("")
    return folder
