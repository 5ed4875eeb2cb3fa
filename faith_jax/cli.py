"""The commands `faith-jax` and `t5x`: parse, call a run, and print errors people can act on.

Heavy imports happen inside the functions, so that `--help` answers at once. Exit status: 0 done,
1 failure, 2 a user's mistake (one line, no traceback), 143 stopped by SIGTERM with all saved.
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence

from faith_jax.errors import FaithJaxError
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `faith-jax`; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="faith-jax",
        description="Train, decode, score and measure faithful grounded generation in JAX.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = _add_commands(parser)
    _add_conversions(commands)
    _add_data_commands(commands)
    return _dispatch(parser, arguments)


def t5x_main(arguments: Sequence[str] | None = None) -> int:
    """Runs `t5x`; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="t5x",
        description="faith_jax's runs, with the gin dialect and flags of T5X.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_commands(parser)
    return _dispatch(parser, arguments)


def _add_commands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction:
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
            "--gin.NAME",
            dest="gin_example",
            metavar="VALUE",
            help="set a macro or a parameter; VALUE is a Python literal; what is none is a string",
        )
        command.add_argument(
            "--coordinator_address", metavar="HOST:PORT", help="of the first of several processes"
        )
        command.add_argument("--process_count", type=int, metavar="N", help="processes of this run")
        command.add_argument("--process_index", type=int, metavar="I", help="0 … N-1, this one's")
        command.set_defaults(run=_run_gin)
    return commands


def _add_conversions(commands: argparse._SubParsersAction) -> None:
    conversions = {
        "import-checkpoint": (
            "convert a Hugging Face folder or a T5X checkpoint to faith_jax's form",
            "example:\n  %(prog)s checkpoints/hf_t5_v1_1_base checkpoints/t5_1_1_base",
        ),
        "export-checkpoint": (
            "write any checkpoint as a Hugging Face folder",
            "example:\n  %(prog)s runs/finetuned checkpoints/hf_finetuned",
        ),
    }
    for name, (what, example) in conversions.items():
        command = commands.add_parser(
            name,
            help=what,
            description=what[0].upper() + what[1:] + ".",
            epilog=example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("source", metavar="SOURCE", help="a checkpoint of any known form")
        command.add_argument("target", metavar="TARGET", help="the folder to write")
        command.add_argument("--overwrite", action="store_true", help="replace TARGET")
        command.set_defaults(run=_run_conversion)


def _add_data_commands(commands: argparse._SubParsersAction) -> None:
    shown = commands.add_parser(
        "tasks",
        help="list all tasks, or show rows of one as a model sees them",
        description="Without TASK: all tasks with their splits, sizes and one example. With TASK: "
        "rows as a model sees them, with token counts and what would be cut.",
        epilog="examples:\n  %(prog)s\n  %(prog)s faithdial_generate_sample --split=train --rows=2",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shown.add_argument("task", nargs="?", metavar="TASK", help="the name of a task")
    shown.add_argument("--split", help="the split to show (default: the task's last one)")
    shown.add_argument("--rows", type=int, default=3, metavar="N", help="rows to show (default 3)")
    for feature, length in (("inputs", 512), ("targets", 128)):
        shown.add_argument(
            f"--{feature}_length",
            type=int,
            default=length,
            metavar="TOKENS",
            help=f"where {feature} would be cut (default {length})",
        )
    shown.set_defaults(run=_run_tasks)
    prepare = commands.add_parser(
        "prepare",
        help="make a data set ready, from its source or from files of your own",
        description="Reads a data set's raw files and prepares it for the tasks.",
        epilog="examples:\n  %(prog)s begin\n  %(prog)s faithdial --raw=downloads/faithdial "
        "--skip-bad-rows\n  %(prog)s true_benchmark/summeval --raw=true_csv_files\n  %(prog)s "
        "wizard_of_wikipedia --beam",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_dataset_arguments(prepare)
    prepare.add_argument(
        "--skip-bad-rows", action="store_true", help="pass over bad rows, count and list them"
    )
    prepare.add_argument(
        "--beam",
        nargs="?",
        const="",
        metavar="OPTIONS",
        help="build in parallel with Apache Beam; its pipeline options, comma-separated (without: "
        "all cores of this machine)",
    )
    prepare.add_argument(
        "--beam-parts",
        type=int,
        default=0,
        metavar="N",
        help="parts that each split is cut into (default: this machine's cores)",
    )
    prepare.set_defaults(run=_run_prepare)
    described = commands.add_parser(
        "describe",
        help="print the papers' statistics of a data set",
        description="Counts, averages and extractiveness of whatever splits are at hand.",
        epilog="examples:\n  %(prog)s faithdial/sample --plot=extractiveness.png\n  %(prog)s "
        "true_benchmark --raw=true_files",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_dataset_arguments(described)
    described.add_argument("--plot", metavar="PNG", help="draw density over coverage")
    described.set_defaults(run=_run_describe)


def _add_dataset_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("dataset", metavar="DATASET", help="NAME or NAME/CONFIG")
    command.add_argument("--raw", metavar="FOLDER", help="where the raw files are")
    command.add_argument("--data-dir", metavar="FOLDER", help="where prepared data goes")


def _dispatch(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    bindings = [a.removeprefix("--gin.") for a in given if _is_binding(a)]
    options = parser.parse_args([a for a in given if not _is_binding(a)])
    options.bindings = bindings
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("faith_jax").setLevel(logging.INFO)
    # Orbax and SeqIO warn of what is in order here (absent optional files, generous lengths).
    logging.getLogger("absl").setLevel(logging.ERROR)
    return _guarded(lambda: options.run(options), parser.prog)


def _is_binding(argument: str) -> bool:
    return argument.startswith("--gin.") and "=" in argument


def _guarded(run: Callable[[], int], prog: str) -> int:
    """Turns a user's mistake into one line and status 2."""
    try:
        return run()
    except FaithJaxError as error:
        print(f"{prog}: {first_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def first_line(error: BaseException) -> str:
    """Returns an error's message without what gin adds of its call stack."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _run_gin(options: argparse.Namespace) -> int:
    from faith_jax.errors import ConfigError

    if not options.gin_file:
        raise ConfigError(
            f"{options.command} needs --gin_file=FILE, such as --gin_file=quickstart.gin."
        )
    _quiet_tensorflow()
    from faith_jax.runs import gin_config

    search_paths = _folders(options.gin_search_paths)
    _add_cache_folders(_folders(options.seqio_additional_cache_dirs))
    _initialize_processes(options)
    gin_config.parse(options.gin_file, options.bindings, search_paths)
    if options.command == "train":
        from faith_jax.runs import train

        try:
            gin_config.run(train.train)
        except train.Stopped as stopped:
            print(f"{first_line(stopped)}", file=sys.stderr)
            return 143
    elif options.command == "eval":
        from faith_jax.runs import evaluate

        gin_config.run(evaluate.evaluate)
    else:
        from faith_jax.runs import infer

        output = gin_config.run(infer.infer)
        print(output)
    return 0


def _folders(given: Sequence[str]) -> list[str]:
    return [folder for folders in given for folder in folders.split(",") if folder]


def _add_cache_folders(folders: Sequence[str]) -> None:
    if folders:  # SeqIO takes seconds to import
        import seqio

        from faith_jax.errors import ConfigError

        for folder in folders:
            if "://" not in folder and not os.path.isdir(folder):
                raise ConfigError(f"--seqio_additional_cache_dirs: {folder}: no such folder.")
        seqio.add_global_cache_dirs(folders)


def _run_conversion(options: argparse.Namespace) -> int:
    from faith_jax.runs import convert

    if options.command == "import-checkpoint":
        convert.import_checkpoint(options.source, options.target, overwrite=options.overwrite)
    else:
        convert.export_checkpoint(options.source, options.target, overwrite=options.overwrite)
    print(options.target)
    return 0


def _run_tasks(options: argparse.Namespace) -> int:
    _quiet_tensorflow()
    from faith_jax.runs import show_tasks
    from faith_jax.tasks import lookup

    if options.task is None:
        lines = show_tasks.task_table(lookup.task_names())
    else:
        lengths = {"inputs": options.inputs_length, "targets": options.targets_length}
        lines = show_tasks.task_rows(options.task, options.split, options.rows, lengths)
    for line in lines:
        print(line)
    return 0


def _run_prepare(options: argparse.Namespace) -> int:
    _quiet_tensorflow()
    from faith_jax.data.builders.beam import BeamPipeline
    from faith_jax.runs import show_tasks

    beam = None if options.beam is None else BeamPipeline(options.beam, options.beam_parts)
    for line in show_tasks.prepare(
        options.dataset, options.data_dir, options.raw, options.skip_bad_rows, beam
    ):
        print(line)
    return 0


def _run_describe(options: argparse.Namespace) -> int:
    _quiet_tensorflow()
    from faith_jax.runs import describe

    for line in describe.describe(options.dataset, options.data_dir, options.raw, options.plot):
        print(line)
    return 0


def _initialize_processes(options: argparse.Namespace) -> None:
    """Joins the other processes of the run, where there are any."""
    from faith_jax.errors import ConfigError

    given = (options.coordinator_address, options.process_count, options.process_index)
    if all(g is None for g in given):
        return
    if any(g is None for g in given):
        raise ConfigError(
            "Give --coordinator_address, --process_count and --process_index together."
        )
    import jax

    jax.distributed.initialize(*given)


def _quiet_tensorflow() -> None:
    """Imports TensorFlow, which only reads data here, without its start-up messages.

    They are written by its C++ side whatever TF_CPP_MIN_LOG_LEVEL says, so the descriptor of
    stderr is turned away while it is imported.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import seqio  # noqa: F401
        import tensorflow as tf

        # The accelerator is JAX's.
        tf.config.set_visible_devices([], "GPU")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
