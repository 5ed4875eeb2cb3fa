"""A few articles, and knowledge bases made from them."""

import json

from faith_jax.retrieval.index import build

ROWS = (
    {
        "title": "Hornbeam",
        "aliases": ["Carpinus", "Ironwood"],
        "text": "Hornbeam is a tree of Europe. It keeps its brown leaves through the winter.\n\n"
        "Its wood is hard and was used for cogs in mills.",
        "url": "https://example.org/hornbeam",
    },
    {"title": "Beech", "text": "Beech is a tree with smooth bark. It drops its leaves in autumn."},
    {
        "title": "Mill (grinding)",
        "text": "A mill grinds grain with stones.\n\nWindmills need wind.",
    },
    {"title": "AIDS", "text": "AIDS is a disease of the immune system."},
    {"title": "Aids", "text": "Aids are helpers of an officer."},
    {"title": "Oslo", "aliases": ["Kristiania"], "text": "Oslo is the capital of Norway."},
    {"title": "Mill", "text": "Mill may refer to:\n\nMill (grinding)"},
)


def write_rows(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def built(folder, rows=ROWS, **options):
    """Returns the knowledge base of rows, made in a folder."""
    return build(str(write_rows(folder / "articles.jsonl", rows)), str(folder / "base"), **options)


def titles(base, numbers):
    return [base.article(number).title for number in numbers]
