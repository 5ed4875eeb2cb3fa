"""A knowledge base: a folder of an encyclopedia's articles, with search by name or words.

One SQLite file has the articles, their names (titles, aliases, redirects) and two FTS5 indexes, of
names and texts. SQLite's BM25 ranks articles from disk, so memory does not grow with the
encyclopedia. `index.py` makes the folder.
"""

import math
import pathlib
import re
import shlex
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence

import msgspec

from faith_jax.core.errors import ConfigError, pluralize
from faith_jax.core.files import partial_folder
from faith_jax.core.schema import read_json_as
from faith_jax.core.templates import one_space
from faith_jax.retrieval.articles import Article
from faith_jax.statistics.texts.text_metrics import ENGLISH_STOP_WORDS

DATABASE, MANIFEST = "articles.sqlite", "manifest.json"
VERSION = 1
TOKENIZER = "porter unicode61 remove_diacritics 2"
# The number of articles that a query may rank, or their share of all articles if that is more; only
# the query's rarest words are used.
MOST_RANKED, SHARE_RANKED = 50_000, 0.03
_MOST_OF_NAME = 3  # articles per name
_WORD = re.compile(r"\w+")
_QUALIFIER = re.compile(r"\s*\([^()]*\)$")


class KnowledgeBaseManifest(msgspec.Struct, kw_only=True):
    """The description of a knowledge base in its folder; written last.

    Attributes:
      version: version of the format.
      articles: number of articles.
      names: number of names of all articles.
      paragraphs: maximum number of paragraphs kept of an article; 0 = all.
      size: size of the database in bytes.
      source: description of the source.
      left_out: numbers of records that were left out, by reason.
    """

    made_by: str = "faith_jax"
    version: int
    articles: int
    names: int
    paragraphs: int
    size: int
    source: str
    left_out: dict[str, int] = {}


def name_key(name: str) -> str:
    """Returns a key that is equal for names that differ only in case, underscores or white space.

    >>> name_key("Guns_N' Roses ") == name_key("guns n' roses")
    True
    """
    return one_space(unicodedata.normalize("NFKC", name).replace("_", " ")).casefold()


def bare_title(title: str) -> str:
    """Returns a title without the qualifier that distinguishes it from titles of the same name.

    >>> bare_title("Queen (band)")
    'Queen'
    """
    return _QUALIFIER.sub("", title)


def content(text: str) -> list[str]:
    """Returns the words of a text in lower case, without English stop words."""
    return [word for word in _WORD.findall(text.lower()) if word not in ENGLISH_STOP_WORDS]


class KnowledgeBase:
    """The articles in a folder that `faith-jax index` made, numbered from 1.

    Attributes:
      manifest: the description of the knowledge base.
    """

    def __init__(self, folder: pathlib.Path, manifest: KnowledgeBaseManifest):
        self.folder, self.manifest = folder, manifest
        database = (folder / DATABASE).resolve().as_uri()
        self._database = sqlite3.connect(f"{database}?mode=ro&immutable=1", uri=True)
        # Splits texts into terms in the same way as the indexes.
        self._database.executescript(
            f"CREATE VIRTUAL TABLE temp.asked USING fts5(text, tokenize='{TOKENIZER}');"
            "CREATE VIRTUAL TABLE temp.asked_terms USING fts5vocab(temp, asked, instance);"
        )

    @classmethod
    def open(cls, folder: str | pathlib.Path) -> "KnowledgeBase":
        """Opens the knowledge base in a folder.

        Raises:
          ConfigError: if it does not exist, is incomplete, has another version, or is damaged.
        """
        path = pathlib.Path(folder).expanduser()
        if not (path / MANIFEST).is_file():
            if partial_folder(path).is_dir():
                raise ConfigError(
                    f"{path}: this knowledge base is half built; give its `faith-jax index` again, "
                    "which resumes."
                )
            quoted = shlex.quote(str(path))
            of = f"of it with `faith-jax index {quoted} FOLDER`, and give that folder"
            if not path.exists():
                of = f"with `faith-jax index WIKIPEDIA {quoted}`"
            raise ConfigError(f"{path}: no knowledge base (it has no {MANIFEST}); make one {of}.")
        manifest = read_json_as(path / MANIFEST, KnowledgeBaseManifest)
        if manifest.version != VERSION:
            raise ConfigError(
                f"{path}: a knowledge base of version {manifest.version}, expected {VERSION}; make "
                "it anew with `faith-jax index`."
            )
        database = path / DATABASE
        size = database.stat().st_size if database.is_file() else 0
        if size != manifest.size:
            raise ConfigError(
                f"{database}: expected {pluralize(manifest.size, 'byte')}, got {size:,}; copy the "
                "folder again, or make it anew with `faith-jax index`."
            )
        return cls(path, manifest)

    def __len__(self) -> int:
        """Returns the number of articles."""
        return self.manifest.articles

    def article(self, number: int) -> Article:
        """Returns an article, without its aliases."""
        query = "SELECT title, paragraphs, url FROM articles WHERE id = ?"
        title, paragraphs, url = self._database.execute(query, (number,)).fetchone()
        return Article(title, tuple(paragraphs.split("\n")) if paragraphs else (), url=url)

    def find_by_name(self, name: str) -> list[int]:
        """Returns the articles that have a name, ignoring case; exact spellings come first.

        Titles come before other names.
        """
        query = (
            "SELECT article FROM names JOIN articles ON articles.id = article WHERE key = ?"
            "ORDER BY name != ?, name != title, article"
        )
        return self._select_article_numbers(query, (name_key(name), name.strip()))

    def titles(self, name: str) -> set[str]:
        """Returns the titles that equal a name (ignoring qualifiers), or else of all its articles.

        A title is stronger evidence for the meaning of a name than another article's alias.
        """
        titles = {self.article(number).title for number in self.find_by_name(name)}
        key = name_key(name)
        return {
            title for title in titles if key in (name_key(title), name_key(bare_title(title)))
        } or titles

    def lookup(self, name: str) -> list[int]:
        """Returns at most three articles that a name may mean, best first.

        Articles with this name come first, then articles with a name that contains all its words.
        Only if there are neither, articles with all its words in their text.
        """
        articles = self.find_by_name(name)
        words = " ".join(f'"{word}"' for word in content(name))
        if words and len(articles) < _MOST_OF_NAME:
            query = (
                "SELECT article FROM name_words JOIN names ON names.id = name_words.rowid "
                "WHERE name_words MATCH ? ORDER BY rank LIMIT ?"
            )
            # An article may match with several names.
            articles += self._select_article_numbers(query, (words, 4 * _MOST_OF_NAME))
            articles = articles or self._rank_articles(words, _MOST_OF_NAME)
        return list(dict.fromkeys(articles))[:_MOST_OF_NAME]

    def search(self, text: str, max_articles: int) -> list[int]:
        """Returns the articles that best match the words of a text by BM25, best first.

        If too many articles have words of the text, only the rarest words count; see `MOST_RANKED`.
        """
        words = list(dict.fromkeys(content(text)))
        counts = dict(zip(words, self.article_counts(words), strict=True))
        most_ranked = max(MOST_RANKED, SHARE_RANKED * len(self))
        quoted_words, ranked = list[str](), 0
        for word in sorted(filter(counts.get, words), key=lambda word: counts[word]):
            ranked += counts[word]
            if quoted_words and ranked > most_ranked:
                break
            quoted_words.append(f'"{word}"')
        if not quoted_words:
            return []
        return self._rank_articles(" OR ".join(quoted_words), max_articles)

    def _rank_articles(self, match: str, limit: int) -> list[int]:
        query = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        return self._select_article_numbers(query, (match, limit))

    def _select_article_numbers(self, query: str, values: Sequence[object]) -> list[int]:
        return [number for (number,) in self._database.execute(query, values)]

    def terms(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the terms (stems) of each text in order, in the form of the indexes."""
        terms_by_text: list[list[str]] = [[] for _ in texts]
        with self._database as database:
            database.executemany("INSERT INTO asked(rowid, text) VALUES (?, ?)", enumerate(texts))
            query = "SELECT doc, term FROM asked_terms ORDER BY doc, offset"
            for number, term in database.execute(query):
                terms_by_text[number].append(term)
            database.execute("DELETE FROM asked")
        return terms_by_text

    def article_counts(self, texts: Sequence[str]) -> list[int]:
        """Returns for each text the number of articles that contain its rarest word."""
        terms = self.terms(texts)
        article_counts = self.frequencies(term for text_terms in terms for term in text_terms)
        return [
            min((article_counts[term] for term in text_terms), default=0) for text_terms in terms
        ]

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """Returns for each term the number of articles that contain it."""
        query = "SELECT articles FROM terms WHERE term = ?"
        return {
            term: count
            for term in set(terms)
            for (count,) in self._database.execute(query, (term,)).fetchall() or [(0,)]
        }

    def inverse_frequency(self, count: int) -> float:
        """Returns the BM25 weight of a term that `count` articles contain.

        It is ln(1 + (N - n + 0.5) / (n + 0.5)): Robertson 2009, The Probabilistic Relevance
        Framework, with 1 added, so that it is never negative.
        """
        return math.log((len(self) - count + 0.5) / (count + 0.5) + 1)
