"""The options of `reproduce nli` and `reproduce nli_phrases` (Steen 2023, tables 1, 2, 4 and 5)."""

import argparse
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.evaluate_commands import listed_names
from faith_jax.cli.reproduce_options import add_options, add_q2_models, table_parser
from faith_jax.cli.shared import TerminatedError
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
        table.add_argument(
            "--corpora", dest="true_corpora", metavar="NAMES", help="of TRUE (default: its nine)"
        )
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
    settings = dict(given)
    settings["models"] = _models(settings)
    for name in ("true_corpora", "methods"):
        if name in settings:
            settings[name.removeprefix("true_")] = tuple(listed_names(settings.pop(name)))
    from faith_jax.reproduce import nli_methods, nli_phrases, nli_table
    from faith_jax.runs import train

    if table == "nli":
        options = nli_methods.NliOptions(sample=sample, **settings)
        return nli_table.nli_table(options, output)
    wanted = nli_phrases.PhraseOptions(sample=sample, **settings)
    try:
        return nli_phrases.nli_phrases(wanted, output)
    except train.Stopped as stopped:
        raise TerminatedError from stopped


def _models(settings: dict[str, Any]) -> Any:
    """Takes the models with their scorers' options out of what was given."""
    from faith_jax.cli.score_commands import scorer_options
    from faith_jax.reproduce.nli_methods import MODELS, ModelOptions

    folders = {name: settings.pop(_dest(option), "") for name, option in MODELS.items()}
    models = scorer_options(list(MODELS), settings.pop("scorer_option", []), "the models")
    for name, folder in folders.items():
        if models[name] and not folder:
            raise ConfigError(f"--scorer-option: {name} has no model; give {MODELS[name]}.")
        if folder:
            models[name] = {"model": folder} | models[name]
    more = {name: settings.pop(f"q2_{name}", "") for name in ("answer_model", "nli_model")}
    for name, folder in more.items():
        if folder and not folders["q2"]:
            raise ConfigError(f"--q2-{name.replace('_', '-')}: goes with --q2-model.")
    if folders["q2"]:
        base = models["base"]
        shared = {"nli_model": base.get("model", "")}
        if not more["nli_model"] and "labels" in base:
            shared["labels"] = base["labels"]
        asked = {name: folder for name, folder in more.items() if folder}
        models["q2"] = shared | models["q2"] | asked
    found = {name: options for name, options in models.items() if options}
    chosen = {n: settings[n] for n in ("dropout_passes", "seed") if n in settings}
    settings.pop("dropout_passes", None)
    return ModelOptions(found, **chosen)


def _dest(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
