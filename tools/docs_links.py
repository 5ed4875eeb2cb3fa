"""A MkDocs hook that replaces links to files outside docs/ by the link text.

The site only has the pages of docs/; in the repository the same links lead to the files. A list
item that links a Python name to its file becomes the documentation of that name.
"""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]\[]+)\]\(\.\./[^)]*\)|\[([^\]\[]+)\]\(mini/[^)]*\)")

# Matches "- [`name`](../faith_jax/room/file.py): summary"; the summary may continue on more lines.
# A name with a dot, such as `room.file`, stands for the whole file.
NAMED = re.compile(r"^- \[`([\w.]+)`\]\(\.\./([\w/]+)\.py\): (.*(?:\n  .*)*)", re.M)


def _directive(item: re.Match[str]) -> str:
    """Returns the mkdocstrings directive for the documentation of a name or of a whole file."""
    module = item[2].replace("/", ".")
    return f"\n::: {module if '.' in item[1] else f'{module}.{item[1]}'}\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Returns a page's text without links that leave the site.

    >>> on_page_markdown("see [the README](../README.md) and [scores](scores.md)")
    'see the README and [scores](scores.md)'
    >>> on_page_markdown("- [`statistics.auc`](../faith_jax/statistics/auc.py): Areas.").strip()
    '::: faith_jax.statistics.auc'
    """
    return _OUTSIDE.sub(lambda link: link[1] or link[2], NAMED.sub(_directive, markdown))
