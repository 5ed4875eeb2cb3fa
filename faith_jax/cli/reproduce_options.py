"""Options that several tables of `reproduce` have, by name."""

import argparse
from collections.abc import Iterable

_OPTIONS = {
    "model": (str, "CHECKPOINT", "that responds: any language model"),
    "vocabulary": (str, "PATH", "its tokenizer (default: in the model's folder)"),
    "max-length": (int, "N", "tokens of a response at most"),
    "max-input-length": (int, "N", "tokens of an input at most"),
    "batch-size": (int, "N", "rows decoded at once (default 16)"),
    "limit": (int, "N", "only the first rows of each data set"),
    "resamples": (int, "N", "of intervals and tests (default 1000)"),
    "seed": (int, "N", "of all that is drawn (default 0)"),
}


def add_options(
    table: argparse.ArgumentParser | argparse._ArgumentGroup,
    names: Iterable[str],
    **helps: str,
) -> None:
    """Adds shared options.

    Args:
      table: of the parser or the group.
      names: of the options.
      **helps: other words for some of them, by name with underscores.
    """
    for name in names:
        kind, metavar, told = _OPTIONS[name]
        told = helps.get(name.replace("-", "_"), told)
        table.add_argument(f"--{name}", type=kind, metavar=metavar, help=told)


def table_parser(
    tables: argparse._SubParsersAction, name: str, title: str, description: str
) -> argparse.ArgumentParser:
    """Adds the command of a table.

    Args:
      tables: of `reproduce`.
      name: of the table.
      title: one line.
      description: what it does.
    """
    return tables.add_parser(
        name,
        help=title,
        description=f"{title}.\n\n{description}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
