"""The runs `annotate write`, `read`, `agreement` and `ratings`: responses judged by people."""

import collections
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.annotation.agreement import agreement_table
from faith_jax.annotation.labels import Slice, Ties, combine_marks, label_row, slice_rows
from faith_jax.annotation.marks import Annotations, marks_row, read_annotations
from faith_jax.annotation.ratings import agreement_of_judges, assign_codes, forms, ratings_table
from faith_jax.annotation.responses import read_responses
from faith_jax.annotation.sheets import ERRORS, FULL_ERRORS, MARKS, sheet_format, sheet_text
from faith_jax.core.errors import ConfigError, InputError, pluralize
from faith_jax.core.files import (
    check_outputs,
    make_output_folder,
    reserve_outputs,
    write_json,
    write_jsonl,
    write_text,
)
from faith_jax.datasets.augmentation.draws import draw
from faith_jax.report.table_pages import render_table
from faith_jax.runs.options import AgreementOptions, RatingOptions, ReadSheets, Sheets, WriteSheets

_ANNOTATOR = "{annotator}"
_ORGANIC = {Slice.FULL_ORGANIC: "full", Slice.AMBIGUOUS_ORGANIC: "ambiguous"}


def _list_inputs_and_outputs(options: WriteSheets) -> tuple[list[str], dict[str, str]]:
    files = _sheet_files(options.output, options.annotators)
    return [options.input], {f"--output ({path})": path for path in files}


@reserve_outputs(_list_inputs_and_outputs)
def write_sheets(options: WriteSheets) -> list[str]:
    """Writes a sheet to fill in, or one for each annotator; returns lines that report on it."""
    output = options.output
    form = sheet_format(pathlib.Path(output))
    files = _sheet_files(output, options.annotators)
    for path in files:
        if pathlib.Path(path).exists() and not options.overwrite:
            raise ConfigError(
                f"--output: {path} exists already, and may be filled in; name another file, or "
                "give --overwrite."
            )
    questions = forms().get(options.questions)
    responses = read_responses(
        pathlib.Path(options.input), options.knowledge, several=bool(questions)
    )
    if options.sample is not None:
        ids = dict.fromkeys(response.example.id for response in responses)
        if not 1 <= options.sample <= len(ids):
            raise ConfigError(
                f"--sample: expected a number from 1 to {len(ids):,}, the responses that there "
                f"are, got {options.sample}."
            )
        by_draw = sorted(ids, key=lambda name: draw(2**64, options.seed, "annotate", name))
        drawn = set(by_draw[: options.sample])
        responses = [response for response in responses if response.example.id in drawn]
    unnamed: list[str] = []
    if questions:
        fields = {name for response in responses for name in response.fields}
        unnamed = [name for name in ("system", "corpus") if name not in fields]
        responses, _ = assign_codes(responses)
    columns = questions.columns if questions else MARKS
    examples = [response.example for response in responses]
    lines = []
    for path, names in files.items():
        write_text(path, sheet_text(examples, names, form, columns))
        rows = pluralize(len(examples) * max(1, len(names)), "row")
        for_whom = f" for {', '.join(names)}" if names else ""
        lines.append(f"{path}: {pluralize(len(examples), 'response')}, {rows} to fill in{for_whom}")
    if unnamed:
        lines.append(
            f"the responses have no field {' or '.join(map(repr, unnamed))}: `annotate ratings` "
            f"takes all as of one {' and one '.join(unnamed)}; add the field before people judge, "
            "if they are of several"
        )
    split = sum(response.by_sentence for response in responses)
    if split:
        lines.append(
            f"{pluralize(split, 'response')} with arguments that are not in {options.knowledge}: "
            "there, each sentence counts as an argument (--knowledge=FOLDER names other topics)"
        )
    return lines


def _sheet_files(output: str, annotators: Sequence[str]) -> dict[str, Sequence[str]]:
    """Returns the annotators whose rows are in each file."""
    if len({name.casefold() for name in annotators}) < len(annotators):
        raise ConfigError(f"--annotators: a name is given twice: {', '.join(annotators)}.")
    if _ANNOTATOR not in output:
        if len(annotators) > 1 and (braces := re.search(r"\{\w*\}", output)):
            raise ConfigError(f"--output: {braces[0]}: expected {_ANNOTATOR}, for a sheet of each.")
        return {output: annotators}
    if not annotators:
        raise ConfigError(f"--output: {_ANNOTATOR} in a name goes with --annotators; give them.")
    for name in annotators:
        if set(name) & set("/\\\0"):
            raise ConfigError(f"--annotators: {name!r} cannot be part of a file's name.")
    return {output.replace(_ANNOTATOR, name): [name] for name in annotators}


def _read_annotations(sheets: Sheets) -> tuple[Annotations, dict[str, Mapping[str, Any]]]:
    """Returns the annotations of sheets, and the other fields of the input's rows by id."""
    paths, originals, fields_by_id = [pathlib.Path(path) for path in sheets.sheets], None, {}
    if sheets.input:
        responses = read_responses(pathlib.Path(sheets.input), sheets.knowledge)
        originals = {response.example.id: response.example for response in responses}
        fields_by_id = {response.example.id: response.fields for response in responses}
    annotations = read_annotations(paths, originals, sheets.blank_is_no, sheets.complete)
    if not annotations.marks:
        raise InputError(
            f"{', '.join(sheets.sheets)}: none of {pluralize(len(annotations.empty), 'row')} is "
            f"annotated yet; fill in the columns {', '.join(ERRORS)}."
        )
    return annotations, fields_by_id


def _marks_and_labels(options: ReadSheets) -> tuple[list[str], dict[str, str]]:
    target = pathlib.Path(options.output)
    labels = options.labels or str(target.with_name(f"{target.stem}_labels.jsonl"))
    return [*options.sheets, options.input], {"--output": options.output, "--labels": labels}


@reserve_outputs(_marks_and_labels)
def read_sheets(options: ReadSheets) -> list[str]:
    """Reads filled sheets, writes marks and labels, and returns a summary as lines."""
    slices, ties = options.slices, Ties(options.ties)
    inputs, written_to = _marks_and_labels(options)
    output, labels = written_to.values()
    parts = {part: str(pathlib.Path(slices) / f"{part}.jsonl") for part in _ORGANIC if slices}
    for option, path in (("--output", output), ("--labels", labels)):
        if pathlib.Path(path).suffix != ".jsonl":
            raise ConfigError(f"{option}: {path}: JSON lines are written; name a .jsonl file.")
    annotations, fields_by_id = _read_annotations(options)
    by_id = annotations.by_id()
    combined_labels = [
        combine_marks(annotations.examples[name], marks, ties) for name, marks in by_id.items()
    ]
    kept_labels = [label for label in combined_labels if label is not None]
    rows = {
        output: [marks_row(marks) for marks in annotations.marks],
        labels: [label_row(label, fields_by_id.get(label.example.id)) for label in kept_labels],
    } | {path: list(slice_rows(kept_labels, part, fields_by_id)) for part, path in parts.items()}
    if slices:
        make_output_folder(slices, "--slices")
        check_outputs(inputs, {f"--slices ({path})": path for path in parts.values()})
    for path, written in rows.items():
        write_jsonl(path, written)
    waiting = (
        f"; {pluralize(len(annotations.empty), 'row')} not annotated yet"
        if annotations.empty
        else ""
    )
    marked = pluralize(len(annotations.marks), "row")
    people = pluralize(len(annotations.annotators()), "annotator")
    counts = collections.Counter(label.slice for label in kept_labels)
    free, full, ambiguous = (f"{counts[part]:,}" for part in Slice)
    errors = {name: sum(label.answers[name] for label in kept_labels) for name in FULL_ERRORS}
    listed = ", ".join(f"{name} {count:,}" for name, count in errors.items())
    lines = [
        f"{output}: {marked} of {people}{waiting}",
        f"{labels}: {pluralize(len(kept_labels), 'response')}: {free} error-free, {full} with a "
        f"full error ({listed}), {ambiguous} with ambiguous errors only",
    ]
    if dropped := len(combined_labels) - len(kept_labels):
        lines.append(f"{pluralize(dropped, 'response')} left out for ties")
    elif tied := sum(bool(label.ties) for label in kept_labels):
        treatment = "as errors" if ties is Ties.ERROR else "as no errors"
        responses = pluralize(tied, "response")
        lines.append(f"{responses} with as many yes as no to an error, taken {treatment} (--ties)")
    for part, path in parts.items():
        lines.append(f"{path}: {free} error-free against {counts[part]:,} {_ORGANIC[part]}")
    return lines


@reserve_outputs(lambda options: ([*options.sheets, options.input], {"--json": options.json}))
def agreement(options: AgreementOptions) -> str:
    """Returns the table of agreement between annotators; writes its figures if requested."""
    annotations, _ = _read_annotations(options)
    table, figures = agreement_table(
        annotations, options.resamples, options.confidence, options.seed
    )
    if options.json:
        write_json(options.json, figures)
    return render_table(table)


@reserve_outputs(lambda options: ([*options.sheets, *options.input], {"--json": options.json}))
def ratings(options: RatingOptions) -> str:
    """Returns the paper's table of systems and judges' agreement; writes figures if requested."""
    form = forms()[options.questions]
    responses, places = assign_codes(
        response
        for path in options.input
        for response in read_responses(pathlib.Path(path), several=True)
    )
    originals = {response.example.id: response.example for response in responses}
    paths = [pathlib.Path(path) for path in options.sheets]
    annotations = read_annotations(paths, originals, columns=form.columns, parse=form.marks)
    if not annotations.marks:
        raise InputError(f"{', '.join(options.sheets)}: no row is filled in yet.")
    table = ratings_table(form, annotations, places, options.baseline)
    judges = pluralize(len(annotations.annotators()), "judge")
    rows = f"{pluralize(len(annotations.marks), 'row')} of {judges}"
    note = f"Filled in: {rows}; {len(annotations.empty):,} empty."
    table = table._replace(notes=(note, *table.notes))
    agreed = agreement_of_judges(form, annotations, places)
    if options.json:
        figures = {"rows": table.records(), "agreement": agreed.records()}
        write_json(options.json, {"title": table.title, "notes": list(table.notes), **figures})
    return f"{render_table(table)}\n{render_table(agreed)}"
