"""A data set before it is built: its files, where they come from, how they are read.

A `RawDataset` is pure Python. The TFDS builders in `faith_jax/datasets/builders` are made from it,
and so is everything else that reads the rows without TensorFlow.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.rows import BadRows, Row
from faith_jax.core.schema import Schema, as_example, read_as

# The kinds of a feature: a text, a list of texts, a whole number.
TEXT, TEXTS, INTEGER = "text", "texts", "integer"

Paths = Mapping[str, pathlib.Path]  # of a split's files, by name
Examples = Iterator[dict[str, Any]]
Reader = Callable[[Paths, str, BadRows], Examples]  # of the examples of a split


@dataclasses.dataclass(frozen=True)
class RawFile:
    """A file as its authors publish it.

    Attributes:
      name: its path in the raw folder.
      url: of the file, or of the archive that contains it; empty = only by hand.
      checksum: of what `url` gives: "sha256:<hexadecimal>", or "git-blob:<hexadecimal>", the id
        under which Git knows a file's content.
      member: its path in the archive; empty = `url` gives the file itself.
      also: other names that a user's copy may have, such as of the same table in another form.
    """

    name: str
    url: str = ""
    checksum: str = ""
    member: str = ""
    also: Sequence[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a copy may have, in the order in which they are looked for."""
        return (self.name, *self.also)


@dataclasses.dataclass(frozen=True)
class RawDataset:
    """A data set, or one part of it that is built on its own.

    Attributes:
      name: of the builder, such as "begin".
      config: the builder's, such as "official".
      splits: the names of the files that each split is read from.
      features: the kind of each field of an example; "id" is among them.
      read: reads one split's files; its rows may have more fields than `features`.
      description: in a sentence or two.
      homepage: where its authors describe it.
      licence: of the data.
      citation: BibTeX.
      files: all files by name; only those that are not just a name need be given.
      by_hand: how to get the files that have no URL.
      folder: the name of the raw folder; empty = `name`.
      instead: the name of a file that, if it is at hand, is read in place of all others.
    """

    name: str
    config: str
    splits: Mapping[str, tuple[str, ...]]
    features: Mapping[str, str]
    read: Reader
    description: str
    homepage: str
    licence: str
    citation: str
    files: Mapping[str, RawFile] = dataclasses.field(default_factory=dict)
    by_hand: str = ""
    folder: str = ""
    instead: str = ""

    def __post_init__(self):
        object.__setattr__(self, "folder", self.folder or self.name)
        names = [name for names in (*self.splits.values(), (self.instead,)) for name in names]
        files = {name: self.files.get(name, RawFile(name)) for name in names if name}
        object.__setattr__(self, "files", files)

    def examples(self, paths: Paths, split: str, bad_rows: BadRows | None = None) -> Examples:
        """Returns the examples of a split, with exactly the fields of `features`.

        `paths` are its files by name, from `faith_jax.datasets.raw_files`.

        Raises:
          ConfigError: there is no such split.
          InputError: a bad row: names file, line, field and remedy.
        """
        if split not in self.splits:
            raise ConfigError(
                f"{self.name} has no split {split!r}.{did_you_mean(split, self.splits)} "
                f"Its splits: {', '.join(self.splits)}."
            )
        names = (self.instead,) if self.instead in paths else self.splits[split]
        rows = self.read({name: paths[name] for name in names}, split, bad_rows or BadRows())
        return ({name: row[name] for name in self.features} for row in rows)


def sample_config(config: str) -> str:
    """Returns the config that reads the sample of the same files.

    >>> sample_config("official"), sample_config("control_tokens")
    ('sample', 'control_tokens_sample')
    """
    return "sample" if config in ("official", "full") else f"{config}_sample"


def card(name: str) -> dict[str, Any]:
    """Returns the fields of `cards/<name>.toml`, and of the card that this one is `like`.

    Each of `parts` describes another config by what differs from the rest of the card.
    """
    text = (pathlib.Path(__file__).parent / "cards" / f"{name}.toml").read_text(encoding="utf-8")
    fields = tomllib.loads(text)
    if "like" not in fields:
        return fields
    base = card(fields["like"])
    return {**base, "folder": base.get("folder", fields["like"]), "parts": {}, **fields}


def load_card(name: str, read: Reader, part: str = "") -> RawDataset:
    """Returns the data set of a card, or one of its `parts`."""
    fields = card(name)
    fields |= fields["parts"][part] if part else {}
    kinds = {"texts": TEXT, "text_lists": TEXTS, "integers": INTEGER}
    texts = ("description", "homepage", "licence", "citation", "by_hand", "folder", "instead")
    return RawDataset(
        name=name,
        config=part or fields["config"],
        splits={split: tuple(names) for split, names in fields["splits"].items()},
        features={n: kinds[kind] for kind, names in fields["features"].items() for n in names},
        read=read,
        files={file: RawFile(file, **where) for file, where in fields.get("files", {}).items()},
        **{text: fields.get(text, "") for text in texts},
    )


def each_file(read: Callable[[pathlib.Path, BadRows], Examples]) -> Reader:
    """Returns a reader of splits whose files are read one after the other."""

    def read_split(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
        for path in paths.values():
            yield from read(path, bad_rows)

    return read_split


def each_row(
    read: Callable[..., Iterator[Row]],
    schema: type[Schema],
    make: Callable[[Schema, str], Iterable[dict[str, Any]]] = as_example,
) -> Reader:
    """Returns a reader that makes examples of each row of a split's files.

    `read` yields the rows of a file, given its path and `bad_rows`, and `make` the examples of a
    row, given the row as a `schema`, and its place.
    """
    return each_file(
        lambda path, bad_rows: read_as(schema, read(path, bad_rows=bad_rows), make, bad_rows)
    )
