"""Builds a knowledge base: writes articles to SQLite, thousands at a time.

Records are committed together with the place in the source at which to continue, so a run can
resume after being killed at any point. Memory does not grow with the source.
"""

import contextlib
import itertools
import json
import logging
import pathlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from faith_jax.core.errors import ConfigError, InputError, StorageError
from faith_jax.core.files import (
    is_moved,
    make_output_folder,
    move_output,
    remove_new_folders_on_error,
    resumable_output,
    stamp,
    write_json,
)
from faith_jax.core.progress import Progress
from faith_jax.retrieval.articles import Article, Redirect, read_file, source_files
from faith_jax.retrieval.knowledge_base import (
    DATABASE,
    MANIFEST,
    TOKENIZER,
    VERSION,
    KnowledgeBase,
    KnowledgeBaseManifest,
    bare_title,
    name_key,
)

logger = logging.getLogger("faith_jax")

_BATCH = 2000  # records that are committed together
_HOPS = 5  # maximum number of redirects to follow
_CACHE = 64 * 1024  # KiB of memory for pages of the database
_SCHEMA = f"""
CREATE TABLE articles (
  id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, url TEXT NOT NULL, paragraphs TEXT NOT NULL);
CREATE TABLE names (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, key TEXT NOT NULL, article INTEGER NOT NULL,
  UNIQUE (key, article));
CREATE TABLE redirects (name TEXT PRIMARY KEY, target TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE terms (term TEXT PRIMARY KEY, articles INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE place (file INTEGER NOT NULL, record INTEGER NOT NULL, left_out TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(title, text, content='', tokenize='{TOKENIZER}');
CREATE VIRTUAL TABLE name_words USING fts5(
  name, content='names', content_rowid='id', tokenize='{TOKENIZER}');
INSERT INTO place VALUES (0, 0, '{{}}');
"""
# `_NEARER` moves redirects to redirects one hop closer to an article; `_ARRIVED` then makes names
# of all redirects to articles.
_NEARER = """
UPDATE redirects SET target = (
  SELECT next.target FROM redirects AS next WHERE next.name = redirects.target)
WHERE target NOT IN (SELECT title FROM articles) AND target IN (SELECT name FROM redirects)
"""
_ARRIVED = """
INSERT OR IGNORE INTO names (name, key, article)
SELECT name, name_key(name), id FROM redirects JOIN articles ON title = target
"""
_ADD_WORDS = "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)"
_PLACE = "SELECT file, record, left_out, (SELECT count(*) FROM articles) FROM place"

LISTS = "pages that only list articles of one name"
EMPTY = "articles without text"
REPEATED = "articles whose title came before"
ASTRAY = "redirects that lead in a circle or to no article"

# Yields records from a place (file, record) on, with the place after each record.
Records = Callable[[int, int], Iterator[tuple[int, int, Article | Redirect]]]


def build(
    source: str | pathlib.Path,
    folder: str | pathlib.Path,
    paragraphs: int = 5,
    processes: int = 1,
    restart: bool = False,
) -> KnowledgeBase:
    """Builds the knowledge base of a file or a folder of files; see `articles` for their formats.

    Raises:
      InputError: if the source does not exist or is damaged.
      ConfigError: if the folder exists, or has results of another run.
      StorageError: if the disk is full.
    """
    files = source_files(pathlib.Path(source).expanduser())

    def records(file: int, first: int) -> Iterator[tuple[int, int, Article | Redirect]]:
        for number in range(file, len(files)):
            start = first if number == file else 0
            file_records = read_file(files[number], start, paragraphs or None, processes)
            for place, record in enumerate(file_records, start + 1):
                yield number, place, record

    return build_from(records, str(source), stamp(files), folder, paragraphs, restart)


def build_from(
    records: Records,
    source: str,
    stamped: Iterable[object],
    folder: str | pathlib.Path,
    paragraphs: int,
    restart: bool,
) -> KnowledgeBase:
    """Builds the knowledge base of records; see `build`.

    `source` describes the records in the manifest; `stamped` changes if they have changed since a
    run was stopped. `paragraphs` is the number of first paragraphs to keep of an article; 0 = all.
    `restart` discards the results of a stopped run.
    """
    target = pathlib.Path(folder).expanduser()
    run = {"knowledge_base": VERSION, "paragraphs": paragraphs, "source": list(stamped)}
    with contextlib.ExitStack() as held:
        held.enter_context(remove_new_folders_on_error(target.parent))
        make_output_folder(target.parent, "FOLDER")
        partial = held.enter_context(resumable_output(target, run, restart, option="FOLDER"))
        if is_moved(target):
            return KnowledgeBase.open(target)
        new_folder = partial / "made"
        new_folder.mkdir(exist_ok=True)
        with _open_database(new_folder / DATABASE, target) as database:
            articles, left_out = _add_all(database, records, paragraphs or None)
            names = _index_names_and_terms(database, left_out) if articles else 0
        if not articles:
            (new_folder / DATABASE).unlink()
            raise InputError(f"{source}: has no article with text.")
        manifest = KnowledgeBaseManifest(
            version=VERSION,
            articles=articles,
            names=names,
            paragraphs=paragraphs,
            size=(new_folder / DATABASE).stat().st_size,
            source=source,
            left_out=+left_out,
        )
        write_json(new_folder / MANIFEST, msgspec.structs.asdict(manifest))
        move_output(new_folder, target)
    return KnowledgeBase.open(target)


@contextlib.contextmanager
def _open_database(path: pathlib.Path, target: pathlib.Path) -> Iterator[sqlite3.Connection]:
    """Yields the database, which is created if it does not exist.

    Opening it undoes changes that a killed process has not committed.
    """
    database = sqlite3.connect(path)
    try:
        database.create_function("name_key", 1, name_key, deterministic=True)
        database.execute(f"PRAGMA cache_size = -{_CACHE}")
        yield database
    except sqlite3.OperationalError as error:
        if "fts5" in str(error):
            raise ConfigError(
                "Python's SQLite has no FTS5, which knowledge bases need: import faith_jax before "
                "TensorFlow, whose SQLite has none, or use a Python whose SQLite has it."
            ) from None
        if "full" in str(error) or "disk I/O" in str(error):
            raise StorageError(f"{target}: {error}.") from None
        raise
    finally:
        database.close()


def _add_all(
    database: sqlite3.Connection, records: Records, most_paragraphs: int | None
) -> tuple[int, Counter[str]]:
    """Adds all remaining records; returns the numbers of articles and, by reason, of omissions."""
    begun = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    file, first_record, left_out_json, count = (
        database.execute(_PLACE).fetchone() if begun else (0, 0, "{}", 0)
    )
    left_out = Counter(json.loads(left_out_json))
    if count:
        logger.info("%d articles are there already", count)
    progress = Progress("article", done=count)
    rest = records(file, first_record)
    while batch := list(itertools.islice(rest, _BATCH)):
        if not begun:  # after the first batch, so that an unreadable source leaves nothing
            begun = database.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        with database:
            for *_, record in batch:
                if isinstance(record, Redirect):
                    database.execute("INSERT OR REPLACE INTO redirects VALUES (?, ?)", record)
                elif reason := _add_article(database, record, most_paragraphs):
                    left_out[reason] += 1
            place = (*batch[-1][:2], json.dumps(left_out))
            database.execute("UPDATE place SET file = ?, record = ?, left_out = ?", place)
        count = _last_article(database)
        progress.update(count)
    return count, left_out


def _last_article(database: sqlite3.Connection) -> int:
    """Returns the id of the newest article, which is the number of articles; 0 = none."""
    return database.execute("SELECT ifnull(max(id), 0) FROM articles").fetchone()[0]


def _add_article(
    database: sqlite3.Connection, article: Article, most_paragraphs: int | None
) -> str:
    """Adds an article and returns "", or returns the reason to leave it out.

    Consecutive records of one title are passages of one article, as in DPR's psgs_w100.tsv.
    """
    if article.is_disambiguation:
        return LISTS
    if not article.paragraphs:
        return EMPTY
    text = "\n".join(article.paragraphs)
    insert = "INSERT OR IGNORE INTO articles (title, url, paragraphs) VALUES (?, ?, ?)"
    done = database.execute(insert, (article.title, article.url, text))
    if not done.rowcount:
        query = "SELECT id, paragraphs FROM articles WHERE title = ?"
        number, former_text = database.execute(query, (article.title,)).fetchone()
        if number != _last_article(database):
            return REPEATED
        former = former_text.split("\n")
        further = [text for text in article.paragraphs if text not in former]
        text = "\n".join([*former, *further][:most_paragraphs])
        if text != former_text:
            database.execute("UPDATE articles SET paragraphs = ? WHERE id = ?", (text, number))
            # An FTS5 table without contents is told what to forget.
            forget = "INSERT INTO words (words, rowid, title, text) VALUES ('delete', ?, ?, ?)"
            database.execute(forget, (number, article.title, former_text))
            database.execute(_ADD_WORDS, (number, article.title, text))
        return ""
    number, plain = done.lastrowid, bare_title(article.title)
    names = (article.title, *filter(None, [plain]), *article.aliases)
    database.execute(_ADD_WORDS, (number, article.title, text))
    database.executemany(
        "INSERT OR IGNORE INTO names (name, key, article) VALUES (?, ?, ?)",
        ((name, name_key(name), number) for name in names),
    )
    return ""


def _index_names_and_terms(database: sqlite3.Connection, left_out: Counter[str]) -> int:
    """Turns redirects into names, and indexes all names and terms; returns the number of names."""
    logger.info("indexing names and terms")
    database.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, words, row)")
    with database:
        for _ in range(_HOPS):
            if not database.execute(_NEARER).rowcount:
                break
        database.execute(_ARRIVED)
        astray = "SELECT count(*) FROM redirects WHERE target NOT IN (SELECT title FROM articles)"
        left_out[ASTRAY] = database.execute(astray).fetchone()[0]
        database.execute("INSERT INTO name_words (name_words) VALUES ('rebuild')")
        database.execute("INSERT INTO words (words) VALUES ('optimize')")
        database.execute("INSERT OR REPLACE INTO terms SELECT term, doc FROM temp.vocabulary")
        return database.execute("SELECT count(*) FROM names").fetchone()[0]
