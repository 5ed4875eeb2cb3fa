"""The command npov, and `reproduce npov_detection`, which runs it: Chang 2024's error detection."""

import argparse
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.evaluate_commands import check_numbers, given_options, listed_names
from faith_jax.cli.reproduce_options import add_options, table_parser
from faith_jax.core.errors import ConfigError

_EXAMPLES = """examples:
  %(prog)s inputs --output=inputs
  t5x infer --gin_file=runs/infer_file.gin --gin.CHECKPOINT_PATH=runs/npov \\
      --gin.INPUT_FILE=inputs/t0.0.jsonl --gin.INFER_OUTPUT_DIR=responses
  %(prog)s sets --input=responses/predictions.jsonl --output=data
"""
_SHARED = (
    "model", "vocabulary", "max-length", "max-input-length", "batch-size", "resamples", "seed",
)  # fmt: skip


def add_npov_command(commands: argparse._SubParsersAction) -> None:
    """Adds `npov` with its two parts."""
    told = "inputs of NPOV responses, and responses with errors put into them: inputs, sets"
    command = commands.add_parser(
        "npov",
        help=told,
        description="The data of Chang 2024's study of error detection, which `faith-jax reproduce "
        "npov_detection` runs as a whole (docs/detection.md).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = command.add_subparsers(dest="part", metavar="inputs|sets", required=True)
    inputs = parts.add_parser(
        "inputs",
        help="write what a generator responds to",
        description="Combinations of each topic's arguments, in a file for each temperature.",
    )
    sets = parts.add_parser(
        "sets",
        help="write training and test sets of responses with errors",
        description="Finds the responses that are free of errors, and puts errors into them.",
    )
    sets.add_argument("--input", required=True, metavar="FILE", help="responses, from t5x infer")
    for part, add in ((inputs, _add_inputs), (sets, _add_sets)):
        part.add_argument("--output", required=True, metavar="FOLDER", help="all that is made")
        _add_knowledge(part)
        add(part)
        add_options(part, ["seed"])
    inputs.set_defaults(run=_run_inputs)
    sets.set_defaults(run=_run_sets)


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
    for add in (_add_knowledge, _add_inputs, _add_sets):
        add(table)
    return [table]


# Tables of options, laid out by hand.
# fmt: off


def _add_knowledge(command: argparse.ArgumentParser) -> None:
    command.add_argument("--knowledge", metavar="FOLDER",
        help="of topics.jsonl, or sample, the topics in the package (default)")


def _add_inputs(command: argparse.ArgumentParser) -> None:
    command.add_argument("--splits", metavar="NAMES",
        help="whose topics (default: train,validation,test)")
    command.add_argument("--combinations", type=int, metavar="N",
        help="of arguments a topic, at most (default 18)")


def _add_sets(command: argparse.ArgumentParser) -> None:
    command.add_argument("--marks", metavar="FILE",
        help="people's marks of these responses, from `faith-jax annotate read --output` (default: "
        "a rule of words says which responses are error-free)")
    command.add_argument("--errors-per-response", type=_errors, metavar="NUMBER",
        help="rows with a synthetic error to each error-free response; published = 667/312, as in "
        "section 4.2 (default: one of each kind, up to 3)")
    command.add_argument("--least-recall", type=float, metavar="SHARE",
        help="of an argument's words are told, at least, where a response is error-free by the "
        "rule (0.8)")
    command.add_argument("--least-precision", type=float, metavar="SHARE",
        help="of the response's words are given, likewise (0.6)")


# fmt: on
def _errors(text: str) -> float:
    """Returns how many rows with an error there are to each error-free one."""
    if text != "published":
        try:
            return float(text)
        except ValueError:
            message = f"expected a number or published, got {text!r}"
            raise argparse.ArgumentTypeError(message) from None
    from faith_jax.datasets.augmentation.npov_errors import PUBLISHED_ERROR_FREE, PUBLISHED_ERRORS

    return PUBLISHED_ERRORS / PUBLISHED_ERROR_FREE


def _given(options: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    given = given_options(options, ("knowledge", "seed", *names))
    check_numbers(given)
    return given


def _run_inputs(options: argparse.Namespace) -> int:
    from faith_jax.runs.npov_sets import write_inputs

    given = _given(options, ("splits", "combinations"))
    if "splits" in given:
        given["splits"] = listed_names(given["splits"])
    print("\n".join(write_inputs(options.output, **given)))
    return 0


def _run_sets(options: argparse.Namespace) -> int:
    from faith_jax.runs.npov_sets import SetOptions, write_sets

    names = ("marks", "errors_per_response", "least_recall", "least_precision")
    given = SetOptions(**_given(options, names))
    print(write_sets(options.input, options.output, given), end="")
    return 0


def run_npov_detection(_: str, given: Mapping[str, Any], sample: bool, output: str) -> str:
    """Makes the tables; returns them as text."""
    from faith_jax.reproduce.npov_detection import Options, npov_detection
    from faith_jax.reproduce.workflow import absolute
    from faith_jax.runs.npov_sets import SAMPLE

    settings = {name: it for name, it in given.items() if name in Options.__dataclass_fields__}
    if sample and settings.setdefault("knowledge", SAMPLE) != SAMPLE:
        raise ConfigError(
            f"--sample: is of the topics in the package, --knowledge of {settings['knowledge']}; "
            "give one of them."
        )
    if "splits" in settings:
        settings["splits"] = listed_names(settings["splits"])
    for name in settings.keys() & {"marks", "vocabulary"} | {n for n in settings if "model" in n}:
        settings[name] = absolute(settings[name])
    if settings.get("knowledge", SAMPLE) != SAMPLE:
        settings["knowledge"] = absolute(settings["knowledge"])
    classifiers: dict[str, list[str]] = {}
    for text in settings.pop("classifiers", []):
        name, equals, folders = text.partition("=")
        parts = [absolute(part.strip()) for part in folders.split(",")]
        if not (equals and len(parts) == 2 and any(parts)):
            raise ConfigError(f"--classifiers: expected NAME=HALL_FOLDER,COV_FOLDER, got {text!r}.")
        if name in classifiers:
            raise ConfigError(f"--classifiers: {name!r} is given twice.")
        classifiers[name] = parts
    return npov_detection(Options(**settings, classifiers=classifiers), output, given)
