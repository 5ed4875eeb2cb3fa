"""The commands about data: tasks, prepare and describe."""

import argparse

from faith_jax.core.quiet_tensorflow import quiet_tensorflow


def add_data_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `tasks`, `prepare` and `describe`."""
    shown = commands.add_parser(
        "tasks",
        help="list all tasks, or show rows of one as a model sees them",
        description="Without TASK: all tasks with their splits, sizes and one example. With TASK: "
        "rows as a model sees them, with token counts and what would not fit.",
        epilog="examples:\n  %(prog)s\n  %(prog)s faithdial_generate_sample --split=train --rows=2",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shown.add_argument("task", nargs="?", metavar="TASK", help="the name of a task")
    shown.add_argument("--split", help="the split to show (default: the task's last one)")
    shown.add_argument("--rows", type=int, default=3, metavar="N", help="rows to show (default 3)")
    for feature, length, over in (
        ("inputs", 512, "are cut"),
        ("targets", 128, "are an error in training"),
    ):
        shown.add_argument(
            f"--{feature}_length",
            type=int,
            default=length,
            metavar="TOKENS",
            help=f"tokens of {feature} that fit; longer ones {over} (default {length})",
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


def _run_tasks(options: argparse.Namespace) -> int:
    quiet_tensorflow()
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
    quiet_tensorflow()
    from faith_jax.datasets.builders.beam import BeamPipeline
    from faith_jax.runs import show_tasks

    beam = None if options.beam is None else BeamPipeline(options.beam, options.beam_parts)
    for line in show_tasks.prepare(
        options.dataset, options.data_dir, options.raw, options.skip_bad_rows, beam
    ):
        print(line)
    return 0


def _run_describe(options: argparse.Namespace) -> int:
    quiet_tensorflow()
    from faith_jax.runs import describe

    for line in describe.describe(options.dataset, options.data_dir, options.raw, options.plot):
        print(line)
    return 0
