"""The command about people's judgements: annotate write, read and agreement."""

import argparse

from faith_jax.cli.evaluate_commands import check_numbers
from faith_jax.errors import ConfigError

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
    command = commands.add_parser(
        "annotate",
        help="sheets on which people mark errors in responses: write, read, agreement",
        description="Errors in generated responses, marked by people (Chang 2024, section 4.1): "
        "writes a sheet to fill in, reads it back as labels, and measures how far annotators "
        "agree.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = command.add_subparsers(dest="part", metavar="write|read|agreement", required=True)
    _add_write(parts)
    _add_read(parts)
    _add_agreement(parts)


def _part(
    parts: argparse._SubParsersAction, name: str, what: str, description: str, examples: str
) -> argparse.ArgumentParser:
    return parts.add_parser(
        name,
        help=what,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_write(parts: argparse._SubParsersAction) -> None:
    command = _part(
        parts,
        "write",
        "write a sheet to fill in",
        "Writes a sheet with the query, the numbered arguments and the response, and empty columns "
        "for marks.",
        _WRITE_EXAMPLES,
    )
    command.add_argument(
        "--input",
        required=True,
        metavar="FILE",
        help="responses: what t5x infer or faith-jax score wrote, or rows with id, query, "
        "pro_arguments and con_arguments (or a grounding) and response",
    )
    command.add_argument(
        "--output",
        required=True,
        metavar="SHEET",
        help=".csv (for spreadsheet programs) or .jsonl; with {annotator} in its name, a file for "
        "each",
    )
    command.add_argument(
        "--annotators",
        default="",
        metavar="NAMES",
        help="separated by commas; each gets all responses (without: annotators write their names)",
    )
    command.add_argument(
        "--sample", type=int, metavar="N", help="draw N of the responses (default: all)"
    )
    command.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    _add_knowledge(command)
    command.add_argument(
        "--overwrite", action="store_true", help="replace a sheet that is there, filled in or not"
    )
    command.set_defaults(run=_run_write)


def _add_knowledge(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--knowledge",
        default="procon_npov",
        metavar="FOLDER",
        help="topics by which the arguments in rows of t5x infer are told apart: a folder of the "
        "raw NPOV format or a sample's name (default: procon_npov)",
    )


def _add_read(parts: argparse._SubParsersAction) -> None:
    command = _part(
        parts,
        "read",
        "read filled sheets back as marks and labels",
        "Checks filled sheets and writes one row for each response and annotator, and one for each "
        "response with the label of the majority.",
        _READ_EXAMPLES,
    )
    _add_sheets(command)
    command.add_argument(
        "--output", required=True, metavar="MARKS", help=".jsonl: what each annotator says"
    )
    command.add_argument(
        "--labels",
        default="",
        metavar="LABELS",
        help=".jsonl: what the majority says, in rows that faith-jax score reads (default: "
        "MARKS_labels.jsonl)",
    )
    command.add_argument(
        "--slices",
        default="",
        metavar="FOLDER",
        help="write Chang 2024's test slices full_organic.jsonl and ambiguous_organic.jsonl too",
    )
    command.add_argument(
        "--ties",
        default="error",
        choices=("error", "no-error", "drop", "refuse"),
        help="where as many say yes as no: the response has the error (default), has it not, gets "
        "no label, or the sheets are refused",
    )
    command.set_defaults(run=_run_read)


def _add_sheets(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "sheets", nargs="+", metavar="SHEET", help=".csv (with commas, semicolons or tabs), .jsonl"
    )
    command.add_argument(
        "--input",
        default="",
        metavar="FILE",
        help="what the sheets were written from: texts must still be the same, and labels get its "
        "other fields, such as the topic",
    )
    _add_knowledge(command)
    command.add_argument(
        "--blank-is-no",
        action="store_true",
        help="in a row that is begun, an empty mark of an ambiguous error is a no",
    )
    command.add_argument(
        "--complete", action="store_true", help="refuse sheets with rows that are not annotated yet"
    )


def _add_agreement(parts: argparse._SubParsersAction) -> None:
    command = _part(
        parts,
        "agreement",
        "how far annotators agree",
        "Prints for each mark the share of yes, how often annotators agree, Krippendorff's alpha "
        "and Fleiss' kappa, and for spans and arguments the F1 between annotators.",
        _AGREEMENT_EXAMPLES,
    )
    _add_sheets(command)
    command.add_argument("--json", default="", metavar="PATH", help="write all figures")
    command.add_argument("--resamples", type=int, default=1000, metavar="N", help="default 1000")
    command.add_argument("--confidence", type=float, default=0.95, help="default 0.95")
    command.add_argument("--seed", type=int, default=0, help="default 0")
    command.set_defaults(run=_run_agreement)


def _run_write(options: argparse.Namespace) -> int:
    from faith_jax.runs import annotate

    names = [name.strip() for name in options.annotators.split(",") if name.strip()]
    check_numbers({"seed": options.seed})
    lines = annotate.write_sheets(
        options.input,
        options.output,
        names,
        options.sample,
        options.seed,
        options.knowledge,
        options.overwrite,
    )
    print("\n".join(lines))
    return 0


def _run_read(options: argparse.Namespace) -> int:
    from faith_jax.data.annotation_labels import Ties
    from faith_jax.runs import annotate

    lines = annotate.read_sheets(
        options.sheets,
        options.output,
        options.labels,
        options.slices,
        Ties(options.ties),
        annotate.ReadOptions(
            options.input, options.knowledge, options.blank_is_no, options.complete
        ),
    )
    print("\n".join(lines))
    return 0


def _run_agreement(options: argparse.Namespace) -> int:
    from faith_jax.runs import annotate

    check_numbers({"resamples": options.resamples, "seed": options.seed})
    if not 0 < options.confidence < 1:
        raise ConfigError(
            f"--confidence: expected a number between 0 and 1, got {options.confidence}."
        )
    text = annotate.agreement(
        options.sheets,
        annotate.ReadOptions(
            options.input, options.knowledge, options.blank_is_no, options.complete
        ),
        options.resamples,
        options.confidence,
        options.seed,
        options.json,
    )
    print(text, end="")
    return 0
