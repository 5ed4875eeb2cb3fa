"""The run `index`: a knowledge base of a dump, of JSON lines or of a TFDS data set."""

import os
import pathlib
from collections.abc import Iterator
from typing import Any

from faith_jax.core.errors import counted
from faith_jax.core.files import stamp
from faith_jax.core.quiet_tensorflow import quiet_tensorflow
from faith_jax.core.rows import Row
from faith_jax.datasets.samples import ENCYCLOPEDIA, SAMPLE
from faith_jax.retrieval import index as knowledge_index
from faith_jax.retrieval.articles import Article, articles_of
from faith_jax.retrieval.knowledge_base import KnowledgeBase

_TFDS = "dataset_info.json"


def index(
    source: str,
    folder: str,
    paragraphs: int = 5,
    processes: int | None = None,
    restart: bool = False,
) -> list[str]:
    """Makes a knowledge base, and returns lines about it; a stopped run resumes.

    Args:
      source: a file or a folder of files (see `retrieval.articles`), or a folder of a TFDS data set
        with `title` and `text`; or "sample", the embedded encyclopedia.
      folder: of the knowledge base.
      paragraphs: kept of an article, from its beginning; 0 = all.
      processes: that parse wikitext; None = one a core.
      restart: discard what a stopped run has made.

    Raises:
      InputError: no such source, or it is damaged.
      ConfigError: the folder exists, or keeps another run.
    """
    path = ENCYCLOPEDIA if source == SAMPLE else pathlib.Path(source).expanduser()
    if (path / _TFDS).is_file():
        made = _of_tfds(path, folder, paragraphs, restart)
    else:
        count = processes or os.cpu_count() or 1
        made = knowledge_index.build(path, folder, paragraphs, count, restart)
    return describe(made)


def describe(made: KnowledgeBase) -> list[str]:
    """Returns lines that say what a knowledge base has, and what was left out."""
    told = made.manifest
    articles, names = counted(told.articles, "article"), counted(told.names, "name")
    lines = [f"{made.folder}: {articles}, {names}, {told.size / 1e6:,.1f} MB"]
    return [*lines, *(f"left out: {what}: {number:,}" for what, number in told.left_out.items())]


def _of_tfds(source: pathlib.Path, folder: str, paragraphs: int, restart: bool) -> KnowledgeBase:
    quiet_tensorflow(with_seqio=False)
    import tensorflow_datasets as tfds

    from faith_jax.input.numpy_examples import plain, utf8_in

    builder = tfds.builder_from_directory(source)
    splits = sorted(builder.info.splits)

    def rows(split: str, first: int) -> Iterator[Row]:
        examples: Any = builder.as_dataset(split=split, shuffle_files=False).skip(first)
        for number, example in enumerate(tfds.as_numpy(examples), start=first + 1):
            place = f"{source}, {split}: row {number}"
            with utf8_in(place):
                yield Row(place, plain(example))

    def records(begin: int, first: int) -> Iterator[tuple[int, int, Article]]:
        for number in range(begin, len(splits)):
            start = first if number == begin else 0
            found = articles_of(rows(splits[number], start), paragraphs or None)
            for place, article in enumerate(found, start + 1):
                yield number, place, article

    files = [path for path in sorted(source.iterdir()) if path.is_file()]
    return knowledge_index.build_from(
        records, str(source), stamp(files), folder, paragraphs, restart
    )
