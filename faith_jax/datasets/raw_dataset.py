"""Raw data sets: their files, where to get them, and how they are read.

A `RawDataset` is pure Python. The TFDS builders in `faith_jax/datasets/builders` are made from it,
and all code that reads rows without TensorFlow uses it directly.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.rows import BadRows, Row
from faith_jax.core.schema import Schema, as_example, read_as

# The kinds of features: a text, a list of texts, a whole number.
TEXT, TEXTS, INTEGER = "text", "texts", "integer"

Paths = Mapping[str, pathlib.Path]  # the paths of a split's files, by name
Examples = Iterator[dict[str, Any]]
Reader = Callable[[Paths, str, BadRows], Examples]  # reads the examples of a split


@dataclasses.dataclass(frozen=True)
class RawFile:
    """A file as its authors publish it.

    Attributes:
      name: the file's path in the raw folder.
      url: the URL of the file, or of an archive that contains it; empty = only available by hand.
      checksum: the checksum of the download: "sha256:<hexadecimal>", or "git-blob:<hexadecimal>",
        Git's id for the file's content.
      member: the file's path in the archive; empty = `url` is the file itself.
      also: other names for a user's copy, for example of the same table in another form.
    """

    name: str
    url: str = ""
    checksum: str = ""
    member: str = ""
    also: Sequence[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a copy may have, in the order of the search."""
        return (self.name, *self.also)


@dataclasses.dataclass(frozen=True)
class RawDataset:
    """A data set, or a part of one that is built on its own.

    Attributes:
      name: the name of the builder, such as "begin".
      config: the config of the builder, such as "official".
      splits: the names of the files of each split.
      features: the kind of each field of an example, including "id".
      read: reads one split's files; its rows may have more fields than `features`.
      description: one or two sentences.
      homepage: the authors' page about the data set.
      licence: the licence of the data.
      citation: BibTeX.
      files: all files by name; files with only a name need not be given.
      by_hand: how to get the files that have no URL.
      folder: the name of the raw folder; empty = `name`.
      instead: the name of a file that is read instead of all others if it exists.
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

        `paths` are the split's files by name, from `faith_jax.datasets.raw_files`.

        Raises:
          ConfigError: there is no such split.
          InputError: a row is bad; the message names file, line, field and remedy.
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
    """Returns the config that reads the sample for a config.

    >>> sample_config("official"), sample_config("control_tokens")
    ('sample', 'control_tokens_sample')
    """
    return "sample" if config in ("official", "full") else f"{config}_sample"


def card(name: str, part: str = "") -> dict[str, Any]:
    """Returns the fields of `cards/<name>.toml`, completed from the card that it is `like`.

    Each entry of `parts` describes another config by its differences from the rest of the card;
    `part` selects one.
    """
    text = (pathlib.Path(__file__).parent / "cards" / f"{name}.toml").read_text(encoding="utf-8")
    fields = tomllib.loads(text)
    if "like" in fields:
        base = card(fields["like"])
        fields = {**base, "folder": base.get("folder", fields["like"]), "parts": {}, **fields}
    return fields | fields["parts"][part] if part else fields


def load_card(name: str, read: Reader, part: str = "") -> RawDataset:
    """Returns the data set of a card, or one of its `parts`."""
    fields = card(name, part)
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
    """Returns a reader of splits that reads their files one after the other with `read`."""

    def read_split(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
        for path in paths.values():
            yield from read(path, bad_rows)

    return read_split


def each_row(
    read: Callable[..., Iterator[Row]],
    schema: type[Schema],
    make: Callable[[Schema, str], Iterable[dict[str, Any]]] = as_example,
) -> Reader:
    """Returns a reader that makes examples from each row of a split's files.

    `read` takes a file's path and `bad_rows`, and yields the file's rows. `make` takes a row, as an
    instance of `schema`, and its place, and yields the row's examples.
    """
    return each_file(
        lambda path, bad_rows: read_as(schema, read(path, bad_rows=bad_rows), make, bad_rows)
    )
