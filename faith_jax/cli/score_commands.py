"""The commands that score: score and scorers."""

import ast
import dataclasses
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from faith_jax.cli.evaluate_commands import listed_names
from faith_jax.cli.shared import resumable
from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.quiet_tensorflow import quiet_tensorflow

if TYPE_CHECKING:
    from faith_jax.core.rows import BadRows
    from faith_jax.input.score_input import ScoreInput


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Input:
    """What is scored.

    Attributes:
      input (FILE): .jsonl, .csv, .tsv or .parquet (repeatable)
      input_format: of FILE
      task (NAME): a SeqIO task, in its place; NAME@SPLIT for another split (repeatable)
      tfds (NAME): or a data set: NAME[/CONFIG], likewise (repeatable)
      split: of tasks or data sets; of a data set also a slice, as test[:10]
      corpus (NAME): of rows that name none
      system (NAME): that made the responses
      skip_bad_rows: skip bad rows, count and list them
    """

    group: ClassVar = "input"
    input: tuple[str, ...] = ()
    input_format: Literal["jsonl", "csv", "tsv", "parquet"] | None = None
    task: tuple[str, ...] = ()
    tfds: tuple[str, ...] = ()
    split: str = ""
    corpus: str = ""
    system: str = ""
    skip_bad_rows: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Columns:
    """Which columns hold what.

    Attributes:
      grounding_column (NAME): a text or a list of texts; or pro=NAME,con=NAME; default: the usual
        names, TRUE's first
      response_column (NAME): the text; default: the usual names, TRUE's first
      history_column (NAME): earlier utterances
      label_column (NAME): 1 = faithful, 0, or empty (default: label, where there is one); of
        several with commas the first that a row has
      label_values (LABEL=VALUE): what other labels mean, with commas:
        entailment=1,contradiction=0,generic= (unknown)
      labels_are_errors: a label of 1 says that there is an error
      id_column (NAME): default: id, where there is one; else, or with --id-column=, the row's
        number
      corpus_column (NAME): default: corpus, where there is one
    """

    group: ClassVar = "columns"
    grounding_column: str = ""
    response_column: str = ""
    history_column: str = ""
    label_column: str | None = None
    label_values: str = ""
    labels_are_errors: bool = False
    id_column: str | None = None
    corpus_column: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score(_Columns, _Input):
    r"""Scores responses by any number of scorers.

    Scores every row of a file, a SeqIO task or a TFDS data set in one pass. A run that was stopped
    resumes when the same command is given again.

    Attributes:
      scorers (NAMES): separated by commas; see the command scorers. NAME=SCORER gives one a name of
        its own, so that it may score several times with different options
      scorer_option (SCORER.NAME=VALUE): an option of a scorer; VALUE is a Python literal, or a
        text, which in prompts may hold \n (a line break), \t and \\ (repeatable)
      output (PATH): .jsonl, .parquet, or a folder for TFDS
      format: of the output
      batch_size (N): rows scored and written at once
      costs (JSON): write the parameters and the speed of each scorer, of a second pass over the
        first 64 rows
      restart: discard what a stopped run with this output kept
      dry_run: say what the scorers would see and how much of it they would cut, and stop

    Examples:
      %(prog)s --scorers=token_f1,rouge1_precision --input=rows.jsonl --output=scores.jsonl
      %(prog)s --scorers=token_f1 --scorer-option=token_f1.normalization=squad \
          --input=answers.csv --grounding-column=passages --response-column=answer \
          --output=scores.parquet
      %(prog)s --scorers=npov_rouge1_hallucination,npov_rouge1_coverage \
          --tfds=npov_errors/sample --split=test --label-column=has_hallucination \
          --labels-are-errors --output=npov_scores.jsonl
      %(prog)s --scorers=token_f1 --tfds=true_benchmark/q2 --tfds=true_benchmark/frank \
          --split=test --costs=costs.json --output=true.jsonl
      %(prog)s --scorers=pmi_faith_mean --scorer-option=pmi_faith_mean.model=checkpoints/gpt2 \
          --scorer-option='pmi_faith_mean.document_prompt=Text: {document}\n' \
          --input=rows.jsonl --output=pmi.jsonl
      %(prog)s --scorers=small=pmi_faith,large=pmi_faith \
          --scorer-option=small.model=checkpoints/gpt2 \
          --scorer-option=large.model=checkpoints/gpt2-xl --input=rows.jsonl --output=both.jsonl
    """

    scorers: str
    scorer_option: tuple[str, ...] = ()
    output: str
    format: Literal["jsonl", "parquet", "tfds"] | None = None
    batch_size: int = 256
    costs: str = ""
    restart: bool = False
    dry_run: bool = False

    def run(self) -> int:
        if self.task or self.tfds or self.format == "tfds" or "." not in self.output:
            quiet_tensorflow()
        from faith_jax.core.files import kept_rows
        from faith_jax.datasets.grounded_rows import Columns
        from faith_jax.input.score_input import ScoreInput

        sources = {"file": self.input, "task": self.task, "tfds": self.tfds}
        first = {name: listed[0] for name, listed in sources.items() if listed}
        given = ScoreInput(
            **first,
            more=tuple(name for listed in sources.values() for name in listed[1:]),
            file_format=self.input_format or "",
            split=self.split,
            corpus=self.corpus,
            system=self.system,
            columns=Columns(
                grounding=self.grounding_column,
                response=self.response_column,
                history=self.history_column,
                label=self.label_column,
                id=self.id_column,
                corpus=self.corpus_column,
                label_is_error=self.labels_are_errors,
                label_values=_label_values(self.label_values),
            ),
        )

        def kept() -> str:
            count = kept_rows(pathlib.Path(self.output))
            if not count:
                return "nothing was scored yet."
            return f"{counted(count, 'scored row')} are kept; the same command resumes there."

        return resumable(lambda: self._score(given), kept)

    def _score(self, given: "ScoreInput") -> int:
        from faith_jax.core.rows import BadRows
        from faith_jax.runs import score

        names = listed_names(self.scorers)
        told = scorer_options(names, self.scorer_option)
        bad_rows = BadRows(skip=self.skip_bad_rows)
        output = self.output, self.format or ""
        if self.dry_run:
            score.preflight(given, told, *output, bad_rows)
            _print_skipped(bad_rows)
            return 0
        summary = score.score(
            given, told, *output, self.batch_size, bad_rows, self.restart, self.costs
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


def _label_values(text: str) -> dict[str, int | None]:
    """Returns what labels mean: 1, 0, or nothing.

    >>> _label_values("Entailment=1, generic=")
    {'entailment': 1, 'generic': None}
    """
    found: dict[str, int | None] = {}
    for part in listed_names(text):
        name, equals, value = (it.strip() for it in part.rpartition("="))
        if not (name and equals and value in ("0", "1", "")):
            raise ConfigError(f"--label-values: expected LABEL=1, LABEL=0 or LABEL=, got {part!r}.")
        found[name.lower()] = int(value) if value else None
    return found


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scorers:
    """Lists the scorers with what they measure, their range and their source."""

    def run(self) -> None:
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
