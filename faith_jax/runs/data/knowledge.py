"""The run `index`: makes a knowledge base from a dump, JSON lines or a TFDS data set.

Other runs open the knowledge base with `open_base`.
"""

import atexit
import functools
import hashlib
import logging
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from faith_jax.core.errors import ConfigError, StorageError, pluralize
from faith_jax.core.files import stamp
from faith_jax.core.files.staging import make_once, user_cache
from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.datasets.samples import ENCYCLOPEDIA, SAMPLE
from faith_jax.retrieval import index as knowledge_index
from faith_jax.retrieval.articles import Article, articles_of
from faith_jax.retrieval.knowledge_base import VERSION, KnowledgeBase

logger = logging.getLogger("faith_jax")

_TFDS = "dataset_info.json"
_MOST_SAMPLES = 3  # knowledge bases of the sample to keep, from different package versions


def index(
    source: str,
    folder: str,
    paragraphs: int = 5,
    processes: int | None = None,
    restart: bool = False,
) -> list[str]:
    """Makes a knowledge base; returns lines on its contents and on what was left out.

    The source is a file or a folder of files (see `retrieval.articles`), a folder of a TFDS data
    set with `title` and `text`, or "sample", the embedded encyclopedia.

    Raises:
      InputError: the source does not exist, or is damaged.
      ConfigError: the folder exists, or another run is kept for it.
    """
    path = ENCYCLOPEDIA if source == SAMPLE else pathlib.Path(source).expanduser()
    if (path / _TFDS).is_file():
        quiet_tensorflow(with_seqio=False)
        import tensorflow_datasets as tfds

        from faith_jax.input.score_input import tfds_rows

        splits = sorted(tfds.builder_from_directory(path).info.splits)

        def records(begin: int, first: int) -> Iterator[tuple[int, int, Article]]:
            for number in range(begin, len(splits)):
                start = first if number == begin else 0
                rows = tfds_rows(str(path), splits[number], start)
                for place, article in enumerate(articles_of(rows, paragraphs or None), start + 1):
                    yield number, place, article

        files = stamp(file for file in sorted(path.iterdir()) if file.is_file())
        base = knowledge_index.build_from(records, str(path), files, folder, paragraphs, restart)
    else:
        count = processes or os.cpu_count() or 1
        base = knowledge_index.build(path, folder, paragraphs, count, restart)
    manifest = base.manifest
    articles, names = pluralize(manifest.articles, "article"), pluralize(manifest.names, "name")
    return [
        f"{base.folder}: {articles}, {names}, {manifest.size / 1e6:,.1f} MB",
        *(f"left out: {reason}: {number:,}" for reason, number in manifest.left_out.items()),
    ]


def open_base(folder: str | pathlib.Path) -> KnowledgeBase:
    """Opens a knowledge base; "sample" is made from the package's encyclopedia.

    The sample is built once, in the user's cache, or in each process if that is not writable.
    """
    if str(folder) != SAMPLE or pathlib.Path(folder).exists():
        return KnowledgeBase.open(folder)
    return _sample_base()


@functools.cache
def _sample_base() -> KnowledgeBase:
    digest = hashlib.sha256(b"%d " % VERSION + ENCYCLOPEDIA.read_bytes()).hexdigest()[:16]
    root = user_cache() / "encyclopedia"
    try:
        root.mkdir(parents=True, exist_ok=True)
        make_once(root / digest, _make_sample)
        for old in sorted(root.iterdir(), key=lambda entry: entry.stat().st_mtime)[:-_MOST_SAMPLES]:
            shutil.rmtree(old, ignore_errors=True)
        return KnowledgeBase.open(root / digest)
    except (OSError, StorageError, ConfigError) as error:  # no permission, full, or damaged
        logger.warning("The sample's knowledge base cannot be kept (%s).", error)
        shutil.rmtree(root / digest, ignore_errors=True)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _make_sample(pathlib.Path(folder) / SAMPLE)


def _make_sample(folder: pathlib.Path) -> KnowledgeBase:
    return knowledge_index.build(str(ENCYCLOPEDIA), folder, 0)
