"""The command reproduce: one table of a paper, or one study, from one command.

Each table is a command of its own. Those of one's own models are workflows
(`faith_jax.cli.reproduce_tables`); those of scorers alone stand in reproduce.json.
"""

import argparse
import dataclasses
import json
import pathlib
from typing import ClassVar

import faith_jax.reproduce
from faith_jax.cli.parser import add_command, add_commands
from faith_jax.cli.reproduce_nli_commands import Nli, NliPhrases
from faith_jax.cli.reproduce_tables import FaithCritic, Faithdial, NpovDetection, Output, PmiDecode
from faith_jax.runs.options import listed_names

_TABLES = pathlib.Path(faith_jax.reproduce.__file__).with_name("reproduce.json")
_TEXT = """Makes one table of a paper, scored and evaluated.

Scores the data that the table needs, or trains the models that it is of and lets them respond, and
evaluates them. Data is prepared where its raw files are at hand or can be fetched. The same command
resumes where it was stopped.

Examples:
  %(prog)s true --output=runs/true
  %(prog)s begin --sample --output=runs/begin --scorers=q2_baseline_token_f1,pmi_faith_mean \\
      --scorer-option=pmi_faith_mean.model=checkpoints/bloom-560m
  %(prog)s pmi_decode --corpus=faithdial --model=runs/faithdial \\
      --vocabulary=checkpoints/bart-large --scorer-model=checkpoints/bloom-560m \\
      --output=runs/pmi_decode
  %(prog)s npov_detection --model=runs/npov --knowledge=sample \\
      --classifiers=dev=runs/hallucination_dev,runs/coverage_dev --output=runs/detection
  %(prog)s faithdial --sample --models=t5=mini --output=runs/faithdial_table
  %(prog)s faith_critic --model=checkpoints/roberta-large --critics=MNLI=checkpoints/mnli \\
      --output=runs/critics
  %(prog)s nli --model=checkpoints/deberta_nli --augmented-model=runs/nli --output=runs/nli_table
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Scored(Output):
    """A table of scorers.

    Attributes:
      scorers (NAMES): separated by commas (without: those that need no model)
      scorer_option (SCORER.NAME=VALUE): of one of the scorers, such as
        pmi_faith_mean.model=FOLDER (repeatable)
    """

    name: ClassVar[str]
    scorers: str = ""
    scorer_option: tuple[str, ...] = ()

    def table(self) -> str:
        """Makes the table; returns it as text."""
        from faith_jax.cli.score_commands import scorer_options
        from faith_jax.reproduce import reproduce

        scorers = listed_names(self.scorers)
        known = scorers or reproduce.RECIPES[self.name].scorers
        options = scorer_options(known, self.scorer_option)
        return reproduce.reproduce(self.name, self.output, scorers, self.sample, options)


def add_reproduce_command(commands: argparse._SubParsersAction) -> None:
    """Adds `reproduce`."""
    command = add_command(commands, "reproduce", _TEXT)
    tables = command.add_subparsers(dest="table", metavar="TABLE", required=True)
    for name, told in json.loads(_TABLES.read_text(encoding="utf-8")).items():
        add_commands(tables, [type(name, (_Scored,), {"name": name, "__doc__": told["title"]})])
    add_commands(tables, (PmiDecode, NpovDetection, Faithdial, FaithCritic, Nli, NliPhrases))
