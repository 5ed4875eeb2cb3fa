"""The command reproduce: makes a table of a paper, or a study, with one command.

Each table is a command of its own: a `ScorerTable`, or the options of a workflow. Tables are found
through the entry points "faith_jax.tables"; a table in a user's file is FILE.py:NAME.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from faith_jax.core.errors import ConfigError
from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.core.user_modules import entry_point_names, load_named
from faith_jax.papers.options import Output, ScorerTableOptions, Workflow
from faith_jax.papers.tables import ScorerTable

ENTRY_POINTS = "faith_jax.tables"


class Reproduce:
    r"""Makes one table of a paper or benchmark, scored and evaluated.

    Scores the table's data, or trains the table's models and lets them respond, and evaluates the
    results. Data is prepared if its raw files are available or can be fetched. The same command
    resumes a stopped run. A table of your own is FILE.py:NAME (docs/extending.md).

    Examples:
      %(prog)s true --output=runs/true
      %(prog)s begin --sample --output=runs/begin --scorers=q2_baseline_token_f1,pmi_faith_mean \
          --scorer-option=pmi_faith_mean.model=checkpoints/bloom-560m
      %(prog)s pmi_decode --corpus=faithdial --model=runs/faithdial \
          --vocabulary=checkpoints/bart-large --scorer-model=checkpoints/bloom-560m \
          --output=runs/pmi_decode
      %(prog)s npov_detection --model=runs/npov --knowledge=sample \
          --classifiers=dev=runs/hallucination_dev,runs/coverage_dev --output=runs/detection
      %(prog)s faithdial --sample --models=t5=mini --output=runs/faithdial_table
      %(prog)s faith_critic --model=checkpoints/roberta-large --critics=MNLI=checkpoints/mnli \
          --output=runs/critics
      %(prog)s nli --model=checkpoints/deberta_nli --augmented-model=runs/nli \
          --output=runs/nli_table
      %(prog)s dialfact --verifiers=Aug-WoW=runs/verifier --scorer-option=Aug-WoW.form=dialfact \
          --output=runs/dialfact
      %(prog)s aggrefact --scored=my_test.csv --development=my_dev.csv --scorers=my_score \
          --cluster-field=doc --output=runs/aggrefact
      %(prog)s my_tables.py:FRANK --output=runs/frank
    """

    @staticmethod
    def parts(arguments: Sequence[str]) -> list[type]:
        """Returns the command of the table that the arguments begin with, or else all commands."""
        names = entry_point_names(ENTRY_POINTS)
        first = arguments[0] if arguments else ""
        if first in names or ".py:" in first:
            names = [first]
        commands: list[type] = []
        for name in names:
            table: Any = load_named(name, ENTRY_POINTS, (ScorerTable, type), "TABLE")
            if isinstance(table, ScorerTable):
                # For a table FILE.py:NAME, the output files are called NAME.
                file_name = name.rpartition(":")[2].lower()
                settings = {"name": name, "file_name": file_name, "table": table}
                described = settings | {"__doc__": table.title}
                commands.append(type(name, (_Table, ScorerTableOptions), described))
            elif issubclass(table, Workflow):
                commands.append(type(name, (_Table, table), {"__doc__": table.__doc__}))
            else:
                raise ConfigError(
                    f"TABLE: {name} is neither a ScorerTable nor the options of a workflow."
                )
        return commands


class _Table(Output):
    """The command that makes a table."""

    opens_checkpoints: ClassVar = True
    table: ClassVar[ScorerTable | None] = None  # None = a workflow

    @property
    def kept(self) -> str:
        """The message on where a stopped run has kept its outputs."""
        return f"what is made is kept in {self.output}; the same command resumes."

    def run(self) -> list[str]:
        """Makes the table; returns it as text, and the folder."""
        quiet_tensorflow()
        options: Any = self
        if self.table is None:
            from faith_jax.papers import workflow

            return [workflow.make_table(options), self.output]
        from faith_jax.papers import score_and_evaluate

        return [score_and_evaluate.make_table(self.table, options), self.output]
