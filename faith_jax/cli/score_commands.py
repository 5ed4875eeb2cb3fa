"""The commands about scores: score, scorers and evaluate."""

import argparse
import ast
from collections.abc import Sequence
from typing import Any

from faith_jax.cli.shared import quiet_tensorflow
from faith_jax.errors import ConfigError

_EXAMPLES = """examples:
  %(prog)s --scorers=token_f1,rouge1_precision --input=rows.jsonl --output=scores.jsonl
  %(prog)s --scorers=token_f1 --scorer-option=token_f1.normalization=squad \\
      --input=answers.csv --grounding-column=passages --response-column=answer \\
      --output=scores.parquet
  %(prog)s --scorers=npov_rouge1_hallucination,npov_rouge1_coverage \\
      --tfds=npov_errors/sample --split=test --label-column=has_hallucination \\
      --labels-are-errors --output=npov_scores.jsonl
"""


_EVALUATE_EXAMPLES = """examples:
  %(prog)s q2.jsonl qags_c.jsonl --baseline=token_f1 --markdown=table.md --json=figures.json
  %(prog)s begin_test.jsonl --protocol=begin --development=begin_dev.jsonl
  %(prog)s q2.jsonl begin_2021.jsonl --protocol=pronouns
  %(prog)s npov_scores.jsonl --protocol=npov
  %(prog)s runs/verify/predictions.jsonl --protocol=dialfact --dataset=dialfact/official
"""


def add_score_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `score`, `scorers`, `evaluate`, `reproduce` and `report`."""
    _add_evaluate(commands)
    _add_reproduce(commands)
    _add_report(commands)
    command = commands.add_parser(
        "score",
        help="score responses by any number of scorers",
        description="Scores every row of a file, a SeqIO task or a TFDS data set in one pass. A "
        "run that was stopped goes on when the same command is given again.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--scorers", required=True, metavar="NAMES", help="separated by commas; see the scorers"
    )
    command.add_argument(
        "--scorer-option",
        action="append",
        default=[],
        metavar="SCORER.NAME=VALUE",
        help="an option of a scorer; VALUE is a Python literal, or a text",
    )
    source = command.add_argument_group("input")
    source.add_argument("--input", default="", metavar="FILE", help=".jsonl, .csv, .tsv, .parquet")
    source.add_argument(
        "--input-format", default="", choices=("jsonl", "csv", "tsv", "parquet"), help="of FILE"
    )
    source.add_argument("--task", default="", metavar="NAME", help="a SeqIO task, in its place")
    source.add_argument("--tfds", default="", metavar="NAME", help="or a data set: NAME[/CONFIG]")
    source.add_argument("--split", default="", help="of the task or data set")
    source.add_argument("--corpus", default="", metavar="NAME", help="of rows that name none")
    source.add_argument(
        "--skip-bad-rows", action="store_true", help="pass over bad rows, count and list them"
    )
    _add_columns(command.add_argument_group("columns"))
    command.add_argument(
        "--output", required=True, metavar="PATH", help=".jsonl, .parquet, or a folder for TFDS"
    )
    command.add_argument(
        "--format", default="", choices=("jsonl", "parquet", "tfds"), help="of the output"
    )
    command.add_argument(
        "--batch-size", type=int, default=256, metavar="N", help="rows scored and written at once"
    )
    command.set_defaults(run=_run_score)
    listed = commands.add_parser(
        "scorers",
        help="list the scorers",
        description="All scorers with what they measure, their range and their source.",
    )
    listed.set_defaults(run=_run_scorers)


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


def _add_columns(group: argparse._ArgumentGroup) -> None:
    usual = "; default: the usual names, TRUE's first"
    group.add_argument(
        "--grounding-column",
        default="",
        metavar="NAME",
        help=f"a text or a list of texts; or pro=NAME,con=NAME{usual}",
    )
    group.add_argument("--response-column", default="", metavar="NAME", help=f"the text{usual}")
    group.add_argument("--history-column", default="", metavar="NAME", help="earlier utterances")
    group.add_argument(
        "--label-column", default="label", metavar="NAME", help="1 = faithful, 0, or empty"
    )
    group.add_argument(
        "--labels-are-errors", action="store_true", help="a label of 1 says that there is an error"
    )
    group.add_argument("--id-column", default="id", metavar="NAME", help="else: the row's number")
    group.add_argument(
        "--corpus-column", default="corpus", metavar="NAME", help="where there is one"
    )


def _run_score(options: argparse.Namespace) -> int:
    if options.task or options.tfds or options.format == "tfds" or "." not in options.output:
        quiet_tensorflow()
    from faith_jax.data.grounded_rows import Columns
    from faith_jax.data.rows import BadRows
    from faith_jax.runs import score

    given = score.ScoreInput(
        file=options.input,
        file_format=options.input_format,
        task=options.task,
        tfds=options.tfds,
        split=options.split,
        corpus=options.corpus,
        columns=Columns(
            grounding=options.grounding_column,
            response=options.response_column,
            history=options.history_column,
            label=options.label_column,
            id=options.id_column,
            corpus=options.corpus_column,
            label_is_error=options.labels_are_errors,
        ),
    )
    names = [name.strip() for name in options.scorers.split(",") if name.strip()]
    bad_rows = BadRows(skip=options.skip_bad_rows)
    output, count = score.score(
        given,
        scorer_options(names, options.scorer_option),
        options.output,
        options.format,
        options.batch_size,
        bad_rows,
    )
    print(f"{output}: {count:,} rows, {len(names)} scorers")
    if bad_rows.count:
        print(f"{bad_rows.count} bad rows were skipped:")
        for message in bad_rows.messages:
            print(f"  {message}")
    return 0


def scorer_options(names: Sequence[str], given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the options of each scorer.

    Args:
      names: of the scorers.
      given: as "scorer.name=value".

    Raises:
      ConfigError: for another form, and for an option of a scorer that is not among the names.
    """
    options: dict[str, dict[str, Any]] = {name: {} for name in names}
    for text in given:
        left, equals, value = text.partition("=")
        scorer, dot, name = left.partition(".")
        if not (equals and dot and name):
            raise ConfigError(f"--scorer-option: expected SCORER.NAME=VALUE, got {text!r}.")
        if scorer not in options:
            raise ConfigError(f"--scorer-option: {scorer!r} is not among --scorers.")
        try:
            options[scorer][name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[scorer][name] = value
    return options


def _run_scorers(options: argparse.Namespace) -> int:
    import tabulate

    from faith_jax.scoring.registry import load_scorer, scorer_names

    cards = [load_scorer(name).card for name in scorer_names()]
    rows = [
        (card.name, f"{card.low:g} to {card.high:g}", card.description, card.source)
        for card in cards
    ]
    print(tabulate.tabulate(rows, ("scorer", "range", "what it measures", "source")))
    return 0
