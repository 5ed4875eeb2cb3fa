"""The commands about scored files: evaluate and report."""

import argparse
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from faith_jax.core.errors import ConfigError
from faith_jax.core.quiet_tensorflow import quiet_tensorflow

LEAST_RESAMPLES = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Comparison:
    """What scorers are chosen and compared by.

    Attributes:
      scorers (NAMES): only these, separated by commas (default: all)
      baseline (NAME): the scorer (or system) that others must beat
      test: of significance, with a baseline
      cluster_field (NAME): rows with the same value of this field, such as a document's id, are not
        independent
      resamples (N): of the bootstrap
      confidence: of the intervals
      seed: of the bootstrap
    """

    scorers: str = ""
    baseline: str = ""
    test: Literal["approximate_randomization", "delong", "hanley_mcneil"] = (
        "approximate_randomization"
    )
    cluster_field: str = ""
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def comparison(self) -> dict[str, Any]:
        """Returns these options, checked, with the scorers' names as a tuple.

        Raises:
          ConfigError: for numbers that cannot be used, and a test without a baseline.
        """
        if self.test != _Comparison.test and not self.baseline:
            raise ConfigError(
                "--test: goes with --baseline, the scorer that others are tested with; give "
                "--baseline=SCORER."
            )
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(_Comparison)}
        check_numbers(given)
        return given | {"scorers": tuple(listed_names(self.scorers))}


# The protocols to which an option says something; with others it is an error.
_GOES_WITH = {
    "slice_field": ("npov", "npov_words"),
    "dataset": ("dialfact",),
    "split": ("dialfact",),
    "development": ("begin",),
    "group_field": ("begin",),
    "baseline": ("auc", "systems"),
    "compare": ("systems",),
    "table": ("accuracy", "systems"),
    "test": ("auc",),
    "cluster_field": ("auc",),
    "resamples": ("accuracy", "auc", "npov", "npov_words", "systems"),
    "confidence": ("accuracy", "auc", "npov", "npov_words", "systems"),
    "seed": ("accuracy", "auc", "npov", "npov_words", "systems"),
    "scorers": ("accuracy", "auc", "begin", "npov", "npov_words", "pronouns", "systems"),
    "ensemble": ("auc", "begin", "pronouns"),
}


@dataclasses.dataclass(frozen=True)
class Evaluate(_Comparison):
    """Makes tables and pictures of scored files.

    Compares scorers by what `score` wrote. Files of one corpus are joined by the ids of their rows.

    Attributes:
      files (FILE): scored .jsonl or .parquet files, or TFDS folders
      protocol: ROC AUC by corpus; how often scores of at least 0.5 are right; Nandwani 2023, table
        1; Gupta 2022, section 5.3; Chang 2024, table 1 and table 3; Steen 2023, table 3; mean
        scores of systems
      compare (SYSTEM:BASELINE): for systems: a pair to compare, in place of --baseline (repeatable)
      table (JSON): for systems and accuracy: columns and published figures
      slice_field (NAME): for npov: names a row's slice
      dataset (NAME): for dialfact: NAME[/CONFIG]
      split: for dialfact
      development (FILE): for begin: the scored development part
      group_field (NAME): for begin: F1 by this field too
      ensemble (NAME=SCORER,SCORER): the mean of several scorers' scores, each mapped from its range
        to 0 to 1; a scorer of your own as SCORER:LOW:HIGH (repeatable)
      json (PATH): write all figures
      markdown (PATH): write the table
      latex (PATH): write the table
      csv (PATH): write the table
      histograms (PATH): write the scores' distributions (PNG)
      roc_curves (PATH): write the ROC curves (PNG)

    Examples:
      %(prog)s q2.jsonl qags_c.jsonl --baseline=token_f1 --markdown=table.md --json=figures.json
      %(prog)s begin_test.jsonl --protocol=begin --development=begin_dev.jsonl
      %(prog)s q2.jsonl --ensemble=both=summac_zs,nli_e_minus_c --baseline=summac_zs
      %(prog)s q2.jsonl begin_2021.jsonl --protocol=pronouns
      %(prog)s npov_scores.jsonl --protocol=npov
      %(prog)s critic_scores.jsonl --protocol=accuracy --scorers=faith_critic_call
      %(prog)s old_system.jsonl new_system.jsonl --protocol=systems --baseline=old_system
      %(prog)s runs/verify/predictions.jsonl --protocol=dialfact --dataset=dialfact/official
    """

    files: tuple[str, ...]
    _: dataclasses.KW_ONLY
    protocol: Literal[
        "auc", "accuracy", "begin", "dialfact", "npov", "npov_words", "pronouns", "systems"
    ] = "auc"
    compare: tuple[str, ...] = ()
    table: str = ""
    slice_field: str = ""
    dataset: str = "dialfact"
    split: str = "test"
    development: str = ""
    group_field: str = "source"
    ensemble: tuple[str, ...] = ()
    json: str = ""
    markdown: str = ""
    latex: str = ""
    csv: str = ""
    histograms: str = ""
    roc_curves: str = ""

    def run(self) -> None:
        options = self._options()
        if self.protocol == "dialfact" or any(map(os.path.isdir, [*self.files, self.development])):
            quiet_tensorflow()
        from faith_jax.runs import evaluate_scores

        tables = {"markdown": self.markdown, "latex": self.latex, "csv": self.csv}
        text = evaluate_scores.evaluate(
            self.files,
            evaluate_scores.EvaluateOptions(**options),
            self.json,
            {form: path for form, path in tables.items() if path},
            self.histograms,
            self.roc_curves,
        )
        print(text, end="")

    def _options(self) -> dict[str, Any]:
        """Returns the options of the evaluation, which go with the protocol."""
        for name, protocols in _GOES_WITH.items():
            is_given = getattr(self, name) != getattr(Evaluate, name)
            if is_given and self.protocol not in protocols:
                raise ConfigError(
                    f"--{name.replace('_', '-')}: goes with --protocol={' or '.join(protocols)},"
                    f" not with {self.protocol}."
                )
        names = ("protocol", "table", "slice_field", "dataset", "split", "development")
        return {
            **{name: getattr(self, name) for name in (*names, "group_field")},
            **self.comparison(),
            "compare": _pairs(self.compare),
            "ensembles": _ensembles(self.ensemble),
        }


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


def given_options(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Returns those of the named options that were given."""
    found = {name: getattr(options, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def listed_names(listed: str) -> list[str]:
    """Returns the names that commas separate."""
    return [name.strip() for name in listed.split(",") if name.strip()]


def check_numbers(given: Mapping[str, Any]) -> None:
    """Checks numbers of resamples and seeds.

    Raises:
      ConfigError: naming the option.
    """
    if given.get("resamples", LEAST_RESAMPLES) < LEAST_RESAMPLES:
        raise ConfigError(
            f"--resamples: expected at least {LEAST_RESAMPLES}, got {given['resamples']}."
        )
    if given.get("seed", 0) < 0:
        raise ConfigError(f"--seed: expected 0 or more, got {given['seed']}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Salience:
    """Heat maps of the rows with the lowest score of the first scorer (docs/salience.md).

    Attributes:
      salience_model (FOLDER): of the language model
      salience_rows (N): how many rows (default: 5)
      salience_threshold (SHARE): below which words are marked
      salience_method: gradient_x_input (default) or gradient_l2
    """

    group: ClassVar = "salience: heat maps of where words come from (docs/salience.md)"
    salience_model: str | None = None
    salience_rows: int | None = None
    salience_threshold: float | None = None
    salience_method: str | None = None


@dataclasses.dataclass(frozen=True)
class Report(_Salience, _Comparison):
    """Makes one HTML page of scored files.

    Tables with intervals, ROC curves, histograms, and the examples to sort, filter and read, in one
    page that needs no network. With --salience-model, heat maps show where the words of the
    responses come from, in the rows with the lowest score of the first scorer.

    Attributes:
      files (FILE): scored .jsonl or .parquet files, or TFDS folders
      output (HTML): the page
      title: of the page (default: the files' names)
      most_examples (N): in the page

    Examples:
      %(prog)s q2.jsonl qags_c.jsonl --output=report.html
      %(prog)s npov.jsonl --salience-model=runs/npov --salience-rows=3 --output=report.html
    """

    files: tuple[str, ...]
    _: dataclasses.KW_ONLY
    output: str
    title: str = ""
    most_examples: int = 10_000

    def run(self) -> None:
        if self.most_examples < 1:
            raise ConfigError("--most-examples: expected a positive number.")
        given = self.comparison()
        names = ("model", "rows", "threshold", "method")
        maps = {name: getattr(self, f"salience_{name}") for name in names}
        maps = {name: value for name, value in maps.items() if value is not None}
        if maps and "model" not in maps:
            raise ConfigError(f"--salience-{next(iter(maps))}: goes with --salience-model.")
        if any(map(os.path.isdir, self.files)):
            quiet_tensorflow()
        from faith_jax.report.salience import ReportSalience
        from faith_jax.runs import report

        page = report.report(
            self.files,
            self.output,
            title=self.title,
            most_examples=self.most_examples,
            salience=ReportSalience(**maps) if maps else None,
            **given,
        )
        print(page)
