"""The command about people's judgements: annotate write, read and agreement."""

import argparse
from collections.abc import Callable
from typing import Any

from faith_jax.cli.evaluate_commands import check_numbers
from faith_jax.core.errors import ConfigError

_EXAMPLES = """examples:
  %(prog)s write --input=runs/responses/predictions.jsonl --output=sheet.csv
  %(prog)s read sheet.csv --output=marks.jsonl
  %(prog)s agreement sheet.csv

docs/annotation.md says what may stand in a sheet, and has instructions for annotators.
"""
_WRITE_EXAMPLES = """examples:
  %(prog)s --input=runs/responses/predictions.jsonl --output=sheet.csv
  %(prog)s --input=responses.jsonl --output='sheet_{annotator}.csv' --annotators=ada,ben \\
      --sample=100 --seed=1
"""
_READ_EXAMPLES = """examples:
  %(prog)s sheet_ada.csv sheet_ben.csv --output=marks.jsonl --input=responses.jsonl
  %(prog)s sheet_*.csv --output=marks.jsonl --labels=labels.jsonl --slices=slices --ties=drop

then, for example:
  faith-jax score --scorers=npov_rouge1_hallucination,npov_rouge1_coverage \\
      --input=slices/full_organic.jsonl --output=scores.jsonl
  faith-jax evaluate scores.jsonl --protocol=npov
"""
_AGREEMENT_EXAMPLES = """examples:
  %(prog)s sheet_ada.csv sheet_ben.csv
  %(prog)s sheets.jsonl --json=agreement.json --resamples=10000
"""


def add_annotate_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `annotate` with its three parts."""
    command = _add(
        commands, "annotate",
        "sheets on which people mark errors in responses: write, read, agreement",
        "Errors in generated responses, marked by people (Chang 2024, section 4.1): writes a sheet "
        "to fill in, reads it back as labels, and measures how far annotators agree.", _EXAMPLES,
    )  # fmt: skip
    parts = command.add_subparsers(dest="part", metavar="write|read|agreement", required=True)
    write = _add(
        parts, "write", "write a sheet to fill in",
        "Writes a sheet with the query, the numbered arguments and the response, and empty columns "
        "for marks.", _WRITE_EXAMPLES,
    )  # fmt: skip
    read = _add(
        parts, "read", "read filled sheets back as marks and labels",
        "Checks filled sheets and writes one row for each response and annotator, and one for each "
        "response with the label of the majority.", _READ_EXAMPLES,
    )  # fmt: skip
    agreement = _add(
        parts, "agreement", "how far annotators agree",
        "Prints for each mark the share of yes, how often annotators agree, Krippendorff's alpha "
        "and Fleiss' kappa, and for spans and arguments the F1 between annotators.",
        _AGREEMENT_EXAMPLES,
    )  # fmt: skip
    _add_write(write.add_argument)
    _add_read(read.add_argument)
    _add_agreement(agreement.add_argument)
    write.set_defaults(run=_run_write)
    read.set_defaults(run=_run_read)
    agreement.set_defaults(run=_run_agreement)


def _add(
    commands: argparse._SubParsersAction, name: str, told: str, description: str, examples: str
) -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(
        name, help=told, description=description, epilog=examples, formatter_class=form
    )


# Tables of options, laid out by hand.
# fmt: off


def _add_write(add: Callable) -> None:
    add("--input", required=True, metavar="FILE",
        help="responses: what t5x infer or faith-jax score wrote, or rows with id, query, "
        "pro_arguments and con_arguments (or a grounding) and response")
    add("--output", required=True, metavar="SHEET",
        help=".csv (for spreadsheet programs) or .jsonl; with {annotator} in its name, a file for "
        "each")
    add("--annotators", default="", metavar="NAMES",
        help="separated by commas; each gets all responses (without: annotators write their names)")
    add("--sample", type=int, metavar="N", help="draw N of the responses (default: all)")
    add("--seed", type=int, default=0, help="of the sample (default 0)")
    _add_knowledge(add)
    add("--overwrite", action="store_true", help="replace a sheet that is there, filled in or not")


def _add_read(add: Callable) -> None:
    _add_sheets(add)
    add("--output", required=True, metavar="MARKS", help=".jsonl: what each annotator says")
    add("--labels", default="", metavar="LABELS",
        help=".jsonl: what the majority says, in rows that faith-jax score reads (default: "
        "MARKS_labels.jsonl)")
    add("--slices", default="", metavar="FOLDER",
        help="write Chang 2024's test slices full_organic.jsonl and ambiguous_organic.jsonl too")
    add("--ties", default="error", choices=("error", "no-error", "drop", "refuse"),
        help="where as many say yes as no: the response has the error (default), has it not, gets "
        "no label, or the sheets are refused")


def _add_agreement(add: Callable) -> None:
    _add_sheets(add)
    add("--json", default="", metavar="PATH", help="write all figures")
    add("--resamples", type=int, default=1000, metavar="N", help="default 1000")
    add("--confidence", type=float, default=0.95, help="default 0.95")
    add("--seed", type=int, default=0, help="default 0")


def _add_sheets(add: Callable) -> None:
    add("sheets", nargs="+", metavar="SHEET", help=".csv (with commas, semicolons or tabs), .jsonl")
    add("--input", default="", metavar="FILE",
        help="what the sheets were written from: texts must still be the same, and labels get its "
        "other fields, such as the topic")
    _add_knowledge(add)
    add("--blank-is-no", action="store_true",
        help="in a row that is begun, an empty mark of an ambiguous error is a no")
    add("--complete", action="store_true",
        help="refuse sheets with rows that are not annotated yet")


def _add_knowledge(add: Callable) -> None:
    add("--knowledge", default="procon_npov", metavar="FOLDER",
        help="topics by which the arguments in rows of t5x infer are told apart: a folder of the "
        "raw NPOV format or a sample's name (default: procon_npov)")


# fmt: on
def _run_write(options: argparse.Namespace) -> int:
    from faith_jax.runs import annotate

    names = [name.strip() for name in options.annotators.split(",") if name.strip()]
    check_numbers({"seed": options.seed})
    files = options.input, options.output
    drawn = options.sample, options.seed
    lines = annotate.write_sheets(*files, names, *drawn, options.knowledge, options.overwrite)
    print("\n".join(lines))
    return 0


def _run_read(options: argparse.Namespace) -> int:
    from faith_jax.annotation.labels import Ties
    from faith_jax.runs import annotate

    files = options.output, options.labels, options.slices
    print("\n".join(annotate.read_sheets(_sheets(options), *files, Ties(options.ties))))
    return 0


def _run_agreement(options: argparse.Namespace) -> int:
    from faith_jax.runs import annotate

    check_numbers({"resamples": options.resamples, "seed": options.seed})
    if not 0 < options.confidence < 1:
        raise ConfigError(
            f"--confidence: expected a number between 0 and 1, got {options.confidence}."
        )
    settings = options.resamples, options.confidence, options.seed
    print(annotate.agreement(_sheets(options), *settings, options.json), end="")
    return 0


def _sheets(options: argparse.Namespace) -> Any:
    from faith_jax.runs.annotate import Sheets

    names = ("input", "knowledge", "blank_is_no", "complete")
    return Sheets(options.sheets, **{name: getattr(options, name) for name in names})
