"""A hook of MkDocs: links to files outside docs/ become the names of these files.

The site has pages of docs/ only. In the repository the same links lead to the files.
"""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]\[]+)\]\(\.\./[^)]*\)|\[([^\]\[]+)\]\(mini/[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Returns a page's text without links that leave the site.

    >>> on_page_markdown("see [the README](../README.md) and [scores](scores.md)")
    'see the README and [scores](scores.md)'
    """
    return _OUTSIDE.sub(lambda link: link[1] or link[2], markdown)
