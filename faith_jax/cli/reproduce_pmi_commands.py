"""`reproduce pmi_decode`: Nandwani 2023, table 3."""

import argparse
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.evaluate_commands import listed_names
from faith_jax.cli.reproduce_options import add_options, add_q2_models, model_scorers, table_parser

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
    from faith_jax.reproduce.pmi_decode import Options, Table
    from faith_jax.reproduce.workflow import absolute, table_of_workflow
    from faith_jax.runs.setup import check_language_model

    settings = {name: it for name, it in given.items() if name in Options.__dataclass_fields__}
    for name in ("corpora", "decodings"):
        if name in given:
            chosen = given[name]
            settings[name] = listed_names(chosen) if isinstance(chosen, str) else chosen
    models = {"pmi_faith_mean": "scorer_model", "bertscore": "bertscore_model"}
    settings["scorers"] = model_scorers(given, models, ("q2_nli",))
    settings["model"] = absolute(given.get("model", ""))
    options = Options(**settings, sample=sample)
    options.check()
    check_language_model("--model", options.model)
    return table_of_workflow("pmi_decode", options, Table, output, given)
