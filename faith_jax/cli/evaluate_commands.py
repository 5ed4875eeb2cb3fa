"""The commands about scored files: evaluate, reproduce and report."""

import argparse

from faith_jax.cli.shared import quiet_tensorflow
from faith_jax.errors import ConfigError

_EVALUATE_EXAMPLES = """examples:
  %(prog)s q2.jsonl qags_c.jsonl --baseline=token_f1 --markdown=table.md --json=figures.json
  %(prog)s begin_test.jsonl --protocol=begin --development=begin_dev.jsonl
  %(prog)s q2.jsonl begin_2021.jsonl --protocol=pronouns
  %(prog)s npov_scores.jsonl --protocol=npov
  %(prog)s runs/verify/predictions.jsonl --protocol=dialfact --dataset=dialfact/official
"""


def add_evaluate_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `evaluate`, `reproduce` and `report`."""
    _add_evaluate(commands)
    _add_reproduce(commands)
    _add_report(commands)


def _add_evaluate(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "evaluate",
        help="tables and pictures of scored files",
        description="Compares scorers by what `score` wrote. Files of one corpus are joined by "
        "the ids of their rows.",
        epilog=_EVALUATE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("files", nargs="+", metavar="FILE", help="scored .jsonl or .parquet files")
    command.add_argument(
        "--protocol",
        default="auc",
        choices=("auc", "begin", "dialfact", "npov", "npov_words", "pronouns"),
        help="ROC AUC by corpus (default); Nandwani 2023, table 1; Gupta 2022, section 5.3; Chang "
        "2024, table 1 and table 3; Steen 2023, table 3",
    )
    command.add_argument(
        "--slice-field", default="", metavar="NAME", help="for npov: names a row's slice"
    )
    command.add_argument(
        "--dataset", default="dialfact", metavar="NAME", help="for dialfact: NAME[/CONFIG]"
    )
    command.add_argument("--split", default="test", help="for dialfact (default: test)")
    command.add_argument("--development", default="", metavar="FILE", help="for begin")
    command.add_argument(
        "--group-field", default="source", metavar="NAME", help="for begin: F1 by this field too"
    )
    command.add_argument("--baseline", default="", metavar="SCORER", help="what others must beat")
    command.add_argument(
        "--test",
        default="approximate_randomization",
        choices=("approximate_randomization", "delong", "hanley_mcneil"),
        help="of significance",
    )
    command.add_argument(
        "--cluster-field",
        default="",
        metavar="NAME",
        help="resample rows with the same value of this field together, such as a document's id",
    )
    command.add_argument("--resamples", type=int, default=1000, metavar="N", help="default 1000")
    command.add_argument("--confidence", type=float, default=0.95, help="default 0.95")
    command.add_argument("--seed", type=int, default=0)
    for name, what in (
        ("json", "all figures"),
        ("markdown", "the table"),
        ("latex", "the table"),
        ("csv", "the table"),
        ("histograms", "the scores' distributions (PNG)"),
        ("roc-curves", "the ROC curves (PNG)"),
    ):
        command.add_argument(f"--{name}", default="", metavar="PATH", help=f"write {what}")
    command.set_defaults(run=_run_evaluate)


def _run_evaluate(options: argparse.Namespace) -> int:
    if options.protocol == "dialfact":
        quiet_tensorflow()
    from faith_jax.runs import evaluate_scores

    if options.resamples < 1:
        raise ConfigError(f"--resamples: expected a positive number, got {options.resamples}.")
    given = evaluate_scores.EvaluateOptions(
        protocol=options.protocol,
        development=options.development,
        group_field=options.group_field,
        baseline=options.baseline,
        test=options.test,
        cluster_field=options.cluster_field,
        resamples=options.resamples,
        confidence=options.confidence,
        seed=options.seed,
        slice_field=options.slice_field,
        dataset=options.dataset,
        split=options.split,
    )
    tables = {form: getattr(options, form) for form in ("markdown", "latex", "csv")}
    text = evaluate_scores.evaluate(
        options.files,
        given,
        json_path=options.json,
        tables={form: path for form, path in tables.items() if path},
        histograms=options.histograms,
        roc_curves=options.roc_curves,
    )
    print(text, end="")
    return 0


def _add_reproduce(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "reproduce",
        help="one table of a paper, scored and evaluated",
        description="Scores the data that a paper's table needs and evaluates it: true (Steen "
        "2023, table 1), begin (Nandwani 2023, table 1), npov and npov_words (Chang 2024, tables 1 "
        "and 3), pronouns (Steen 2023, table 3). Data is prepared where its raw files are at hand "
        "or can be fetched.",
        epilog="examples:\n  %(prog)s true --output=runs/true\n  %(prog)s begin --sample "
        "--output=runs/begin --scorers=token_f1,bleu",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("table", metavar="TABLE", help="true, begin, npov, npov_words, pronouns")
    command.add_argument("--output", required=True, metavar="FOLDER", help="scores and tables")
    command.add_argument("--scorers", default="", metavar="NAMES", help="default: the recipe's")
    command.add_argument("--sample", action="store_true", help="of the samples in the package")
    command.set_defaults(run=_run_reproduce)


def _run_reproduce(options: argparse.Namespace) -> int:
    quiet_tensorflow()
    from faith_jax.runs import reproduce

    names = [name.strip() for name in options.scorers.split(",") if name.strip()]
    text = reproduce.reproduce(options.table, options.output, names, options.sample)
    print(text, end="")
    print(options.output)
    return 0


def _add_report(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "report",
        help="one HTML page of scored files",
        description="Tables with intervals, ROC curves, histograms, and the examples to sort, "
        "filter and read, in one page that needs no network.",
        epilog="example:\n  %(prog)s q2.jsonl qags_c.jsonl --output=report.html",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("files", nargs="+", metavar="FILE", help="scored .jsonl or .parquet files")
    command.add_argument("--output", required=True, metavar="HTML", help="the page")
    command.add_argument("--title", default="", help="of the page (default: the files' names)")
    command.add_argument("--baseline", default="", metavar="SCORER", help="what others must beat")
    command.add_argument("--resamples", type=int, default=1000, metavar="N", help="default 1000")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument(
        "--most-examples",
        type=int,
        default=10_000,
        metavar="N",
        help="in the page (default 10,000)",
    )
    command.set_defaults(run=_run_report)


def _run_report(options: argparse.Namespace) -> int:
    from faith_jax.runs import report

    for name in ("resamples", "most_examples"):
        if getattr(options, name) < 1:
            raise ConfigError(f"--{name.replace('_', '-')}: expected a positive number.")
    page = report.report(
        options.files,
        options.output,
        options.title,
        options.baseline,
        options.resamples,
        options.seed,
        options.most_examples,
    )
    print(page)
    return 0
