"""The commands that convert checkpoints."""

import argparse

_IMPORT = """Convert a Hugging Face folder or a T5X checkpoint to faith_jax's form, with the files
of its tokenizer."""

_EXPORT = """Write a checkpoint as a Hugging Face folder, or its soft prompt as a .npy file.

SOURCE is a run's MODEL_DIR (its newest step), MODEL_DIR/checkpoints/<step>, an imported checkpoint,
a T5X checkpoint, or a Hugging Face folder.

TARGET, a folder: config.json, model.safetensors, generation_config.json and the files of the
tokenizer, as Transformers reads them. SOURCE must have no soft prompt.

TARGET that ends in .npy: the soft prompt alone, as export-prompt writes it."""


def add_checkpoint_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `import-checkpoint` and `export-checkpoint`."""
    conversions = {
        "import-checkpoint": (
            "convert a Hugging Face folder or a T5X checkpoint to faith_jax's form",
            _IMPORT,
            "example:\n  %(prog)s checkpoints/hf_t5_v1_1_base checkpoints/t5_1_1_base",
            "the folder to write",
        ),
        "export-checkpoint": (
            "write a checkpoint as a Hugging Face folder, or its soft prompt as .npy",
            _EXPORT,
            "examples:\n  %(prog)s runs/finetuned checkpoints/hf_finetuned\n"
            "  %(prog)s runs/npov prompt.npy",
            "the folder to write, or a file that ends in .npy",
        ),
    }
    for name, (what, description, example, target) in conversions.items():
        command = commands.add_parser(
            name,
            help=what,
            description=description,
            epilog=example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("source", metavar="SOURCE", help="a checkpoint of any known form")
        command.add_argument("target", metavar="TARGET", help=target)
        command.add_argument("--overwrite", action="store_true", help="replace TARGET")
        if name == "export-checkpoint":
            command.add_argument(
                "--prompt",
                choices=("encoder", "decoder"),
                help="which soft prompt, where SOURCE has both",
            )
            command.add_argument(
                "--dtype",
                choices=("float32", "bfloat16", "float16"),
                help="round the parameters to it (default: as they are)",
            )
        command.set_defaults(run=_run_conversion)


def _run_conversion(options: argparse.Namespace) -> int:
    from faith_jax.core.errors import ConfigError
    from faith_jax.runs import convert, prompt_files

    if options.command == "import-checkpoint":
        convert.import_checkpoint(options.source, options.target, overwrite=options.overwrite)
    elif options.target.endswith(".npy"):
        if options.dtype is not None:
            raise ConfigError("--dtype: a prompt's .npy is float32; leave --dtype out.")
        prompt_files.export_prompt(
            options.source, options.target, options.overwrite, options.prompt
        )
    elif options.prompt is not None:
        raise ConfigError("--prompt: expected a TARGET that ends in .npy.")
    else:
        convert.export_checkpoint(
            options.source, options.target, overwrite=options.overwrite, dtype=options.dtype
        )
    print(options.target)
    return 0
