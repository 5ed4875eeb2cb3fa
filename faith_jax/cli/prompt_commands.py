"""The commands of soft prompts: prompt-report, export-prompt and import-prompt."""

import argparse

_EXPORT = """Write a soft prompt as a .npy file, or as a folder that Hugging Face's PEFT reads.

SOURCE is a prompt-tuned MODEL_DIR (its newest step), MODEL_DIR/checkpoints/<step>, or any other
checkpoint with a soft prompt. Its base model need not be there.

TARGET that ends in .npy: float32 [PROMPT_LENGTH, embed]. Another run starts from it by
prompts/from_npy.gin and PROMPT_FILE.

TARGET, a folder: adapter_config.json and adapter_model.safetensors, which
peft.PeftModel.from_pretrained puts on the base model in Transformers' form."""

_IMPORT = """Make a checkpoint of faith_jax's of a soft prompt from elsewhere.

SOURCE is a folder that PEFT's prompt tuning wrote, or a .npy file of floats [length, embed].

TARGET, a folder: model.json and params/ with the prompt alone, which names its base model and is
opened wherever a MODEL_DIR is. TARGET that ends in .npy (of PEFT's): the vectors, for
prompts/from_npy.gin."""


_REPORT = """Say how prompt-tuned runs are: how far each vector moved from its start, its norm
beside those of the vocabulary's embeddings, the nearest vocabulary pieces, gradient norms and
losses over the training, and of several runs the spread over seeds and starts. Warnings say what
is off.

RUN is a prompt-tuned MODEL_DIR (its newest step) or MODEL_DIR/checkpoints/<step>."""


def add_prompt_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `prompt-report`, `export-prompt` and `import-prompt`."""
    _add_report(commands)
    command = _command(
        commands,
        "export-prompt",
        "write a soft prompt as a .npy file or a folder of PEFT's",
        _EXPORT,
        "examples:\n  %(prog)s runs/npov prompt.npy\n"
        "  %(prog)s runs/npov/checkpoints/2000 prompts/npov_peft --base=google/t5-v1_1-base",
    )
    command.add_argument("source", metavar="SOURCE", help="a checkpoint with a soft prompt")
    command.add_argument("target", metavar="TARGET", help="a file that ends in .npy, or a folder")
    _add_common(command, "which soft prompt, where SOURCE has both")
    command.add_argument(
        "--base",
        default="",
        metavar="NAME",
        help="what a folder calls the base model (default: its path, if that is a Hugging Face "
        "folder)",
    )
    command.set_defaults(run=_run_export)
    command = _command(
        commands,
        "import-prompt",
        "make a checkpoint of a soft prompt of PEFT's or of a .npy file",
        _IMPORT,
        "examples:\n  %(prog)s prompts/npov_peft runs/npov_peft --base=checkpoints/t5_base\n"
        "  %(prog)s prompt.npy runs/npov_copy --base=checkpoints/t5_base\n"
        "  %(prog)s prompts/npov_peft prompt.npy --base=checkpoints/t5_base",
    )
    command.add_argument("source", metavar="SOURCE", help="a folder of PEFT's, or a .npy file")
    command.add_argument("target", metavar="TARGET", help="a folder, or a file that ends in .npy")
    _add_common(command, "where the prompt of a .npy file stands (default: in front of the input)")
    command.add_argument(
        "--base",
        default="",
        metavar="CHECKPOINT",
        help="the base model, in any known form (default: what PEFT's folder names)",
    )
    command.set_defaults(run=_run_import)


def _add_report(commands: argparse._SubParsersAction) -> None:
    command = _command(
        commands,
        "prompt-report",
        "say how healthy prompt-tuned runs are, and how they compare",
        _REPORT,
        "examples:\n  %(prog)s runs/npov\n"
        "  %(prog)s runs/seed0 runs/seed1 runs/uniform0 --html=prompts.html --png=prompts.png",
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="a prompt-tuned run")
    command.add_argument(
        "--nearest", type=int, default=3, metavar="N", help="pieces beside each vector (default: 3)"
    )
    command.add_argument("--html", default="", metavar="OUT.html", help="write a page, with curves")
    command.add_argument("--png", default="", metavar="OUT.png", help="draw the curves")
    command.add_argument("--json", default="", metavar="OUT.json", help="write all figures")
    command.set_defaults(run=_run_report)


def _command(
    commands: argparse._SubParsersAction, name: str, what: str, description: str, examples: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=what,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_common(command: argparse.ArgumentParser, which: str) -> None:
    command.add_argument("--overwrite", action="store_true", help="replace TARGET")
    command.add_argument("--prompt", choices=("encoder", "decoder"), help=which)


def _run_report(options: argparse.Namespace) -> int:
    from faith_jax.runs.prompt_report import prompt_report

    print(prompt_report(options.runs, options.nearest, options.html, options.png, options.json))
    return 0


def _run_export(options: argparse.Namespace) -> int:
    from faith_jax.runs import prompt_files

    prompt_files.export_prompt(
        options.source, options.target, options.overwrite, options.prompt, options.base
    )
    print(options.target)
    return 0


def _run_import(options: argparse.Namespace) -> int:
    from faith_jax.runs import prompt_files

    prompt_files.import_prompt(
        options.source, options.target, options.base, options.overwrite, options.prompt
    )
    print(options.target)
    return 0
