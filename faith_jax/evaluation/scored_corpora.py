"""Scored rows by corpus: labels and the scores of several scorers on the same rows.

Files may hold different corpora, or different scorers of the same one; then they are joined by the
ids of their rows.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faith_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The rows of one corpus.

    Attributes:
      name: of the corpus.
      ids: of the rows.
      labels: [rows]; 1 = faithful, 0 = not, NaN = unknown.
      scores: for each scorer [rows]; NaN = undefined.
      responses: the texts that were scored.
      fields: for each row what else is known of it.
      groundings: the texts of each row's grounding.
      words: for each scorer that has them each row's words: start, end, score, and the number of
        the grounding's text, None = the response.
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

    def field(self, name: str) -> list[str]:
        """Returns a field of all rows.

        Raises:
          InputError: where a row lacks it.
        """
        for identifier, fields in zip(self.ids, self.fields, strict=True):
            if name not in fields:
                known = ", ".join(fields) or "none"
                raise InputError(
                    f"{self.name}: row {identifier!r} has no field {name!r}; it has: {known}."
                )
        return [fields[name] for fields in self.fields]


def read_corpora(files: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, Corpus]:
    """Returns the corpora that scored files hold, by name, in order of appearance.

    Args:
      files: the rows of each file by its path, in the form of `faith_jax.export.scored_rows`.

    Raises:
      InputError: for an id that a corpus has twice in a file, for files of the same corpus whose
        rows or labels differ, for a scorer that two files have on the same corpus, for rows with
        other scorers than the rest of their file, and where there are no rows.
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
        yield Corpus(
            name=name,
            ids=tuple(ids),
            labels=_numbers([row["label"] for row in members]),
            scores={s: _numbers([row["scores"][s] for row in members]) for s in scorers},
            responses=tuple(row["generated_text"] for row in members),
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
            f"{missing[0]!r}, one of {len(missing)} rows that only one of them has."
        )
    if both := sorted(set(first.scores) & set(second.scores)):
        raise InputError(f"{origin} and {path} both have scores of {both[0]} on {first.name!r}.")
    places = {identifier: place for place, identifier in enumerate(second.ids)}
    second = second.part(np.array([places[identifier] for identifier in first.ids]))
    differing = ~((first.labels == second.labels) | np.isnan(first.labels + second.labels))
    if differing.any():
        row = first.ids[int(np.argmax(differing))]
        raise InputError(f"{origin} and {path} have different labels of {first.name!r}, {row!r}.")
    labels = np.where(np.isnan(first.labels), second.labels, first.labels)
    return dataclasses.replace(
        first,
        labels=labels,
        scores={**first.scores, **second.scores},
        words={**first.words, **second.words},
    )
