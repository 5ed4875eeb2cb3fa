"""Writes the articles that a corpus of TRUE refers to by id, as JSON lines of `id` and `article`.

The articles of `summeval` come from TFDS's cnn_dailymail (which downloads CNN/DM if needed) or from
your own file. Those of `mnbm` come from your own file, since TFDS's xsum has no ids. Such a file is
the test split of CNN/DM 3.0.0 or XSum, as JSON lines with an `id` and an `article` or `document`.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.errors import FaithJaxError, InputError, field_error
from faith_jax.core.files import atomic_file
from faith_jax.core.rows import read_jsonl
from faith_jax.datasets.delimited import read_csv

_ANNOTATIONS = {
    "summeval": "model_annotations.aligned.jsonl",
    "mnbm": "hallucination_annotations_xsum_summaries.csv",
}
_EXAMPLE = """examples (the folder holds the corpus's annotations):
  python tools/make_true_articles.py summeval --raw=true_files
  python tools/make_true_articles.py mnbm --raw=true_files --articles=xsum_test.jsonl
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the tool; returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("corpus", choices=sorted(_ANNOTATIONS))
    parser.add_argument("--raw", required=True, metavar="FOLDER", help="of the annotations")
    parser.add_argument("--articles", metavar="FILE", help="JSON lines with ids and articles")
    options = parser.parse_args(arguments)
    try:
        print(make(options.corpus, pathlib.Path(options.raw), options.articles))
    except FaithJaxError as error:
        print(f"make_true_articles.py: {error}", file=sys.stderr)
        return 2
    return 0


def make(corpus: str, folder: pathlib.Path, articles: str | None) -> pathlib.Path:
    """Writes `<corpus>_articles.jsonl` into the folder and returns its path.

    Raises:
      InputError: the annotations or some of the articles are missing.
    """
    article_ids = set(_ids(corpus, folder / _ANNOTATIONS[corpus]))
    if articles is None and corpus == "mnbm":
        raise InputError("mnbm needs --articles=FILE: XSum's test part as JSON lines.")
    source = _from_file(pathlib.Path(articles)) if articles else _cnn_dailymail()
    text_by_id = {identifier: text for identifier, text in source if identifier in article_ids}
    if missing := sorted(article_ids - text_by_id.keys()):
        raise InputError(
            f"{articles or 'cnn_dailymail'}: {len(missing)} of {len(article_ids)} articles are not "
            f"there, {missing[0]} the first."
        )
    target = folder / f"{corpus}_articles.jsonl"
    with atomic_file(target) as beside, open(beside, "w", encoding="utf-8") as file:
        for identifier in sorted(text_by_id):
            row = {"id": identifier, "article": _one_line(text_by_id[identifier])}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return target


def _text(fields: Mapping[str, Any], name: str, place: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise field_error(place, name, "a text that is not empty", value)
    return value.strip()


def _ids(corpus: str, path: pathlib.Path) -> Iterator[str]:
    if corpus == "mnbm":
        for place, fields in read_csv(path, ("bbcid",)):
            yield _text(fields, "bbcid", place)
        return
    for place, fields in read_jsonl(path):
        identifier = _text(fields, "id", place)
        yield identifier.replace("dm-test-", "").replace("cnn-test-", "")


def _from_file(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    for place, fields in read_jsonl(path):
        field = "article" if "article" in fields else "document"
        yield _text(fields, "id", place), _text(fields, field, place)


def _cnn_dailymail() -> Iterator[tuple[str, str]]:
    import tensorflow_datasets as tfds

    for row in tfds.as_numpy(tfds.load("cnn_dailymail", split="test")):
        yield row["id"].decode("utf-8"), row["article"].decode("utf-8")


def _one_line(article: str) -> str:
    """Joins an article's lines by spaces, as TRUE does."""
    return " ".join(filter(None, (line.strip() for line in article.split("\n"))))


if __name__ == "__main__":
    sys.exit(main())
