"""Description of a table of scorers: a paper's table with its data, scorers and figures."""

import dataclasses
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.datasets.raw_dataset import sample_config


@dataclasses.dataclass(frozen=True)
class ScorerTable:
    """A table's data, scorers and evaluation, and the paper's figures.

    Attributes:
      title: the paper's table, such as "Steen 2023, table 1".
      data: the data set.
      corpora: configs of the data set; the sample's are `sample` or `CORPUS_sample`.
      scorers: the default scorers, which need no model; others are given by option.
      options: options of the evaluation.
      note: the table that has the paper's figures, and remarks for comparing.
      splits: splits of the data set.
      columns: columns of the paper's figures.
      published: rows with the first cells of our row (such as the scorer), and the paper's figures.
      defaults: for each scorer, the paper's options, used unless others are given.
      shows_all: show figures of scorers and systems that are not ours below the table too.

    Raises:
      ConfigError: on an option that `evaluate` does not have, and on a published row that is not
        one or more names followed by a figure, or None, for each column.
    """

    title: str
    data: str
    corpora: Sequence[str]
    scorers: Sequence[str]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""
    splits: Sequence[str] = ("test",)
    columns: Sequence[str] = ()
    published: Sequence[Sequence[Any]] = ()
    defaults: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    shows_all: bool = False

    def __post_init__(self) -> None:
        from faith_jax.runs.options import EvaluateOptions

        option_names = [field.name for field in dataclasses.fields(EvaluateOptions)]
        for name in self.options:
            if name not in option_names:
                hint = did_you_mean(name, option_names)
                raise ConfigError(f"{self.title}: options: there is no {name!r}.{hint}")
        for row in self.published:
            names, values = self._split_published(row)
            if not (
                names
                and all(isinstance(name, str) for name in names)
                and all(value is None or isinstance(value, int | float) for value in values)
            ):
                raise ConfigError(
                    f"{self.title}: published: expected names of our row, and a figure or None for "
                    f"each of {', '.join(self.columns) or 'the columns'}, got {row!r}."
                )

    def data_sets(self, sample: bool) -> list[tuple[str, str]]:
        """Returns the NAME/CONFIG and the split of each data set to score."""
        names = list(self.corpora)
        if sample:
            names = [sample_config(name) for name in names]
        return [(f"{self.data}/{name}", split) for name in names for split in self.splits]

    def figures(self) -> dict[tuple[str, ...], dict[str, float]]:
        """Returns the paper's figures by the first cells of our row, and by column."""
        by_row = {}
        for row in self.published:
            names, values = self._split_published(row)
            pairs = zip(self.columns, values, strict=True)
            by_row[tuple(names)] = {column: value for column, value in pairs if value is not None}
        return by_row

    def _split_published(self, row: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns the names in a published row, and its figures, one for each column."""
        size = max(0, len(row) - len(self.columns))
        return row[:size], row[size:]


def read_tables(module: str) -> dict[str, ScorerTable]:
    """Returns the tables that the .json file beside a module describes, by name."""
    return {name: ScorerTable(**table) for name, table in read_published_figures(module).items()}


def read_published_figures(module: str) -> dict[str, Any]:
    """Reads the .json file beside a module with this dotted name."""
    package, _, name = module.rpartition(".")
    text = importlib.resources.files(package).joinpath(f"{name}.json").read_text(encoding="utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures
