"""The command reproduce: one table of a paper, or one study, from one command.

Each table is a command of its own. Their options are in `faith_jax.reproduce.options`; tables of
scorers alone stand in reproduce.json.
"""

import argparse
import importlib
import json
import pathlib
from typing import ClassVar

import faith_jax.reproduce
from faith_jax.cli.parser import add_command, add_commands
from faith_jax.cli.shared import resumable, show
from faith_jax.core.quiet_tensorflow import quiet_tensorflow
from faith_jax.reproduce.options import WORKFLOWS, Output, ScorerTable

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
  %(prog)s dialfact --verifiers=Aug-WoW=runs/verifier --scorer-option=Aug-WoW.form=dialfact \\
      --output=runs/dialfact
"""


class _Table(Output):
    """A table that is made."""

    opens_checkpoints: ClassVar = True

    def run(self) -> int:
        quiet_tensorflow()
        kept = f"what is made is kept in {self.output}; the same command resumes."
        return resumable(self._made, lambda: kept)

    def _made(self) -> int:
        page = "reproduce" if isinstance(self, ScorerTable) else "workflow"
        made = importlib.import_module(f"faith_jax.reproduce.{page}").make_table(self)
        show(made)
        show(self.output)
        return 0


def add_reproduce_command(commands: argparse._SubParsersAction) -> None:
    """Adds `reproduce`."""
    command = add_command(commands, "reproduce", _TEXT)
    tables = command.add_subparsers(dest="table", metavar="TABLE", required=True)
    listed = json.loads(_TABLES.read_text(encoding="utf-8"))
    made: list[tuple[type[Output], str, str]]
    made = [(ScorerTable, name, told["title"]) for name, told in listed.items()]
    made += [(options, options.name, options.__doc__ or "") for options in WORKFLOWS]
    for options, name, text in made:
        add_commands(tables, [type(name, (_Table, options), {"name": name, "__doc__": text})])
