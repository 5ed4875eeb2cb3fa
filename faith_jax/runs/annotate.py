"""The runs `annotate write`, `read` and `agreement`: errors in responses, marked by people."""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faith_jax.data.annotation_labels import (
    Label,
    Slice,
    Ties,
    combined,
    label_row,
    marks_row,
    slice_rows,
)
from faith_jax.data.annotation_marks import Annotations, read_annotations
from faith_jax.data.annotation_responses import AnnotationResponse, read_annotation_responses
from faith_jax.data.annotation_sheets import (
    ERRORS,
    FULL_ERRORS,
    AnnotationItem,
    sheet_format,
    sheet_text,
)
from faith_jax.data.augmentation.draws import draw
from faith_jax.errors import ConfigError, InputError, counted
from faith_jax.evaluation.annotation_agreement import (
    Agreement,
    RatedUnit,
    agreement_figures,
    agreement_rows,
    binary_agreement,
    marked_words,
)
from faith_jax.report.tables import rendered
from faith_jax.runs.outputs import check_outputs, write_text

ANNOTATOR = "{annotator}"
_ORGANIC = (Slice.FULL_ORGANIC, Slice.AMBIGUOUS_ORGANIC)
_PUBLISHED = (
    "Chang 2024, section 4.1.1 (another model's responses, 5 of 10 annotators each): alpha 0.60 "
    "for hallucination, 0.73 for coverage."
)


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How filled sheets are read.

    Attributes:
      input: the responses that the sheets were written from; "" = not checked against them.
      knowledge: see `write_sheets`.
      blank_is_no: an empty mark of an ambiguous error is a no, where the row is begun.
      complete: a row that is not annotated is an error.
    """

    input: str = ""
    knowledge: str = "procon_npov"
    blank_is_no: bool = False
    complete: bool = False


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
      input_path: the responses, see `faith_jax.data.annotation_responses`.
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
    responses = read_annotation_responses(pathlib.Path(input_path), knowledge)
    chosen = _sampled(responses, sample, seed)
    items = [response.item for response in chosen]
    lines = []
    for path, names in files.items():
        write_text(path, sheet_text(items, names, form))
        rows = counted(len(items) * max(1, len(names)), "row")
        told = f" for {', '.join(names)}" if names else ""
        lines.append(f"{path}: {counted(len(items), 'response')}, {rows} to fill in{told}")
    split = sum(response.by_sentence for response in chosen)
    if split:
        lines.append(
            f"{counted(split, 'response')} with arguments that are not in {knowledge}: there, each "
            "sentence counts as an argument (--knowledge=FOLDER names other topics)"
        )
    return lines


def _sheet_files(output: str, annotators: Sequence[str]) -> dict[str, Sequence[str]]:
    """Returns whose rows are in each file."""
    seen: dict[str, str] = {}
    for name in annotators:
        if name.casefold() in seen:
            raise ConfigError(
                f"--annotators: {name!r} is there twice, as {seen[name.casefold()]!r}."
            )
        seen[name.casefold()] = name
    if ANNOTATOR not in output:
        return {output: annotators}
    if not annotators:
        raise ConfigError(f"--output: {ANNOTATOR} in a name goes with --annotators; give them.")
    for name in annotators:
        if "/" in name or "\\" in name or "\0" in name:
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

    def rank(number: int) -> int:
        return draw(2**64, seed, "annotate", responses[number].item.id)

    drawn = sorted(range(len(responses)), key=rank)[:sample]
    return [responses[number] for number in sorted(drawn)]


def read_sheets(
    sheets: Sequence[str],
    output: str,
    labels: str = "",
    slices: str = "",
    ties: Ties = Ties.ERROR,
    options: ReadOptions | None = None,
) -> list[str]:
    """Reads filled sheets, writes what they say, and returns it in short, as lines.

    Args:
      sheets: the files.
      output: JSON lines, one row for each response and annotator.
      labels: JSON lines, one row for each response with the annotators' common label; "" =
        `output` with "_labels" behind its stem.
      slices: a folder for the test slices full_organic.jsonl and ambiguous_organic.jsonl; "" =
        none.
      ties: what a mark is that as many annotators affirm as deny.
      options: how sheets are read.

    Raises:
      FaithJaxError: for bad sheets and wrong options; nothing is written then.
    """
    options = options or ReadOptions()
    target = pathlib.Path(output)
    labels = labels or str(target.with_name(f"{target.stem}_labels.jsonl"))
    parts = {part: str(pathlib.Path(slices) / f"{part}.jsonl") for part in _ORGANIC if slices}
    _check_jsonl({"--output": output, "--labels": labels})
    check_outputs([*sheets, options.input], {"--output": output, "--labels": labels})
    if slices and pathlib.Path(slices).exists() and not pathlib.Path(slices).is_dir():
        raise ConfigError(f"--slices: {slices}: expected a folder, got a file.")
    found, others = _annotations(sheets, options)
    by_id = found.by_id()
    given = {name: combined(found.items[name], marks, ties) for name, marks in by_id.items()}
    kept = [label for label in given.values() if label is not None]
    texts = {
        output: _json_lines(marks_row(marks) for marks in found.marks),
        labels: _json_lines(label_row(label, others.get(label.item.id)) for label in kept),
    }
    for part, path in parts.items():
        texts[path] = _json_lines(slice_rows(kept, part, others))
    if slices:
        _make_folder(slices)
        check_outputs([*sheets, options.input], {f"--slices ({p})": p for p in parts.values()})
    for path, text in texts.items():
        write_text(path, text)
    return [
        _marks_line(output, found),
        _labels_line(labels, kept),
        *_tie_lines(kept, len(given), ties),
        *(_slice_line(path, part, kept) for part, path in parts.items()),
    ]


def _check_jsonl(outputs: Mapping[str, str]) -> None:
    for option, path in outputs.items():
        if pathlib.Path(path).suffix != ".jsonl":
            raise ConfigError(f"{option}: {path}: JSON lines are written; name a .jsonl file.")


def _make_folder(folder: str) -> None:
    try:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--slices: {folder}: cannot be made ({error.strerror}).") from None


def _annotations(
    sheets: Sequence[str], options: ReadOptions
) -> tuple[Annotations, dict[str, Mapping[str, Any]]]:
    """Returns what the sheets say, and by id what else the rows of the input say."""
    originals: dict[str, AnnotationItem] | None = None
    others: dict[str, Mapping[str, Any]] = {}
    if options.input:
        responses = read_annotation_responses(pathlib.Path(options.input), options.knowledge)
        originals = {response.item.id: response.item for response in responses}
        others = {response.item.id: response.fields for response in responses}
    paths = [pathlib.Path(sheet) for sheet in sheets]
    found = read_annotations(paths, originals, options.blank_is_no, options.complete)
    if not found.marks:
        raise InputError(
            f"{', '.join(sheets)}: none of {counted(len(found.empty), 'row')} is annotated yet; "
            f"fill in the columns {', '.join(ERRORS)}."
        )
    return found, others


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _marks_line(path: str, found: Annotations) -> str:
    people = counted(len(found.annotators()), "annotator")
    line = f"{path}: {counted(len(found.marks), 'row')} of {people}"
    if found.empty:
        line += f"; {counted(len(found.empty), 'row')} not annotated yet"
    return line


def _labels_line(path: str, labels: Sequence[Label]) -> str:
    counts = collections.Counter(label.slice for label in labels)
    full = {name: sum(label.answers[name] for label in labels) for name in FULL_ERRORS}
    listed = ", ".join(f"{name} {count:,}" for name, count in full.items())
    return (
        f"{path}: {counted(len(labels), 'response')}: {counts[Slice.ERROR_FREE]:,} error-free, "
        f"{counts[Slice.FULL_ORGANIC]:,} with a full error ({listed}), "
        f"{counts[Slice.AMBIGUOUS_ORGANIC]:,} with ambiguous errors only"
    )


def _tie_lines(labels: Sequence[Label], responses: int, ties: Ties) -> list[str]:
    if ties is Ties.DROP:
        dropped = responses - len(labels)
        return [f"{counted(dropped, 'response')} left out for ties"] if dropped else []
    tied = sum(bool(label.ties) for label in labels)
    if not tied:
        return []
    what = "as errors" if ties is Ties.ERROR else "as no errors"
    return [
        f"{counted(tied, 'response')} with as many yes as no to an error, taken {what} (--ties)"
    ]


def _slice_line(path: str, part: Slice, labels: Sequence[Label]) -> str:
    counts = collections.Counter(label.slice for label in labels)
    return (
        f"{path}: {counts[Slice.ERROR_FREE]:,} error-free against {counts[part]:,} "
        f"{'full' if part is Slice.FULL_ORGANIC else 'ambiguous'}"
    )


def agreement(
    sheets: Sequence[str],
    options: ReadOptions | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    json_path: str = "",
) -> str:
    """Returns the table of agreement between annotators, and writes its figures if asked to.

    Args:
      sheets: the files.
      options: how they are read.
      resamples: of the bootstrap over responses.
      confidence: of the intervals.
      seed: of the resamples.
      json_path: a file for all figures; "" = none.

    Raises:
      FaithJaxError: for bad sheets and wrong options.
    """
    options = options or ReadOptions()
    check_outputs([*sheets, options.input], {"--json": json_path})
    found, _ = _annotations(sheets, options)
    settings = (resamples, confidence, seed)
    marks = {name: binary_agreement(units, *settings) for name, units in _mark_units(found).items()}
    named = {
        name: binary_agreement(units, *settings) for name, units in _named_units(found).items()
    }
    table = agreement_rows(marks, named, confidence)
    table = table._replace(notes=_notes(found, marks, resamples))
    if json_path:
        told: dict[str, Any] = {"title": table.title, "notes": list(table.notes)}
        told |= {"annotators": list(found.annotators()), "rows": len(found.marks)}
        told |= {"not_annotated": len(found.empty), "resamples": resamples}
        told |= {"confidence": confidence, "seed": seed}
        told |= {
            name: {what: agreement_figures(figures) for what, figures in part.items()}
            for name, part in (("marks", marks), ("named", named))
        }
        write_text(json_path, json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    return rendered(table)


def _mark_units(found: Annotations) -> dict[str, list[RatedUnit]]:
    groups = found.by_id().values()
    units = {
        error: [RatedUnit([[one.answers[error]] for one in marks]) for marks in groups]
        for error in ERRORS
    }
    for name, errors in (("any full error", FULL_ERRORS), ("any error", ERRORS)):
        units[name] = [
            RatedUnit([[any(one.answers[error] for error in errors)] for one in marks])
            for marks in groups
        ]
    return units


def _named_units(found: Annotations) -> dict[str, list[RatedUnit]]:
    """Returns what annotators name in responses: words of spans, and arguments left out."""
    units: dict[str, list[RatedUnit]] = collections.defaultdict(list)
    for name, marks in found.by_id().items():
        item = found.items[name]
        full = [one.unsupported_spans for one in marks]
        both = [(*one.unsupported_spans, *one.partial_spans) for one in marks]
        units["unsupported words"].append(marked_words(item.response, full))
        units["unsupported or partial words"].append(marked_words(item.response, both))
        missing = [[label in one.missing_arguments for label in item.labels] for one in marks]
        units["missing arguments"].append(RatedUnit(missing))
    return units


def _notes(found: Annotations, marks: Mapping[str, Agreement], resamples: int) -> tuple[str, ...]:
    numbers = collections.Counter(len(group) for group in found.by_id().values())
    listed = ", ".join(
        f"{counted(count, 'response')} marked by {number}"
        for number, count in sorted(numbers.items(), reverse=True)
    )
    people = counted(len(found.annotators()), "annotator")
    notes = [f"{people}: {listed}."]
    if found.empty:
        notes.append(f"Not annotated yet: {counted(len(found.empty), 'row')}.")
    if max(numbers) < 2:
        return (*notes, "No response has two annotators, without whom there is no agreement.")
    notes.append(
        "yes %: of all ratings; the rest is of responses with two annotators or more. agreement %: "
        "pairs of annotators that say the same. Words are content words of the response."
    )
    if len(set(numbers) - {1}) > 1:
        notes.append("No Fleiss' kappa: responses have different numbers of annotators.")
    responses = marks["hallucination"].responses
    notes.append(
        f"Intervals: percentile bootstrap over {counted(responses, 'response')}, "
        f"{counted(resamples, 'resample')}."
    )
    return (*notes, _PUBLISHED)
