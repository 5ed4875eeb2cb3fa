"""The run `report`: shows scored files as one HTML page."""

import collections
import dataclasses
import heapq
import math
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files import reserve_outputs
from faith_jax.core.files.stores import path_of
from faith_jax.core.table import Table
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.export.scored_rows import ScoredRow
from faith_jax.report.page import report_page, write_page
from faith_jax.report.panels import scorers_of
from faith_jax.report.salience import salience_picture, salience_section
from faith_jax.runs.options import Comparison, EvaluateOptions, ReportOptions
from faith_jax.runs.scores.compare_systems import compare_systems, systems_by_file
from faith_jax.runs.scores.evaluate_scores import area_tables, tabulate_checked_claims
from faith_jax.runs.scores.protocols import cluster_fields, counting_undefined, report_tables
from faith_jax.scoring.registry import scorer_card, scorer_names
from faith_jax.statistics.scored_corpora import (
    Corpus,
    check_usable,
    chosen_scorers,
    only_fields,
    read_corpora,
)

_TEXTS = ("generated_text", "grounding", "perspectives", "history")
_Key = tuple[str, str]  # a corpus and an id


class _Examples:
    """Rows by corpus and id in a temporary file, each stored once with the scores of all files."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        self._places: dict[_Key, int] = {}  # offsets in the file, in the order of insertion

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: _Key) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[ScoredRow]:
        return map(self.__getitem__, self._places)

    def __getitem__(self, key: _Key) -> ScoredRow:
        self._file.seek(self._places[key])
        row: ScoredRow = msgspec.json.decode(self._file.readline())
        return row

    def __setitem__(self, key: _Key, row: ScoredRow) -> None:
        self._places[key] = self._file.seek(0, 2)
        self._file.write(msgspec.json.encode(row) + b"\n")


@reserve_outputs(lambda options: (options.files, {"--output": options.output}))
def report(options: ReportOptions) -> pathlib.Path:
    """Writes the page and returns its path."""
    target = path_of(options.output)
    examples = _Examples()
    protocol_reports = report_tables()
    systems = systems_by_file(options.files, options)
    all_corpora = read_corpora(
        {
            path: _gather_examples(
                _file_rows(path, systems, options),
                examples,
                lambda _: len(examples) < options.most_examples,
            )
            for path in options.files
        },
        only_fields(
            *cluster_fields(options), *(n for reported in protocol_reports for n in reported.fields)
        ),
    )
    corpora = chosen_scorers(all_corpora, options.scorers)
    filled = counting_undefined(corpora, options)
    check_usable(filled, labels=False)  # examples can be shown without labels
    # Except for the examples, the page shows only the usable rows, which the table is computed
    # from; distributions of a corpus without usable rows are of all its rows.
    used = {
        name: corpus.part(corpus.usable()) if corpus.usable().any() else corpus
        for name, corpus in filled.items()
    }
    is_labelled = any(corpus.usable().any() for corpus in filled.values())
    try:
        tables = list[Table]()
        groups: dict[frozenset[str], dict[str, Corpus]] = {}  # by scorers; each gets one table
        for name, corpus in corpora.items() if is_labelled else ():
            groups.setdefault(frozenset(corpus.scores), {})[name] = corpus
        for group in groups.values():
            tables += area_tables(group, options)[1]
        for protocol_report in protocol_reports:
            tables += protocol_report.make(corpora, options)
        tables.append(_build_means_table(options, is_labelled))
        tables += tabulate_checked_claims(options.files, options).values()
    except ValueError as error:
        raise ConfigError(str(error)) from None
    note = ""
    sections: list[dict[str, Any]] = []
    if options.salience_model:
        note, sections = _build_salience_maps(all_corpora, scorers_of(used)[0], options)
    shown_rows = ({**row, "generated_text": row["generated_text"] or ""} for row in examples)
    title = options.title or ", ".join(pathlib.Path(path).name for path in options.files)
    left_out = sum(len(corpus.ids) for corpus in all_corpora.values()) - len(examples)
    known_scorers, meanings = set(scorer_names()), {}
    for name in scorers_of(used):
        if name in known_scorers:
            card = scorer_card(name)
            meanings[name] = f"{card.description} {card.low:g} to {card.high:g}; {card.direction}."
    page_parts = (title, used, tables, shown_rows, left_out, note, sections, meanings)
    write_page(target, lambda files: report_page(*page_parts, files))
    return target


def _file_rows(
    path: str, systems: Mapping[str, str], options: ReportOptions
) -> Iterator[ScoredRow]:
    """Yields the rows of a file; if it is one of several systems, its name is their corpus."""
    for row in read_scored_rows(path_of(path), options.score_columns):
        if path in systems:
            row["corpus"] = systems[path]
        yield row


def _build_means_table(options: ReportOptions, is_labelled: bool) -> Table:
    """Returns the table of means; files with labels count as corpora, others as systems."""
    shared = {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(Comparison)
        if field.name not in ("test", "baseline", "resamples", "seed")
    }
    baseline = "" if is_labelled else options.baseline
    evaluate_options = EvaluateOptions(protocol="systems", worst=0, baseline=baseline, **shared)
    return compare_systems(options.files, evaluate_options, are_systems=not is_labelled).table


def _build_salience_maps(
    corpora: Mapping[str, Corpus], scorer: str, options: ReportOptions
) -> tuple[str, list[dict[str, Any]]]:
    """Returns a note that says which rows have a map, and the maps as the page shows them.

    These are the rows with the lowest scores of the scorer, the lowest first, or the first rows if
    none has a score. Rows without a response or a grounding are skipped.
    """
    usable = [
        (name, corpus.ids[place])
        for name, corpus in corpora.items()
        for place in np.flatnonzero((corpus.is_empty == 0) & (corpus.hashes["grounding"] != 0))
    ]
    if not usable:
        raise InputError(
            "--salience-model: no row has generated_text and grounding, which the maps are of."
        )
    values = {
        (name, identifier): value
        for name, corpus in corpora.items()
        if scorer in corpus.scores
        for identifier, value in zip(corpus.ids, corpus.scores[scorer].tolist(), strict=True)
        if not math.isnan(value)
    }
    scored = [key for key in usable if key in values]
    keys = heapq.nsmallest(options.salience_rows, scored, key=values.__getitem__)
    rule = f"The {len(keys)} rows with the lowest {scorer}, the lowest first."
    if not scored:
        keys = usable[: options.salience_rows]
        rule = f"The first {len(keys)} rows; none has a score of {scorer}."
    rows = _Examples()
    systems = systems_by_file(options.files, options)
    for path in options.files:
        again = _file_rows(path, systems, options)
        collections.deque(_gather_examples(again, rows, frozenset(keys).__contains__), maxlen=0)
    examples = []
    for key in keys:
        row = rows[key]
        passages, sides = tuple(row["grounding"]), tuple(row["perspectives"])
        if sides and len(sides) != len(passages):
            raise InputError(
                f"{row['corpus']}, row {row['id']!r}: expected one of perspectives for each text "
                f"of grounding, got {len(sides)} for {len(passages)}."
            )
        name, history = f"{row['corpus']}: {row['id']}", tuple(row["history"])
        grounding = Grounding(passages, sides)
        examples.append(GroundedExample(name, grounding, history, row["generated_text"]))
    # Imports JAX, which other reports do not need.
    from faith_jax.scoring.salience.scorers import open_salience

    maps = open_salience(options.salience_model, method=options.salience_method)(examples)
    sections = [
        salience_section(salience_picture(example, salience_map, options.salience_threshold))
        for example, salience_map in zip(examples, maps, strict=True)
        if salience_map is not None  # only for empty responses
    ]
    return f"{rule} Gradients ({options.salience_method}) of {options.salience_model}.", sections


def _gather_examples(
    rows: Iterable[ScoredRow], examples: _Examples, is_wanted: Callable[[_Key], bool]
) -> Iterator[ScoredRow]:
    """Yields all rows and stores the wanted ones, merging scores and words of several files."""
    for row in rows:
        key = row["corpus"], row["id"]
        if key in examples:
            former = examples[key]
            label = row["label"] if former["label"] is None else former["label"]
            fields = ("scores", "words", "evidence")
            merged = {name: {**former[name], **row[name]} for name in fields}
            texts = {name: former[name] or row[name] for name in _TEXTS}
            examples[key] = {**former, **merged, "label": label, **texts}
        elif is_wanted(key):
            examples[key] = row
        yield row
