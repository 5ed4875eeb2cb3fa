"""The runs `annotate write`, `read` and `agreement`: errors in responses, marked by people."""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faith_jax.annotation.agreement import agreement_table
from faith_jax.annotation.labels import Label, Slice, Ties, combined, label_row, slice_rows
from faith_jax.annotation.marks import Annotations, marks_row, read_annotations
from faith_jax.annotation.responses import AnnotationResponse, read_responses
from faith_jax.annotation.sheets import ERRORS, FULL_ERRORS, sheet_format, sheet_text
from faith_jax.core.errors import ConfigError, InputError, counted
from faith_jax.core.outputs import check_outputs, write_text
from faith_jax.datasets.augmentation.draws import draw
from faith_jax.report.tables import rendered

ANNOTATOR = "{annotator}"
_ORGANIC = {Slice.FULL_ORGANIC: "full", Slice.AMBIGUOUS_ORGANIC: "ambiguous"}


@dataclasses.dataclass(frozen=True)
class Sheets:
    """Filled sheets, and how to read them.

    Attributes:
      paths: the files.
      input: the responses that the sheets were written from; "" = not checked against them.
      knowledge: see `write_sheets`.
      blank_is_no: see `faith_jax.annotation.marks.read_annotations`, as for `complete`.
      complete: see above.
    """

    paths: Sequence[str]
    input: str = ""
    knowledge: str = "procon_npov"
    blank_is_no: bool = False
    complete: bool = False

    def read(self) -> tuple[Annotations, dict[str, Mapping[str, Any]]]:
        """Returns what the sheets say, and by id the other fields of the input's rows.

        Raises:
          FaithJaxError: for bad sheets, and where none of their rows is filled in.
        """
        paths, originals, others = [pathlib.Path(path) for path in self.paths], None, {}
        if self.input:
            responses = read_responses(pathlib.Path(self.input), self.knowledge)
            originals = {response.example.id: response.example for response in responses}
            others = {response.example.id: response.fields for response in responses}
        found = read_annotations(paths, originals, self.blank_is_no, self.complete)
        if not found.marks:
            raise InputError(
                f"{', '.join(self.paths)}: none of {counted(len(found.empty), 'row')} is annotated "
                f"yet; fill in the columns {', '.join(ERRORS)}."
            )
        return found, others


def write_sheets(
    input_path: str,
    output: str,
    annotators: Sequence[str] = (),
    sample: int | None = None,
    seed: int = 0,
    knowledge: str = "procon_npov",
    overwrite: bool = False,
) -> list[str]:
    """Writes a sheet to fill in, or one for each annotator, and returns what was done, as lines.

    Args:
      input_path: the responses, see `faith_jax.annotation.responses`.
      output: a .csv or .jsonl file; with "{annotator}" in its name, a file for each.
      annotators: each gets all responses; without any, annotators write their names themselves.
      sample: how many responses are drawn; None = all.
      seed: another seed is another sample. A response's luck does not depend on the others'.
      knowledge: where arguments in rows of `infer` are looked up.
      overwrite: replace sheets that are there, which may be filled in.

    Raises:
      FaithJaxError: for bad input and wrong options; nothing is written then.
    """
    form = sheet_format(pathlib.Path(output))
    files = _sheet_files(output, annotators)
    check_outputs([input_path], {f"--output ({path})": path for path in files})
    for path in files:
        if pathlib.Path(path).exists() and not overwrite:
            raise ConfigError(
                f"--output: {path} exists already, and may be filled in; name another file, or "
                "give --overwrite."
            )
    chosen = _sampled(read_responses(pathlib.Path(input_path), knowledge), sample, seed)
    examples = [response.example for response in chosen]
    lines = []
    for path, names in files.items():
        write_text(path, sheet_text(examples, names, form))
        rows = counted(len(examples) * max(1, len(names)), "row")
        told = f" for {', '.join(names)}" if names else ""
        lines.append(f"{path}: {counted(len(examples), 'response')}, {rows} to fill in{told}")
    split = sum(response.by_sentence for response in chosen)
    if split:
        lines.append(
            f"{counted(split, 'response')} with arguments that are not in {knowledge}: there, each "
            "sentence counts as an argument (--knowledge=FOLDER names other topics)"
        )
    return lines


def _sheet_files(output: str, annotators: Sequence[str]) -> dict[str, Sequence[str]]:
    """Returns whose rows are in each file."""
    if len({name.casefold() for name in annotators}) < len(annotators):
        raise ConfigError(f"--annotators: a name is there twice: {', '.join(annotators)}.")
    if ANNOTATOR not in output:
        return {output: annotators}
    if not annotators:
        raise ConfigError(f"--output: {ANNOTATOR} in a name goes with --annotators; give them.")
    for name in annotators:
        if set(name) & set("/\\\0"):
            raise ConfigError(f"--annotators: {name!r} cannot be part of a file's name.")
    return {output.replace(ANNOTATOR, name): [name] for name in annotators}


def _sampled(
    responses: Sequence[AnnotationResponse], sample: int | None, seed: int
) -> Sequence[AnnotationResponse]:
    if sample is None:
        return responses
    if not 1 <= sample <= len(responses):
        raise ConfigError(
            f"--sample: expected a number from 1 to {len(responses):,}, the responses that there "
            f"are, got {sample}."
        )
    ranks = [draw(2**64, seed, "annotate", response.example.id) for response in responses]
    drawn = sorted(range(len(responses)), key=ranks.__getitem__)[:sample]
    return [responses[number] for number in sorted(drawn)]


def read_sheets(
    sheets: Sheets, output: str, labels: str = "", slices: str = "", ties: Ties = Ties.ERROR
) -> list[str]:
    """Reads filled sheets, writes what they say, and returns it in short, as lines.

    Args:
      sheets: the files, and how to read them.
      output: JSON lines, one row for each response and annotator.
      labels: JSON lines, one row for each response with the annotators' common label; "" =
        `output` with "_labels" behind its stem.
      slices: a folder for the test slices full_organic.jsonl and ambiguous_organic.jsonl; "" =
        none.
      ties: what becomes of an error to which as many annotators say yes as no.

    Raises:
      FaithJaxError: for bad sheets and wrong options; nothing is written then.
    """
    target = pathlib.Path(output)
    labels = labels or str(target.with_name(f"{target.stem}_labels.jsonl"))
    parts = {part: str(pathlib.Path(slices) / f"{part}.jsonl") for part in _ORGANIC if slices}
    for option, path in (("--output", output), ("--labels", labels)):
        if pathlib.Path(path).suffix != ".jsonl":
            raise ConfigError(f"{option}: {path}: JSON lines are written; name a .jsonl file.")
    inputs = [*sheets.paths, sheets.input]
    check_outputs(inputs, {"--output": output, "--labels": labels})
    found, others = sheets.read()
    by_id = found.by_id()
    given = [combined(found.examples[name], marks, ties) for name, marks in by_id.items()]
    kept = [label for label in given if label is not None]
    texts = {
        output: _json_lines(marks_row(marks) for marks in found.marks),
        labels: _json_lines(label_row(label, others.get(label.example.id)) for label in kept),
    }
    for part, path in parts.items():
        texts[path] = _json_lines(slice_rows(kept, part, others))
    if slices:
        try:
            pathlib.Path(slices).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--slices: {slices}: cannot be made ({error.strerror}).") from None
        check_outputs(inputs, {f"--slices ({path})": path for path in parts.values()})
    for path, text in texts.items():
        write_text(path, text)
    waiting = f"; {counted(len(found.empty), 'row')} not annotated yet" if found.empty else ""
    rows = counted(len(found.marks), "row")
    people = counted(len(found.annotators()), "annotator")
    counts = collections.Counter(label.slice for label in kept)
    free = f"{counts[Slice.ERROR_FREE]:,} error-free"
    return [
        f"{output}: {rows} of {people}{waiting}",
        _labels_line(labels, kept),
        *_tie_lines(kept, len(given) - len(kept), ties),
        *(f"{p}: {free} against {counts[part]:,} {_ORGANIC[part]}" for part, p in parts.items()),
    ]


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _labels_line(path: str, labels: Sequence[Label]) -> str:
    counts = collections.Counter(label.slice for label in labels)
    free, full, ambiguous = (f"{counts[part]:,}" for part in Slice)
    errors = {name: sum(label.answers[name] for label in labels) for name in FULL_ERRORS}
    listed = ", ".join(f"{name} {count:,}" for name, count in errors.items())
    return (
        f"{path}: {counted(len(labels), 'response')}: {free} error-free, {full} with a full error "
        f"({listed}), {ambiguous} with ambiguous errors only"
    )


def _tie_lines(labels: Sequence[Label], dropped: int, ties: Ties) -> list[str]:
    if dropped:
        return [f"{counted(dropped, 'response')} left out for ties"]
    tied = sum(bool(label.ties) for label in labels)
    what = "as errors" if ties is Ties.ERROR else "as no errors"
    line = f"{counted(tied, 'response')} with as many yes as no to an error, taken {what} (--ties)"
    return [line] if tied else []


def agreement(
    sheets: Sheets,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    json_path: str = "",
) -> str:
    """Returns the table of agreement between annotators, and writes its figures if asked to.

    Args:
      sheets: the files, and how to read them.
      resamples: of the bootstrap over responses.
      confidence: of the intervals.
      seed: of the resamples.
      json_path: a file for all figures; "" = none.

    Raises:
      FaithJaxError: for bad sheets and wrong options.
    """
    check_outputs([*sheets.paths, sheets.input], {"--json": json_path})
    found, _ = sheets.read()
    table, figures = agreement_table(found, resamples, confidence, seed)
    if json_path:
        write_text(json_path, json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    return rendered(table)
