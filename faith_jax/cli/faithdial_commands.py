"""The commands that make dialogues ready for training: control-tokens and negatives."""

import argparse

from faith_jax.core.quiet_tensorflow import quiet_tensorflow

_NEGATIVES_EXAMPLES = """examples:
  %(prog)s sample --model=mini --tagger=rules --output=runs/negatives
  %(prog)s downloads/faithdial --model=runs/t5_wow --output=faithdial_negatives

then:
  FAITH_JAX_DATA_DIR=faithdial_negatives/tfds t5x train --gin_file=faithdial_generate_infonce.gin …
"""


def add_faithdial_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `control-tokens` and `negatives`."""
    _add_control_tokens(commands)
    _add_negatives(commands)


def _add_control_tokens(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "control-tokens",
        help="say of training responses what they are like, for CTRL",
        description="Adds control tokens (Rashkin 2021) to the turns of FaithDial, or to those of "
        "Wizard of Wikipedia that have knowledge: whether a response "
        "has a first-person pronoun, in which third of the training data its lexical precision "
        "lies, and whether a natural language inference model finds it entailed by the knowledge. "
        "Writes FILE_control-tokens.json beside each file of training and validation.",
        epilog="examples:\n  %(prog)s downloads/faithdial --model=checkpoints/roberta-large-mnli\n"
        "  %(prog)s downloads/wizard_of_wikipedia --pairs=pairs.jsonl\n"
        "  %(prog)s downloads/faithdial --nli=labels_of_pairs.jsonl",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "folder",
        metavar="FOLDER",
        help="of train.json and valid.json (FaithDial), or of train.json, valid_random_split.json "
        "and valid_topic_split.json (Wizard of Wikipedia)",
    )
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", metavar="FOLDER", help="of the inference model")
    source.add_argument("--nli", metavar="FILE", help="or its calls: JSON lines of id and label")
    source.add_argument("--pairs", metavar="FILE", help="or only write the pairs to label")
    command.add_argument("--labels", help="the model's classes in order, if it does not tell")
    command.add_argument(
        "--max-length", type=int, metavar="TOKENS", help="of a pair; premises are cut"
    )
    command.set_defaults(run=_run_control_tokens)


def _add_negatives(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "negatives",
        help="make unfaithful responses of FaithDial's turns, for InfoNCE",
        description="Perturb and generate (Dziri 2022): gives each turn's knowledge other entities "
        "or other verbs, lets a model that was trained on Wizard of Wikipedia respond to it, and "
        "adds what it says to the turn as an unfaithful response. A run that was stopped goes on "
        "where it was.",
        epilog=_NEGATIVES_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "folder", metavar="FOLDER", help="of train.json, valid.json and test.json; or sample"
    )
    command.add_argument("--model", required=True, metavar="FOLDER", help="the generator")
    command.add_argument("--output", required=True, metavar="FOLDER", help="of files and data set")
    command.add_argument("--vocabulary", metavar="FILE", help="the model's, where it carries none")
    command.add_argument(
        "--tagger",
        default="",
        help="finds entities and verbs: spacy:PIPELINE, or rules, which needs no model and misses "
        "much (default: spacy:en_core_web_sm)",
    )
    numbers = (
        ("perturbations", 7, "of each knowledge, at most"),
        ("max-length", 64, "tokens of a response"),
        ("max-input-length", 512, "tokens of an input"),
        ("batch-size", 16, "rows decoded at once"),
        ("seed", 0, "of substitutes and sampling"),
    )
    for name, default, what in numbers:
        command.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{what} (default {default})"
        )
    command.add_argument(
        "--top-p", type=float, default=0.6, help="of nucleus sampling (default 0.6, the paper's)"
    )
    command.set_defaults(run=_run_negatives)


def _run_control_tokens(options: argparse.Namespace) -> int:
    from faith_jax.runs import control_tokens

    if options.pairs:
        print(control_tokens.write_pairs(options.folder, options.pairs))
        return 0
    if options.nli:
        labels = control_tokens.read_labels(options.nli)
    else:
        labels = control_tokens.classified(
            options.folder, options.model, options.labels, max_length=options.max_length
        )
    for line in control_tokens.add_control_tokens(options.folder, labels):
        print(line)
    return 0


def _run_negatives(options: argparse.Namespace) -> int:
    quiet_tensorflow()
    from faith_jax.datasets.augmentation.tagging import DEFAULT_TAGGER
    from faith_jax.runs.negatives import NegativesOptions, negatives

    wanted = NegativesOptions(
        folder=options.folder,
        model=options.model,
        perturbations=options.perturbations,
        tagger=options.tagger or DEFAULT_TAGGER,
        top_p=options.top_p,
        max_length=options.max_length,
        max_input_length=options.max_input_length,
        batch_size=options.batch_size,
        seed=options.seed,
        vocabulary=options.vocabulary,
    )
    for line in negatives(wanted, options.output):
        print(line)
    return 0
