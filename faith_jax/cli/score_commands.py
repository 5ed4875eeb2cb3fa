"""The commands that score: score and scorers."""

import argparse
import ast
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from faith_jax.cli.shared import resumable
from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.quiet_tensorflow import quiet_tensorflow

if TYPE_CHECKING:
    from faith_jax.core.rows import BadRows
    from faith_jax.input.score_input import ScoreInput

_EXAMPLES = """examples:
  %(prog)s --scorers=token_f1,rouge1_precision --input=rows.jsonl --output=scores.jsonl
  %(prog)s --scorers=token_f1 --scorer-option=token_f1.normalization=squad \\
      --input=answers.csv --grounding-column=passages --response-column=answer \\
      --output=scores.parquet
  %(prog)s --scorers=npov_rouge1_hallucination,npov_rouge1_coverage \\
      --tfds=npov_errors/sample --split=test --label-column=has_hallucination \\
      --labels-are-errors --output=npov_scores.jsonl
  %(prog)s --scorers=pmi_faith_mean --scorer-option=pmi_faith_mean.model=checkpoints/gpt2 \\
      --scorer-option='pmi_faith_mean.document_prompt=Text: {document}\\n' \\
      --input=rows.jsonl --output=pmi.jsonl
  %(prog)s --scorers=small=pmi_faith,large=pmi_faith --scorer-option=small.model=checkpoints/gpt2 \\
      --scorer-option=large.model=checkpoints/gpt2-xl --input=rows.jsonl --output=both.jsonl
"""


def add_score_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `score` and `scorers`."""
    command = commands.add_parser(
        "score",
        help="score responses by any number of scorers",
        description="Scores every row of a file, a SeqIO task or a TFDS data set in one pass. A "
        "run that was stopped goes on when the same command is given again.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--scorers",
        required=True,
        metavar="NAMES",
        help="separated by commas; see the scorers. NAME=SCORER gives one a name of its own, so "
        "that it may score several times with different options",
    )
    command.add_argument(
        "--scorer-option",
        action="append",
        default=[],
        metavar="SCORER.NAME=VALUE",
        help=r"an option of a scorer; VALUE is a Python literal, or a text, which in prompts may "
        r"hold \n (a line break), \t and \\ (repeatable)",
    )
    source = command.add_argument_group("input")
    source.add_argument(
        "--input",
        action="append",
        metavar="FILE",
        help=".jsonl, .csv, .tsv or .parquet (repeatable)",
    )
    source.add_argument(
        "--input-format", default="", choices=("jsonl", "csv", "tsv", "parquet"), help="of FILE"
    )
    source.add_argument("--task", default="", metavar="NAME", help="a SeqIO task, in its place")
    source.add_argument("--tfds", default="", metavar="NAME", help="or a data set: NAME[/CONFIG]")
    source.add_argument(
        "--split",
        default="",
        help="of the task or data set; of a data set also a slice, as test[:10]",
    )
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
    command.add_argument(
        "--restart", action="store_true", help="discard what a stopped run with this output kept"
    )
    command.add_argument(
        "--dry-run",
        "--dry_run",
        action="store_true",
        help="say what the scorers would see and how much of it they would cut, and stop",
    )
    command.set_defaults(run=_run_score)
    listed = commands.add_parser(
        "scorers",
        help="list the scorers",
        description="All scorers with what they measure, their range and their source.",
    )
    listed.set_defaults(run=_run_scorers)


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
        "--label-column",
        metavar="NAME",
        help="1 = faithful, 0, or empty (default: label, where there is one)",
    )
    group.add_argument(
        "--labels-are-errors", action="store_true", help="a label of 1 says that there is an error"
    )
    group.add_argument(
        "--id-column",
        metavar="NAME",
        help="default: id, where there is one; else, or with --id-column=, the row's number",
    )
    group.add_argument(
        "--corpus-column", metavar="NAME", help="default: corpus, where there is one"
    )


def _run_score(options: argparse.Namespace) -> int:
    if options.task or options.tfds or options.format == "tfds" or "." not in options.output:
        quiet_tensorflow()
    from faith_jax.core.partial_output import kept_rows
    from faith_jax.datasets.grounded_rows import Columns
    from faith_jax.input.score_input import ScoreInput

    first, *more = options.input or [""]
    given = ScoreInput(
        file=first,
        more_files=tuple(more),
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

    def kept() -> str:
        count = kept_rows(pathlib.Path(options.output))
        if not count:
            return "nothing was scored yet."
        return f"{counted(count, 'scored row')} are kept; the same command goes on from there."

    return resumable(lambda: _score(options, given), kept)


def _score(options: argparse.Namespace, given: "ScoreInput") -> int:
    from faith_jax.core.rows import BadRows
    from faith_jax.runs import score

    names = [name.strip() for name in options.scorers.split(",") if name.strip()]
    told = scorer_options(names, options.scorer_option)
    bad_rows = BadRows(skip=options.skip_bad_rows)
    if options.dry_run:
        found = score.preflight(given, told, options.output, options.format, bad_rows)
        for line in found.lines():
            print(line)
        for warning in found.warnings():
            print(f"warning: {warning}")
        _print_skipped(bad_rows)
        return 0
    summary = score.score(
        given,
        told,
        options.output,
        options.format,
        options.batch_size,
        bad_rows,
        options.restart,
    )
    rows, scorers = counted(summary.rows, "row"), counted(len(set(names)), "scorer")
    print(f"{summary.output}: {rows}, {scorers}")
    for name, count in summary.undefined.items():
        print(f"{name} is undefined in {count:,} of {rows}")
    for name, count in summary.cut.items():
        parts = "; ".join(
            f"{counted(cut.tokens, 'token')} of {part} in {counted(cut.rows, 'row')}"
            for part, cut in summary.cut_parts.get(name, {}).items()
        )
        print(f"{name} cut the input of {count:,} of {rows}, which was too long: {parts}")
    if summary.left_out:
        columns = ", ".join(f"{name} ({kind})" for name, kind in summary.left_out.items())
        print(f"columns that JSON cannot hold are left out: {columns}")
    _print_skipped(bad_rows)
    return 0


def _print_skipped(bad_rows: "BadRows") -> None:
    if bad_rows.count:
        print(f"{counted(bad_rows.count, 'bad row')} skipped:")
        for message in bad_rows.messages:
            print(f"  {message}")


def scorer_options(
    names: Sequence[str], given: Sequence[str], among: str = "--scorers"
) -> dict[str, dict[str, Any]]:
    r"""Returns the options of each scorer.

    Args:
      names: of the scorers, or "NAME=SCORER".
      given: as "scorer.name=value". In the text of a prompt (`…_prompt`), the two characters
        `\n` are a line break, `\t` a tab and `\\` a backslash.
      among: what the names are, for messages.

    Raises:
      ConfigError: for another form, and for an option of a scorer that is not among the names.
    """
    options: dict[str, dict[str, Any]] = {name: {} for name in names}
    by_name = {told.partition("=")[0]: found for told, found in options.items()}
    for text in given:
        left, equals, value = text.partition("=")
        scorer, dot, name = left.partition(".")
        if not (equals and dot and name):
            raise ConfigError(f"--scorer-option: expected SCORER.NAME=VALUE, got {text!r}.")
        if scorer not in by_name:
            raise ConfigError(f"--scorer-option: {scorer!r} is not among {among}.")
        try:
            by_name[scorer][name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            is_prompt = name.endswith("_prompt")
            by_name[scorer][name] = _unescaped(value) if is_prompt else value
    return options


def _unescaped(text: str) -> str:
    """Returns a prompt with line breaks and tabs for what stands for them on a command line."""
    characters = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}
    return re.sub(r"\\[nt\\]", lambda found: characters[found.group()], text)


def _run_scorers(options: argparse.Namespace) -> int:
    import tabulate

    from faith_jax.scoring import registry

    rows = []
    for name in registry.scorer_names():
        card = registry.scorer_card(name)
        needs = "model" if card.needs_model else ""
        given = ", ".join(o for o in registry.scorer_options(name) if o != "model")
        range_ = f"{card.low:g} to {card.high:g}"
        rows.append((name, range_, card.description, card.source, needs, given))
    columns = ("scorer", "range", "what it measures", "source", "needs", "options")
    widths = [None, None, 46, 20, None, 30]
    print(tabulate.tabulate(rows, columns, maxcolwidths=widths))
    return 0
