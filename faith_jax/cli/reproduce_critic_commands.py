"""`reproduce faith_critic`: Dziri 2022, table 4."""

import argparse
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.reproduce_options import add_options, table_parser
from faith_jax.core.errors import ConfigError

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
    from faith_jax.reproduce.critic_models import CriticTableOptions
    from faith_jax.reproduce.critic_table import critic_table

    settings = dict(given)
    critics: dict[str, str] = {}
    for text in settings.pop("critics", []):
        name, equals, folder = (part.strip() for part in text.partition("="))
        if not (name and equals and folder):
            raise ConfigError(f"--critics: expected NAME=FOLDER, got {text!r}.")
        if name in critics:
            raise ConfigError(f"--critics: {name!r} is given twice.")
        critics[name] = folder
    return critic_table(CriticTableOptions(critics=critics, sample=sample, **settings), output)
