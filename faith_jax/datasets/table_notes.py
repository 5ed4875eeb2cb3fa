"""Notes on a table, collected while its rows are read and reported with the results."""

import collections
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import format_value, pluralize
from faith_jax.core.table import printable
from faith_jax.datasets.usual_names import json_object, key_hints

# Texts that mark a missing value, in lower case.
_NO_TEXTS = frozenset(("n/a", "na", "nan", "null", "none", "<na>", "#n/a", "-"))
_MOST_IN_SPREADSHEETS = 32_767  # the limit on the characters of a cell
_TEXT = r"""(?:'[^']*'|"[^"]*")"""
# Python's printed form of an object or a set of texts, a list of texts or objects, a LangChain
# message or document.
_PRINTED = re.compile(
    rf"\{{\s*{_TEXT}(?:\s*,\s*{_TEXT})*\s*\}}"
    r"|\{\s*'\w[^']*':.*\}|\[\s*(?:\{\s*)?['\"].*['\"}]\s*\]|\[?[A-Z]\w{3,}\(\w+=.*\)\]?"
    r"|(?:page_)?content=['\"].*['\"] (?:additional_kwargs|response_metadata|metadata)=.*",
    re.DOTALL,
)
# Marks around the reasoning that a model wrote before its answer.
_REASONING = re.compile(r"</?(?:think|thinking|thought|reasoning)>|\[/?THINK\]|<\|channel\|>")

# Numbers of sources behind a text: [1], [1, 2], [^1], [doc 1], \u30101\u2020source\u3011.
_CITATION = re.compile(
    r"(?<=[\w.,;:!?)\]\"])\s?"
    r"(\[(?:\^|doc|source)?\s?\d{1,3}(?:[,;\u2013-]\s?\d{1,3})*\]|\u3010\d[^\u3011]*\u3011)"
)


def stands_for_none(text: str) -> bool:
    """Returns whether a text marks a missing value, such as "N/A"."""
    return text.strip().lower() in _NO_TEXTS


class TableNotes:
    """Collects notes on a table while its rows are read.

    Attributes:
      columns: the columns of the first row, by the part of an example that they hold; "" = none.
    """

    def __init__(self) -> None:
        self.columns: dict[str, str] = {}
        self._layouts: list[Mapping[str, str]] = []  # different `columns` of rows
        self._sentences: dict[str, None] = {}
        self._warnings: dict[str, None] = {}
        self._lists: dict[str, list[int]] = {}  # their number, and the fewest and most texts in one
        # The following counts are by column.
        self._texts: collections.Counter[str] = collections.Counter()
        self._bracketed: collections.Counter[str] = collections.Counter()  # texts in [ and ]
        self._nulls: collections.Counter[str] = collections.Counter()
        self._no_groundings: dict[str, collections.Counter[str]] = {}
        # The number of objects by part, column and kind, and the first of each.
        self._objects: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self._first_objects: dict[tuple[str, str, str], str] = {}
        self._reasonings: collections.Counter[str] = collections.Counter()  # answers with reasoning
        self._citations: collections.Counter[str] = collections.Counter()  # answers with citations
        self._first_citations: dict[str, str] = {}
        self._answers = 0
        self._answer_column = ""
        self._no_answers: collections.Counter[str] = collections.Counter()

    def add_columns(self, columns: Mapping[str, str]) -> None:
        """Adds the columns of a row, by the part of an example that they hold."""
        self.columns = self.columns or dict(columns)
        if columns not in self._layouts:
            self._layouts.append(columns)

    def add(self, sentence: str) -> None:
        """Adds a sentence, once."""
        self._sentences.setdefault(sentence)

    def warn(self, sentence: str) -> None:
        """Adds a warning, once."""
        self._warnings.setdefault(sentence)

    def count_list(self, column: str, texts: Sequence[Any]) -> None:
        """Counts a list that is stored as a text in a cell."""
        size = len(texts)
        cells, least, most = self._lists.get(column, (0, size, size))
        self._lists[column] = [cells + 1, min(least, size), max(most, size)]

    def count_text(self, column: str, text: str) -> None:
        """Counts a cell with a single text, in a column that may hold lists."""
        self._texts[column] += 1
        if len(text) == _MOST_IN_SPREADSHEETS:
            self.warn(
                f"{column}: a cell has exactly {len(text):,} characters, where spreadsheets cut "
                "texts; write the table again without one."
            )
        if "|" in text and column.lower().replace("_", " ") == "retrieval context":
            self.warn(
                f"{column}: cells with | are read as one text each; DeepEval joins texts so, and "
                "--split-grounding='|' splits them."
            )
        self._bracketed[column] += text.strip().startswith("[") and text.strip().endswith("]")

    def count_nulls(self, column: str, count: int) -> None:
        """Counts the nulls in a list of texts, which are left out."""
        self._nulls[column] += count

    def count_answer(self, column: str, value: Any, text: str, grounding: Sequence[str]) -> None:
        """Counts an answer, and whether it is missing, empty, or has text that is no answer."""
        self._answers += 1
        self._answer_column = column
        if value is None:
            self._no_answers["missing"] += 1
        elif not text:
            self._no_answers["empty"] += 1
        elif stands_for_none(text):
            self._no_answers[repr(text)] += 1
        else:
            self.count_object("response", column, text)
            self._reasonings[column] += _REASONING.search(text) is not None
            for mark in _CITATION.findall(text):
                if not any(mark in passage for passage in grounding):
                    self._citations[column] += 1
                    self._first_citations.setdefault(column, mark)
                    break

    def count_object(self, part: str, column: str, text: str) -> None:
        """Counts a text of a part of an example if it is an object in JSON or in printed form."""
        if part != "response" and text.lstrip()[:1] == "[":
            return  # `ListColumns` warns of lists
        is_json = json_object(text) is not None
        if is_json or _PRINTED.fullmatch(text.strip()):
            key = (part, column, "JSON object" if is_json else "printed object")
            self._objects[key] += 1
            self._first_objects.setdefault(key, text)

    def count_grounding(self, column: str, texts: Sequence[str]) -> None:
        """Counts a grounding whose only text marks a missing value."""
        if len(texts) == 1 and stands_for_none(texts[0]):
            self._no_groundings.setdefault(column, collections.Counter())[repr(texts[0])] += 1

    def report(self) -> dict[str, Any]:
        """Returns the notes on a table as JSON: `lines`, `warnings`, and the `columns` by part."""
        lines = list(self._sentences)
        names: dict[str, dict[str, None]] = {}
        for part, name in itertools.chain(*map(Mapping.items, self._layouts)):
            if name:
                names.setdefault(part, {})[name] = None
        if columns := [f"{part} from {' or '.join(several)}" for part, several in names.items()]:
            lines.append(f"columns: {', '.join(columns)}")
        for column, (cells, least, most) in self._lists.items():
            sizes = str(most) if least == most else f"{least} to {most}"
            noun = "text" if sizes == "1" else "texts"
            line = f"{column}: {pluralize(cells, 'list')} of {sizes} {noun}"
            if self._texts[column]:
                line += f"; {pluralize(self._texts[column], 'other cell')} of one text"
            lines.append(line)
        if self._no_answers:
            answers = pluralize(self._answers, "answer")
            lines.append(
                f"{self._answer_column}: {answers}, of which {_join_counts(self._no_answers)}"
            )
        warnings = list(self._warnings)
        warnings += [
            f"{column}: {pluralize(count, 'null')} in lists of texts left out."
            for column, count in self._nulls.items()
        ]
        warnings += [
            f"{column}: every cell ({count:,}) stands in [ and ] and is read as one text; if they "
            "are lists, write them as JSON does, with quotes."
            for column, count in self._bracketed.items()
            if count and count == self._texts[column]
        ]
        warnings += [
            f"{column}: {_join_counts(counts)} scored as the text of a grounding; leave the cell "
            "empty where there is none."
            for column, counts in self._no_groundings.items()
        ]
        if texts := [kind for kind in self._no_answers if kind not in ("missing", "empty")]:
            warnings.append(
                f"{self._answer_column}: {', '.join(texts)} is scored as the text of an answer; "
                "leave the cell empty where there is none."
            )
        warnings += [
            f"{column}: {pluralize(count, 'answer')} scored with the model's reasoning, as in "
            "<think>...</think>; write what stands behind it alone."
            for column, count in self._reasonings.items()
            if count
        ]
        warnings += [
            f"{column}: {pluralize(count, 'answer')} scored with marks of citations as words and "
            f"numbers, such as {self._first_citations[column]}, which the grounding lacks; write "
            "the answer without them."
            for column, count in self._citations.items()
        ]
        for (part, column, kind), count in self._objects.items():
            noun = "an answer" if part == "response" else f"a {part}"
            first = self._first_objects[part, column, kind]
            hints = key_hints(part, {column: first})
            remedy = hints[0] if hints else f"write the {noun.partition(' ')[2]} alone"
            example = f" (such as {format_value(first)})" if kind == "printed object" else ""
            warnings.append(
                f"{column}: {pluralize(count, kind)}{example} scored as the text of {noun}, with "
                f"braces and keys; {remedy}."
            )
        return {
            "lines": [*map(printable, lines)],
            "warnings": [*map(printable, warnings)],
            "columns": self.columns,
        }


def _join_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
