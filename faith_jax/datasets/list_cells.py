r"""Reads lists of texts that a table stores as one text, as in CSV.

Three forms are read: JSON's; Python's, which pandas writes; and NumPy's, with spaces between the
texts. Lists may also hold chat turns and documents, as objects or as the printed form of an object,
such as LangChain's `Document(...)`. Nothing is executed: cells are parsed by `ast` and `json`.

>>> read_list('["Tea", "Ink"]').texts, read_list("['Tea'\n 'It\\'s ink']").texts
(['Tea', 'Ink'], ['Tea', "It's ink"])
>>> read_list("[sic]"), read_list("[1, 2]")
(None, None)
"""

import ast
import contextlib
import functools
import json
import re
import warnings
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from faith_jax.core.errors import InputError, format_value
from faith_jax.datasets.table_notes import TableNotes, stands_for_none

JSON, PYTHON, NUMPY = "JSON", "Python", "NumPy"
_ALL = frozenset((JSON, PYTHON, NUMPY))
# A Python string literal; the pattern never backtracks, so that matching takes linear time.
_TEXT = r"""(?>'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+"|None|nan)"""
_LIST = re.compile(
    rf"[\[(]\s*(?:(?P<python>{_TEXT}(?:\s*,\s*{_TEXT})*\s*,?)"
    rf"|(?P<numpy>{_TEXT}(?:\s+{_TEXT})+))\s*[\])]",
    re.DOTALL,
)
_ITEM = re.compile(_TEXT, re.DOTALL)
_ARRAY = re.compile(r"array\((?P<list>\[.*\])\s*,\s*dtype=[\w<>.'|]+\)", re.DOTALL)
_JOINED = re.compile(r"\0\s+\0")  # adjacent texts without a comma, which Python would concatenate
# The beginning of a list of texts, bytes, objects, lists, tuples, or calls such as
# `Document(page_content=`; but a call followed by words is prose, such as `[Note(type=x) said`.
_BEGINNING = re.compile(
    r"\s*\[[\s\[(]*(?:(?:\{\s*|[\w.]+\([\[{]*)?b?['\"]|[A-Z]\w{3,}\(\w+="
    rf"(?!(?>{_TEXT}|[^'\"()])*+\)[\s\])]*+(?!,|[A-Z]\w*\(|\Z)))",
    re.DOTALL,
)
# Parts outside of texts that Python cannot parse: NumPy puts no comma between objects, and some
# objects print as `<Kind.NAME: 'value'>` or `<Kind object at 0x7f00>`. Unclosed texts are skipped.
_NO_PYTHON = re.compile(
    rf"{_TEXT}|['\"].*|(?P<comma>(?<=[}})])\s+(?=[\w{{]))"
    rf"|(?P<object><[\w.]+(?::\s*(?:{_TEXT}|\d+)| object at 0x[\da-f]+)>)",
    re.DOTALL,
)
_OBJECT = re.compile(r"\{|[A-Z]\w{3,}\(\w+=")  # the beginning of an object or a call
_SHORTENED = re.compile(r"\[[\0\s,]+\.\.\.[\0\s,]+\]")
# The fields with the text of objects: chat turns, documents of LangChain and of Phoenix.
_ITEM_TEXTS = ("content", "page_content", "text", "document.content")
_INNER = ("node", "data", "kwargs")  # fields whose value is an object with the text
_DOCUMENT_FIELDS = frozenset((*_ITEM_TEXTS, *_INNER))


class _TextList(NamedTuple):
    """The texts in a cell's list, and the forms that the cell may be in (all for an empty list)."""

    forms: frozenset[str]
    texts: list[Any]


def read_list(cell: str) -> _TextList | None:
    """Returns the list that a cell holds; None for a plain text, or a list without any text.

    A single document or chat turn counts as a list, and a list of nulls as an empty list.

    Raises:
      InputError: the list was shortened when it was printed; the message does not name a place.
    """
    text = cell.strip()
    if text[:1] == '"':  # the list was encoded twice
        with contextlib.suppress(ValueError, RecursionError):
            text = str(json.loads(text)).strip()
    if _OBJECT.match(text):
        text = f"[{text}]"
    if text[:1] not in ("[", "(") and not text.startswith("array("):
        return None
    if array := _ARRAY.fullmatch(text):
        text = array["list"]
    if not text[1:-1].strip() and text in ("[]", "()"):
        return _TextList(_ALL, [])
    forms, texts = frozenset[str](), list[Any]()
    if plain := _LIST.fullmatch(text):
        items = _parse_literals(_ITEM.findall(text))
        names = {PYTHON} if plain["python"] else {NUMPY}
        if len(items) == 1 and text[0] == "[":
            names.add(NUMPY)
        if text[0] == "(" and not re.search(r",\s*\)$|\0\s*,", _ITEM.sub("\0", text)):
            return None  # a quoted text in parentheses, not a tuple
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
        return _TextList(forms, texts)
    if texts and all(item is None or item != item for item in texts):
        return _TextList(_ALL, [])
    if _SHORTENED.fullmatch(between):
        raise InputError(
            "expected a whole list, got one that was shortened with '...' when it was printed; "
            "write the table again with lists (array.tolist()) in its cells"
        )
    return None


def document_text(item: Any) -> str | None:
    """Returns the text of a chat turn or a document; None for other items.

    LlamaIndex stores a document as a `node` beside its score; LangChain stores turns in `data` or
    `kwargs`. The content of a turn may be a list of parts, whose parts without text are skipped;
    the text of a turn that only calls tools is "".

    >>> document_text({"content": [{"type": "thinking"}, {"type": "text", "text": "Hi!"}]})
    'Hi!'
    >>> document_text({"role": "assistant", "content": None, "tool_calls": []})
    ''
    """
    if not isinstance(item, dict):
        return None
    for name in _ITEM_TEXTS:
        if isinstance(text := item.get(name), str):
            return text
    content = item.get("content", "")
    listed = content if isinstance(content, list) else ()
    parts = [part for part in listed if isinstance(part, dict)]
    if contents := [part["text"] for part in parts if isinstance(part.get("text"), str)]:
        return " ".join(contents)
    if "role" in item and (content is None or parts):
        return ""
    texts = (document_text(item.get(name)) for name in _INNER)
    return next((text for text in texts if text is not None), None)


def _parse_literals(texts: list[str]) -> list[Any]:
    """Returns the values of Python literals of texts; None for None and nan."""
    if not any("\\" in text or "\n" in text for text in texts):  # fast path, the usual case
        return [None if text in ("None", "nan") else text[1:-1] for text in texts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for escapes that Python does not know, such as \d
        items: list[Any] = []
        for text in texts:
            try:
                items.append(None if text == "nan" else ast.literal_eval(text))
            except (ValueError, SyntaxError):  # a raw line break, which Python would escape
                items.append(text[1:-1])
    return items


def _python_list(text: str) -> list[Any] | None:
    """Returns a printed list whose items are not only texts; None if the text is not a list."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            try:
                tree = ast.parse(text, mode="eval").body
            except SyntaxError:
                python = _NO_PYTHON.sub(
                    lambda part: "None" if part["object"] else "," if part["comma"] else part[0],
                    text,
                )
                tree = ast.parse(python, mode="eval").body
            if isinstance(tree, ast.List | ast.Tuple):
                return [_evaluate_item(node) for node in tree.elts]
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            pass
    return None


def _evaluate_item(node: ast.expr) -> Any:
    """Returns the value of a literal, or a dict with the text of a document.

    A document is a dict, or a printed object: `Document(page_content='...', metadata={...})`. Its
    other fields may be anything, such as `np.float64(0.5)`, and are left out.

    Raises:
      ValueError: the item is neither.
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


def is_plain_text(value: Any) -> bool:
    """Returns whether a value is a text that neither begins like a list nor means a missing one."""
    if not isinstance(value, str) or _BEGINNING.match(value):
        return False
    try:
        return bool(value.strip()) and not stands_for_none(value) and read_list(value) is None
    except InputError:  # a shortened list
        return False


class ListColumns:
    """Reads lists printed as texts in the columns of a table; each column must use one form."""

    def __init__(
        self,
        notes: TableNotes,
        find_text_columns: Callable[[], Collection[str]] | None = None,
        is_checked: bool = False,
    ) -> None:
        """Initializes the reader of a table.

        Args:
          notes: collects the numbers of plain texts, and warnings.
          find_text_columns: returns the columns with plain texts of a table that can hold lists,
            such as JSON; in such a column, texts that look like lists stay texts. None = the table
            can only hold texts, like CSV, so that texts that look like lists are lists.
          is_checked: the rows are part of a table that was already read from its first row; earlier
            cells may then have shown that broken lists are texts.
        """
        self._notes = notes
        self._find_text_columns = find_text_columns
        self._is_checked = is_checked
        self._with_plain_texts: set[str] = set()
        self._with_list_likes: set[str] = set()
        # For each column, the place of the first cell that is not a plain text, and the forms that
        # all such cells have in common: empty if they are texts.
        self._forms: dict[str, tuple[str, frozenset[str]]] = {}

    @functools.cached_property
    def _text_columns(self) -> Collection[str]:
        return self._find_text_columns() if self._find_text_columns else ()

    def is_mixed(self, column: str) -> bool:
        """Returns whether some cells of a column so far are lists and others are plain texts."""
        return column in self._with_plain_texts and bool(self._forms.get(column, ("", ""))[1])

    def read(self, column: str, value: Any, place: str) -> Any:
        """Returns the list that a cell holds, or the cell's value if it is not a printed list.

        Raises:
          InputError: the cell has another form than an earlier cell of the column, was shortened,
            or begins like a list but is broken, in a column without plain texts.
        """
        if not isinstance(value, str) or not value.strip():
            return value
        if is_plain_text(value):
            self._with_plain_texts.add(column)
            self._notes.count_text(column, value)
            return value
        cell, problem = None, ""
        try:
            cell = read_list(value)
        except InputError as error:
            problem = str(error)
        if cell is not None and not cell.texts:  # empty lists fit any form
            return []
        if not stands_for_none(value) and column in self._text_columns:
            if column not in self._with_list_likes:
                self._with_list_likes.add(column)
                self._notes.warn(
                    f"{column}: texts that look like lists, as in {place}, are read as texts, as "
                    "others of the column are; write lists of texts without quotes around them."
                )
            return value
        if problem:
            raise InputError(f"{place}: field '{column}': {problem}.")
        forms = frozenset[str]() if cell is None else cell.forms
        first, before = self._forms.get(column, (place, forms))
        remedy = "list it: [text]" if self._find_text_columns else "give the rows as JSON lines"
        has_texts_alone = not before and (column in self._forms or column in self._with_plain_texts)
        is_broken = cell is None and not stands_for_none(value)
        if is_broken and not has_texts_alone and not self._is_checked:
            raise InputError(
                f"{place}: field '{column}': expected a list of texts as JSON, Python or NumPy "
                f"writes it, got {format_value(value)}; the cell is cut off, broken or of other "
                f"items, so write the table again, or, if it is one text, {remedy}."
            )
        if (forms or before) and not forms & before:
            raise InputError(
                f"{place}: field '{column}': expected {_describe_forms(before)} as in {first}, got "
                f"{_describe_forms(forms)}; write every cell of the column as a JSON list of its "
                f"texts, or, if some are texts that look like lists, {remedy}."
            )
        self._forms[column] = first, forms & before
        return value if cell is None else cell.texts


def _describe_forms(forms: frozenset[str]) -> str:
    return f"a list as {' or '.join(sorted(forms))} writes it" if forms else "a text"
