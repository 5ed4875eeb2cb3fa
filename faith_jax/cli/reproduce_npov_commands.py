"""`reproduce npov_detection`: Chang 2024, tables 1, 2, 3, 5 and 6."""

import argparse
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.evaluate_commands import listed_names
from faith_jax.cli.reproduce_options import add_options, table_parser
from faith_jax.core.errors import ConfigError

_SHARED = (
    "model", "vocabulary", "max-length", "max-input-length", "batch-size", "resamples", "seed",
)  # fmt: skip


def add_npov_detection_table(tables: argparse._SubParsersAction) -> list[argparse.ArgumentParser]:
    """Adds the command; the options' defaults are the run's."""
    table = table_parser(
        tables,
        "npov_detection",
        "Chang 2024, tables 1, 2, 3, 5 and 6: errors in a model's responses, and who finds them",
        "Responses of a generator, with errors, and how well ROUGE, salience and classifiers\n"
        "detect these (docs/detection.md).",
    )
    add_options(
        table,
        _SHARED,
        max_length="tokens of a response at most (default 256)",
        max_input_length="tokens of an input at most (default 512)",
    )
    table.add_argument(
        "--hallucination-model", metavar="FOLDER", help="table 1's classifier (default: dev's)"
    )
    table.add_argument("--coverage-model", metavar="FOLDER", help="likewise")
    table.add_argument(
        "--classifiers",
        action="append",
        metavar="NAME=HALL_FOLDER,COV_FOLDER",
        help="by what they are trained on: synth, para, dev, org or annotation_free; one of the "
        "folders may be left out (repeatable)",
    )
    table.add_argument(
        "--salience-model", metavar="CHECKPOINT", help="default: the generator itself"
    )
    table.add_argument(
        "--marks",
        metavar="FILE",
        help="people's marks of these responses, from `faith-jax annotate read --output` (default: "
        "a rule of words says which responses are error-free)",
    )
    table.add_argument(
        "--knowledge",
        metavar="FOLDER",
        help="of topics.jsonl, or sample, the topics in the package (default)",
    )
    table.add_argument(
        "--splits", metavar="NAMES", help="whose topics (default: train,validation,test)"
    )
    table.add_argument(
        "--combinations", type=int, metavar="N", help="of arguments a topic, at most (default 18)"
    )
    table.add_argument(
        "--errors-per-response",
        type=_errors,
        metavar="NUMBER",
        help="rows with a synthetic error to each error-free response; published = 667/312, as in "
        "section 4.2 (default: one of each kind, up to 3)",
    )
    for name, what in (
        ("recall", "of an argument's words are told"),
        ("precision", "of the response's words are given"),
    ):
        default = {"recall": 0.8, "precision": 0.6}[name]
        table.add_argument(
            f"--least-{name}",
            type=float,
            metavar="SHARE",
            help=f"{what}, at least, where a response is error-free by the rule ({default:g})",
        )
    return [table]


def _errors(text: str) -> float:
    """Returns how many rows with an error there are to each error-free one."""
    if text != "published":
        try:
            return float(text)
        except ValueError:
            message = f"expected a number or published, got {text!r}"
            raise argparse.ArgumentTypeError(message) from None
    from faith_jax.datasets.augmentation.npov_sets import PUBLISHED_ERROR_FREE, PUBLISHED_ERRORS

    return PUBLISHED_ERRORS / PUBLISHED_ERROR_FREE


def run_npov_detection(_: str, given: Mapping[str, Any], sample: bool, output: str) -> str:
    """Makes the tables; returns them as text."""
    from faith_jax.reproduce.npov_detection import npov_detection

    return npov_detection(_detection_options(given, sample), output)


def _detection_options(given: Mapping[str, Any], sample: bool) -> Any:
    """Returns the run's options from those of the command line that were given."""
    from faith_jax.annotation.word_rule import ErrorFreeRule
    from faith_jax.reproduce.npov_responses import SAMPLE, DetectionOptions

    settings = {"model": ""} | dict(given)
    if sample and settings.setdefault("knowledge", SAMPLE) != SAMPLE:
        raise ConfigError(
            f"--sample: is of the topics in the package, --knowledge of {settings['knowledge']}; "
            "give one of them."
        )
    if "splits" in settings:
        settings["splits"] = tuple(listed_names(settings["splits"]))
    classifiers: dict[str, tuple[str, str]] = {}
    for text in settings.pop("classifiers", []):
        name, equals, folders = text.partition("=")
        parts = [part.strip() for part in folders.split(",")]
        if not (equals and len(parts) == 2 and any(parts)):
            raise ConfigError(f"--classifiers: expected NAME=HALL_FOLDER,COV_FOLDER, got {text!r}.")
        if name in classifiers:
            raise ConfigError(f"--classifiers: {name!r} is given twice.")
        classifiers[name] = parts[0], parts[1]
    shares = ("recall", "precision")
    rule = {n: settings.pop(f"least_{n}") for n in shares if f"least_{n}" in settings}
    return DetectionOptions(classifiers=classifiers, rule=ErrorFreeRule(**rule), **settings)
