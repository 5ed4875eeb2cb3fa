r"""Reads lists of texts that stand in a table as one text, as CSV has them.

Three forms are read: JSON's; Python's, which pandas writes; and NumPy's, with spaces between the
texts. A list may also hold chat turns and documents: objects, or what prints one, such as
LangChain's `Document(...)`. Nothing is executed: texts are read by `ast` and `json`.

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
from collections.abc import Callable, Iterable
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
# Of a list of texts, objects, lists, tuples, or calls such as `Document(page_content=`.
_BEGINNING = re.compile(
    r"\s*\[[\s\[(]*(?:(?:\{\s*|[\w.]+\([\[{]*)?['\"]|[A-Z]\w{3,}\(\w+=)",
)
# What Python cannot read, outside of texts: NumPy has no comma between objects, and some objects
# print as `<Kind.NAME: 'value'>` or `<Kind object at 0x7f00>`. An open text is none of these.
_NO_PYTHON = re.compile(
    rf"{_TEXT}|['\"].*|(?P<comma>(?<=[}})])\s+(?=[\w{{]))"
    rf"|(?P<object><[\w.]+(?::\s*(?:{_TEXT}|\d+)| object at 0x[\da-f]+)>)",
    re.DOTALL,
)
_SHORTENED = re.compile(r"\[[\0\s,]+\.\.\.[\0\s,]+\]")
# The fields of objects that stand for texts: chat turns, documents of LangChain and of Phoenix.
_ITEM_TEXTS = ("content", "page_content", "text", "document.content")
_DOCUMENT_FIELDS = frozenset((*_ITEM_TEXTS, "node"))
# Texts that stand for none, in lower case.
NO_TEXTS = frozenset(("n/a", "na", "nan", "null", "none", "<na>", "#n/a", "-"))


class TextList(NamedTuple):
    """The texts that a cell lists, and the forms it may be written in: all, for an empty list."""

    forms: frozenset[str]
    texts: list[Any]


def read_list(cell: str) -> TextList | None:
    """Returns the list that a cell holds; None for a text, such as a list without any text in it.

    An object alone is a text, and a list of nulls is an empty list.

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
            value = json.loads(text)
            if isinstance(value, list):
                forms, texts = forms | {JSON}, value
    between = _ITEM.sub("\0", text) if not forms else ""
    if between and not _JOINED.search(between) and (listed := _python_list(text)) is not None:
        forms, texts = frozenset((PYTHON,)), listed
    if any(isinstance(item, str) or document_text(item) is not None for item in texts):
        return TextList(forms, texts)
    if texts and all(map(_is_null, texts)):
        return TextList(_ALL, [])
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


def _is_null(item: Any) -> bool:
    return item is None or item != item


def _python_list(text: str) -> list[Any] | None:
    """Returns a list with other items than texts, of which documents are objects here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            try:
                tree = ast.parse(text, mode="eval").body
            except SyntaxError:
                tree = ast.parse(_NO_PYTHON.sub(_as_python, text), mode="eval").body
            if isinstance(tree, ast.List | ast.Tuple):
                return [_evaluate_item(node) for node in tree.elts]
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            pass
    return None


def _as_python(part: re.Match[str]) -> str:
    if part["object"]:
        return "None"
    return part[0] if part["comma"] is None else ","


def _evaluate_item(node: ast.expr) -> Any:
    """Returns a literal, or what has the text of a document.

    A document is an object, or what prints one: `Document(page_content='...', metadata={...})`. Its
    other fields may be anything, such as `np.float64(0.5)`, and are left out.

    Raises:
      ValueError: it is neither.
    """
    if isinstance(node, ast.Name) and node.id == "nan":
        return None
    if isinstance(node, ast.Dict):
        fields = [
            (key.value, value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        ]
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "str_" and node.args:
            return ast.literal_eval(node.args[0])  # a text of NumPy
        fields = [(keyword.arg, keyword.value) for keyword in node.keywords]
    else:
        return ast.literal_eval(node)
    document = {name: _evaluate_item(value) for name, value in fields if name in _DOCUMENT_FIELDS}
    return document or ast.literal_eval(node)


def has_texts(values: Iterable[Any]) -> bool:
    """Returns whether some values of a column are texts that do not print a list."""
    return any(map(_is_text, values))


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    if not value.strip() or value.strip().lower() in NO_TEXTS:
        return False
    try:
        return read_list(value) is None and not _BEGINNING.match(value)
    except InputError:  # shortened
        return False


class ListColumns:
    """Reads the lists of a table's columns, each of which is written in one form throughout."""

    def __init__(
        self,
        has_texts: Callable[[str], bool] | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Initializes the reading of a table.

        Args:
          has_texts: returns `has_texts` of a column, for a table that has lists of its own, as JSON
            has: what looks like a list beside texts or such lists is a text there. None = the
            table has texts alone, as CSV has, and both in a column are an error.
          warn: is called with a sentence on such texts.
        """
        self._has_texts = has_texts
        self._warn = warn
        self._beside_texts: dict[str, bool] = {}
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
        cell, problem = None, ""
        try:
            cell = read_list(value)
        except InputError as error:
            problem = str(error)
        if cell is not None and not cell.texts:  # of any form; or a text
            return cell.texts
        is_like_list = cell is not None or problem or _BEGINNING.match(value)
        if self._has_texts is not None and (
            self._is_beside_texts(column, place)
            if is_like_list
            else value.strip().lower() not in NO_TEXTS
        ):
            return value
        if problem:
            raise InputError(f"{place}: field '{column}': {problem}.")
        forms = frozenset[str]() if cell is None else cell.forms
        first, before = self._before.get(column, (place, forms))
        if cell is None and _BEGINNING.match(value) and (before or column not in self._before):
            raise InputError(
                f"{place}: field '{column}': expected a list of texts as JSON, Python or NumPy "
                f"writes it, got {format_value(value)}; the cell is cut off, broken or of other "
                f"items, so write the table again, or, if it is one text, {self._text_remedy}."
            )
        both = forms & before
        if not both and (forms or before):
            raise InputError(
                f"{place}: field '{column}': expected {_describe_forms(before)} as in {first}, got "
                f"{_describe_forms(forms)}; write every cell of the column as a JSON list of its "
                f"texts, or, if some are texts that look like lists, {self._text_remedy}."
            )
        self._before[column] = first, both
        return value if cell is None else cell.texts

    @property
    def _text_remedy(self) -> str:
        return "give the rows as JSON lines" if self._has_texts is None else "list it: [text]"

    def _is_beside_texts(self, column: str, place: str) -> bool:
        """Returns whether what looks like a list is a text; the first of a column is told."""
        if column not in self._beside_texts:
            self._beside_texts[column] = bool(self._has_texts and self._has_texts(column))
            if self._beside_texts[column]:
                self._warn(
                    f"{column}: texts that look like lists, as in {place}, are read as texts, as "
                    "others of the column are; write lists of texts without quotes around them."
                )
        return self._beside_texts[column]


def _describe_forms(forms: frozenset[str]) -> str:
    if not forms:
        return "a text"
    return f"a list as {' or '.join(sorted(forms))} writes it"
