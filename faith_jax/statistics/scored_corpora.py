"""Scored rows by corpus: labels and the scores of several scorers on the same rows.

Files may hold different corpora, or different scorers of the same corpus, which are then joined by
the ids of their rows.
"""

import array
import collections
import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, pluralize
from faith_jax.core.words import is_blank

# With fewer rows, intervals and tests say little.
_FEW_ROWS = 20
AVERAGE, OVERALL = "average", "overall"  # table columns for the corpora's mean, and for all rows
_OWN_CORPUS = (
    "compare systems with evaluate --protocol=systems; give different data a corpus each (score "
    "--corpus=NAME, or the field 'corpus')"
)
# Sums of float32 probabilities may lie slightly outside their range.
_TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The rows of one corpus.

    Attributes:
      labels: [rows]; 1 = faithful, 0 = not, NaN = unknown.
      scores: [rows], by scorer; NaN = undefined.
      responses: the scored texts; empty if any row lacks its text.
      fields: further fields of each row.
      words: for each scorer that has word scores, each row's words: start, end, score, and the
        number of the grounding's text; None = the response.
      is_empty: [rows]; 1 = the response is empty, 0 = it is not, NaN = unknown; empty = unknown.
      hashes: hashes of each row's "grounding" and "question", [rows] each; 0 = the row has none.
    """

    name: str
    ids: tuple[str, ...]
    labels: NDArray[np.float64]
    scores: Mapping[str, NDArray[np.float64]]
    responses: tuple[str, ...] = ()
    fields: tuple[Mapping[str, str], ...] = ()
    groundings: tuple[tuple[str, ...], ...] = ()
    words: Mapping[str, tuple[Sequence[Sequence[Any]], ...]] = dataclasses.field(
        default_factory=dict
    )
    is_empty: NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros(0))
    hashes: Mapping[str, NDArray[np.int64]] = dataclasses.field(default_factory=dict)

    def usable(self) -> NDArray[np.bool_]:
        """Returns which rows have a label and a defined score of every scorer: [rows]."""
        defined = ~np.isnan(self.labels)
        for values in self.scores.values():
            defined &= ~np.isnan(values)
        return defined

    def only(self, scorers: Sequence[str]) -> "Corpus":
        """Returns the corpus with some of its scorers, in the order given."""
        return dataclasses.replace(
            self,
            scores={name: self.scores[name] for name in scorers},
            words={name: self.words[name] for name in scorers if name in self.words},
        )

    def part(self, rows: NDArray[Any]) -> "Corpus":
        """Returns the corpus with some of its rows, given as row numbers or as a mask."""
        # If nothing is left out, nothing has to be copied.
        if rows.dtype == bool and rows.all():
            return self
        row_numbers = np.arange(len(self.ids))[rows].tolist()
        return dataclasses.replace(
            self,
            ids=tuple(self.ids[i] for i in row_numbers),
            labels=self.labels[row_numbers],
            scores={name: values[row_numbers] for name, values in self.scores.items()},
            responses=tuple(self.responses[i] for i in row_numbers) if self.responses else (),
            fields=tuple(self.fields[i] for i in row_numbers) if self.fields else (),
            groundings=tuple(self.groundings[i] for i in row_numbers) if self.groundings else (),
            words={name: tuple(rows[i] for i in row_numbers) for name, rows in self.words.items()},
            is_empty=self.is_empty[row_numbers] if len(self.is_empty) else self.is_empty,
            hashes={name: values[row_numbers] for name, values in self.hashes.items()},
        )

    def counting_undefined(self, score: float) -> "Corpus":
        """Returns the corpus with undefined scores replaced by a score; NaN = unchanged."""
        scores = {n: np.where(np.isnan(values), score, values) for n, values in self.scores.items()}
        return dataclasses.replace(self, scores=scores)

    def places(self, ids: Sequence[str]) -> NDArray[np.intp]:
        """Returns the numbers of the rows with these ids."""
        places = {identifier: place for place, identifier in enumerate(self.ids)}
        return np.array([places[identifier] for identifier in ids], np.intp)

    def reorder(self, ids: Sequence[str]) -> "Corpus":
        """Returns the corpus with its rows in the order of these ids."""
        return self.part(self.places(ids))

    def field(self, name: str, remedy: str = "") -> list[str]:
        """Returns a field of all rows; raises an InputError with the remedy if a row lacks it."""
        for identifier, fields in zip(self.ids, self.fields, strict=True):
            if name not in fields:
                names = ", ".join(fields) or "none"
                raise InputError(
                    f"{self.name}: row {identifier!r} has no field {name!r}; it has: {names}."
                    f"{remedy}"
                )
        return [fields[name] for fields in self.fields]


class Kept(NamedTuple):
    """The parts of rows that are kept besides ids, labels and scores; by default all of them.

    `fields` are the names of the fields to keep; None = all. With `same_grounding`, rows with the
    same id must have the same grounding in all files.
    """

    texts: bool = True
    groundings: bool = True
    words: bool = True
    fields: Collection[str] | None = None
    same_grounding: bool = True


EVERYTHING = Kept()


def only_fields(*names: str) -> Kept:
    """Keeps only the scores and these fields; empty names are ignored."""
    return Kept(False, False, False, tuple(filter(None, names)))


def read_corpora(
    files: Mapping[str, Iterable[Mapping[str, Any]]], selection: Kept = EVERYTHING
) -> dict[str, Corpus]:
    """Returns the corpora that scored files hold, by name, in order of appearance.

    `files` maps paths to rows in the form of `faith_jax.export.scored_rows`, which are read once;
    only their selected parts stay in memory.

    Raises:
      InputError: on rows or files that do not fit together, and if there are no rows.
    """
    parts: dict[str, _HashedCorpus] = {}
    origin: dict[str, str] = {}
    for path, rows in files.items():
        columns: dict[str, _Columns] = {}
        for row in rows:
            name = row["corpus"]
            if name not in columns:
                columns[name] = _Columns(path, name, row["scores"], selection)
            columns[name].add(row)
        for name, read in columns.items():
            part = read.part()
            if name in parts:
                part = _join_parts(parts[name], part, origin[name], path, selection.same_grounding)
            # Errors when joining the next file name this one.
            parts[name], origin[name] = part, path
    if not parts:
        raise InputError(f"{', '.join(files)}: no scored rows.")
    return {name: part.corpus for name, part in parts.items()}


class _HashedCorpus(NamedTuple):
    """A corpus with hashes of its responses, [rows], for comparing files.

    The hashes are empty if a row lacks its text.
    """

    corpus: Corpus
    responses: NDArray[np.int64]


class _Columns:
    """The rows of one corpus in one file, column by column."""

    def __init__(self, path: str, name: str, scorers: Iterable[str], selection: Kept):
        self._path, self._name, self._kept = path, name, selection
        self._ids: list[str] = []
        # Arrays take 8 bytes a value; lists of Python floats take four times as much.
        self._labels = array.array("d")
        self._scores = {scorer: array.array("d") for scorer in scorers}
        self._response_hashes = array.array("q")
        self._hashes = {"grounding": array.array("q"), "question": array.array("q")}
        self._is_empty = array.array("d")
        self._lacks_text = False
        self._responses: list[str] = []
        self._groundings: list[tuple[str, ...]] = []
        self._fields: list[Mapping[str, str]] = []
        self._words: list[Mapping[str, Sequence[Sequence[Any]]]] = []
        self._known: dict[str, str] = {}  # interns equal values of fields
        self._told_missing: set[str] = set()
        self._systems: set[str | None] = set()

    def add(self, row: Mapping[str, Any]) -> None:
        """Adds a row; raises an InputError if it has other scorers than the rows before."""
        scores, selection = row["scores"], self._kept
        if scores.keys() != self._scores.keys():
            raise InputError(
                f"{self._path}: row {row['id']!r} of {self._name!r} has scores of "
                f"{', '.join(scores)}, others of {', '.join(self._scores)}."
            )
        text, grounding = row["generated_text"], tuple(row.get("grounding") or ())
        self._ids.append(row["id"])
        self._systems.add(row["fields"].get("system"))
        self._labels.append(math.nan if row["label"] is None else row["label"])
        for scorer, values in self._scores.items():
            score = scores[scorer]
            values.append(math.nan if score is None else score)
        self._lacks_text |= text is None
        # Texts may not be kept in memory; hashes are enough to detect files that do not fit. They
        # are Python's string hashes, which are stable only within one process.
        self._response_hashes.append(0 if text is None else hash(text))
        self._is_empty.append(math.nan if text is None else is_blank(text))
        history = row.get("history")
        self._hashes["grounding"].append(hash(grounding) if grounding else 0)
        self._hashes["question"].append(hash(history[-1]) if history else 0)
        if selection.texts and not self._lacks_text:
            self._responses.append(text)
        if selection.groundings:
            self._groundings.append(grounding)
        if selection.words:
            self._words.append(row.get("words") or {})
        if selection.fields is None or selection.fields:
            fields = row["fields"]
            field_names = fields.keys() if selection.fields is None else selection.fields
            # Keep all fields of the first row that lacks a field, for the error that lists them.
            missing = set(field_names) - fields.keys() - self._told_missing
            self._told_missing |= missing
            names = fields.keys() if missing else [name for name in field_names if name in fields]
            self._fields.append({n: self._known.setdefault(fields[n], fields[n]) for n in names})

    def part(self) -> _HashedCorpus:
        """Returns the corpus; raises an InputError if an id occurs twice."""
        if len(set(self._ids)) < len(self._ids):
            counts = collections.Counter(self._ids)
            twice = next(identifier for identifier, count in counts.items() if count > 1)
            remedy = (
                "Ids are unique in a corpus: score with another --id-column, or each file by "
                "itself, with a --corpus=NAME of its own or, of a system, a --system=NAME."
            )
            if len(self._systems) > 1:
                remedy = (
                    "The rows are of several systems: score each as a corpus of its own (faith-jax "
                    "score --corpus-column=system), or compare them (evaluate --protocol=systems)."
                )
            raise InputError(
                f"{self._path}: corpus {self._name!r} has the id {twice!r} twice. {remedy}"
            )
        corpus = Corpus(
            name=self._name,
            ids=tuple(self._ids),
            labels=np.array(self._labels),
            scores={scorer: np.array(values) for scorer, values in self._scores.items()},
            responses=() if self._lacks_text else tuple(self._responses),
            fields=tuple(self._fields),
            groundings=tuple(self._groundings),
            words={
                scorer: tuple(words.get(scorer, []) for words in self._words)
                for scorer in self._scores
                if any(scorer in words for words in self._words)
            },
            is_empty=np.array(self._is_empty),
            hashes={name: np.array(values, np.int64) for name, values in self._hashes.items()},
        )
        responses = np.array(self._response_hashes, np.int64)
        return _HashedCorpus(corpus, responses[:0] if self._lacks_text else responses)


def _join_parts(
    first_part: _HashedCorpus,
    second_part: _HashedCorpus,
    origin: str,
    path: str,
    same_grounding: bool,
) -> _HashedCorpus:
    """Returns a corpus with the scores of both, in the row order of the first."""
    first, second = first_part.corpus, second_part.corpus
    # Both must have the same rows, in any order.
    if missing := sorted(set(first.ids) ^ set(second.ids)):
        where = path if missing[0] in first.ids else origin
        raise InputError(
            f"{origin} and {path} hold different rows of {first.name!r}: {where} lacks "
            f"{missing[0]!r}, one of {pluralize(len(missing), 'row')} that only one of them has; "
            f"{_OWN_CORPUS}."
        )
    if twice := sorted(set(first.scores) & set(second.scores)):
        raise InputError(
            f"{origin} and {path} both have scores of {twice[0]} on {first.name!r}; {_OWN_CORPUS}."
        )
    places = second.places(first.ids)
    second = second.part(places)
    # Rows with equal ids must have equal texts, unless a file lacks them.
    responses, other_responses = first_part.responses, second_part.responses
    if len(other_responses):
        other_responses = other_responses[places]
        if len(responses):
            _check_equal(responses != other_responses, "responses", first, origin, path)
    if same_grounding:
        hashes, other_hashes = first.hashes["grounding"], second.hashes["grounding"]
        differing = (hashes != 0) & (other_hashes != 0) & (hashes != other_hashes)
        _check_equal(differing, "groundings", first, origin, path)
    # A sum with NaN is NaN: a label that one of the files lacks is not a contradiction.
    differing = ~((first.labels == second.labels) | np.isnan(first.labels + second.labels))
    _check_equal(differing, "labels", first, origin, path)
    # Values that one file lacks are taken from the other.
    labels = np.where(np.isnan(first.labels), second.labels, first.labels)
    corpus = dataclasses.replace(
        first,
        labels=labels,
        responses=first.responses or second.responses,
        groundings=first.groundings if any(first.groundings) else second.groundings,
        fields=tuple({**b, **a} for a, b in zip(first.fields, second.fields, strict=True)),
        scores={**first.scores, **second.scores},
        words={**first.words, **second.words},
        is_empty=np.where(np.isnan(first.is_empty), second.is_empty, first.is_empty),
        hashes={
            n: np.where(values == 0, second.hashes[n], values) for n, values in first.hashes.items()
        },
    )
    return _HashedCorpus(corpus, responses if len(responses) else other_responses)


def _check_equal(
    differing: NDArray[np.bool_], texts: str, corpus: Corpus, origin: str, path: str
) -> None:
    if differing.any():
        raise InputError(
            f"{origin} and {path} have different {texts} of {corpus.name!r}, row "
            f"{corpus.ids[int(np.argmax(differing))]!r}; {_OWN_CORPUS}."
        )


def chosen_scorers(corpora: Mapping[str, Corpus], scorers: Sequence[str]) -> dict[str, Corpus]:
    """Returns the corpora with only these scorers, in this order; empty = all."""
    for name, corpus in corpora.items():
        for scorer in scorers:
            if scorer not in corpus.scores:
                hint = did_you_mean(scorer, corpus.scores)
                raise InputError(
                    f"{name} has no scores of {scorer!r}, only of {', '.join(corpus.scores)}.{hint}"
                )
    names = tuple(dict.fromkeys(scorers))
    return {name: corpus.only(names) if names else corpus for name, corpus in corpora.items()}


def check_usable(corpora: Mapping[str, Corpus], labels: bool = True) -> None:
    """Raises an InputError if a corpus has no row with a label and scores of every scorer.

    With `labels` False, a corpus without any labels passes. One of several corpora must not have
    the name of a table column, `AVERAGE` or `OVERALL`.
    """
    if len(corpora) > 1 and (reserved := [n for n in (AVERAGE, OVERALL) if n in corpora]):
        raise InputError(
            f"{reserved[0]!r} is a column of the table itself; call this corpus, or this value of "
            "--slice-field, otherwise."
        )
    for name, corpus in corpora.items():
        if corpus.usable().any():
            continue
        labelled = corpus.part(~np.isnan(corpus.labels))
        if not labelled.ids:
            if not labels:
                continue
            raise InputError(
                f"{name}: no row has a label (1 or 0), which the figures need; name their column "
                "'label', or where faith-jax scores the rows give score --label-column=NAME. "
                "Without labels --protocol=systems compares systems."
            )
        undefined = ", ".join(
            f"{scorer} in {count:,}" for scorer, count in _count_undefined(labelled).items()
        )
        raise InputError(
            f"{name}: no row has a label and scores that are defined of every scorer; undefined: "
            f"{undefined} of {pluralize(len(labelled.ids), 'row')} with a label. Choose others "
            "with --scorers=NAMES (`faith-jax scorers` says what each can read), or, where the "
            "protocol takes it, count undefined scores as a value with --undefined=VALUE."
        )


def pool_corpora(name: str, corpora: Sequence[Corpus]) -> Corpus:
    """Returns the usable rows of corpora with the same scorers as one corpus, without texts."""
    usable = [corpus.part(corpus.usable()) for corpus in corpora]
    scores = {
        scorer: np.concatenate([corpus.scores[scorer] for corpus in usable])
        for scorer in corpora[0].scores
    }
    # Corpora may share ids; prefixing the corpus name makes them unique.
    ids = tuple(f"{corpus.name}/{identifier}" for corpus in usable for identifier in corpus.ids)
    hashes = {
        text: np.concatenate([corpus.hashes[text] for corpus in usable])
        for text in corpora[0].hashes
        if all(text in corpus.hashes for corpus in usable)
    }
    return Corpus(
        name,
        ids,
        np.concatenate([corpus.labels for corpus in usable]),
        scores,
        fields=tuple(fields for corpus in usable for fields in corpus.fields),
        hashes=hashes,
    )


def row_notes(corpora: Mapping[str, Corpus]) -> tuple[str, ...]:
    """Returns notes on rows that are left out and why, and on corpora with too few rows."""
    notes = []
    for name, corpus in corpora.items():
        labelled = ~np.isnan(corpus.labels)
        reasons = [
            f"{s} undefined in {n:,}" for s, n in _count_undefined(corpus.part(labelled)).items()
        ]
        if labelled.any() and not labelled.all():  # if no row has a label, none is needed
            reasons.insert(0, f"no label in {int((~labelled).sum()):,}")
        if reasons:
            notes.append(f"{name}: of {pluralize(len(labelled), 'row')}, {', '.join(reasons)}.")
    return (*notes, *few_rows({n: int(corpus.usable().sum()) for n, corpus in corpora.items()}))


def few_rows(sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Returns warnings for corpora with few rows; `sizes` has the number of rows by corpus."""
    few = {name: count for name, count in sizes.items() if 0 < count < _FEW_ROWS}
    if len(few) > 1:
        listed = ", ".join(f"{name} ({count:,})" for name, count in few.items())
        return (f"{listed}: so few rows can say little: figures may change much.",)
    return tuple(
        f"{name}: {pluralize(count, 'row')} can say little: figures may change much."
        for name, count in few.items()
    )


def _count_undefined(corpus: Corpus) -> dict[str, int]:
    """Returns the number of undefined scores of each scorer that has any."""
    counts = {name: int(np.isnan(values).sum()) for name, values in corpus.scores.items()}
    return {name: count for name, count in counts.items() if count}


class Range(NamedTuple):
    """The ends of a scorer's scale."""

    low: float
    high: float


def with_ensembles(
    corpora: Mapping[str, Corpus],
    ensembles: Mapping[str, Sequence[str]],
    range_of: Callable[[str], Range],
) -> dict[str, Corpus]:
    """Returns the corpora with ensembles as further scorers.

    An ensemble is the mean of its members' scores, after mapping each member's range to 0 to 1; it
    is NaN if a member is. A member "-NAME" counts as 1 less the mapped score. TRUE's ensemble has
    three scorers from 0 to 1 (Honovich 2022); without the mapping, scorers such as e-c, from -1 to
    1, would weigh more by the width of their scale.

    Raises:
      ConfigError: on a range without two finite ends in order.
      InputError: on a member without scores, an ensemble with the name of a scorer, and a score
        outside its range.
    """
    extended = dict(corpora)
    for name, members in ensembles.items():
        for corpus in extended.values():
            where = f"--ensemble: {corpus.name}: ensemble {name}"
            if name in corpus.scores:
                raise InputError(f"{where}: is a scorer's name; give the ensemble another.")
            for scorer in (member.removeprefix("-") for member in members):
                if scorer not in corpus.scores:
                    hint = did_you_mean(scorer, corpus.scores)
                    names = ", ".join(corpus.scores)
                    raise InputError(
                        f"{where}: there are no scores of {scorer!r}, only of {names}.{hint}"
                    )
            scaled = []
            for member in members:
                scorer = member.removeprefix("-")
                values = _scale_scores(
                    corpus.scores[scorer], range_of(member), f"{where}: {scorer}"
                )
                # A member where lower is better is mirrored, so that higher is better in the mean.
                scaled.append(values if member == scorer else 1 - values)
            scores = {**corpus.scores, name: np.mean(scaled, axis=0)}
            extended[corpus.name] = dataclasses.replace(corpus, scores=scores)
    return extended


def _scale_scores(values: NDArray[np.float64], scale: Range, where: str) -> NDArray[np.float64]:
    """Maps scores linearly, the scale's low end to 0 and its high end to 1."""
    low, high = scale
    if not (math.isfinite(high - low) and low < high):
        raise ConfigError(f"{where}: expected a finite range in order, got {low:g} to {high:g}.")
    outside = values[is_outside(values, low, high)]
    if outside.size:
        ends = f"{low:g} to {high:g}"
        raise InputError(f"{where}: the score {outside[0]:g} is outside of its range, {ends}.")
    # Linear, so that members keep their order and distances; clips rounding beyond the ends.
    return np.clip((values - low) / (high - low), 0.0, 1.0)


def is_outside(scores: NDArray[np.float64], low: float, high: float) -> NDArray[np.bool_]:
    """Returns which scores [rows] are outside a range by more than rounding."""
    return (scores < low - _TOLERANCE) | (scores > high + _TOLERANCE)
