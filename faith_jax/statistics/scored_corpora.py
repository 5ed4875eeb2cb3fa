"""Scored rows by corpus: labels and the scores of several scorers on the same rows.

Files may hold different corpora, or different scorers of the same one; then they are joined by the
ids of their rows.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.core.errors import ConfigError, InputError, counted, did_you_mean

# Fewer rows have intervals and tests that say little.
FEW_ROWS = 20
# Sums of float32 probabilities end a little beside their range.
_TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The rows of one corpus.

    Attributes:
      name: of the corpus.
      ids: of the rows.
      labels: [rows]; 1 = faithful, 0 = not, NaN = unknown.
      scores: by scorer [rows]; NaN = undefined.
      responses: the texts that were scored; empty where a row lacks its text.
      fields: for each row what else is known of it.
      groundings: the texts of each row's grounding.
      words: by scorer that has them each row's words: start, end, score, and the number of the
        grounding's text, None = the response.
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

    def usable(self) -> NDArray[np.bool_]:
        """Returns which rows have a label and a defined score of every scorer: [rows]."""
        known = ~np.isnan(self.labels)
        for values in self.scores.values():
            known &= ~np.isnan(values)
        return known

    def only(self, scorers: Sequence[str]) -> "Corpus":
        """Returns the corpus with some of its scorers, in the order given."""
        return dataclasses.replace(
            self,
            scores={name: self.scores[name] for name in scorers},
            words={name: self.words[name] for name in scorers if name in self.words},
        )

    def part(self, rows: NDArray[Any]) -> "Corpus":
        """Returns the corpus with some of its rows: numbers, or a truth value for each."""
        kept = np.arange(len(self.ids))[rows].tolist()
        return dataclasses.replace(
            self,
            ids=tuple(self.ids[i] for i in kept),
            labels=self.labels[kept],
            scores={name: values[kept] for name, values in self.scores.items()},
            responses=tuple(self.responses[i] for i in kept) if self.responses else (),
            fields=tuple(self.fields[i] for i in kept) if self.fields else (),
            groundings=tuple(self.groundings[i] for i in kept) if self.groundings else (),
            words={name: tuple(rows[i] for i in kept) for name, rows in self.words.items()},
        )

    def ordered(self, ids: Sequence[str]) -> "Corpus":
        """Returns the corpus with its rows in the order of these ids."""
        places = {identifier: place for place, identifier in enumerate(self.ids)}
        return self.part(np.array([places[identifier] for identifier in ids], int))

    def field(self, name: str) -> list[str]:
        """Returns a field of all rows; one that lacks it is an InputError."""
        for identifier, fields in zip(self.ids, self.fields, strict=True):
            if name not in fields:
                known = ", ".join(fields) or "none"
                raise InputError(
                    f"{self.name}: row {identifier!r} has no field {name!r}; it has: {known}."
                )
        return [fields[name] for fields in self.fields]


def read_corpora(files: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, Corpus]:
    """Returns the corpora that scored files hold, by name, in order of appearance.

    Files are the rows, in the form of `faith_jax.export.scored_rows`, by path.

    Raises:
      InputError: for rows or files that do not fit together, and where there are no rows.
    """
    found: dict[str, Corpus] = {}
    origin: dict[str, str] = {}
    for path, rows in files.items():
        for corpus in _corpora_of_file(path, rows):
            if corpus.name in found:
                corpus = _joined(found[corpus.name], corpus, origin[corpus.name], path)
            found[corpus.name], origin[corpus.name] = corpus, path
    if not found:
        raise InputError(f"{', '.join(files)}: no scored rows.")
    return found


def _corpora_of_file(path: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Corpus]:
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["corpus"], []).append(row)
    for name, members in by_name.items():
        ids = [row["id"] for row in members]
        if len(set(ids)) < len(ids):
            twice = next(i for i in ids if ids.count(i) > 1)
            raise InputError(f"{path}: corpus {name!r} has the id {twice!r} twice.")
        scorers = list(members[0]["scores"])
        for row in members:
            if set(row["scores"]) != set(scorers):
                raise InputError(
                    f"{path}: row {row['id']!r} of {name!r} has scores of "
                    f"{', '.join(row['scores'])}, others of {', '.join(scorers)}."
                )
        texts = [row["generated_text"] for row in members]
        yield Corpus(
            name=name,
            ids=tuple(ids),
            labels=_numbers([row["label"] for row in members]),
            scores={s: _numbers([row["scores"][s] for row in members]) for s in scorers},
            responses=() if None in texts else tuple(texts),
            fields=tuple(row["fields"] for row in members),
            groundings=tuple(tuple(row.get("grounding") or ()) for row in members),
            words={
                scorer: tuple((row.get("words") or {}).get(scorer, []) for row in members)
                for scorer in scorers
                if any(scorer in (row.get("words") or {}) for row in members)
            },
        )


def _numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values], np.float64)


def _joined(first: Corpus, second: Corpus, origin: str, path: str) -> Corpus:
    """Returns a corpus with the scores of both, on the rows of the first."""
    if missing := sorted(set(first.ids) ^ set(second.ids)):
        where = path if missing[0] in first.ids else origin
        raise InputError(
            f"{origin} and {path} hold different rows of {first.name!r}: {where} lacks "
            f"{missing[0]!r}, one of {counted(len(missing), 'row')} that only one of them has."
        )
    if both := sorted(set(first.scores) & set(second.scores)):
        raise InputError(f"{origin} and {path} both have scores of {both[0]} on {first.name!r}.")
    second = second.ordered(first.ids)
    _check_same_texts(first, second, origin, path)
    differing = ~((first.labels == second.labels) | np.isnan(first.labels + second.labels))
    if differing.any():
        row = first.ids[int(np.argmax(differing))]
        raise InputError(f"{origin} and {path} have different labels of {first.name!r}, {row!r}.")
    labels = np.where(np.isnan(first.labels), second.labels, first.labels)
    return dataclasses.replace(
        first,
        labels=labels,
        responses=first.responses or second.responses,
        groundings=first.groundings if any(first.groundings) else second.groundings,
        fields=tuple({**b, **a} for a, b in zip(first.fields, second.fields, strict=True)),
        scores={**first.scores, **second.scores},
        words={**first.words, **second.words},
    )


def _check_same_texts(first: Corpus, second: Corpus, origin: str, path: str) -> None:
    """Refuses to join other responses to those of equal ids; texts that a file lacks pass."""
    for what in ("responses", "groundings"):
        pairs = zip(first.ids, getattr(first, what), getattr(second, what), strict=False)
        for identifier, one, other in pairs:
            if one != other and one != () and other != ():
                raise InputError(
                    f"{origin} and {path} have different {what} of {first.name!r}, row "
                    f"{identifier!r}; if they are of different systems or data, give each a corpus "
                    "of its own (score --corpus=NAME, or the field 'corpus')."
                )


def chosen_scorers(corpora: Mapping[str, Corpus], scorers: Sequence[str]) -> dict[str, Corpus]:
    """Returns the corpora with these scorers only, in their order; none = all."""
    for name, corpus in corpora.items():
        for scorer in scorers:
            if scorer not in corpus.scores:
                hint = did_you_mean(scorer, corpus.scores)
                raise InputError(
                    f"{name} has no scores of {scorer!r}, only of {', '.join(corpus.scores)}.{hint}"
                )
    wanted = tuple(dict.fromkeys(scorers))
    return {name: corpus.only(wanted) if wanted else corpus for name, corpus in corpora.items()}


def check_usable(corpora: Mapping[str, Corpus], labels: bool = True) -> None:
    """Raises an InputError where a corpus has no row with a label and scores of every scorer.

    With `labels` False, a corpus without any labels passes.
    """
    for name, corpus in corpora.items():
        if corpus.usable().any():
            continue
        labelled = corpus.part(~np.isnan(corpus.labels))
        if not labelled.ids:
            if not labels:
                continue
            raise InputError(
                f"{name}: no row has a label (1 or 0), without which there is no AUC; see "
                "score --label-column."
            )
        undefined = ", ".join(
            f"{scorer} in {count:,}" for scorer, count in _undefined(labelled).items()
        )
        raise InputError(
            f"{name}: no row has a label and scores that are defined of every scorer; undefined: "
            f"{undefined} of {counted(len(labelled.ids), 'row')} with a label. Choose others with "
            "--scorers=NAMES; `faith-jax scorers` says what each can read."
        )


def row_notes(corpora: Mapping[str, Corpus]) -> tuple[str, ...]:
    """Returns which rows are left out and why, and where there are too few."""
    notes = []
    for name, corpus in corpora.items():
        known = ~np.isnan(corpus.labels)
        reasons = [f"{s} undefined in {n:,}" for s, n in _undefined(corpus.part(known)).items()]
        if not known.all():
            reasons.insert(0, f"no label in {int((~known).sum()):,}")
        if reasons:
            notes.append(f"{name}: of {counted(len(known), 'row')}, {', '.join(reasons)}.")
    return (*notes, *few_rows({n: int(corpus.usable().sum()) for n, corpus in corpora.items()}))


def few_rows(sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Returns a warning for each corpus with few rows; `sizes` has their number."""
    return tuple(
        f"{name}: {counted(count, 'row')} can say little: figures may change much."
        for name, count in sizes.items()
        if 0 < count < FEW_ROWS
    )


def _undefined(corpus: Corpus) -> dict[str, int]:
    """Returns for each scorer that leaves rows without a score how many."""
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

    An ensemble is the mean of its members' scores, each mapped to 0 to 1 by its range first; NaN
    where one of them is. TRUE's is of three scorers from 0 to 1 (Honovich 2022); others, such as
    e-c from -1 to 1, would otherwise count by the width of their scale.

    Raises:
      ConfigError: for a range without two finite ends in order.
      InputError: for a member without scores, an ensemble with the name of a scorer, and a score
        outside of its range.
    """
    found = dict(corpora)
    for name, members in ensembles.items():
        for corpus in found.values():
            where = f"--ensemble: {corpus.name}: ensemble {name}"
            if name in corpus.scores:
                raise InputError(f"{where}: is a scorer's name; give the ensemble another.")
            for member in members:
                if member not in corpus.scores:
                    hint = did_you_mean(member, corpus.scores)
                    known = ", ".join(corpus.scores)
                    raise InputError(
                        f"{where}: there are no scores of {member!r}, only of {known}.{hint}"
                    )
            scaled = [_scaled(corpus.scores[m], range_of(m), f"{where}: {m}") for m in members]
            scores = {**corpus.scores, name: np.mean(scaled, axis=0)}
            found[corpus.name] = dataclasses.replace(corpus, scores=scores)
    return found


def _scaled(values: NDArray[np.float64], scale: Range, where: str) -> NDArray[np.float64]:
    """Returns scores mapped linearly, the scale's low end to 0 and its high end to 1."""
    low, high = scale
    if not (math.isfinite(high - low) and low < high):
        raise ConfigError(f"{where}: expected a finite range in order, got {low:g} to {high:g}.")
    scaled = (values - low) / (high - low)
    outside = values[np.abs(scaled - 0.5) > 0.5 + _TOLERANCE]
    if outside.size:
        ends = f"{low:g} to {high:g}"
        raise InputError(f"{where}: the score {outside[0]:g} is outside of its range, {ends}.")
    return np.clip(scaled, 0.0, 1.0)
