"""The command reproduce: one table of a paper, or one study, from one command.

Each table is a command of its own, with its options; those of tables of one's own models stand in
`reproduce_…_commands.py`.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from faith_jax.cli.evaluate_commands import check_numbers, given_options, listed_names
from faith_jax.cli.npov_commands import add_npov_detection_table, run_npov_detection
from faith_jax.cli.reproduce_critic_commands import add_critic_table, run_critic_table
from faith_jax.cli.reproduce_faithdial_commands import add_faithdial_table, run_faithdial_table
from faith_jax.cli.reproduce_nli_commands import add_nli_tables, run_nli
from faith_jax.cli.reproduce_pmi_commands import add_pmi_table, run_pmi_table
from faith_jax.cli.shared import resumable
from faith_jax.core.quiet_tensorflow import quiet_tensorflow

# Tables of scorers alone, `faith_jax.reproduce.reproduce.RECIPES`, with their titles.
SCORED = {
    "true": "Steen 2023, table 1: TRUE's nine corpora",
    "begin": "Nandwani 2023, table 1: BEGIN",
    "npov": "Chang 2024, table 1: NPOV errors",
    "npov_words": "Chang 2024, table 3: words of NPOV errors",
    "pronouns": "Steen 2023, table 3: first-person pronouns",
}
_EXAMPLES = """examples:
  %(prog)s true --output=runs/true
  %(prog)s begin --sample --output=runs/begin --scorers=q2_baseline_token_f1,pmi_faith_mean \
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


def add_reproduce_command(commands: argparse._SubParsersAction) -> None:
    """Adds `reproduce`."""
    command = commands.add_parser(
        "reproduce",
        help="one table of a paper, scored and evaluated",
        description="Makes a table of a paper: scores the data that it needs, or trains the models "
        "that it is of and lets them respond, and evaluates them. Data is prepared where its raw "
        "files are at hand or can be fetched. The same command goes on where it was stopped.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tables = command.add_subparsers(dest="table", metavar="TABLE", required=True)
    for name, title in SCORED.items():
        table = tables.add_parser(name, help=title, description=f"{title}.")
        add_outputs(table)
        table.add_argument(
            "--scorers", default="", metavar="NAMES", help="default: those that need no model"
        )
        table.add_argument(
            "--scorer-option",
            action="append",
            metavar="SCORER.NAME=VALUE",
            help="of one of the scorers, such as pmi_faith_mean.model=FOLDER (repeatable)",
        )
        table.set_defaults(run=_runner(_run_scored))
    for add, run in (
        (add_pmi_table, run_pmi_table),
        (add_npov_detection_table, run_npov_detection),
        (add_faithdial_table, run_faithdial_table),
        (add_critic_table, run_critic_table),
        (add_nli_tables, run_nli),
    ):
        for table in add(tables):
            add_outputs(table)
            add_workflow(table)
            table.set_defaults(run=_runner(run))


def add_outputs(table: argparse.ArgumentParser) -> None:
    """Adds what all tables have."""
    table.add_argument("--output", required=True, metavar="FOLDER", help="all that is made")
    table.add_argument("--sample", action="store_true", help="of the samples in the package")


def add_workflow(table: argparse.ArgumentParser) -> None:
    """Adds what all workflows have."""
    table.add_argument("--cores", type=int, metavar="N", help="that steps share (default: all)")
    table.add_argument(
        "--dry-run", "--dry_run", action="store_true", default=None, help="only show the commands"
    )
    table.add_argument(
        "--snakemake",
        action="append",
        metavar="ARGUMENT",
        help="for Snakemake, such as --snakemake=--profile=slurm (repeatable)",
    )


def _run_scored(table: str, given: Mapping[str, Any], sample: bool, output: str) -> str:
    from faith_jax.cli.score_commands import scorer_options
    from faith_jax.reproduce import reproduce

    scorers = listed_names(given["scorers"])
    known = scorers or reproduce.RECIPES[table].scorers
    options = scorer_options(known, given.get("scorer_option", []))
    return reproduce.reproduce(table, output, scorers, sample, options)


def _runner(run: Callable[..., str]) -> Callable[[argparse.Namespace], int]:
    """Returns what runs a table and prints it, with the options that were given."""

    def run_table(options: argparse.Namespace) -> int:
        names = vars(options).keys() - {
            "command", "table", "output", "sample", "run", "bindings",
        }  # fmt: skip
        given = given_options(options, sorted(names))
        check_numbers(given)
        quiet_tensorflow()

        def made() -> int:
            print(run(options.table, given, options.sample, options.output), end="")
            print(options.output)
            return 0

        kept = f"what is made is kept in {options.output}; the same command goes on from there."
        return resumable(made, lambda: kept)

    return run_table
