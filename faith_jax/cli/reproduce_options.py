"""Options that several tables of `reproduce` have, by name."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError

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


def named_folders(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Returns the folders by name that an option was given.

    Raises:
      ConfigError: for another form than NAME=FOLDER, and a name that is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, path = (part.strip() for part in text.partition("="))
        if not (name and equals and path):
            raise ConfigError(f"--{option}: expected NAME=FOLDER, got {text!r}.")
        if name in found:
            raise ConfigError(f"--{option}: {name!r} is given twice.")
        found[name] = path
    return found


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


def with_q2_models(
    scorers: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any], names: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Returns the scorers' options with the models of Q² that `add_q2_models` names.

    Args:
      scorers: options of all of a table's scorers, by name.
      given: the command's options.
      names: of those that are Q².

    Raises:
      ConfigError: where some of its models are given, but not all that it needs.
    """
    models = {name: given.get(f"q2_{name}", "") for name in ("model", "answer_model", "nli_model")}
    named = {name: path for name, path in models.items() if path}
    found = {name: dict(options) for name, options in scorers.items()}
    for name in names:
        options = named | found[name]
        if not options:
            continue
        for option, needed in (("model", "--q2-model"), ("nli_model", "--q2-nli-model")):
            if not options.get(option):
                raise ConfigError(
                    f"{name} needs a model that asks questions (--q2-model) and one of natural "
                    f"language inference (--q2-nli-model); {needed} is not given."
                )
        found[name] = options
    return found


def model_scorers(
    given: Mapping[str, Any], models: Mapping[str, str], q2: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Returns the options of the scorers that have a model, which is loaded as a check.

    Args:
      given: the command's options.
      models: by scorer the option that names its model.
      q2: names of those that are Q\u00b2.

    Raises:
      FaithJaxError: for a model that cannot be opened, and for options of a scorer without one.
    """
    from faith_jax.cli.score_commands import scorer_options
    from faith_jax.reproduce.workflow import absolute, leave_accelerators
    from faith_jax.scoring.registry import load_scorer

    leave_accelerators()
    told = scorer_options([*models, *q2], given.get("scorer_option", []))
    told = with_q2_models(told, given, q2)
    found = {}
    for name, options in told.items():
        if option := given.get(models.get(name, "")):
            options = {"model": option, **options}
        if not options:
            continue
        if "model" not in options:
            raise ConfigError(f"--scorer-option: {name} is not scored without a model of its own.")
        found[name] = {
            key: absolute(value) if isinstance(value, str) else value
            for key, value in options.items()
        }
        load_scorer(name, **found[name])
    return found
