"""One HTML page of scored rows: tables, curves, histograms, and the examples.

The page needs no network, and no other files unless it has too many examples to embed. Then the
examples are in files beside the page. A page that is opened without a server cannot read files, but
it can run scripts. So each file is a script that passes a value to the page's `loaded`: a block of
rows, or a column of numbers of all rows, by which the page filters and sorts. The page runs the
files that it needs. Their folder is named by a hash of its content, so that each page has its own,
and is moved into place before the page that names it.

All text is escaped: in the page by Jinja, in the examples (which are JSON) by never writing "<",
and in the browser by setting text, never markup.
"""

import array
import base64
import dataclasses
import hashlib
import itertools
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faith_jax.core.files import move_into_place, report_write_errors, write_text
from faith_jax.core.files.whole import (
    is_complete,
    is_stream,
    private_place,
    remove_tree,
    through_links,
)
from faith_jax.core.table import Table
from faith_jax.core.words import lower_words
from faith_jax.report.panels import (
    CLASS_COLOURS,
    CLASSES,
    HistogramPanel,
    Line,
    histogram_panels,
    lines_of,
    roc_panel,
    scorers_of,
)
from faith_jax.report.table_pages import page_template
from faith_jax.statistics.scored_corpora import Corpus

# Curves with more points are thinned: no screen shows them.
_CURVE_POINTS = 200
_BLOCK = 500  # rows per file
# Array types of columns: a row's corpus, label (-1 = unknown), group of like responses, and input.
_COLUMNS = {"corpus": "H", "label": "b", "alike": "I", "input": "I"}
# Largest JSON of examples within a page, so that the page can be mailed.
MOST_BYTES = 4_000_000


class PageFiles:
    """Writes the files beside a page."""

    def __init__(self, folder: pathlib.Path, page: pathlib.Path):
        self._folder, self._page, self._digest = folder, page, hashlib.sha256()
        self.any = False

    def write(self, name: str, value: str) -> None:
        """Writes a file that passes a value, JSON without "<", to the page."""
        text = f'loaded("{name}",{value})\n'
        self._digest.update(text.encode())
        (self._folder / f"{name}.js").write_text(text, encoding="utf-8")
        self.any = True

    @property
    def name(self) -> str:
        """The final name of the folder, known once everything is written."""
        return f"{self._page.stem}_rows_{self._digest.hexdigest()[:16]}"


def write_page(page: pathlib.Path, make: Callable[[PageFiles | None], str]) -> None:
    """Writes a page and its files to any storage; both appear whole or not at all.

    `make` writes the files and returns the page; with None, as for a page on standard output, all
    is in the page. No other process may write the page meanwhile.

    Raises:
      ConfigError: the page cannot be written.
    """
    if is_stream(page):
        write_text(page, make(None))
        return
    with report_write_errors(page):
        page = through_links(page)
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


def report_page(
    title: str,
    corpora: Mapping[str, Corpus],
    tables: Sequence[Table],
    rows: Iterable[Mapping[str, Any]],
    left_out: int = 0,
    salience_note: str = "",
    salience: Sequence[Mapping[str, Any]] = (),
    meanings: Mapping[str, str] | None = None,
    files: PageFiles | None = None,
) -> str:
    """Returns the page.

    Args:
      title: of the page.
      corpora: the scores for the curves and histograms.
      tables: of figures.
      rows: the examples, in the form of `faith_jax.export.scored_rows`; they are read once.
      left_out: the number of examples that are not shown.
      salience_note: says which rows have a salience map.
      salience: the salience maps, from `faith_jax.report.salience.salience_section`.
      meanings: the meanings of scores, by scorer.
      files: takes the examples if there are many; None = all are in the page.
    """
    scorers, lines = scorers_of(corpora), lines_of(scorers_of(corpora))
    drawn = [curves(corpus, lines) for corpus in corpora.values()]
    examples = page_examples(rows, scorers, files)
    return page_template("report.html").render(
        title=title,
        tables=tables,
        curves=[curve for curve in drawn if curve["lines"]],
        curveless=[curve["corpus"] for curve in drawn if not curve["lines"]],
        histograms=[histogram(panel) for panel in histogram_panels(corpora)],
        outline=outline,
        scorers=scorers,
        word_scorers=[(i, name) for i, name in enumerate(scorers) if i in examples.ranges],
        corpora=list(corpora),
        labelled=any(not np.isnan(corpus.labels).all() for corpus in corpora.values()),
        left_out=left_out,
        examples=examples,
        block=_BLOCK,
        salience_note=salience_note,
        salience=salience,
        meanings=meanings or {},
    )


def curves(corpus: Corpus, lines: Mapping[str, Line]) -> dict[str, Any]:
    """Returns a corpus's best ROC curves as points in the unit square, with y downwards for SVG."""
    panel = roc_panel(corpus)
    drawn = []
    for name, (x, y) in panel.curves.items():
        point_numbers = np.unique(np.linspace(0, len(x) - 1, _CURVE_POINTS).astype(int))
        drawn.append(
            {
                "name": name,
                "points": " ".join(f"{x[i]:.4f},{1 - y[i]:.4f}" for i in point_numbers),
                "auc": f"{100 * panel.areas[name]:.1f}",
                "colour": lines[name].colour,
                "dashes": " ".join(f"{0.01 * length:g}" for length in lines[name].dashes),
            }
        )
    return {"corpus": corpus.name, "lines": drawn, "left_out": panel.left_out, "rows": panel.rows}


def histogram(panel: HistogramPanel) -> dict[str, Any]:
    """Returns a scorer's distribution by class; heights [bins] are shares of the axis."""
    classes = [
        {
            "name": name,
            "count": panel.counts[name],
            "heights": (shares / panel.top).tolist(),
            "colour": CLASS_COLOURS[name],
            "filled": name != CLASSES[1],
        }
        for name, shares in panel.shares.items()
    ]
    return {
        "corpus": panel.corpus,
        "scorer": panel.scorer,
        "classes": classes,
        "low": f"{panel.edges[0]:.3g}",
        "high": f"{panel.edges[-1]:.3g}",
        "top": f"{100 * panel.top:g} %",
        "width": 1 / (len(panel.edges) - 1),
    }


def outline(heights: Sequence[float], width: float) -> str:
    """Returns the outline of a histogram as points for SVG, 0.6 high."""
    points = [(0.0, 0.6)]
    for number, height in enumerate(heights):
        y = 0.6 - 0.6 * height
        points += [(number * width, y), ((number + 1) * width, y)]
    return " ".join(f"{x:.4f},{y:.4f}" for x, y in [*points, (1.0, 0.6)])


@dataclasses.dataclass(frozen=True)
class _PageExamples:
    """The examples in the form that a page needs.

    Attributes:
      rows: all examples as JSON; "" if they are in files.
      corpora: the names of corpora, indexed by the column `corpus`.
      systems: whether rows of several corpora respond to the same grounding.
      ranges: the lowest and highest score of a word, by the number of a scorer that scores words.
    """

    count: int
    rows: str
    folder: str
    corpora: tuple[str, ...]
    systems: bool
    ranges: Mapping[int, tuple[float, float]]


def page_examples(
    rows: Iterable[Mapping[str, Any]], scorers: Sequence[str], files: PageFiles | None = None
) -> _PageExamples:
    """Returns the examples of a page, and writes them to files if there are too many for it.

    Rows of a corpus and label whose responses have the same words are alike, and rows with the
    same id and grounding have the same input; both are numbered in order of appearance. Rows are
    read once. Without `files`, the page gets all examples, however many.
    """
    corpora: dict[str, int] = {}
    # The numbers of hashes, and the columns with a number for each row.
    distinct: dict[str, dict[int, int]] = {"alike": {}, "input": {}}
    columns = {name: array.array(code) for name, code in _COLUMNS.items()}
    scores = [array.array("d") for _ in scorers]
    ranges: dict[int, tuple[float, float]] = {}
    blocks, size, written, remaining = list[str](), 0, 0, iter(rows)
    while block := list(itertools.islice(remaining, _BLOCK)):
        examples = []
        for row in block:
            hashes = {
                "alike": hash((row["corpus"], row["label"], *lower_words(row["generated_text"]))),
                "input": hash((row["id"], *row["grounding"])),
            }
            numbers = {n: distinct[n].setdefault(h, len(distinct[n])) for n, h in hashes.items()}
            corpus = corpora.setdefault(row["corpus"], len(corpora))
            label = -1 if row["label"] is None else row["label"]
            for name, number in {"corpus": corpus, "label": label, **numbers}.items():
                columns[name].append(number)
            for number, (name, column) in enumerate(zip(scorers, scores, strict=True)):
                score = row["scores"].get(name)
                column.append(np.nan if score is None else score)
                if words := row["words"].get(name):
                    low, high = ranges.get(number, (np.inf, -np.inf))
                    word_scores = [word[2] for word in words]
                    ranges[number] = min(low, *word_scores), max(high, *word_scores)
            examples.append(_build_example(row, scorers) | numbers)
        blocks.append(embedded_json(examples))
        size += len(blocks[-1])
        if files is not None and size > MOST_BYTES:
            for text in blocks:
                files.write(f"rows-{written}", text)
                written += 1
            blocks.clear()
    text, folder = f"[{','.join(block_text[1:-1] for block_text in blocks)}]", ""
    if files is not None and written:
        encoded = {name: _encode_base64(np.array(values)) for name, values in columns.items()}
        files.write("columns", json.dumps(encoded))
        for number, column in enumerate(scores):
            files.write(f"score-{number}", json.dumps(_encode_base64(np.array(column))))
        text, folder = "", files.name
    pairs = np.unique(np.stack([columns["input"], columns["corpus"]]), axis=1)
    systems = pairs.shape[1] > len(distinct["input"])
    count = len(columns["label"])
    return _PageExamples(count, text, folder, tuple(corpora), systems, ranges)


def _encode_base64(values: NDArray[Any]) -> str:
    """Returns the little-endian bytes of numbers in base 64."""
    return base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()


def embedded_json(values: Iterable[Any]) -> str:
    """Returns a list as JSON that cannot end a script element, whatever its texts hold."""
    text = json.dumps(list(values), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _build_example(row: Mapping[str, Any], scorers: Sequence[str]) -> dict[str, Any]:
    # The texts of the grounding that get 0 from a scorer of whole texts.
    missing = set()
    for words in row["words"].values():
        placed = [word for word in words if word[3] is not None]
        if all((w[0], w[1]) == (0, len(row["grounding"][w[3]])) for w in placed):
            missing |= {word[3] for word in placed if word[2] == 0}
    # Offsets of words and passages are in UTF-16 units, as in JavaScript.
    passages: dict[str, dict[int, list[Any]]] = {"words": {}, "evidence": {}}
    for field, by_scorer in passages.items():
        for name in (name for name in row.get(field, {}) if name in scorers):
            by_scorer[scorers.index(name)] = utf16_words = []
            for start, end, score, place in row[field][name]:
                text = row["generated_text"] if place is None else row["grounding"][place]
                if any(character > "\uffff" for character in text):
                    start, end = (len(text[:i].encode("utf-16-le")) // 2 for i in (start, end))
                utf16_words.append([start, end, score, place])
    return {
        "id": row["id"],
        "corpus": row["corpus"],
        "label": row["label"],
        "grounding": row["grounding"],
        "perspectives": row.get("perspectives") or [],
        "history": row.get("history") or [],
        "response": row["generated_text"],
        "scores": [row["scores"].get(name) for name in scorers],
        **passages,
        "missing": sorted(missing),
    }
