"""`reproduce pmi_decode`: Nandwani 2023, table 3."""

import argparse
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.evaluate_commands import listed_names
from faith_jax.cli.reproduce_options import (
    add_options,
    add_q2_models,
    table_parser,
    with_q2_models,
)
from faith_jax.errors import ConfigError

_SHARED = (
    "model", "vocabulary", "max-length", "max-input-length", "batch-size", "limit", "resamples",
    "seed",
)  # fmt: skip


def add_pmi_table(tables: argparse._SubParsersAction) -> list[argparse.ArgumentParser]:
    """Adds the command; the options' defaults are the run's."""
    table = table_parser(
        tables,
        "pmi_decode",
        "Nandwani 2023, table 3: a model's responses with and without PMI-Decode",
        "Responses of a model (the paper: a BART-large) by plain beam search (likelihood) and by\n"
        "PMI-Decode (pmi; pmi_no_mask, p = 1; pmi_equal, alpha = 0.5), and their scores.",
    )
    add_options(
        table,
        _SHARED,
        max_length="tokens of a response at most (default 128)",
        max_input_length="tokens of an input at most (default 512)",
    )
    table.add_argument(
        "--scorer-model", metavar="CHECKPOINT", help="for PMI-Faith; the paper: BLOOM-560m"
    )
    table.add_argument(
        "--bertscore-model", metavar="FOLDER", help="an encoder; usually roberta-large"
    )
    table.add_argument(
        "--scorer-option",
        action="append",
        metavar="SCORER.NAME=VALUE",
        help="of pmi_faith_mean, bertscore and q2_nli, such as bertscore.baseline=FILE, which "
        "rescales as the paper does (repeatable)",
    )
    add_q2_models(table)
    table.add_argument(
        "--corpus",
        action="append",
        dest="corpora",
        metavar="NAME",
        help="multidoc2dial, topical_chat or faithdial (repeatable; default: all)",
    )
    table.add_argument("--decodings", metavar="NAMES", help="default: all four")
    table.add_argument("--beams", type=int, dest="num_beams", metavar="N", help="default 4")
    table.add_argument("--alpha", type=float, help="in [0, 1] (default 0.25)")
    table.add_argument("--p", type=float, help="in (0, 1] (default 0.6)")
    return [table]


def run_pmi_table(_: str, given: Mapping[str, Any], sample: bool, output: str) -> str:
    """Makes the table; returns it as text."""
    from faith_jax.reproduce.pmi_table import pmi_table

    return pmi_table(_pmi_options(given, sample), output)


def _pmi_options(given: Mapping[str, Any], sample: bool) -> Any:
    """Returns the run's options from those of the command line that were given."""
    from faith_jax.cli.score_commands import scorer_options
    from faith_jax.reproduce.pmi_responses import PMITableOptions

    settings = {"model": ""} | dict(given)
    models = {
        "pmi_faith_mean": settings.pop("scorer_model", ""),
        "bertscore": settings.pop("bertscore_model", ""),
    }
    told = scorer_options([*models, "q2_nli"], settings.pop("scorer_option", []))
    scorers = with_q2_models(told, settings, ["q2_nli"])
    for option in ("q2_model", "q2_answer_model", "q2_nli_model"):
        settings.pop(option, "")
    for name, path in models.items():
        model = {"model": path} if path else {}
        if scorers[name] and "model" not in model | scorers[name]:
            raise ConfigError(f"--scorer-option: {name} is not scored without a model of its own.")
        scorers[name] = model | scorers[name]
    scorers = {name: found for name, found in scorers.items() if found}
    for name in ("corpora", "decodings"):
        chosen = settings.pop(name, ())
        if chosen := listed_names(chosen) if isinstance(chosen, str) else chosen:
            settings[name] = tuple(chosen)
    return PMITableOptions(scorers=scorers, sample=sample, **settings)
