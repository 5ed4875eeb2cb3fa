"""Options of `reproduce nli` and `nli_phrases`, by name."""

import argparse
from collections.abc import Iterable

_OPTIONS = {
    "model": (str, "CHECKPOINT", "that responds: any language model"),
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


def add_q2_models(table: argparse.ArgumentParser, compares: str = "") -> None:
    """Adds the options that name the models of Q².

    Args:
      table: of the parser.
      compares: the default of the third, where there is one.
    """
    default = f" (default: {compares})" if compares else ""
    for name, what in (
        ("q2", "asks questions about a response, for Q\u00b2"),
        ("q2-answer", "answers them (default: the same)"),
        ("q2-nli", f"compares answers, and judges responses without questions{default}"),
    ):
        table.add_argument(f"--{name}-model", metavar="FOLDER", help=what)
