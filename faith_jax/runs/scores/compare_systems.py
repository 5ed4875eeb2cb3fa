"""Compares systems on the rows that they share: the protocol `systems` of `faith-jax evaluate`."""

import array
import collections
import heapq
import itertools
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from faith_jax.core.errors import ConfigError, did_you_mean, join_in_sentence, pluralize
from faith_jax.core.files.stores import path_of
from faith_jax.core.table import Table
from faith_jax.core.words import lower_words
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.runs.options import Comparison, EvaluateOptions
from faith_jax.runs.scores.protocols import (
    Evaluation,
    EvaluationProtocol,
    check_several_rows,
    check_undefined,
    cluster_fields,
    read_layout,
    undefined_score,
)
from faith_jax.scoring.judges.card import preset_names, read_card
from faith_jax.scoring.registry import scorer_card, scorer_names
from faith_jax.statistics.detection import called_spans
from faith_jax.statistics.scored_corpora import (
    Corpus,
    Kept,
    chosen_scorers,
    is_outside,
    read_corpora,
)
from faith_jax.statistics.systems import Column, Layout, systems_table

_SHOWN = 100  # characters of a response in a table
_NAMED = 8  # most ids listed of rows with the same words
_NO_CORPUS = "rows"  # the corpus of systems whose rows name none
# Names of columns that may say which system wrote a response, or which model judged it.
_MODEL_FIELDS = ("model", "Model", "model_name")


class _ComparedSystems(NamedTuple):
    """Systems on the same rows: their table, the rows with the lowest scores, and the rows' ids."""

    table: Table
    worst: Table
    ids: Mapping[str, Sequence[str]]


def compare_systems(
    files: Sequence[str], options: EvaluateOptions, are_systems: bool = True
) -> _ComparedSystems:
    """Compares systems; a file without a field `system` is one, named after its corpus or file.

    Without --table, the columns are the mean of each scorer, and the share of rows below a score;
    the first system is the baseline unless --baseline or --compare names one; and rows that not all
    systems of a corpus have are left out. With `are_systems` False, the files are separate corpora,
    and their rows are not matched.
    """
    layout = read_layout(options.table, Layout) if options.table else Layout()
    system_rows = _SystemRows(options, {} if options.table else systems_by_file(files, options))
    references = [column.reference for column in layout.columns.values() if not column.scorer]
    fields = [*references, *cluster_fields(options)]
    # With --table, scorers may compare the same responses with different groundings.
    selection = Kept(bool(references), False, False, fields, same_grounding=not options.table)
    corpora = read_corpora({path: system_rows.rows(path) for path in files}, selection)
    chosen = chosen_scorers(corpora, options.scorers)
    check_undefined(chosen, options)
    grouped: dict[tuple[str, str], list[Corpus]] = {}
    for name, corpus in chosen.items():
        grouped.setdefault(system_rows.places[name], []).append(corpus)
    notes: list[str] = []
    if are_systems and not options.table:
        grouped = _pair_systems(grouped, system_rows, notes)
    names_corpus = any(of != _NO_CORPUS for of, _ in grouped)
    if not are_systems:
        grouped = {(f"{of} of {name}", name): members for (of, name), members in grouped.items()}
    elif not options.table:
        grouped = _on_shared_rows(grouped, notes)
    baselines = _choose_baselines(options, [system for _, system in grouped])
    if are_systems:
        _check_compared(grouped, baselines, options, notes)
    names = dict.fromkeys(name for corpora in grouped.values() for name in corpora[0].scores)
    if options.table:
        names = {c.scorer: None for c in layout.columns.values() if c.scorer in names}
    bounds = {name: _find_bounds(name, grouped, notes) for name in names}
    if options.table:
        columns = {
            name: msgspec.structs.replace(column, bounds=column.bounds or bounds.get(column.scorer))
            for name, column in layout.columns.items()
        }
    else:
        columns = _build_scorer_columns(bounds, options, notes)
    table = systems_table(
        grouped,
        msgspec.structs.replace(layout, columns=columns),
        baselines,
        options.confidence,
        options.cluster_field,
        differences=not options.table,
        undefined=undefined_score(options),
    )
    table = table._replace(notes=(*table.notes, *notes, *system_rows.model_notes()))
    if not options.table and not names_corpus:
        table = _without_corpus_column(table)
        if not are_systems:
            table = table._replace(title="Means", columns=("corpus", *table.columns[1:]))
    return _ComparedSystems(table, system_rows.worst(), {n: c.ids for n, c in corpora.items()})


def _choose_baselines(options: EvaluateOptions, systems: Sequence[str]) -> dict[str, str]:
    """Returns the baseline of each system that has one."""
    baselines: dict[str, str] = {}
    for text in options.compare:
        system, _, rival = text.rpartition(":")
        if not (system and rival) or system == rival:
            raise ConfigError(f"--compare: expected SYSTEM:BASELINE, got {text!r}.")
        if other := options.baseline or baselines.get(system):
            raise ConfigError(
                f"--compare={text}: {system} is compared with {other} already; a system has one "
                "baseline in a table, so compare it with another one in a second run."
            )
        baselines[system] = rival
    baseline = options.baseline or ("" if baselines or options.table else systems[0])
    return {name: baseline for name in systems if name != baseline} if baseline else baselines


def _pair_systems(
    grouped: Mapping[tuple[str, str], list[Corpus]], system_rows: "_SystemRows", notes: list[str]
) -> dict[tuple[str, str], list[Corpus]]:
    """Returns systems by corpus and name, so that those on the same rows have the same corpus.

    Rows without a system beside rows with one are of a system with the name of their corpus. If
    each system has a file and a corpus of its own, and some row of each has the same id, then
    corpora are names of files rather than different data, and have no names.
    """
    paired: dict[tuple[str, str], list[Corpus]] = {}
    for (corpus, system), members in grouped.items():
        is_beside = any(of == system for of, _ in grouped) and (system, system) not in grouped
        if corpus == _NO_CORPUS and is_beside:
            notes.append(f"Rows of {system} without a system count as the system {system!r}.")
            corpus = system
        paired[corpus, system] = members
    corpora = [of for of, _ in paired if of != _NO_CORPUS]
    systems = {system for _, system in paired}
    is_single = len(set(corpora)) == len(corpora) and len(systems) == len(paired)
    ids = [set(part.ids) for members in paired.values() for part in members]
    if is_single and not system_rows.shares_files and set.intersection(*ids):
        return {(_NO_CORPUS, system): members for (_, system), members in paired.items()}
    return paired


def _check_compared(
    grouped: Mapping[tuple[str, str], list[Corpus]],
    baselines: Mapping[str, str],
    options: EvaluateOptions,
    notes: list[str],
) -> None:
    """Adds a note if no system has a corpus in common with its baseline.

    Raises:
      ConfigError: so it is for a system and a baseline that the options name.
    """
    corpora: dict[str, list[str]] = {}
    for corpus, system in grouped:
        corpora.setdefault(system, []).append(corpus)
    apart = {
        system: baseline
        for system, baseline in baselines.items()
        if {system, baseline} <= corpora.keys() and not {*corpora[system]} & {*corpora[baseline]}
    }
    if not apart:
        return
    named = dict.fromkeys(itertools.chain(*apart.items()))
    where = "; ".join(f"{system} is in {', '.join(corpora[system])}" for system in named)
    remedy = "Systems are compared on a corpus that both have: score --corpus=NAME names it."
    if options.baseline or options.compare:
        pairs = join_in_sentence([f"{name} with {base}" for name, base in apart.items()])
        raise ConfigError(f"Cannot compare {pairs}: {' '.join(notes) or f'{where}. {remedy}'}")
    if len(apart) == len(baselines) and not notes:
        notes.append(f"No systems are compared: {where}. {remedy}")


def _find_bounds(
    scorer: str, grouped: Mapping[tuple[str, str], Sequence[Corpus]], notes: list[str]
) -> tuple[float, float] | None:
    """Returns the ends of a scorer's scale; None = the scale is unknown or unbounded."""
    if scorer not in scorer_names():
        return None
    card = scorer_card(scorer)
    all_scores = (corpus.scores.get(scorer) for corpora in grouped.values() for corpus in corpora)
    scores = np.concatenate([values for values in all_scores if values is not None])
    if is_outside(scores, card.low, card.high).any():
        notes.append(
            f"{scorer}: scores from {np.nanmin(scores):g} to {np.nanmax(scores):g} are beyond "
            f"the range of the scorer of this name, {card.low:g} to {card.high:g}, and are "
            "taken as another one's; a name of their own would say so."
        )
        return None
    return (card.low, card.high) if math.isfinite(card.high - card.low) else None


def _build_scorer_columns(
    bounds: Mapping[str, tuple[float, float] | None], options: EvaluateOptions, notes: list[str]
) -> dict[str, Column]:
    """Returns the columns of the scorers: their means, and the shares of rows below a score.

    On a scale from 0 to 1, a score that --below does not give is that of the authors, or 0.5.
    """
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
        if name not in bounds:
            hint = did_you_mean(name, bounds)
            raise ConfigError(f"--below: there are no scores of {name!r}.{hint}")
    cards = {name: read_card(name) for name in bounds if name in preset_names()}
    published = {name: card.threshold for name, card in cards.items() if card.threshold is not None}
    notes += [
        f"{name}: its authors find a response supported above {threshold:g}."
        for name, threshold in published.items()
        if name not in below
    ]
    by_default = {name for name, ends in bounds.items() if ends == (0.0, 1.0)} - below.keys()
    if by_default - published.keys():
        notes.append(
            "Scores rank answers; 0.5 is a place to look, no limit below which answers are wrong. "
            "Read from the lowest upwards, then say yours: --below=SCORER:VALUE."
        )
    below |= {name: published.get(name, 0.5) for name in by_default}
    columns = {}
    for name, ends in bounds.items():
        columns[name] = Column(name, bounds=ends)
        if name in below:
            title = f"{name} < {below[name]:g}, %"
            columns[title] = Column(name, below=below[name], high=0.01, digits=1)
    return columns


def _without_corpus_column(table: Table) -> Table:
    """Returns a table of rows that name no corpus without its first column, also in its notes."""
    notes, lead = [], f"{_NO_CORPUS}: "
    for note in table.notes:
        bare = note.removeprefix(lead)
        notes.append(note if bare == note else bare[:1].upper() + bare[1:])
    rows = tuple(row[1:] for row in table.rows)
    return table._replace(columns=table.columns[1:], rows=rows, notes=tuple(notes))


def systems_by_file(files: Sequence[str], options: Comparison) -> dict[str, str]:
    """Returns names for the files that are systems: those that share a corpus and a scorer.

    Files of one corpus without a common scorer belong to the same system and are joined.
    """
    named = options.score_columns
    firsts = {path: next(read_scored_rows(path_of(path), named), None) for path in files}
    plain = {path: row for path, row in firsts.items() if row and not row["fields"].get("system")}
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


def _shorten_text(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}\u2026"


class _SystemRows:
    """Collects, while rows are read, the system of each row and the rows with the lowest scores."""

    def __init__(self, options: EvaluateOptions, systems: Mapping[str, str]):
        self._options = options
        self._systems = systems  # names by path, of files that are systems
        self.places: dict[str, tuple[str, str]] = {}
        self.shares_files = False  # whether a file has rows of several systems or corpora
        self._models = collections.defaultdict[tuple[str, str], set[str]](set)
        # The lowest row of each group of rows with the same words, the group sizes, and the first
        # ids of each group.
        self._lowest: dict[int, tuple[float, int, tuple[Any, ...]]] = {}
        self._alike: collections.Counter[int] = collections.Counter()
        self._ids_alike = collections.defaultdict[int, list[str]](list)
        self._scorer = ""
        self._scores = array.array("d")

    def rows(self, path: str) -> Iterator[dict[str, Any]]:
        """Yields the rows of a file; their `corpus` is replaced by the name of their system."""
        keys = set[tuple[str, str]]()
        for row in read_scored_rows(path_of(path), self._options.score_columns):
            fields = row["fields"]
            system = fields.get("system") or self._systems.get(path)
            key = (row["corpus"], system) if system else (_NO_CORPUS, row["corpus"])
            keys.add(key)
            self.shares_files = len(keys) > 1 or self.shares_files
            parts = key if system else key[1:]
            for field in () if system else (name for name in _MODEL_FIELDS if name in fields):
                self._models[row["corpus"], field].add(fields[field])
            name = ", ".join(filter(None, (*parts, fields.get("replicate"))))
            self.places[name] = key
            self._scorer = self._scorer or (*self._options.scorers, *row["scores"])[0]
            score = row["scores"].get(self._scorer)
            if score is not None and self._options.worst:
                query = row["history"][-1] if row["history"] else ""
                text = row["generated_text"]
                text_hash = hash((key[1], *([row["id"]] if text is None else lower_words(text))))
                self._alike[text_hash] += 1
                if len(self._ids_alike[text_hash]) <= _NAMED:  # one more, which has its own column
                    self._ids_alike[text_hash].append(row["id"])
                self._scores.append(score)
                item = (
                    score,
                    len(self._scores),
                    (key[1], row["id"], score, _shorten_text(query), row),
                )
                self._lowest[text_hash] = min(item, self._lowest.get(text_hash, item))
                if len(self._lowest) > 2 * self._options.worst:
                    self._lowest = dict(self._list_worst_rows())
            yield {**row, "corpus": name}

    def model_notes(self) -> Iterator[str]:
        """Yields notes on fields that may name systems, but are not read as such."""
        for (corpus, field), models in self._models.items():
            if len(models) > 1:
                yield (
                    f"{corpus}: the {len(models)} values of {field!r} are taken as one system; if "
                    "they are systems to compare, call the field 'system'."
                )

    def _list_worst_rows(self) -> list[tuple[int, tuple[float, int, tuple[Any, ...]]]]:
        return heapq.nsmallest(
            self._options.worst, self._lowest.items(), key=lambda entry: entry[1]
        )

    def worst(self) -> Table:
        """Returns the rows with the lowest score of the first scorer, the lowest first.

        Rows of a system whose responses have the same words are merged into one that lists the ids.
        """
        columns: tuple[str, ...] = ("system", "id", self._scorer, "query", "response")
        rows, tidy_rows, has_marks = [], [], False
        # Half a score makes sense only on a scale from 0. The median is that of all responses: half
        # of a response's own score would mark no words in the worst ones.
        is_from_0 = self._scorer in scorer_names() and scorer_card(self._scorer).low == 0
        cut = float(np.median(self._scores)) / 2 if is_from_0 and self._scores else -math.inf
        for text_hash, (*_, (*cells, row)) in self._list_worst_rows():
            more = self._alike[text_hash] - 1
            response = marked = row["generated_text"] or ""
            # Puts words that score below the cut in brackets, neighbours together.
            low = called_spans(row["words"].get(self._scorer, ()), response, cut)
            for start, end in reversed(low):
                marked = f"{marked[:start]}[{marked[start:end]}]{marked[end:]}"
            has_marks = has_marks or marked != response
            tidy_rows.append((*cells, _shorten_text(response), more))
            ids = [other for other in self._ids_alike[text_hash] if other != row["id"]][:_NAMED]
            listed = ", ".join(ids) + (f" and {more - len(ids)} more" if more > len(ids) else "")
            rows.append((*cells, _shorten_text(marked) + (f" (also {listed})" if more else "")))
        tidy = Table("", (*columns, "alike"), tuple(tidy_rows))
        if not any(query for *_, query, _ in rows):
            columns = (*columns[:3], columns[4])
            rows = [(*row[:3], row[4]) for row in rows]
        marks = f" ([words] score less than {cut:.2g}, half of the median score)"
        note = marks if has_marks else ""
        return Table(f"Lowest {self._scorer}{note}", columns, tuple(rows), tidy=tidy)


def _on_shared_rows(
    grouped: Mapping[tuple[str, str], list[Corpus]], notes: list[str]
) -> dict[tuple[str, str], list[Corpus]]:
    """Returns systems on the rows that all systems of a corpus share.

    Shared rows have the same id and the same grounding, or the same question if systems retrieve
    their own groundings. Systems that share no rows are treated as corpora of their own.
    """
    regrouped: dict[tuple[str, str], list[Corpus]] = {}
    for corpus in dict.fromkeys(corpus for corpus, _ in grouped):
        systems = {system: members for (of, system), members in grouped.items() if of == corpus}
        all_parts = [member for members in systems.values() for member in members]
        texts_by_id = []
        for member in all_parts:
            hashes = (member.hashes[text].tolist() for text in ("grounding", "question"))
            texts_by_id.append(dict(zip(member.ids, zip(*hashes, strict=True), strict=True)))
        in_all = [i for i in all_parts[0].ids if all(i in texts for texts in texts_by_id)]
        shared, retrieved, other_questions = [], 0, 0
        for identifier in in_all:
            texts = [texts[identifier] for texts in texts_by_id]
            questions = {question for _, question in texts}
            is_same = len({grounding for grounding, _ in texts} - {0}) < 2  # 0 = no grounding
            if is_same or (len(questions) == 1 and 0 not in questions):
                shared.append(identifier)
                retrieved += not is_same
                other_questions += len(questions - {0}) > 1
        scorers = [name for name in all_parts[0].scores if all(name in o.scores for o in all_parts)]
        sizes = [len(member.ids) for member in all_parts]
        if not shared or not scorers:
            regrouped |= {
                (f"rows of {system}", system): members for system, members in systems.items()
            }
            lacked = "scorers" if shared else "rows"
            if in_all and not shared:
                lacked += " of the same grounding or question"
            remedy = "" if shared else " Rows are paired by their ids (score --id-column)."
            notes.append(
                f"{', '.join(systems)}: have no {lacked} in common, and are not compared.{remedy}"
            )
            continue
        if retrieved:
            notes.append(
                f"{corpus}: in {pluralize(retrieved, 'row')} the systems have other groundings for "
                "the same question, so that what they retrieve is compared too."
            )
        if other_questions:
            notes.append(
                f"{corpus}: in {pluralize(other_questions, 'row')} the systems answer other "
                "questions about the same grounding. Rows without ids are paired by their numbers, "
                "which change where a row is left out: --id-column of score names the ids."
            )
        if lacking := {name for member in all_parts for name in member.scores} - set(scorers):
            notes.append(
                f"{corpus}: left out, because not all systems have their scores: "
                f"{', '.join(sorted(lacking))}."
            )
            systems = {
                name: [o.only(scorers) for o in members] for name, members in systems.items()
            }
        if len(shared) < max(sizes):
            notes.append(
                f"{corpus}: compared on the {pluralize(len(shared), 'row')} that all systems "
                f"have with the same grounding or question; the largest has {max(sizes):,}."
            )
            systems = {
                name: [o.reorder(shared) for o in members] for name, members in systems.items()
            }
        regrouped |= {(corpus, system): members for system, members in systems.items()}
    return regrouped


def _evaluate_systems(files: Sequence[str], options: EvaluateOptions) -> Evaluation:
    compared = compare_systems(files, options)
    check_several_rows(compared.ids)
    table, worst, _ = compared
    figures = {"rows": table.records()}
    if worst.rows:
        figures["worst"] = worst.records()
    return Evaluation(table, figures, {}, (worst,) if worst.rows else ())


SYSTEMS = EvaluationProtocol(
    _evaluate_systems,
    frozenset(
        ("baseline", "compare", "below", "worst", "table", "cluster_field", "undefined")
        + ("confidence", "scorers")
    ),
)
