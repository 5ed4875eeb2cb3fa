"""Ratings of systems' responses by judges who answer a paper's questions, and the paper's table.

Judges see neither system nor data set: a response is named by a hash of both and its row's id.
"""

import dataclasses
import hashlib
import json
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from faith_jax.annotation.marks import Annotations, Marks, is_blank_cell
from faith_jax.annotation.responses import AnnotationResponse
from faith_jax.annotation.sheets import SheetRow
from faith_jax.core.errors import InputError, field_error, pluralize
from faith_jax.core.table import DASH, Table
from faith_jax.core.types import GroundedExample
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.systems import Column, Layout, systems_table

NOTE = "note"
_UNNAMED = "responses"  # the name of a data set or system that rows do not name


class RatingQuestion(msgspec.Struct, frozen=True):
    """A question about a response; with `after`, asked only if an earlier one has that answer."""

    name: str
    answers: tuple[str, ...]
    after: tuple[str, str] | None = None


class RatingFigure(msgspec.Struct, frozen=True):
    """A column of the table: the share of judges who give an answer, or the mean of numbers.

    Attributes:
      question: the name of the question.
      answer: counts as 1; another answer, or none, counts as 0. "" = answers are numbers; no answer
        does not count.
      unit: the share that is shown as 1, named "one" in forms.json; 0.01 shows per cent.
      digits: after the decimal point.
    """

    question: str
    answer: str = ""
    unit: float = msgspec.field(default=1.0, name="one")
    digits: int = 2

    def value(self, answers: Mapping[str, str]) -> float | None:
        """Returns the number for a judge's answers; None = they do not count."""
        answer = answers.get(self.question)
        if self.answer:
            return float(answer == self.answer)
        return None if answer is None else float(answer)


class RatingForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The questions of a paper, its figures by column, and its coefficient of agreement."""

    title: str
    questions: tuple[RatingQuestion, ...]
    figures: Mapping[str, RatingFigure]
    coefficient: Literal["alpha", "kappa"]
    notes: tuple[str, ...]
    published: Mapping[str, Mapping[str, Mapping[str, float]]]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that judges fill in."""
        return (*(question.name for question in self.questions), NOTE)

    def marks(self, row: SheetRow, example: GroundedExample) -> Marks:
        """Returns the answers of a row that has some; an invalid answer is an InputError."""
        if not row.annotator:
            remedy = "write a name into each row"
            raise field_error(row.place, "annotator", "who judged the row", row.annotator, remedy)
        answers: dict[str, str] = {}
        for question in self.questions:
            cell, name = row.marks[question.name], question.name
            text, listed = str(cell).strip().casefold(), ", ".join(question.answers)
            if question.after and answers.get(question.after[0]) != question.after[1]:
                if not is_blank_cell(cell):
                    expected = f"nothing, unless {question.after[0]} = {question.after[1]}"
                    raise field_error(row.place, name, expected, cell, "clear one of the two")
            elif text not in question.answers:
                expected, remedy = f"one of {listed}", "write one, or clear the row's answers"
                raise field_error(row.place, name, expected, cell, remedy)
            else:
                answers[name] = text
        return Marks(example.id, row.annotator, row.place, answers, {}, str(row.marks[NOTE] or ""))


def forms() -> dict[str, RatingForm]:
    """Returns the forms by the names of their tables, as in `faith-jax reproduce`."""
    path = pathlib.Path(__file__).with_name("forms.json")
    return msgspec.json.decode(path.read_bytes(), type=dict[str, RatingForm])


def assign_codes(
    responses: Iterable[AnnotationResponse],
) -> tuple[list[AnnotationResponse], dict[str, tuple[str, ...]]]:
    """Returns responses with codes as ids, a row's sorted by code, and the meaning of each code.

    A code stands for the data set, the system, and the row's id with the replicate, if any. Two
    responses of one system to a row are an InputError.
    """
    places: dict[str, tuple[str, ...]] = {}
    by_row: dict[tuple[str, str], dict[str, AnnotationResponse]] = {}
    for response in responses:
        fields, identifier = response.fields, response.example.id
        corpus, system = (str(fields.get(name) or _UNNAMED) for name in ("corpus", "system"))
        place = corpus, system, f"{identifier} {fields.get('replicate', '')}".strip()
        code = f"r{hashlib.sha256(json.dumps(place).encode()).hexdigest()[:11]}"
        if code in places:
            raise InputError(
                f"{identifier!r}: {system} has two responses to this row of {corpus}; rows need "
                "the field 'system', or 'replicate', that tells them apart."
            )
        places[code] = place
        example = dataclasses.replace(response.example, id=code)
        by_row.setdefault((corpus, identifier), {})[code] = response._replace(example=example)
    return [codes[code] for codes in by_row.values() for code in sorted(codes)], places


def ratings_table(
    form: RatingForm,
    annotations: Annotations,
    places: Mapping[str, Sequence[str]],
    baseline: str = "",
) -> Table:
    """Returns the paper's table of systems, on the rows judged for all systems of a data set.

    `places` comes from `assign_codes`; systems are tested against `baseline`, if given. A data set
    without a row that is judged for all its systems is an InputError.
    """
    judged: dict[str, dict[str, dict[str, list[Marks]]]] = {}
    for code, marks in annotations.by_id().items():
        corpus, system, row = places[code]
        judged.setdefault(corpus, {}).setdefault(system, {})[row] = marks
    rows: dict[tuple[str, str], list[Corpus]] = {}
    notes = list(form.notes)
    for corpus, systems in judged.items():
        judgements = list(systems.values())
        shared = [row for row in judgements[0] if all(row in marks for marks in judgements)]
        if not shared:
            raise InputError(f"{corpus}: no row is judged for all systems; fill in more of them.")
        if more := len(set().union(*judgements)) - len(shared):
            left_out = f"{pluralize(more, 'row')} left out, judged for some of the systems only."
            notes.append(f"{corpus}: {left_out}")
        for system, by_row in systems.items():
            votes = [by_row[row] for row in shared]
            # Average over the judges of each response.
            scores = {
                name: np.array(
                    [np.mean(v) if v else math.nan for v in _compute_figure_values(figure, votes)]
                )
                for name, figure in form.figures.items()
            }
            texts = [annotations.examples[marks[0].id].grounding.texts for marks in votes]
            hashes = {"grounding": np.array([hash(text) for text in texts])}
            unknown = np.full(len(shared), math.nan)
            name = f"{corpus}, {system}"
            rows[corpus, system] = [Corpus(name, tuple(shared), unknown, scores, hashes=hashes)]
    answers = {question.name: question.answers for question in form.questions}
    columns = {}
    for name, figure in form.figures.items():
        low, *_, high = (0, 1) if figure.answer else map(float, answers[figure.question])
        columns[name] = Column(name, high=figure.unit, digits=figure.digits, bounds=(low, high))
    layout = Layout(form.title, columns, form.published, tuple(notes))
    table = systems_table(rows, layout, {s: baseline for _, s in rows if baseline not in ("", s)})
    # A value is undefined if its question was not asked, so --undefined does not apply.
    return table._replace(notes=tuple(note for note in table.notes if "--undefined" not in note))


def _compute_figure_values(
    figure: RatingFigure, judged: Iterable[Sequence[Marks]]
) -> list[list[float]]:
    """Returns the numbers for the answers of each response's judges."""
    answers = ([figure.value(mark.answers) for mark in marks] for marks in judged)
    return [[value for value in values if value is not None] for values in answers]


def agreement_of_judges(
    form: RatingForm, annotations: Annotations, places: Mapping[str, Sequence[str]]
) -> Table:
    """Returns the paper's coefficient of agreement for each figure, by data set."""
    by_corpus: dict[str, list[list[Marks]]] = {}
    for code, marks in annotations.by_id().items():
        by_corpus.setdefault(places[code][0], []).append(marks)
    rows = []
    for corpus, judged in by_corpus.items():
        for name, figure in form.figures.items():
            units: Sequence[Sequence[Any]] = _compute_figure_values(figure, judged)
            if form.coefficient == "kappa":  # over all answers, not one against the others
                units = [[mark.answers[figure.question] for mark in marks] for marks in judged]
            measure = fleiss_kappa if form.coefficient == "kappa" else interval_alpha
            rows.append((corpus, name, sum(len(unit) > 1 for unit in units), measure(units)))
    called = {"alpha": "Krippendorff's alpha", "kappa": "Fleiss' kappa"}[form.coefficient]
    note = (
        f"At most 1, 0 = by chance; of responses with two answers or more. {DASH}: there are none, "
        "all say the same, or, for Fleiss' kappa, numbers of judges differ."
    )
    columns = ("data", "figure", "responses", called)
    return Table("Agreement of judges", columns, tuple(rows), (note,))


def interval_alpha(units: Iterable[Sequence[float]]) -> float:
    """Returns Krippendorff's alpha of numbers, with squared differences.

    At most 1, 0 = agreement by chance. Units with fewer than two values do not count. NaN if all
    values are equal. For values 0 and 1 it equals the nominal alpha.

    >>> interval_alpha([[1, 1], [4, 4], [2, 2]]), interval_alpha([[1, 4], [4, 1]])
    (1.0, -0.5)
    """
    several = [np.asarray(unit, np.float64) for unit in units if len(unit) > 1]
    values = np.concatenate(several) if several else np.zeros(1)
    if np.ptp(values) == 0:
        return math.nan
    within = sum(len(unit) * unit.var(ddof=1) for unit in several)
    return float(1 - within / (len(values) * values.var(ddof=1)))


def fleiss_kappa(units: Iterable[Sequence[str]]) -> float:
    """Returns Fleiss' kappa of categories: at most 1, 0 = agreement by chance.

    Units with fewer than two answers do not count. NaN if all answers are the same, or if units
    have different numbers of answers.

    >>> fleiss_kappa([["agree", "agree"], ["neutral", "neutral"]])
    1.0
    """
    several = [list(unit) for unit in units if len(unit) > 1]
    categories = sorted({answer for unit in several for answer in unit})
    sizes = {len(unit) for unit in several}
    if len(categories) < 2 or len(sizes) > 1:
        return math.nan
    counts, (size,) = np.array([[u.count(c) for c in categories] for u in several]), sizes
    agreeing = (counts * (counts - 1)).sum() / (len(several) * size * (size - 1))
    chance = float(((counts.sum(axis=0) / counts.sum()) ** 2).sum())
    return float((agreeing - chance) / (1 - chance))
