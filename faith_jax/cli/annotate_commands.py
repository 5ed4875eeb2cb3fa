"""The commands about people's judgements: annotate write, read and agreement."""

import argparse
import dataclasses
from typing import TYPE_CHECKING, Literal

from faith_jax.cli.evaluate_commands import check_numbers, listed_names
from faith_jax.cli.parser import add_command, add_commands
from faith_jax.core.errors import ConfigError

if TYPE_CHECKING:
    from faith_jax.runs.annotate import Sheets

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Knowledge:
    """Where arguments are looked up.

    Attributes:
      knowledge (FOLDER): topics by which the arguments in rows of t5x infer are told apart: a
        folder of the raw NPOV format or a sample's name
    """

    knowledge: str = "procon_npov"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Write(_Knowledge):
    r"""Writes a sheet to fill in.

    It has the query, the numbered arguments and the response, and empty columns for marks.

    Attributes:
      input (FILE): responses: what t5x infer or faith-jax score wrote, or rows with id, query,
        pro_arguments and con_arguments (or a grounding) and response
      output (SHEET): .csv (for spreadsheet programs) or .jsonl; with {annotator} in its name, a
        file for each
      annotators (NAMES): separated by commas; each gets all responses (without: annotators write
        their names)
      sample (N): draw N of the responses (default: all)
      seed: of the sample
      overwrite: replace a sheet that is there, filled in or not

    Examples:
      %(prog)s --input=runs/responses/predictions.jsonl --output=sheet.csv
      %(prog)s --input=responses.jsonl --output='sheet_{annotator}.csv' --annotators=ada,ben \
          --sample=100 --seed=1
    """

    input: str
    output: str
    annotators: str = ""
    sample: int | None = None
    seed: int = 0
    overwrite: bool = False

    def run(self) -> None:
        from faith_jax.runs.annotate import write_sheets

        check_numbers({"seed": self.seed})
        files, names = (self.input, self.output), listed_names(self.annotators)
        lines = write_sheets(*files, names, self.sample, self.seed, self.knowledge, self.overwrite)
        print("\n".join(lines))


@dataclasses.dataclass(frozen=True)
class _Sheets(_Knowledge):
    """Filled sheets, and how they are read.

    Attributes:
      sheets (SHEET): .csv (with commas, semicolons or tabs), .jsonl
      input (FILE): what the sheets were written from: texts must still be the same, and labels get
        its other fields, such as the topic
      blank_is_no: in a row that is begun, an empty mark of an ambiguous error is a no
      complete: sheets with rows that are not annotated yet are an error
    """

    sheets: tuple[str, ...]
    _: dataclasses.KW_ONLY
    input: str = ""
    blank_is_no: bool = False
    complete: bool = False

    def given(self) -> "Sheets":
        """Returns the sheets for a run."""
        from faith_jax.runs.annotate import Sheets

        return Sheets(self.sheets, self.input, self.knowledge, self.blank_is_no, self.complete)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Read(_Sheets):
    r"""Reads filled sheets back as marks and labels.

    Checks them and writes one row for each response and annotator, and one for each response with
    the label of the majority.

    Attributes:
      output (MARKS): .jsonl: what each annotator says
      labels (LABELS): .jsonl: what the majority says, in rows that faith-jax score reads (default:
        MARKS_labels.jsonl)
      slices (FOLDER): write Chang 2024's test slices full_organic.jsonl and ambiguous_organic.jsonl
        too
      ties: where as many say yes as no: the response has the error, does not have it, gets no
        label, or the sheets are an error

    Examples:
      %(prog)s sheet_ada.csv sheet_ben.csv --output=marks.jsonl --input=responses.jsonl
      %(prog)s sheet_*.csv --output=marks.jsonl --labels=labels.jsonl --slices=slices --ties=drop

    then, for example:
      faith-jax score --scorers=npov_rouge1_hallucination,npov_rouge1_coverage \
          --input=slices/full_organic.jsonl --output=scores.jsonl
      faith-jax evaluate scores.jsonl --protocol=npov
    """

    output: str
    labels: str = ""
    slices: str = ""
    ties: Literal["error", "no-error", "drop", "refuse"] = "error"

    def run(self) -> None:
        from faith_jax.annotation.labels import Ties
        from faith_jax.runs.annotate import read_sheets

        files = self.output, self.labels, self.slices
        print("\n".join(read_sheets(self.given(), *files, Ties(self.ties))))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agreement(_Sheets):
    """Measures how far annotators agree.

    Prints for each mark the share of yes, how often annotators agree, Krippendorff's alpha and
    Fleiss' kappa, and for spans and arguments the F1 between annotators.

    Attributes:
      json (PATH): write all figures
      resamples (N): of the bootstrap
      confidence: of the intervals
      seed: of the bootstrap

    Examples:
      %(prog)s sheet_ada.csv sheet_ben.csv
      %(prog)s sheets.jsonl --json=agreement.json --resamples=10000
    """

    json: str = ""
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def run(self) -> None:
        from faith_jax.runs.annotate import agreement

        check_numbers({"resamples": self.resamples, "seed": self.seed})
        if not 0 < self.confidence < 1:
            raise ConfigError(
                f"--confidence: expected a number between 0 and 1, got {self.confidence}."
            )
        settings = self.resamples, self.confidence, self.seed, self.json
        print(agreement(self.given(), *settings), end="")
