"""`reproduce faith_critic`: Dziri 2022, table 4."""

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.reproduce_options import add_options, named_folders, table_parser

_SHARED = ("model", "vocabulary", "max-length", "batch-size", "resamples", "seed")


def add_critic_table(tables: argparse._SubParsersAction) -> list[argparse.ArgumentParser]:
    """Adds the command; the options' defaults are the run's."""
    table = table_parser(
        tables,
        "faith_critic",
        "Dziri 2022, table 4: the transfer of critics",
        "Critics trained on DECODE, DNLI, MNLI and FaithCritic, tested on MNLI, BEGIN and\n"
        "FaithCritic. Missing ones are trained from --model (the paper: a RoBERTa-large) by\n"
        "faith_critic_finetune.gin.",
    )
    add_options(
        table,
        _SHARED,
        model="from which critics are trained",
        max_length="tokens of a pair at most (default 256)",
        batch_size="rows of a step (default 32)",
    )
    table.add_argument(
        "--critics",
        action="append",
        metavar="NAME=FOLDER",
        help="a classifier that is trained already: DECODE, DNLI, MNLI or FaithCritic (repeatable)",
    )
    table.add_argument(
        "--sets",
        metavar="NAME",
        help="published: those of the authors' code (default); own: BEGIN's second release, and "
        "FaithCritic with edited responses in test too",
    )
    table.add_argument(
        "--train-steps", type=int, metavar="N", help="default: ten epochs of a critic's data"
    )
    return [table]


def run_critic_table(_: str, given: Mapping[str, Any], sample: bool, output: str) -> str:
    """Makes the table; returns it as text."""
    from faith_jax.reproduce.faith_critic import Options, Table
    from faith_jax.reproduce.workflow import absolute, table_of_workflow

    names = {field.name for field in dataclasses.fields(Options)} - {"critics"}
    settings: dict[str, Any] = {n: given[n] for n in names & given.keys()}
    settings["model"] = absolute(settings.get("model", ""))
    critics = named_folders("critics", given.get("critics", ()))
    settings["critics"] = {name: absolute(folder) for name, folder in critics.items()}
    options = Options(sample=sample, **settings)
    options.check()
    return table_of_workflow("faith_critic", options, Table, output, given)
