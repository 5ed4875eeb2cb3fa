"""The commands about people's judgements: annotate write, read and agreement."""

import argparse

from faith_jax.cli.parser import add_command, add_commands
from faith_jax.runs.options import AgreementOptions, ReadSheets, WriteSheets

_TEXT = """Makes and reads sheets on which people mark errors in responses.

Errors in generated responses, marked by people (Chang 2024, section 4.1): writes a sheet to fill
in, reads it back as labels, and measures how far annotators agree.

Examples:
  %(prog)s write --input=runs/responses/predictions.jsonl --output=sheet.csv
  %(prog)s read sheet.csv --output=marks.jsonl
  %(prog)s agreement sheet.csv

docs/annotation.md says what may stand in a sheet, and has instructions for annotators.
"""


def add_annotate_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `annotate` with its three parts."""
    command = add_command(commands, "annotate", _TEXT)
    parts = command.add_subparsers(dest="part", metavar="write|read|agreement", required=True)
    add_commands(parts, (Write, Read, Agreement))


class Write(WriteSheets):
    r"""Writes a sheet to fill in.

    It has the query, the numbered arguments and the response, and empty columns for marks.

    Examples:
      %(prog)s --input=runs/responses/predictions.jsonl --output=sheet.csv
      %(prog)s --input=responses.jsonl --output='sheet_{annotator}.csv' --annotators=ada,ben \
          --sample=100 --seed=1
    """

    def run(self) -> None:
        from faith_jax.runs.data.annotate import write_sheets

        print("\n".join(write_sheets(self)))


class Read(ReadSheets):
    r"""Reads filled sheets back as marks and labels.

    Checks them and writes one row for each response and annotator, and one for each response with
    the label of the majority.

    Examples:
      %(prog)s sheet_ada.csv sheet_ben.csv --output=marks.jsonl --input=responses.jsonl
      %(prog)s sheet_*.csv --output=marks.jsonl --labels=labels.jsonl --slices=slices --ties=drop

    then, for example:
      faith-jax score --scorers=npov_rouge1_hallucination,npov_rouge1_coverage \
          --input=slices/full_organic.jsonl --output=scores.jsonl
      faith-jax evaluate scores.jsonl --protocol=npov
    """

    def run(self) -> None:
        from faith_jax.runs.data.annotate import read_sheets

        print("\n".join(read_sheets(self)))


class Agreement(AgreementOptions):
    """Measures how far annotators agree.

    Prints for each mark the share of yes, how often annotators agree, Krippendorff's alpha and
    Fleiss' kappa, and for spans and arguments the F1 between annotators.

    Examples:
      %(prog)s sheet_ada.csv sheet_ben.csv
      %(prog)s sheets.jsonl --json=agreement.json --resamples=10000
    """

    def run(self) -> None:
        from faith_jax.runs.data.annotate import agreement

        print(agreement(self), end="")
