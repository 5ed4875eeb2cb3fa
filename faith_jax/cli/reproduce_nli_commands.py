"""The options of `reproduce nli` and `reproduce nli_phrases` (Steen 2023, tables 1, 2, 4 and 5)."""

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.evaluate_commands import listed_names
from faith_jax.cli.reproduce_options import add_options, add_q2_models, table_parser
from faith_jax.core.errors import ConfigError


def add_nli_tables(tables: argparse._SubParsersAction) -> list[argparse.ArgumentParser]:
    """Adds both commands; the options' defaults are the runs'."""
    nli = table_parser(
        tables,
        "nli",
        "Steen 2023, tables 1, 2 and 4: an NLI classifier with a little push",
        "Faithfulness on TRUE by an NLI classifier, as it is, with e-c, Monte-Carlo dropout and\n"
        "training on ANLI with dialogue phrases; beside others, with their costs (docs/nli.md).",
    )
    phrases = table_parser(
        tables,
        "nli_phrases",
        "Steen 2023, table 5: that training again, with five of the ten phrases each time",
        "Draws phrases, trains the classifier on ANLI with them, and scores TRUE (docs/nli.md).",
    )
    for table in (nli, phrases):
        add_options(table, ("model", "seed"), model="the NLI classifier")
        table.add_argument(
            "--augmented-model",
            metavar="FOLDER",
            help="the same classifier, trained on augmented ANLI",
        )
        table.add_argument("--corpora", metavar="NAMES", help="of TRUE (default: its nine)")
        table.add_argument(
            "--dropout-passes", type=int, metavar="K", help="of Monte-Carlo dropout (default 15)"
        )
        table.add_argument(
            "--scorer-option",
            action="append",
            metavar="MODEL.NAME=VALUE",
            help="of base, augmented, t5_anli, summac_zs or q2 (repeatable)",
        )
    _add_methods(nli)
    _add_draws(phrases)
    return [nli, phrases]


def _add_methods(table: argparse.ArgumentParser) -> None:
    add_options(table, ("resamples",))
    for name, what in (
        ("t5", "a T5 that was trained on ANLI"),
        ("summac", "an NLI classifier for SummaC-ZS"),
    ):
        table.add_argument(f"--{name}-model", metavar="FOLDER", help=what)
    add_q2_models(table, "--model")
    table.add_argument("--methods", metavar="NAMES", help="default: all that there are models for")


def _add_draws(table: argparse.ArgumentParser) -> None:
    add_options(
        table,
        ("batch-size", "max-input-length"),
        batch_size="rows of a training step (default 64)",
        max_input_length="tokens of a row of training (default 512)",
    )
    table.add_argument("--draws", type=int, metavar="N", help="of phrases (default 10)")
    table.add_argument("--phrases", type=int, metavar="N", help="in a draw (default 5)")
    table.add_argument(
        "--train-task",
        metavar="NAME",
        help="default: nli_anli_augmented, with --sample nli_anli_augmented_sample",
    )
    table.add_argument("--train-steps", type=int, metavar="N", help="of each draw (default 2000)")
    table.add_argument("--learning-rate", type=float, metavar="RATE", help="its peak (5e-6)")


def run_nli(table: str, given: Mapping[str, Any], sample: bool, output: str) -> str:
    """Makes one of both tables; returns it as text."""
    from faith_jax.reproduce import nli, nli_phrases
    from faith_jax.reproduce.workflow import table_of_workflow

    settings = {**given, "sample": sample, "models": _models(given)}
    for name in ("corpora", "methods"):
        if name in given:
            settings[name] = listed_names(given[name])
    page = nli if table == "nli" else nli_phrases
    known = {field.name for field in dataclasses.fields(page.Options)}
    options = page.Options(**{name: settings[name] for name in known & settings.keys()})
    options.check()
    return table_of_workflow(table, options, page.Table, output, given)


def _models(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the models with their scorers' options."""
    from faith_jax.cli.score_commands import scorer_options
    from faith_jax.reproduce.nli import MODELS
    from faith_jax.reproduce.workflow import absolute

    models = scorer_options(list(MODELS), given.get("scorer_option", []), "the models")
    for name, option in MODELS.items():
        folder = given.get(option.removeprefix("--").replace("-", "_"), "")
        if models[name] and not folder:
            raise ConfigError(f"--scorer-option: {name} has no model; give {option}.")
        if folder:
            models[name] = {"model": absolute(folder)} | models[name]
    for name in ("answer_model", "nli_model"):
        if folder := given.get(f"q2_{name}", ""):
            if not models["q2"]:
                raise ConfigError(f"--q2-{name.replace('_', '-')}: goes with --q2-model.")
            models["q2"][name] = absolute(folder)
    if models["q2"] and "nli_model" not in models["q2"]:
        base = models["base"]
        labels = {"labels": base["labels"]} if "labels" in base else {}
        models["q2"] = labels | {"nli_model": base.get("model", "")} | models["q2"]
    return {name: options for name, options in models.items() if options}
