"""The command reproduce: one table of a paper, or one study, from one command."""

import argparse
from collections.abc import Mapping
from typing import Any

from faith_jax.cli.evaluate_commands import check_numbers, given_options, listed_names
from faith_jax.cli.shared import quiet_tensorflow, resumable
from faith_jax.errors import ConfigError

_EXAMPLES = """examples:
  %(prog)s true --output=runs/true
  %(prog)s begin --sample --output=runs/begin --scorers=token_f1,bleu
  %(prog)s pmi_decode --corpus=faithdial --model=runs/faithdial \\
      --vocabulary=checkpoints/bart-large --scorer-model=checkpoints/bloom-560m \\
      --output=runs/pmi_decode
  %(prog)s npov_detection --model=runs/npov --knowledge=sample \\
      --classifiers=dev=runs/hallucination_dev,runs/coverage_dev --output=runs/detection
"""


def add_reproduce_command(commands: argparse._SubParsersAction) -> None:
    """Adds `reproduce`."""
    command = commands.add_parser(
        "reproduce",
        help="one table of a paper, scored and evaluated",
        description="Scores the data that a paper's table needs and evaluates it: true (Steen "
        "2023, table 1), begin (Nandwani 2023, table 1), npov and npov_words (Chang 2024, tables 1 "
        "and 3, of written responses), npov_detection (its tables 1, 2, 3, 5 and 6, of a model's), "
        "pronouns (Steen 2023, table 3), pmi_decode (Nandwani 2023, table 3). Data is "
        "prepared where its raw files are at hand or can be fetched.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "table",
        metavar="TABLE",
        help="true, begin, npov, npov_words, pronouns, pmi_decode, npov_detection",
    )
    command.add_argument("--output", required=True, metavar="FOLDER", help="scores and tables")
    command.add_argument(
        "--scorers", default="", metavar="NAMES", help="default: the recipe's; not of responses"
    )
    command.add_argument("--sample", action="store_true", help="of the samples in the package")
    _add_responses(command)
    _add_pmi_table(command)
    _add_npov_detection(command)
    command.set_defaults(run=_run_reproduce)


def _add_responses(command: argparse.ArgumentParser) -> None:
    """Adds what both tables of a model's responses read; the defaults are the runs'."""
    group = command.add_argument_group(
        "pmi_decode and npov_detection", "Responses of a model are made first."
    )
    group.add_argument("--model", metavar="CHECKPOINT", help="that responds: any language model")
    group.add_argument(
        "--vocabulary", metavar="PATH", help="its tokenizer (default: in the model's folder)"
    )
    group.add_argument(
        "--max-length", type=int, metavar="N", help="of responses (default 128; 256)"
    )
    group.add_argument("--max-input-length", type=int, metavar="N", help="default 512")
    group.add_argument("--batch-size", type=int, metavar="N", help="decoded at once (default 16)")
    group.add_argument("--resamples", type=int, metavar="N", help="default 1000")
    group.add_argument(
        "--seed", type=int, help="of intervals and tests, and of all that is drawn (default 0)"
    )


_SHARED = (
    "model", "vocabulary", "max_length", "max_input_length", "batch_size", "resamples", "seed",
)  # fmt: skip


def _add_pmi_table(command: argparse.ArgumentParser) -> None:
    """Adds the options of pmi_decode, whose defaults are the run's."""
    group = command.add_argument_group(
        "pmi_decode",
        "Nandwani 2023, table 3: responses of a model (the paper: a BART-large) by plain\n"
        "beam search (likelihood) and by PMI-Decode (pmi; pmi_no_mask, p = 1; pmi_equal, alpha =\n"
        "0.5), and their scores.",
    )
    group.add_argument(
        "--scorer-model", metavar="CHECKPOINT", help="for PMI-Faith; the paper: BLOOM-560m"
    )
    group.add_argument(
        "--bertscore-model", metavar="FOLDER", help="an encoder; usually roberta-large"
    )
    group.add_argument(
        "--scorer-option",
        action="append",
        metavar="SCORER.NAME=VALUE",
        help="of pmi_faith_mean and bertscore, such as bertscore.baseline=FILE (repeatable)",
    )
    group.add_argument(
        "--corpus",
        action="append",
        dest="corpora",
        metavar="NAME",
        help="multidoc2dial, topical_chat or faithdial (repeatable; default: all)",
    )
    group.add_argument("--decodings", metavar="NAMES", help="default: all four")
    group.add_argument("--limit", type=int, metavar="N", help="only the first rows of each")
    group.add_argument("--beams", type=int, dest="num_beams", metavar="N", help="default 4")
    group.add_argument("--alpha", type=float, help="in [0, 1] (default 0.25)")
    group.add_argument("--p", type=float, help="in (0, 1] (default 0.6)")


_PMI_OPTIONS = (
    "scorer_model", "bertscore_model", "scorer_option", "corpora", "decodings", "limit",
    "num_beams", "alpha", "p",
)  # fmt: skip


def _add_npov_detection(command: argparse.ArgumentParser) -> None:
    """Adds the options of npov_detection, whose defaults are the run's."""
    group = command.add_argument_group(
        "npov_detection",
        "Chang 2024: responses of a generator, with errors, and how well ROUGE, salience and\n"
        "classifiers detect these (docs/detection.md).",
    )
    group.add_argument(
        "--hallucination-model", metavar="FOLDER", help="table 1's classifier (default: dev's)"
    )
    group.add_argument("--coverage-model", metavar="FOLDER", help="likewise")
    group.add_argument(
        "--classifiers",
        action="append",
        metavar="NAME=HALL_FOLDER,COV_FOLDER",
        help="by what they are trained on: synth, para, dev, org or annotation_free; one of the "
        "folders may be left out (repeatable)",
    )
    group.add_argument(
        "--salience-model", metavar="CHECKPOINT", help="default: the generator itself"
    )
    group.add_argument(
        "--marks",
        metavar="FILE",
        help="people's marks of these responses, from `faith-jax annotate read --output` (default: "
        "a rule of words says which responses are error-free)",
    )
    group.add_argument(
        "--knowledge",
        metavar="FOLDER",
        help="of topics.jsonl, or sample, the topics in the package (default)",
    )
    group.add_argument(
        "--splits", metavar="NAMES", help="whose topics (default: train,validation,test)"
    )
    group.add_argument(
        "--combinations", type=int, metavar="N", help="of arguments a topic, at most (default 18)"
    )
    for name, what in (
        ("recall", "of an argument's words are told"),
        ("precision", "of the response's words are given"),
    ):
        default = {"recall": 0.8, "precision": 0.6}[name]
        group.add_argument(
            f"--least-{name}",
            type=float,
            metavar="SHARE",
            help=f"{what}, at least, where a response is error-free by the rule ({default:g})",
        )


_DETECTION_OPTIONS = (
    "hallucination_model", "coverage_model", "classifiers", "salience_model", "marks",
    "knowledge", "splits", "combinations", "least_recall", "least_precision",
)  # fmt: skip
_OF_RESPONSES = {"pmi_decode": _PMI_OPTIONS, "npov_detection": _DETECTION_OPTIONS}


def _run_reproduce(options: argparse.Namespace) -> int:
    given = _checked(options)
    names = listed_names(options.scorers)
    quiet_tensorflow()
    from faith_jax.runs import npov_detection, pmi_table, reproduce

    def run() -> int:
        if options.table == "pmi_decode":
            text = pmi_table.pmi_table(_pmi_options(given, options.sample), options.output)
        elif options.table == "npov_detection":
            made = _detection_options(given, options.sample)
            text = npov_detection.npov_detection(made, options.output)
        else:
            text = reproduce.reproduce(options.table, options.output, names, options.sample)
        print(text, end="")
        print(options.output)
        return 0

    kept = f"what is scored is kept in {options.output}; the same command goes on from there."
    return resumable(run, lambda: kept)


def _checked(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that were given, which go with the table."""
    given = given_options(options, (*_SHARED, *_PMI_OPTIONS, *_DETECTION_OPTIONS))
    check_numbers(given)
    own = _OF_RESPONSES.get(options.table)
    if own and options.scorers:
        more = "--scorer-model" if options.table == "pmi_decode" else "--classifiers"
        raise ConfigError(f"--scorers: {options.table} has the table's own; see {more}.")
    for name in given:
        if name not in (*_SHARED, *(own or ())) or not own:
            option = {"corpora": "corpus", "num_beams": "beams"}.get(name, name).replace("_", "-")
            tables = [table for table, names in _OF_RESPONSES.items() if name in (*_SHARED, *names)]
            raise ConfigError(
                f"--{option}: goes with {' and '.join(tables)}, not with {options.table}."
            )
    return given


def _pmi_options(given: Mapping[str, Any], sample: bool) -> Any:
    """Returns the run's options from those of the command line that were given."""
    from faith_jax.cli.score_commands import scorer_options
    from faith_jax.runs.pmi_responses import PMITableOptions

    settings = {"model": ""} | dict(given)
    models = {
        "pmi_faith_mean": settings.pop("scorer_model", ""),
        "bertscore": settings.pop("bertscore_model", ""),
    }
    scorers = scorer_options(list(models), settings.pop("scorer_option", []))
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


def _detection_options(given: Mapping[str, Any], sample: bool) -> Any:
    """Returns the run's options from those of the command line that were given."""
    from faith_jax.evaluation.npov_truth import ErrorFreeRule
    from faith_jax.runs.npov_responses import SAMPLE, DetectionOptions

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
