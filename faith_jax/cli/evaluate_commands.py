"""The commands about scored files: evaluate and report."""

import argparse
import os
from collections.abc import Iterable, Mapping
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.core.quiet_tensorflow import quiet_tensorflow

_EVALUATE_EXAMPLES = """examples:
  %(prog)s q2.jsonl qags_c.jsonl --baseline=token_f1 --markdown=table.md --json=figures.json
  %(prog)s begin_test.jsonl --protocol=begin --development=begin_dev.jsonl
  %(prog)s q2.jsonl --ensemble=both=summac_zs,nli_e_minus_c --baseline=summac_zs
  %(prog)s q2.jsonl begin_2021.jsonl --protocol=pronouns
  %(prog)s npov_scores.jsonl --protocol=npov
  %(prog)s old_system.jsonl new_system.jsonl --protocol=systems --baseline=old_system
  %(prog)s runs/verify/predictions.jsonl --protocol=dialfact --dataset=dialfact/official
"""


def add_evaluate_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `evaluate` and `report`."""
    _add_evaluate(commands)
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
    command.add_argument(
        "files", nargs="+", metavar="FILE", help="scored .jsonl or .parquet files, or TFDS folders"
    )
    command.add_argument(
        "--protocol",
        default="auc",
        choices=("auc", "begin", "dialfact", "npov", "npov_words", "pronouns", "systems"),
        help="ROC AUC by corpus (default); Nandwani 2023, table 1; Gupta 2022, section 5.3; Chang "
        "2024, table 1 and table 3; Steen 2023, table 3; mean scores of systems",
    )
    command.add_argument(
        "--compare",
        action="append",
        metavar="SYSTEM:BASELINE",
        help="for systems: a pair to compare, in place of --baseline (repeatable)",
    )
    command.add_argument(
        "--table", metavar="JSON", help="for systems: columns and published figures"
    )
    command.add_argument("--slice-field", metavar="NAME", help="for npov: names a row's slice")
    command.add_argument("--dataset", metavar="NAME", help="for dialfact: NAME[/CONFIG]")
    command.add_argument("--split", help="for dialfact (default: test)")
    command.add_argument("--development", metavar="FILE", help="for begin")
    command.add_argument(
        "--group-field", metavar="NAME", help="for begin: F1 by this field too (default: source)"
    )
    _add_comparison(command, "for auc: ", "for auc and systems: ")
    command.add_argument(
        "--ensemble",
        action="append",
        dest="ensembles",
        metavar="NAME=SCORER,SCORER",
        help="the mean of several scorers' scores, each mapped from its range to 0 to 1; a scorer "
        "of your own as SCORER:LOW:HIGH (repeatable)",
    )
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


def _add_comparison(
    command: argparse.ArgumentParser, goes_with: str = "", baseline: str = ""
) -> None:
    """Adds what scorers are chosen and compared by; what is not given is None.

    Args:
      command: what gets the options.
      goes_with: said first of those that do not always go.
      baseline: said first of `--baseline`.
    """
    command.add_argument("--scorers", metavar="NAMES", help="only these; default: all of the files")
    command.add_argument("--baseline", metavar="NAME", help=f"{baseline}what others must beat")
    command.add_argument(
        "--test",
        choices=("approximate_randomization", "delong", "hanley_mcneil"),
        help="of significance, with a baseline (default: approximate_randomization)",
    )
    command.add_argument(
        "--cluster-field",
        metavar="NAME",
        help=f"{goes_with}rows with the same value of this field, such as a document's id, are not "
        "independent",
    )
    command.add_argument("--resamples", type=int, metavar="N", help="default 1000")
    command.add_argument("--confidence", type=float, help="default 0.95")
    command.add_argument("--seed", type=int, help="default 0")


_COMPARISON = (
    "scorers", "baseline", "test", "cluster_field", "resamples", "confidence", "seed",
)  # fmt: skip


def given_options(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Returns those of the named options that were given."""
    found = {name: getattr(options, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _check_comparison(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options, with the scorers' names as a tuple."""
    if "test" in given and not given.get("baseline"):
        raise ConfigError(
            "--test: goes with --baseline, the scorer that others are tested with; give "
            "--baseline=SCORER."
        )
    check_numbers(given)
    if "scorers" in given:
        given = given | {"scorers": tuple(listed_names(given["scorers"]))}
    return given


# The options that say something to some protocols only; one that says nothing is refused.
_GOES_WITH = {
    "slice_field": ("npov", "npov_words"),
    "dataset": ("dialfact",),
    "split": ("dialfact",),
    "development": ("begin",),
    "group_field": ("begin",),
    "baseline": ("auc", "systems"),
    "compare": ("systems",),
    "table": ("systems",),
    "test": ("auc",),
    "cluster_field": ("auc",),
    "resamples": ("auc", "npov", "npov_words", "systems"),
    "confidence": ("auc", "npov", "npov_words", "systems"),
    "seed": ("auc", "npov", "npov_words", "systems"),
    "scorers": ("auc", "begin", "npov", "npov_words", "pronouns", "systems"),
    "ensembles": ("auc", "begin", "pronouns"),
}
LEAST_RESAMPLES = 100


def _check_evaluate(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that were given, which go with the protocol."""
    given = given_options(options, _GOES_WITH)
    for name in given:
        if options.protocol not in _GOES_WITH[name]:
            option = name.removesuffix("s") if name == "ensembles" else name.replace("_", "-")
            raise ConfigError(
                f"--{option}: goes with --protocol={' or '.join(_GOES_WITH[name])},"
                f" not with {options.protocol}."
            )
    if "ensembles" in given:
        given["ensembles"] = _ensembles(given["ensembles"])
    if "compare" in given:
        given["compare"] = _pairs(given["compare"])
    return _check_comparison(given)


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    """Returns by system the one that it is compared with.

    Raises:
      ConfigError: for another form.
    """
    found = {}
    for text in texts:
        system, colon, baseline = text.rpartition(":")
        if not (system and colon and baseline) or system == baseline:
            raise ConfigError(f"--compare: expected SYSTEM:BASELINE, got {text!r}.")
        found[system] = baseline
    return found


def _ensembles(texts: Iterable[str]) -> dict[str, Any]:
    """Returns by name each ensemble's scorers with their ranges, None = not given.

    Raises:
      ConfigError: for another form.
    """
    from faith_jax.statistics.scored_corpora import Range

    found: dict[str, dict[str, Range | None]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        members: dict[str, Range | None] = {}
        for member in listed_names(listed):
            scorer, *ends = member.split(":")
            try:
                members[scorer] = Range(*map(float, ends)) if ends else None
            except (ValueError, TypeError):
                raise ConfigError(
                    f"--ensemble: expected SCORER or SCORER:LOW:HIGH, got {member!r}."
                ) from None
        if not (equals and name and len(members) > 1):
            raise ConfigError(f"--ensemble: expected NAME=SCORER,SCORER, got {text!r}.")
        if name in found:
            raise ConfigError(f"--ensemble: {name!r} is given twice.")
        found[name] = members
    return found


def listed_names(listed: str) -> list[str]:
    """Returns the names that commas separate."""
    return [name.strip() for name in listed.split(",") if name.strip()]


def check_numbers(given: Mapping[str, Any]) -> None:
    """Refuses numbers of resamples and seeds that cannot be used.

    Raises:
      ConfigError: naming the option.
    """
    if given.get("resamples", LEAST_RESAMPLES) < LEAST_RESAMPLES:
        raise ConfigError(
            f"--resamples: expected at least {LEAST_RESAMPLES}, got {given['resamples']}."
        )
    if given.get("seed", 0) < 0:
        raise ConfigError(f"--seed: expected 0 or more, got {given['seed']}.")


def _run_evaluate(options: argparse.Namespace) -> int:
    given = _check_evaluate(options)
    read = [*options.files, options.development or ""]
    if options.protocol == "dialfact" or any(map(os.path.isdir, read)):
        quiet_tensorflow()
    from faith_jax.runs import evaluate_scores

    tables = {form: getattr(options, form) for form in ("markdown", "latex", "csv")}
    text = evaluate_scores.evaluate(
        options.files,
        evaluate_scores.EvaluateOptions(protocol=options.protocol, **given),
        json_path=options.json,
        tables={form: path for form, path in tables.items() if path},
        histograms=options.histograms,
        roc_curves=options.roc_curves,
    )
    print(text, end="")
    return 0


def _add_report(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "report",
        help="one HTML page of scored files",
        description="Tables with intervals, ROC curves, histograms, and the examples to sort, "
        "filter and read, in one page that needs no network.",
        epilog="examples:\n  %(prog)s q2.jsonl qags_c.jsonl --output=report.html\n"
        "  %(prog)s npov.jsonl --salience-model=runs/npov --salience-rows=3 --output=report.html",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "files", nargs="+", metavar="FILE", help="scored .jsonl or .parquet files, or TFDS folders"
    )
    command.add_argument("--output", required=True, metavar="HTML", help="the page")
    command.add_argument("--title", default="", help="of the page (default: the files' names)")
    _add_comparison(command)
    command.add_argument(
        "--most-examples",
        type=int,
        default=10_000,
        metavar="N",
        help="in the page (default 10,000)",
    )
    _add_report_salience(command)
    command.set_defaults(run=_run_report)


def _add_report_salience(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group(
        "salience",
        "Heat maps of the rows with the lowest score of the first scorer: where the words of\n"
        "their responses come from (docs/salience.md).",
    )
    group.add_argument("--salience-model", metavar="FOLDER", help="of the language model")
    group.add_argument("--salience-rows", type=int, metavar="N", help="how many rows (default 5)")
    group.add_argument(
        "--salience-threshold", type=float, metavar="SHARE", help="below which words are marked"
    )
    group.add_argument("--salience-method", help="gradient_x_input (default) or gradient_l2")


_SALIENCE = ("model", "rows", "threshold", "method")


def _run_report(options: argparse.Namespace) -> int:
    if options.most_examples < 1:
        raise ConfigError("--most-examples: expected a positive number.")
    given = _check_comparison(given_options(options, _COMPARISON))
    maps = given_options(options, [f"salience_{name}" for name in _SALIENCE])
    if maps and options.salience_model is None:
        raise ConfigError(f"--{next(iter(maps)).replace('_', '-')}: goes with --salience-model.")
    if any(map(os.path.isdir, options.files)):
        quiet_tensorflow()
    from faith_jax.report.salience import ReportSalience
    from faith_jax.runs import report

    if maps:
        wanted = {name.removeprefix("salience_"): value for name, value in maps.items()}
        given["salience"] = ReportSalience(**wanted)
    page = report.report(
        options.files,
        options.output,
        title=options.title,
        most_examples=options.most_examples,
        **given,
    )
    print(page)
    return 0
