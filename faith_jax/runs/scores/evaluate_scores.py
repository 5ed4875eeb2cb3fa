"""The run `evaluate`: tables and pictures of scored files."""

import collections
import dataclasses
import functools
import heapq
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from faith_jax.core.errors import (
    ConfigError,
    FaithJaxError,
    InputError,
    counted,
    did_you_mean,
)
from faith_jax.core.files import reserves, write_json, write_text
from faith_jax.core.files.stores import path_of, reason, storage_errors
from faith_jax.core.labels import DialFactLabel
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text, converted
from faith_jax.core.table import Table
from faith_jax.core.words import lower_words
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.report import figures
from faith_jax.report.claims import VERDICT, gold_table, verdict_table
from faith_jax.report.table_pages import rendered
from faith_jax.runs.options import (
    AUTO,
    CHOSEN_BY_LABELS,
    GOES_WITH,
    SPLIT,
    Comparison,
    EvaluateFiles,
    EvaluateOptions,
    listed_names,
)
from faith_jax.scoring.registry import scorer_card, scorer_names
from faith_jax.statistics import protocols
from faith_jax.statistics.auc_table import (
    AucTable,
    auc_figures,
    auc_rows,
    auc_table,
    best_rows,
    npov_figures,
    npov_rows,
)
from faith_jax.statistics.npov_detection import npov_cells, without_spans
from faith_jax.statistics.protocols import AccuracyLayout
from faith_jax.statistics.scored_corpora import (
    EVERYTHING,
    Corpus,
    Kept,
    Range,
    check_usable,
    chosen_scorers,
    few_rows,
    only_fields,
    read_corpora,
    row_notes,
    with_ensembles,
)
from faith_jax.statistics.systems import Column, Layout, systems_table
from faith_jax.statistics.units import AUTO as AUTO_UNITS
from faith_jax.statistics.units import ROWS

# A table, its figures as JSON has them, the rows, where the protocol is of their scores, and tables
# that stand below.
Made = tuple[Table, dict[str, Any], Mapping[str, Corpus], tuple[Table, ...]]
_Schema = TypeVar("_Schema")
_SHOWN = 100  # characters of a response in a table
_NO_CORPUS = "rows"  # the corpus of systems that say none


def _inputs_and_outputs(options: EvaluateFiles) -> tuple[list[str], dict[str, str]]:
    outputs = ("json", "markdown", "latex", "csv", "histograms", "roc_curves")
    named = {f"--{name.replace('_', '-')}": getattr(options, name) for name in outputs}
    return [*options.files, options.development], named


@reserves(_inputs_and_outputs)
def evaluate(options: EvaluateFiles) -> str:
    """Evaluates scored files, writes what is asked for, and returns the table as text."""
    tables = {form: getattr(options, form) for form in ("markdown", "latex", "csv")}
    outcome = evaluation(options.files, options)
    write_evaluation(outcome, options.json, {form: path for form, path in tables.items() if path})
    # What is drawn is of the rows that the table is of.
    whole = counting_undefined(outcome.corpora, options)
    drawn = {name: corpus.part(corpus.usable()) for name, corpus in whole.items()}
    if options.histograms:
        figures.save_histograms(drawn, path_of(options.histograms))
    if options.roc_curves:
        figures.save_roc_curves(drawn, path_of(options.roc_curves))
    return "\n".join(rendered(table) for table in (outcome.table, *outcome.further))


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The table, figures and further tables of an evaluation."""

    table: Table
    figures: Mapping[str, Any]  # as JSON has them
    corpora: Mapping[str, Corpus]  # the scored rows, of the scorers that were chosen
    further: tuple[Table, ...] = ()  # tables that stand below the first, as text only


def evaluation(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    """Evaluates files that `faith-jax score` wrote.

    Raises:
      FaithJaxError: for a bad or missing file, files that do not match, and wrong options.
    """
    if options.protocol == AUTO:
        with_labels, without = CHOSEN_BY_LABELS
        options = dataclasses.replace(
            options, protocol=with_labels if has_labels(files) else without
        )
    further: tuple[Table, ...] = ()
    corpora: Mapping[str, Corpus] = {}
    try:
        if options.protocol == "systems":
            compared = compare_systems(files, options)
            _check_several_rows(compared.ids)
            table, figures_by_name = compared.table, compared.figures()
            further = (compared.worst,) if compared.worst.rows else ()
        else:
            table, figures_by_name, corpora, further = _PROTOCOLS[options.protocol](files, options)
    except FaithJaxError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None
    # The predictions of dialfact's protocol have no scores.
    if options.protocol != "dialfact":
        for name, checked in checked_claims(files, options).items():
            further = (*further, checked)
            figures_by_name = figures_by_name | {name: (checked.tidy or checked).records()}
    if options.protocol != "auc":  # which tells of usable rows itself
        sizes = {name: len(corpus.ids) for name, corpus in corpora.items()}
        table = table._replace(notes=table.notes + few_rows(sizes))
    if options.ensemble:
        note = _ensemble_note(_ensembles(options.ensemble))
        table = table._replace(notes=(*table.notes, note))
    drawn = ("resamples", "confidence", "seed")
    names = ("protocol", *(name for name in drawn if options.protocol in GOES_WITH[name]))
    settings = {name: getattr(options, name) for name in names}
    return Evaluation(table, settings | figures_by_name, corpora, further)


def checked_claims(files: Sequence[str], options: Comparison) -> dict[str, Table]:
    """Returns tables of what `check` wrote: of verdicts, and of these against labels if there are.

    There is none where no file begins with such a claim.
    """
    systems = systems_by_file(files)

    def rows() -> Iterator[dict[str, Any]]:
        for path in files:
            named = {"system": systems[path]} if path in systems else {}
            for row in read_scored_rows(path_of(path)):
                if VERDICT not in row["fields"]:
                    break
                yield {**row, "fields": named | row["fields"]}

    tables = {"verdicts": verdict_table(rows())}
    if tables["verdicts"].rows:
        tables["verdicts_against_labels"] = gold_table(
            rows(), _draws(options), *cluster_fields(options)
        )
    return {name: table for name, table in tables.items() if table.rows}


def _draws(options: Comparison) -> protocols.Draws:
    return protocols.Draws(options.resamples, options.confidence, options.seed)


def has_labels(files: Sequence[str]) -> bool:
    """Whether a row of scored files has a label."""
    rows = (row for path in files for row in read_scored_rows(path_of(path)))
    return any(row["label"] is not None for row in rows)


def write_evaluation(outcome: Evaluation, json_path: str, tables: Mapping[str, str]) -> None:
    """Writes the figures ("" = nowhere), and the table by format: "markdown", "latex", "csv"."""
    if json_path:
        heading = {"title": outcome.table.title, "notes": list(outcome.table.notes)}
        write_json(json_path, heading | dict(outcome.figures))
    for form, path in tables.items():
        write_text(path, rendered(outcome.table, form))


def _corpora(
    files: Sequence[str], options: EvaluateOptions, kept: Kept = EVERYTHING
) -> dict[str, Corpus]:
    rows = {path: read_scored_rows(path_of(path)) for path in files}
    corpora = read_corpora(rows, kept)
    ensembles = _ensembles(options.ensemble)
    for name, ranges in ensembles.items():
        corpora = with_ensembles(corpora, {name: tuple(ranges)}, functools.partial(_range, ranges))
    return chosen_scorers(corpora, (*options.scorers, *ensembles) if options.scorers else ())


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    """Returns for each system the one that it is compared with."""
    baselines = {}
    for text in texts:
        system, colon, baseline = text.rpartition(":")
        if not (system and colon and baseline) or system == baseline:
            raise ConfigError(f"--compare: expected SYSTEM:BASELINE, got {text!r}.")
        baselines[system] = baseline
    return baselines


def _ensembles(texts: Iterable[str]) -> dict[str, dict[str, Range | None]]:
    """Returns by name each ensemble's scorers with their ranges, None = not given."""
    ranges_by_ensemble: dict[str, dict[str, Range | None]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        members = [member.split(":") for member in listed_names(listed)]
        try:
            ranges = {s: Range(*map(float, ends)) if ends else None for s, *ends in members}
        except (ValueError, TypeError):
            ranges = {}
        if not name or len(ranges) < 2 or name in ranges_by_ensemble:
            raise ConfigError(
                "--ensemble: expected NAME=SCORER,SCORER, each name once and each scorer as SCORER "
                f"or SCORER:LOW:HIGH, got {text!r}. -SCORER counts low scores as high ones."
            )
        ranges_by_ensemble[name] = ranges
    return ranges_by_ensemble


def _range(ranges: Mapping[str, Range | None], scorer: str) -> Range:
    """Returns the range that is given, or the one that the scorer's card declares."""
    if (chosen := ranges[scorer]) is not None:
        return chosen
    scorer, low, high = scorer.removeprefix("-"), math.nan, math.nan
    if scorer in scorer_names():
        low, high = scorer_card(scorer).low, scorer_card(scorer).high
    if not math.isfinite(high - low):
        raise ConfigError(
            f"--ensemble: {scorer} has no known finite range; say it: {scorer}:LOW:HIGH, such as "
            f"{scorer}:0:1."
        )
    return Range(low, high)


def _ensemble_note(ensembles: Mapping[str, Mapping[str, Range | None]]) -> str:
    """Returns a note that names the scorers of each ensemble."""
    parts = []
    for name, members in ensembles.items():
        ranges = {member: _range(members, member) for member in members}
        listed = ", ".join(f"{m} ({low:g} to {high:g})" for m, (low, high) in ranges.items())
        parts.append(f"{name} = {listed}")
    return f"Ensembles: the mean of scores mapped from their range to 0 to 1: {'; '.join(parts)}."


def area_tables(
    corpora: Mapping[str, Corpus], options: Comparison
) -> tuple[AucTable, tuple[Table, ...]]:
    """Returns how well scorers tell the classes of labels apart: the figures, and their tables.

    The first table has the AUCs, the second the best scorer against each other one.
    """
    areas = auc_table(
        corpora,
        options.baseline,
        options.resamples,
        options.confidence,
        options.seed,
        options.test,
        options.cluster_field,
        undefined=undefined_score(options),
    )
    table = auc_rows(areas)
    table = table._replace(notes=table.notes + row_notes(counting_undefined(corpora, options)))
    return areas, (table, *([best_rows(areas)] if areas.best else []))


def undefined_score(options: Comparison) -> float:
    """Returns the score that an undefined one counts as; NaN = none."""
    return math.nan if options.undefined is None else options.undefined


def counting_undefined(corpora: Mapping[str, Corpus], options: Comparison) -> Mapping[str, Corpus]:
    """Returns the corpora with the score that an undefined one counts as, if there is one."""
    score = undefined_score(options)
    return {name: corpus.counting_undefined(score) for name, corpus in corpora.items()}


def cluster_fields(options: Comparison) -> tuple[str, ...]:
    """Returns the field that names the unit of independence, if it is a field of the rows."""
    return () if options.cluster_field in (AUTO_UNITS, ROWS, "") else (options.cluster_field,)


def _auc(files: Sequence[str], options: EvaluateOptions) -> Made:
    corpora = _corpora(files, options, only_fields(*cluster_fields(options)))
    filled = counting_undefined(corpora, options)
    check_usable(filled)
    _check_several_rows({name: corpus.ids for name, corpus in corpora.items()})
    areas, (table, *further) = area_tables(corpora, options)
    ids = {
        name: [i for i, used in zip(corpus.ids, corpus.usable().tolist(), strict=True) if not used]
        for name, corpus in filled.items()
    }
    return table, auc_figures(areas) | {"left_out_ids": ids}, corpora, tuple(further)


def _check_several_rows(ids: Mapping[str, Sequence[str]]) -> None:
    """Refuses a single row, of which there is no figure beside its own score."""
    if max(map(len, ids.values())) == 1:
        name = next(iter(ids))
        raise InputError(
            f"{name}: the only row is {ids[name][0]!r}, of which there is nothing to compare; give "
            "at least two rows, better twenty."
        )


def _by_threshold(files: Sequence[str], options: EvaluateOptions) -> Made:
    if not options.development:
        raise ConfigError(
            f"--protocol={options.protocol} needs the scored development part: give "
            f"--development=FILE, or --development={SPLIT} to choose thresholds on a random half "
            "of the rows."
        )
    parts = {"the test files": list(files)}
    if options.development != SPLIT:
        parts[options.development] = [options.development]
    kept = only_fields(options.group_field if options.protocol == "begin" else "")
    by_source = {source: _corpora(paths, options, kept) for source, paths in parts.items()}
    for source, corpora in by_source.items():
        if len(corpora) > 1:
            raise InputError(f"{source}: expected one corpus, got {', '.join(corpora)}.")
    tested, *development = (corpus for corpora in by_source.values() for corpus in corpora.values())
    if options.protocol == "begin" and options.group_field:
        tested.field(
            options.group_field,
            " F1 is also shown for each value of it: name another field (--group-field=NAME), or "
            "leave this out (--group-field=).",
        )
    notes: tuple[str, ...] = ()
    if not development:
        order = np.random.default_rng(options.seed).permutation(len(tested.ids))
        half = len(order) // 2
        development, tested = (
            [tested.part(np.sort(order[:half]))],
            tested.part(np.sort(order[half:])),
        )
        sizes = f"{counted(half, 'row')}, tested on the other {len(order) - half:,}"
        notes = (f"Thresholds chosen on {sizes}: a random split with the seed {options.seed}.",)
    if options.protocol == "verifiable":
        table = protocols.verifiable_table(development[0], tested, _draws(options))
    else:
        table = protocols.threshold_table(development[0], tested, options.group_field)
    table = table._replace(notes=table.notes + notes)
    return table, {"rows": (table.tidy or table).records()}, {tested.name: tested}, ()


def _pronouns(files: Sequence[str], options: EvaluateOptions) -> Made:
    corpora = _corpora(files, options, only_fields()._replace(texts=True))
    table = protocols.pronoun_table(corpora)
    return table, {"rows": table.records()}, corpora, ()


def _npov(files: Sequence[str], options: EvaluateOptions) -> Made:
    corpora = _corpora(files, options)
    words = options.protocol == "npov_words"
    drawn = options.resamples, options.confidence, options.seed
    cells = npov_cells(corpora, options.slice_field, *drawn, words=words)
    notes = without_spans(corpora, options.slice_field) if words else ()
    if not cells:
        problem = notes[0] if notes else "None of the scorers has scores of words; see the scorers."
        raise InputError(problem)
    table = npov_rows(cells, options.confidence, words)
    return table._replace(notes=table.notes + notes), npov_figures(cells), corpora, ()


class ComparedSystems(NamedTuple):
    """Systems on the same rows: their table, the rows with the lowest scores, and the rows' ids."""

    table: Table
    worst: Table
    ids: Mapping[str, Sequence[str]]

    def figures(self) -> dict[str, Any]:
        """Returns them as JSON has them."""
        rows = (self.table.tidy or self.table).records()
        worst = (self.worst.tidy or self.worst).records()
        return {"rows": rows} | ({"worst": worst} if worst else {})


def compare_systems(
    files: Sequence[str], options: EvaluateOptions, are_systems: bool = True
) -> ComparedSystems:
    """Compares systems; a file without a field `system` is one, named as its corpus or as itself.

    Without --table, the columns are the mean of each scorer, and the share of rows below a score;
    and without --baseline the first system of a corpus is the others'. Rows that not all systems of
    a corpus have are then left out. If they are no systems, but corpora of their own, nothing is
    compared.
    """
    system_rows = _SystemRows(options, {} if options.table else systems_by_file(files))
    layout = _read_table(options.table, Layout) if options.table else None
    columns = layout.columns.values() if layout else ()
    references = [column.reference for column in columns if not column.scorer]
    fields = [*references, *cluster_fields(options)]
    # The scorers of a table may compare the same responses with different texts.
    kept = Kept(bool(references), False, False, fields, same_grounding=layout is None)
    corpora = read_corpora({path: system_rows.rows(path) for path in files}, kept)
    grouped: dict[tuple[str, str], list[Corpus]] = {}
    for name, corpus in chosen_scorers(corpora, options.scorers).items():
        grouped.setdefault(system_rows.places[name], []).append(corpus)
    notes: list[str] = []
    if layout is None:
        if are_systems:
            grouped = on_shared_rows(grouped, notes)
        else:
            grouped = {
                (f"{of} of {name}", name): members for (of, name), members in grouped.items()
            }
    baselines = _pairs(options.compare)
    systems = list(dict.fromkeys(system for _, system in grouped))
    baseline = options.baseline or ("" if baselines or layout else systems[0])
    if baseline:
        baselines = {name: baseline for name in systems if name != baseline}
    columns_by_name = {} if layout else _columns(grouped, options)
    with_threshold = {text.rpartition(":")[0] for text in options.below}
    if any(
        column.below is not None and column.scorer not in with_threshold
        for column in columns_by_name.values()
    ):
        notes.append(_NO_THRESHOLD)
    table = systems_table(
        grouped,
        layout or Layout(columns=columns_by_name),
        baselines,
        options.confidence,
        options.cluster_field,
        differences=layout is None,
        undefined=undefined_score(options),
    )
    table = table._replace(notes=(*table.notes, *notes))
    if layout is None and not system_rows.has_corpora():
        table = _without_corpora(table)
        if not are_systems:
            table = table._replace(title="Means", columns=("corpus", *table.columns[1:]))
    ids = {name: corpus.ids for name, corpus in corpora.items()}
    return ComparedSystems(table, system_rows.worst(), ids)


_NO_THRESHOLD = (
    "Scores rank answers; 0.5 is a place to look, no limit below which answers are wrong. Read "
    "from the lowest upwards, then say yours: --below=SCORER:VALUE."
)


def _without_corpora(table: Table) -> Table:
    """Returns the table of systems without the column of their corpora, which they do not say."""
    lead, notes = f"{_NO_CORPUS}: ", []
    for note in table.notes:
        bare = note.removeprefix(lead)
        notes.append(note if bare == note else bare[:1].upper() + bare[1:])
    rows = tuple(row[1:] for row in table.rows)
    return table._replace(columns=table.columns[1:], rows=rows, notes=tuple(notes))


def _columns(
    grouped: Mapping[tuple[str, str], Sequence[Corpus]], options: EvaluateOptions
) -> dict[str, Column]:
    """Returns the columns of the scorers: their means, and the shares of rows below a score."""
    scorers = list(
        dict.fromkeys(name for corpora in grouped.values() for name in corpora[0].scores)
    )
    below: dict[str, float] = {}
    for text in options.below:
        name, _, value = text.rpartition(":")
        try:
            below[name] = float(value)
        except ValueError:
            name = ""
        if not name or not math.isfinite(below[name]):
            expected = "expected SCORER:VALUE, such as coverage:0.5"
            raise ConfigError(f"--below: {expected}, got {text!r}.")
        if name not in scorers:
            hint = did_you_mean(name, scorers)
            raise ConfigError(f"--below: there are no scores of {name!r}.{hint}")
    columns = {}
    for name in scorers:
        card = scorer_card(name) if name in scorer_names() else None
        is_bounded = card is not None and math.isfinite(card.high - card.low)
        columns[name] = Column(name, bounds=(card.low, card.high) if card and is_bounded else None)
        if name not in below and card and (card.low, card.high) == (0.0, 1.0):
            below[name] = 0.5
        if name in below:
            title = f"{name} < {below[name]:g}, %"
            columns[title] = Column(name, below=below[name], high=0.01, digits=1)
    return columns


def systems_by_file(files: Sequence[str]) -> dict[str, str]:
    """Returns the names of files that are systems: of one corpus, with scores of the same scorers.

    Files of one corpus with other scorers are of one system, and are joined.
    """
    firsts = {path: next(iter(read_scored_rows(path_of(path))), None) for path in files}
    plain = {path: row for path, row in firsts.items() if row and "system" not in row["fields"]}
    names: dict[str, str] = {}
    for path, row in plain.items():
        if any(
            another["corpus"] == row["corpus"] and another["scores"].keys() & row["scores"].keys()
            for beside, another in plain.items()
            if beside != path
        ):
            names[path] = pathlib.Path(path).stem
    is_clear = len(set(names.values())) == len(names)
    return names if is_clear else {path: path for path in names}


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}\u2026"


class _SystemRows:
    """The rows of systems as they are read: whose they are, and the lowest scores."""

    def __init__(self, options: EvaluateOptions, systems: Mapping[str, str]):
        self._options = options
        self._systems = systems  # by path, of files that are systems
        self.places: dict[str, tuple[str, str]] = {}
        # The lowest rows by what is alike in them, and how many rows are so.
        self._lowest: dict[int, tuple[float, int, tuple[Any, ...]]] = {}
        self._alike: collections.Counter[int] = collections.Counter()
        self._scorer = ""
        self._count = 0

    def rows(self, path: str) -> Iterator[dict[str, Any]]:
        """Yields the rows of a file, whose corpus is then the name of their system."""
        for row in read_scored_rows(path_of(path)):
            fields = row["fields"]
            system = fields.get("system", self._systems.get(path))
            key = (_NO_CORPUS, row["corpus"]) if system is None else (row["corpus"], system)
            parts = key[1:] if system is None else key
            name = ", ".join(filter(None, (*parts, fields.get("replicate"))))
            self.places[name] = key
            self._note_lowest(row, key[1])
            yield {**row, "corpus": name}

    def _note_lowest(self, row: Mapping[str, Any], system: str) -> None:
        self._scorer = self._scorer or (*self._options.scorers, *row["scores"])[0]
        score = row["scores"].get(self._scorer)
        if score is None or not self._options.worst:
            return
        response = row["generated_text"] or ""
        query = row["history"][-1] if row["history"] else ""
        alike = hash((system, *lower_words(response)))
        self._alike[alike] += 1
        self._count += 1
        item = (score, self._count, (system, row["id"], score, _cut(query), _cut(response)))
        self._lowest[alike] = min(item, self._lowest.get(alike, item))
        if len(self._lowest) > 2 * self._options.worst:
            self._lowest = dict(self._worst())

    def _worst(self) -> list[tuple[int, tuple[float, int, tuple[Any, ...]]]]:
        return heapq.nsmallest(
            self._options.worst, self._lowest.items(), key=lambda entry: entry[1]
        )

    def worst(self) -> Table:
        """Returns the rows with the lowest score of the first scorer, the lowest first.

        Rows of a system whose responses have the same words are one, with their number.
        """
        lowest = [(row, self._alike[alike] - 1) for alike, (*_, row) in self._worst()]
        columns: tuple[str, ...] = ("system", "id", self._scorer, "query", "response")
        tidy = Table("", (*columns, "alike"), tuple((*row, more) for row, more in lowest))
        shown = [(*row[:-1], row[-1] + (f" (and {n} like it)" if n else "")) for row, n in lowest]
        if not any(query for *_, query, _ in shown):
            columns = (*columns[:3], columns[4])
            shown = [(*row[:3], row[4]) for row in shown]
        return Table(f"Lowest {self._scorer}", columns, tuple(shown), tidy=tidy)

    def has_corpora(self) -> bool:
        """Whether any rows say of which corpus they are."""
        return any(corpus != _NO_CORPUS for corpus, _ in self.places.values())


def on_shared_rows(
    grouped: Mapping[tuple[str, str], list[Corpus]], notes: list[str]
) -> dict[tuple[str, str], list[Corpus]]:
    """Returns systems on the rows that all of a corpus have: equal ids, the same groundings.

    Systems without such rows are no systems of one corpus: each is one of its own then.
    """
    regrouped: dict[tuple[str, str], list[Corpus]] = {}
    for corpus in dict.fromkeys(corpus for corpus, _ in grouped):
        systems = {system: members for (of, system), members in grouped.items() if of == corpus}
        every = [member for members in systems.values() for member in members]
        shared = _shared_ids(every)
        scorers = [name for name in every[0].scores if all(name in o.scores for o in every)]
        sizes = [len(member.ids) for member in every]
        if not shared or not scorers:
            regrouped |= {
                (f"rows of {system}", system): members for system, members in systems.items()
            }
            lacked = "scorers" if shared else "rows"
            notes.append(f"{', '.join(systems)}: have no {lacked} in common, and are not compared.")
            continue
        if lacking := {name for member in every for name in member.scores} - set(scorers):
            notes.append(
                f"{corpus}: left out, because not all systems have their scores: "
                f"{', '.join(sorted(lacking))}."
            )
            systems = {
                name: [o.only(scorers) for o in members] for name, members in systems.items()
            }
        if len(shared) < max(sizes):
            notes.append(
                f"{corpus}: compared on the {counted(len(shared), 'row')} that all systems "
                f"have with the same grounding; the largest has {max(sizes):,}."
            )
            systems = {
                name: [o.ordered(shared) for o in members] for name, members in systems.items()
            }
        regrouped |= {(corpus, system): members for system, members in systems.items()}
    return regrouped


def _shared_ids(corpora: Sequence[Corpus]) -> list[str]:
    """Returns the ids that all corpora have, with the same grounding where they have one."""
    groundings = [
        dict(zip(corpus.ids, corpus.hashes["grounding"].tolist(), strict=True))
        for corpus in corpora
    ]
    return [
        identifier
        for identifier in corpora[0].ids
        if all(identifier in hashes for hashes in groundings)
        and len({hashes[identifier] for hashes in groundings} - {0}) < 2
    ]


def _accuracy(files: Sequence[str], options: EvaluateOptions) -> Made:
    """Returns the table of accuracies; rows without a system are of their scorer."""
    places: dict[str, tuple[str, str]] = {}
    cut: dict[tuple[str, str], int] = {}

    def rows(path: str) -> Iterator[dict[str, Any]]:
        for row in read_scored_rows(path_of(path)):
            scorers = options.scorers or tuple(row["scores"])
            if len(scorers) != 1 or scorers[0] not in row["scores"]:
                raise InputError(
                    f"{path}: has scores of {', '.join(row['scores'])}; choose one of them with "
                    "--scorers=NAME."
                )
            place = (row["fields"].get("system") or scorers[0], row["corpus"])
            name = ", ".join(place)
            places[name] = place
            cut[place] = cut.get(place, 0) + (row["cut_tokens"].get(scorers[0], 0) > 0)
            yield {**row, "corpus": name, "scores": {scorers[0]: row["scores"][scorers[0]]}}

    systems: dict[str, dict[str, Corpus]] = {}
    for name, corpus in read_corpora({path: rows(path) for path in files}, only_fields()).items():
        system, of = places[name]
        systems.setdefault(system, {})[of] = corpus
    layout = _read_table(options.table, AccuracyLayout) if options.table else AccuracyLayout()
    drawn = options.resamples, options.confidence, options.seed
    table = protocols.accuracy_table(systems, layout, *drawn)
    cuts = [
        f"{count:,} of {len(systems[system][of].ids):,} by {system} on {layout.corpora.get(of, of)}"
        for (system, of), count in cut.items()
        if count
    ]
    notes = (f"Inputs that were cut: {'; '.join(cuts)}.",) if cuts else ()
    table = table._replace(notes=table.notes + notes)
    return table, {"rows": (table.tidy or table).records()}, {}, ()


def _read_table(path: str, schema: type[_Schema]) -> _Schema:
    try:
        return msgspec.json.decode(path_of(path).read_bytes(), type=schema)
    except storage_errors() as error:
        raise ConfigError(f"--table: {path}: cannot be read ({reason(error)}).") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"--table: {path}: is not the description of a table: {error}") from None


def _dialfact(files: Sequence[str], options: EvaluateOptions) -> Made:
    from faith_jax.input.score_input import dataset_rows

    claims = [dict(row.fields) for row in dataset_rows("", options.dataset, options.split)]
    bare = [claim["id"] for claim in claims if not any(map(str.strip, claim["evidence"]))]
    predictions = _predictions(files, bare)
    table = protocols.verification_table(
        claims, predictions, _draws(options), *cluster_fields(options)
    )
    confusion = protocols.confusion_table(claims, predictions)
    tables = {"rows": table, "confusion": confusion}
    figures = {name: (shown.tidy or shown).records() for name, shown in tables.items()}
    return table, figures, {}, (confusion,)


class _Prediction(msgspec.Struct):
    id: Text
    prediction: str  # a model may have answered with nothing


class _ClaimScores(msgspec.Struct):
    claim_supports: float
    claim_refutes: float
    claim_not_enough_info: float


class _ScoredClaim(msgspec.Struct):
    id: Text
    scores: _ClaimScores

    @property
    def prediction(self) -> str:
        """The most probable label."""
        return tuple(DialFactLabel)[int(np.argmax(msgspec.structs.astuple(self.scores)))].value


def _predictions(
    files: Sequence[str], without_evidence: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Returns the predicted labels by claim, of each file under its name.

    Files are predictions, or scores of the three labels; claims without evidence, which are not
    scored, are NOT ENOUGH INFO.
    """
    labels_by_file: dict[str, dict[str, str]] = {}
    for path in files:
        by_id = labels_by_file[path] = {}
        bare: Sequence[str] = ()
        for place, fields in read_jsonl(path):
            row: _Prediction | _ScoredClaim
            if "scores" in fields:
                row, bare = converted(fields, place, _ScoredClaim), without_evidence
            else:
                row = converted(fields, place, _Prediction)
            if row.id in by_id:
                raise InputError(f"{place}: field 'id': {row.id!r} occurs twice.")
            by_id[row.id] = row.prediction
        for identifier in bare:
            by_id.setdefault(identifier, DialFactLabel.NOT_ENOUGH_INFO.value)
    return labels_by_file


_PROTOCOLS = {
    "accuracy": _accuracy,
    "auc": _auc,
    "begin": _by_threshold,
    "dialfact": _dialfact,
    "npov": _npov,
    "npov_words": _npov,
    "pronouns": _pronouns,
    "verifiable": _by_threshold,
}
