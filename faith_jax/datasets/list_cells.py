r"""Reads lists of texts that stand in a table as one text, as CSV has them.

Three forms are read: JSON's; Python's, which pandas writes; and NumPy's, with spaces between the
texts. A list may also hold chat turns and documents (objects, or LangChain's `Document(...)`).
Nothing is executed: texts are read by `ast.literal_eval` and `json`.

>>> read_list('["Tea", "Ink"]').texts, read_list("['Tea'\n 'It\\'s ink']").texts
(['Tea', 'Ink'], ['Tea', "It's ink"])
>>> read_list("[sic]"), read_list("[1, 2]")
(None, None)
"""

import ast
import contextlib
import json
import re
import warnings
from typing import Any, NamedTuple

from faith_jax.core.errors import InputError, format_value

JSON, PYTHON, NUMPY = "JSON", "Python", "NumPy"
_ALL = frozenset((JSON, PYTHON, NUMPY))
# A text as Python writes it; nothing is tried again, so that time is linear in its length.
_TEXT = r"""(?>'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+"|None|nan)"""
_LIST = re.compile(
    rf"[\[(]\s*(?:(?P<python>{_TEXT}(?:\s*,\s*{_TEXT})*\s*,?)"
    rf"|(?P<numpy>{_TEXT}(?:\s+{_TEXT})+))\s*[\])]",
    re.DOTALL,
)
_ITEM = re.compile(_TEXT, re.DOTALL)
_ARRAY = re.compile(r"array\((?P<list>\[.*\])\s*,\s*dtype=[\w<>.'|]+\)", re.DOTALL)
_JOINED = re.compile(r"\0\s+\0")  # texts without a comma, in a list that has others with one
_BEGINNING = re.compile(r"\s*\[\s*['\"]")  # of a list of texts
_SHORTENED = re.compile(r"\[[\0\s,]+\.\.\.[\0\s,]+\]")
# The fields of objects that stand for texts: chat turns, documents of LangChain and of Phoenix.
_ITEM_TEXTS = ("content", "page_content", "text", "document.content")


class TextList(NamedTuple):
    """The texts that a cell lists, and the forms it may be written in: all, for an empty list."""

    forms: frozenset[str]
    texts: list[Any]


def read_list(cell: str) -> TextList | None:
    """Returns the list that a cell holds; None for a text, such as a list without any text in it.

    Raises:
      InputError: the list was shortened when it was printed; the message is without a place.
    """
    text = cell.strip()
    if text[:1] not in ("[", "(") and not text.startswith("array("):
        return None
    if array := _ARRAY.fullmatch(text):
        text = array["list"]
    if not text[1:-1].strip() and text in ("[]", "()"):
        return TextList(_ALL, [])
    forms, texts = frozenset[str](), list[Any]()
    if plain := _LIST.fullmatch(text):
        items = _parse_literals(_ITEM.findall(text))
        names = {PYTHON} if plain["python"] else {NUMPY}
        if len(items) == 1 and text[0] == "[":
            names.add(NUMPY)
        if text[0] == "(" and not re.search(r",\s*\)$|\0\s*,", _ITEM.sub("\0", text)):
            return None  # a text in parentheses
        forms, texts = frozenset(names), items
    if text[1:].lstrip()[:1] != "'":
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(listed := json.loads(text), list):
                forms, texts = forms | {JSON}, listed
    between = _ITEM.sub("\0", text) if not forms else ""
    if between and not _JOINED.search(between) and (listed := _python_list(text)) is not None:
        forms, texts = frozenset((PYTHON,)), listed
    if any(isinstance(item, str) or document_text(item) is not None for item in texts):
        return TextList(forms, texts)
    if _SHORTENED.fullmatch(between):
        raise InputError(
            "expected a whole list, got one that was shortened with '...' when it was printed; "
            "write the table again with lists (array.tolist()) in its cells"
        )
    return None


def document_text(item: Any) -> str | None:
    """Returns the text of a chat's turn or of a document; None = an item is neither.

    A document of LlamaIndex is a `node` beside its score.
    """
    if not isinstance(item, dict):
        return None
    for name in _ITEM_TEXTS:
        if isinstance(text := item.get(name), str):
            return text
    return document_text(item.get("node"))


def _parse_literals(texts: list[str]) -> list[Any]:
    """Returns the values of texts as Python writes them; None for None and nan."""
    if not any("\\" in text or "\n" in text for text in texts):  # mostly, and faster
        return [None if text in ("None", "nan") else text[1:-1] for text in texts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes that Python does not know, such as \d
        items: list[Any] = []
        for text in texts:
            try:
                items.append(None if text == "nan" else ast.literal_eval(text))
            except (ValueError, SyntaxError):  # a line break, which Python's own form escapes
                items.append(text[1:-1])
    return items


def _python_list(text: str) -> list[Any] | None:
    """Returns a list with other items than texts, of which documents are objects here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text, mode="eval").body
            if not isinstance(tree, ast.List | ast.Tuple):
                return None
            return [_evaluate_item(node) for node in tree.elts]
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None


def _evaluate_item(node: ast.expr) -> Any:
    """Returns a literal, or the text of `Document(page_content='...', metadata={...})`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        for keyword in node.keywords:
            if keyword.arg in _ITEM_TEXTS:
                return {keyword.arg: ast.literal_eval(keyword.value)}
    return ast.literal_eval(node)


class ListColumns:
    """Reads the lists of a table's columns, each of which is written in one form throughout."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[str, frozenset[str]]] = {}

    def read(self, column: str, value: Any, place: str) -> Any:
        """Returns the list that a cell holds, or its value where it is no list in a text.

        Args:
          column: of the cell.
          value: of the cell.
          place: of the row, as `path:line`.

        Raises:
          InputError: the cell is written in another form than an earlier one of the column, was
            shortened, or begins like a list and is none in a column without texts.
        """
        if not isinstance(value, str) or not value.strip():
            return value
        try:
            cell = read_list(value)
        except InputError as error:
            raise InputError(f"{place}: field '{column}': {error}.") from None
        if cell is not None and not cell.texts:  # none of any form; or a text
            return cell.texts
        forms = frozenset[str]() if cell is None else cell.forms
        first, before = self._before.get(column, (place, forms))
        if cell is None and _BEGINNING.match(value) and (before or column not in self._before):
            raise InputError(
                f"{place}: field '{column}': expected a list of texts as JSON, Python or NumPy "
                f"writes it, got {format_value(value)}; the cell is cut off or broken, so write "
                "the table again."
            )
        both = forms & before
        if not both and (forms or before):
            raise InputError(
                f"{place}: field '{column}': expected {_describe_forms(before)} as in {first}, got "
                f"{_describe_forms(forms)}; write every cell of the column as a JSON list of "
                "texts, or none."
            )
        self._before[column] = first, both
        return value if cell is None else cell.texts


def _describe_forms(forms: frozenset[str]) -> str:
    if not forms:
        return "a text"
    return f"a list as {' or '.join(sorted(forms))} writes it"
