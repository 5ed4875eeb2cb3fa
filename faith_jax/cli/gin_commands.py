"""The commands that gin files configure: train, eval and infer."""

import argparse
import os
import sys
from collections.abc import Sequence

from faith_jax.cli.shared import first_line
from faith_jax.core.quiet_tensorflow import quiet_tensorflow
from faith_jax.version import __version__

_GIN_RUNS = {
    "train": "train a model, or only its soft prompt, as gin files say",
    "eval": "measure a checkpoint: loss, and metrics of decoded responses",
    "infer": "generate a response for each row of a task or a JSONL file",
}

_EXAMPLES = {
    "train": """examples:
  %(prog)s --gin_file=quickstart.gin --gin.MODEL_DIR=runs/quickstart
  %(prog)s --gin_file=models/t5_1_1_base.gin --gin_file=npov_generate_prompt_tune.gin \\
      --gin.INITIAL_CHECKPOINT_PATH=checkpoints/t5_1_1_base \\
      --gin.MODEL_DIR=runs/npov
  %(prog)s --dry_run --gin_file=quickstart.gin --gin.MODEL_DIR=runs/quickstart
""",
    "eval": """example:
  %(prog)s --gin_file=runs/eval.gin --gin.CHECKPOINT_PATH=runs/quickstart/prompt \\
      --gin.MIXTURE_OR_TASK_NAME=npov_generate_sample --gin.SPLIT=test
""",
    "infer": """examples:
  %(prog)s --gin_file=runs/infer.gin --gin.CHECKPOINT_PATH=runs/quickstart/prompt \\
      --gin.MIXTURE_OR_TASK_NAME=npov_generate_sample \\
      --gin.INFER_OUTPUT_DIR=runs/responses
  %(prog)s --gin_file=runs/infer_file.gin --gin.CHECKPOINT_PATH=runs/quickstart/prompt \\
      --gin.INPUT_FILE=queries.jsonl --gin.INFER_OUTPUT_DIR=runs/responses
""",
}


class _Shown(argparse.Action):
    """An argument that only `--help` shows: bindings are taken out before parsing."""

    def __call__(self, *_: object) -> None:
        """Does nothing."""


def add_gin_commands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction:
    """Adds the commands, and returns what further ones are added to."""
    parser.add_argument("--version", action="version", version=f"faith_jax {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, what in _GIN_RUNS.items():
        command = commands.add_parser(
            name,
            help=what,
            description=what[0].upper() + what[1:] + ".",
            epilog=_EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument(
            "--gin_file",
            action="append",
            default=[],
            metavar="FILE",
            help="a gin file (repeatable; later ones override); looked up in the working folder, "
            "the search paths and faith_jax's own gin_configs",
        )
        command.add_argument(
            "--gin_search_paths",
            action="append",
            default=[],
            metavar="FOLDERS",
            help="folders of gin files, separated by commas",
        )
        command.add_argument(
            "--seqio_additional_cache_dirs",
            action="append",
            default=[],
            metavar="FOLDERS",
            help="where USE_CACHED_TASKS looks for cached tasks, separated by commas",
        )
        command.add_argument(
            "--gin.NAME=VALUE",
            dest="gin_example",
            nargs=0,
            action=_Shown,
            help="set a macro or a parameter; VALUE is a Python literal; what is none is a string",
        )
        if name != "eval":
            command.add_argument(
                "--dry_run",
                "--dry-run",
                action="store_true",
                help="only say what the run would read: rows and epochs of each kind, what is cut, "
                "the first examples; nothing is trained or generated, and a JSON file of it is "
                "written beside the output folder",
            )
        command.add_argument(
            "--coordinator_address", metavar="HOST:PORT", help="of the first of several processes"
        )
        command.add_argument("--process_count", type=int, metavar="N", help="processes of this run")
        command.add_argument("--process_index", type=int, metavar="I", help="0 … N-1, this one's")
        command.set_defaults(run=_run_gin)
    return commands


def _run_gin(options: argparse.Namespace) -> int:
    from faith_jax.core.errors import ConfigError

    if not options.gin_file:
        raise ConfigError(
            f"{options.command} needs --gin_file=FILE, such as --gin_file=quickstart.gin."
        )
    reads_file = any(binding.startswith("INPUT_FILE=") for binding in options.bindings)
    if options.command != "infer" or not reads_file:  # `infer` of a file needs none to respond
        quiet_tensorflow()
    from faith_jax.runs import gin_config

    search_paths = _folders(options.gin_search_paths)
    _add_cache_folders(_folders(options.seqio_additional_cache_dirs))
    _initialize_processes(options)
    gin_config.parse(options.gin_file, options.bindings, search_paths)
    if options.command == "train":
        from faith_jax.runs import train

        try:
            gin_config.run(train.train, dry_run=options.dry_run)
        except train.Stopped as stopped:
            print(f"{first_line(stopped)}", file=sys.stderr)
            return 143
    elif options.command == "eval":
        from faith_jax.runs import evaluate

        gin_config.run(evaluate.evaluate)
    else:
        from faith_jax.runs import infer

        output = gin_config.run(infer.infer, dry_run=options.dry_run)
        if not options.dry_run:
            print(output)
    return 0


def _folders(given: Sequence[str]) -> list[str]:
    return [folder for folders in given for folder in folders.split(",") if folder]


def _add_cache_folders(folders: Sequence[str]) -> None:
    if folders:  # SeqIO takes seconds to import
        import seqio

        from faith_jax.core.errors import ConfigError

        for folder in folders:
            if "://" not in folder and not os.path.isdir(folder):
                raise ConfigError(f"--seqio_additional_cache_dirs: {folder}: no such folder.")
        seqio.add_global_cache_dirs(folders)


def _initialize_processes(options: argparse.Namespace) -> None:
    """Joins the other processes of the run, where there are any."""
    from faith_jax.core.errors import ConfigError

    given = (options.coordinator_address, options.process_count, options.process_index)
    if all(g is None for g in given):
        return
    if any(g is None for g in given):
        raise ConfigError(
            "Give --coordinator_address, --process_count and --process_index together."
        )
    import jax

    jax.distributed.initialize(*given)
