"""The examples of a report: within its page or, where these are many, in files beside it.

A page that is opened without a server can read no files, but it can run scripts. So each file is a
script that hands a value to the page's `loaded`: a block of rows, or a column of numbers of all
rows, by which the page filters and sorts. It runs those that it needs.

A folder of these files is named after what they hold, and is in its place before the page that
names it, so that each page has its own.
"""

import array
import base64
import dataclasses
import hashlib
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faith_jax.core.files import move_into_place, report_write_errors, write_text
from faith_jax.core.files.whole import is_complete, private_place, remove_tree
from faith_jax.core.words import lower_words

BLOCK = 500  # rows of a file
# Of examples as JSON within a page, which can then be mailed.
MOST_BYTES = 4_000_000


class PageFiles:
    """The files beside a page, as they are written."""

    def __init__(self, folder: pathlib.Path, page: pathlib.Path):
        self._folder, self._page, self._digest = folder, page, hashlib.sha256()
        self.any = False

    def write(self, name: str, value: str) -> None:
        """Writes a file that hands over a value, which is JSON without "<"."""
        text = f'loaded("{name}",{value})\n'
        self._digest.update(text.encode())
        (self._folder / f"{name}.js").write_text(text, encoding="utf-8")
        self.any = True

    @property
    def name(self) -> str:
        """The name of the folder when everything is written."""
        return f"{self._page.stem}_rows_{self._digest.hexdigest()[:16]}"


def write_page(page: pathlib.Path, make: Callable[[PageFiles], str]) -> None:
    """Writes a page and its files; both appear whole or not at all.

    Args:
      page: of any storage; nobody else may write it meanwhile.
      make: writes the files and returns the page.

    Raises:
      ConfigError: it cannot be written.
    """
    placed = None
    try:
        with report_write_errors(page), private_place(page) as partial:
            partial.mkdir()
            files = PageFiles(partial, page)
            text = make(files)
            folder = page.parent / files.name
            if files.any and not is_complete(folder):
                placed = folder
                move_into_place(partial, folder)
        write_text(page, text)
    except BaseException:
        if placed is not None:
            remove_tree(placed)
        raise
    for former in page.parent.glob(f"{page.stem}_rows_*"):
        is_ours = re.fullmatch("[0-9a-f]{16}", former.name.removeprefix(f"{page.stem}_rows_"))
        if is_ours and not (files.any and former.name == files.name):
            remove_tree(former)


@dataclasses.dataclass(frozen=True)
class PageExamples:
    """The examples as a page has them.

    Attributes:
      count: how many.
      rows: all of them as JSON; "" where they are in files.
      folder: the name of that of the files; "" = none.
      corpora: the names that the column of corpora counts, in order.
      systems: whether rows of several corpora respond to the same grounding.
      ranges: by number of a scorer that scores words its lowest and highest score of one.
    """

    count: int
    rows: str
    folder: str
    corpora: tuple[str, ...]
    systems: bool
    ranges: Mapping[int, tuple[float, float]]


def page_examples(
    rows: Iterable[Mapping[str, Any]], scorers: Sequence[str], files: PageFiles | None = None
) -> PageExamples:
    """Returns the examples of a page, and writes its files where there are too many for it.

    Rows of a corpus and label whose responses have the same words are alike, and those with the
    same id and grounding have the same input; both are numbered in order of appearance.

    Args:
      rows: in the form of `faith_jax.export.scored_rows`; they are read once.
      scorers: in the page's order.
      files: None = all are in the page, however many.
    """
    corpora: dict[str, int] = {}
    of, labels = array.array("H"), array.array("b")
    scores = [array.array("d") for _ in scorers]
    hashes, inputs = array.array("q"), array.array("q")
    ranges: dict[int, tuple[float, float]] = {}
    block: list[dict[str, Any]] = []
    held: list[list[dict[str, Any]]] | None = [block]  # None = they are in files
    size = 0

    def end_block() -> None:
        nonlocal block, held, size
        text = embedded_json(block)
        size += len(text)
        if held is not None and files is not None and size > MOST_BYTES:
            for number, full in enumerate(held[:-1]):
                files.write(f"rows-{number}", embedded_json(full))
            held = None
        if held is None and files is not None:
            files.write(f"rows-{(len(of) - 1) // BLOCK}", text)
        block = []
        if held is not None:
            held.append(block)

    for row in rows:
        of.append(corpora.setdefault(row["corpus"], len(corpora)))
        labels.append(-1 if row["label"] is None else row["label"])
        for name, column in zip(scorers, scores, strict=True):
            score = row["scores"].get(name)
            column.append(np.nan if score is None else score)
        hashes.append(hash((row["corpus"], row["label"], *lower_words(row["generated_text"]))))
        inputs.append(hash((row["id"], *row["grounding"])))
        for number, name in enumerate(scorers):
            if words := row["words"].get(name):
                low, high = ranges.get(number, (np.inf, -np.inf))
                word_scores = [word[2] for word in words]
                ranges[number] = min(low, *word_scores), max(high, *word_scores)
        block.append(_build_example(row, scorers))
        if len(block) == BLOCK:
            end_block()
    if block:
        end_block()
    numbers = {"alike": _number_hashes(hashes), "input": _number_hashes(inputs)}
    pairs = np.unique(np.stack([numbers["input"], np.array(of, np.uint32)]), axis=1)
    text = folder = ""
    if held is not None:
        all_rows = [row for full in held for row in full]
        for name, values in numbers.items():
            for row, value in zip(all_rows, values.tolist(), strict=True):
                row[name] = value
        text = embedded_json(all_rows)
    elif files is not None:
        columns = {"corpus": np.array(of), "label": np.array(labels), **numbers}
        files.write(
            "columns", json.dumps({n: _encode_base64(values) for n, values in columns.items()})
        )
        for number, column in enumerate(scores):
            files.write(f"score-{number}", json.dumps(_encode_base64(np.array(column))))
        folder = files.name
    systems = pairs.shape[1] > len(np.unique(pairs[0]))
    return PageExamples(len(of), text, folder, tuple(corpora), systems, ranges)


def _number_hashes(hashes: "array.array[int]") -> NDArray[np.uint32]:
    """Returns for each of some hashes which of the different ones it is, in order: [rows]."""
    distinct, first, inverse = np.unique(np.array(hashes), return_index=True, return_inverse=True)
    ranks = np.empty(len(distinct), np.uint32)
    ranks[np.argsort(first)] = np.arange(len(distinct), dtype=np.uint32)
    return ranks[inverse]


def _encode_base64(values: NDArray[Any]) -> str:
    """Returns numbers as bytes, the lowest first, as text."""
    return base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()


def embedded_json(values: Iterable[Any]) -> str:
    """Returns a list as JSON that ends no script element, whatever its texts hold."""
    text = json.dumps(list(values), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _build_example(row: Mapping[str, Any], scorers: Sequence[str]) -> dict[str, Any]:
    # The texts of the grounding to which a scorer of whole texts gives 0.
    missing = set()
    for words in row["words"].values():
        placed = [word for word in words if word[3] is not None]
        if all((w[0], w[1]) == (0, len(row["grounding"][w[3]])) for w in placed):
            missing |= {word[3] for word in placed if word[2] == 0}
    return {
        "id": row["id"],
        "corpus": row["corpus"],
        "label": row["label"],
        "grounding": row["grounding"],
        "perspectives": row.get("perspectives") or [],
        "history": row.get("history") or [],
        "response": row["generated_text"],
        "scores": [row["scores"].get(name) for name in scorers],
        **{
            field: {
                scorers.index(name): _convert_to_utf16_places(row, passages)
                for name, passages in row.get(field, {}).items()
                if name in scorers
            }
            for field in ("words", "evidence")
        },
        "missing": sorted(missing),
    }


def _convert_to_utf16_places(
    row: Mapping[str, Any], words: Iterable[Sequence[Any]]
) -> list[list[Any]]:
    """Returns words or passages with their places as JavaScript counts: in UTF-16 units."""
    placed = []
    for start, end, score, place in words:
        text = row["generated_text"] if place is None else row["grounding"][place]
        if any(character > "\uffff" for character in text):
            start, end = (len(text[:i].encode("utf-16-le")) // 2 for i in (start, end))
        placed.append([start, end, score, place])
    return placed
