"""The commands that convert checkpoints."""

import argparse


def add_checkpoint_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `import-checkpoint` and `export-checkpoint`."""
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


def _run_conversion(options: argparse.Namespace) -> int:
    from faith_jax.runs import convert

    if options.command == "import-checkpoint":
        convert.import_checkpoint(options.source, options.target, overwrite=options.overwrite)
    else:
        convert.export_checkpoint(options.source, options.target, overwrite=options.overwrite)
    print(options.target)
    return 0
