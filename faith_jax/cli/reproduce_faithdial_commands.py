"""The options of `reproduce faithdial`: tables 5 and 8 of Dziri 2022."""

import argparse
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.evaluate_commands import listed_names
from faith_jax.cli.reproduce_options import (
    add_options,
    add_q2_models,
    model_scorers,
    named_folders,
    table_parser,
)
from faith_jax.core.errors import ConfigError

# What the sample is trained with, where nobody says: minutes on 2 cores. None of its texts is cut
# with the tokenizer of `mini`, and no row has more negatives.
_SAMPLE = {
    "train_steps": 20, "train_batch_size": 8, "max_input_length": 160, "target_length": 64,
    "max_length": 32,
}  # fmt: skip

_SHARED = (
    "vocabulary", "max-length", "max-input-length", "batch-size", "limit", "resamples", "seed",
)  # fmt: skip


def add_faithdial_table(tables: argparse._SubParsersAction) -> list[argparse.ArgumentParser]:
    """Adds the command; the options' defaults are the run's."""
    table = table_parser(
        tables,
        "faithdial",
        "Dziri 2022, tables 5 and 8: generators by training data and method",
        "Models are trained by each method on each data, respond to FaithDial's test turns and,\n"
        "zero-shot, to other dialogues', and are judged (docs/faithdial.md). Columns that need a\n"
        "model are left out without one.",
    )
    add_options(
        table,
        _SHARED,
        vocabulary="of all models, where they carry none",
        max_length="tokens of a response at most (default 128; of samples 32)",
        max_input_length="tokens of an input at most (default 512; of samples 160)",
    )
    table.add_argument(
        "--models",
        action="append",
        metavar="NAME=CHECKPOINT",
        help="to train, such as t5=checkpoints/t5_base; doha=… makes a BART a DoHA (repeatable)",
    )
    table.add_argument(
        "--methods",
        metavar="NAMES",
        help="of cross_entropy, ctrl, loss_truncation, infonce (default: all)",
    )
    table.add_argument(
        "--trained-on",
        metavar="NAMES",
        help="of wow, faithdial, wow_then_faithdial, topical_chat and cmu_dog, of which the last "
        "two are tested on themselves alone (default: these), and faithdial_wow: FaithDial's "
        "dialogues with Wizard of Wikipedia's responses",
    )
    table.add_argument(
        "--tested-on",
        metavar="NAMES",
        help="of faithdial, wow, topical_chat, cmu_dog (default: all that are at hand)",
    )
    table.add_argument(
        "--seeds", metavar="NUMBERS", help="of trainings; figures are means over them (default 0)"
    )
    table.add_argument(
        "--trained",
        action="append",
        metavar="SYSTEM/DATA=FOLDER",
        help="a model that is trained already, such as t5_infonce/faithdial=runs/infonce "
        "(repeatable)",
    )
    table.add_argument(
        "--train-steps",
        type=int,
        metavar="N",
        help="of each training (default: 10 epochs, of doha 25; of samples 20)",
    )
    table.add_argument("--train-batch-size", type=int, metavar="N", help="default 32; of samples 8")
    table.add_argument(
        "--learning-rate", type=float, metavar="RATE", help="its peak (default 6.25e-5; doha 2e-5)"
    )
    table.add_argument(
        "--target-length", type=int, metavar="N", help="tokens (default 256; of samples 64)"
    )
    table.add_argument("--critic-model", metavar="FOLDER", help="FaithDial's critic")
    add_q2_models(table)
    table.add_argument("--bertscore-model", metavar="FOLDER", help="an encoder")
    table.add_argument(
        "--scorer-option",
        action="append",
        metavar="SCORER.NAME=VALUE",
        help="of faith_critic, q2_f1, q2_nli and bertscore (repeatable)",
    )
    return [table]


def run_faithdial_table(_: str, given: Mapping[str, Any], sample: bool, output: str) -> str:
    """Makes the table; returns it as text."""
    from faith_jax.reproduce.faithdial import Table
    from faith_jax.reproduce.workflow import table_of_workflow

    return table_of_workflow("faithdial", _options(given, sample), Table, output, given)


def _options(given: Mapping[str, Any], sample: bool) -> Any:
    """Returns the table's options from those of the command line that were given."""
    from faith_jax.reproduce.faithdial import DOHA, Options
    from faith_jax.reproduce.workflow import absolute
    from faith_jax.runs.setup import check_language_model

    settings: dict[str, Any] = {"sample": sample, **(_SAMPLE if sample else {})}
    numbers = (
        "train_steps", "train_batch_size", "learning_rate", "max_input_length", "target_length",
        "vocabulary", "max_length", "batch_size", "limit", "resamples", "seed",
    )  # fmt: skip
    settings |= {name: given[name] for name in numbers if name in given}
    for name in ("methods", "trained_on", "tested_on"):
        if name in given:
            settings[name] = listed_names(given[name])
    if "seeds" in given:
        settings["seeds"] = _numbers(given["seeds"])
    named = named_folders("models", given.get("models", ()))
    settings["models"] = {name: absolute(path) for name, path in named.items()}
    named = named_folders("trained", given.get("trained", ()))
    # SYSTEM/DATA; the table names the data first.
    settings["trained"] = {
        "/".join(reversed(name.split("/"))): absolute(path) for name, path in named.items()
    }
    models = {"faith_critic": "critic_model", "bertscore": "bertscore_model"}
    settings["scorers"] = model_scorers(given, models, ("q2_f1", "q2_nli"))
    options = Options(**settings)
    options.check()
    for name, path in options.models.items():
        check_language_model("--models", path)
        if name == DOHA:
            _check_doha("--models: doha", path)
    for key, path in options.trained.items():
        check_language_model(f"--trained: {key}", path)
        if key.endswith(f"/{DOHA}"):
            _check_doha(f"--trained: {key}", path, is_trained=True)
    return options


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--seeds: expected whole numbers with commas, such as 0,1,2; got {text!r}."
        ) from None


def _check_doha(option: str, path: str, is_trained: bool = False) -> None:
    """Checks that a checkpoint becomes a DoHA, or is one.

    Raises:
      ConfigError: where it does not.
    """
    from faith_jax.checkpoints.open import open_checkpoint

    checkpoint = open_checkpoint(path)
    if checkpoint.config.knowledge_attention:
        return
    if is_trained:
        raise ConfigError(
            f"{option}: {path}: has no attention over the knowledge, so it is no DoHA; train one "
            "with faithdial_generate_doha.gin."
        )
    if checkpoint.family != "bart":
        raise ConfigError(
            f"{option}: {path}: DoHA is made of a BART, but this is "
            f"{checkpoint.family or 'another model'}; give a BART or a trained DoHA."
        )
