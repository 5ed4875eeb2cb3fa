"""Translates names of former versions in gin files and in the configs of MODEL_DIRs."""

import re

# Modules that have other names in gin files and MODEL_DIRs of former versions.
RENAMED_MODULES = {
    "faith_jax.models.prompts": "faith_jax.models.soft_prompt",
    "faith_jax.runs.checkpoint_decoding": "faith_jax.inference.checkpoint_decoding",
    "faith_jax.runs.datasets": "faith_jax.input.task_batches",
    "faith_jax.training.classification": "faith_jax.training.label_cross_entropy",
    "faith_jax.training.contrastive": "faith_jax.training.infonce",
    "faith_jax.training.partitioning": "faith_jax.models.partitioning",
    "faith_jax.training.truncation": "faith_jax.training.loss_truncation",
}
# Configurables that former bindings name by the last part of such a module's name.
RENAMED_CONFIGURABLES = {
    "classification.LabelCrossEntropy": "label_cross_entropy.LabelCrossEntropy",
    "contrastive.InfoNCE": "infonce.InfoNCE",
    "datasets.DatasetConfig": "task_batches.DatasetConfig",
    "prompts.class_labels": "soft_prompt.class_labels",
    "prompts.from_npy": "soft_prompt.from_npy",
    "prompts.sampled_vocabulary": "soft_prompt.sampled_vocabulary",
    "prompts.uniform": "soft_prompt.uniform",
    "truncation.LossTruncation": "loss_truncation.LossTruncation",
}
# The records that are arguments of the runs, and (_MOVED) the former arguments that each now has.
_RECORDS = {
    "setup.StartingPoint": "train.train.start",
    "train.Optimization": "train.train.optimization",
    "train.Evaluation": "train.train.evaluation",
    "train.Output": "train.train.output",
    "infer.Models": "infer.infer.models",
    "infer.InputFile": "infer.infer.file",
    "infer.Output": "infer.infer.output",
}
_MOVED = {
    "setup.StartingPoint": (
        "initial_checkpoint_path", "question_checkpoint_path", "prompt_initializer", "trainable",
        "params_dtype", "vocabulary",
    ),
    "train.Optimization": (
        "optimizer", "total_steps", "objective", "num_microbatches", "loss_normalizing_factor",
        "seed", "use_hardware_rng", "counts_from_0",
    ),
    "train.Evaluation": ("decoding", "patience"),
    "train.Output": ("model_dir", "log_period", "checkpoint_period", "keep_last", "keep_best"),
    "infer.Models": (
        "checkpoint_path", "model", "system", "params_dtype", "partitioner_for", "vocabulary"
    ),
    "infer.InputFile": ("knowledge", "arguments_per_side"),
    "infer.Output": ("formats", "shards"),
}  # fmt: skip
# The former arguments of each run, with their present names.
RENAMED_ARGUMENTS: dict[str, dict[str, str]] = {
    "train.train": {
        "train_dataset": "train.train.dataset",
        "eval_dataset": "train.Evaluation.dataset",
        "eval_period": "train.Evaluation.period",
        "decoded_eval_period": "train.Evaluation.decoded_period",
    },
    "infer.infer": {
        "input_file": "infer.InputFile.path",
        "max_input_length": "infer.InputFile.max_length",
        "output_dir": "infer.Output.folder",
    },
}
for _record, _names in _MOVED.items():
    _run = _RECORDS[_record].rpartition(".")[0]
    RENAMED_ARGUMENTS[_run] |= {name: f"{_record}.{name}" for name in _names}
_FROM = re.compile(r"^from (\S+) import (\w+)(?: as (\w+))?[ \t]*$", re.MULTILINE)
_IMPORT = re.compile(r"^(?:from|import) .*\n", re.MULTILINE)
_BOUND = re.compile(r"^(?=from|import).*\b(?:import|as)[ \t]+(\w+)[ \t]*(?:#.*)?$", re.MULTILINE)
_NAME = re.compile(r"\b(?<![\w.])((\w+)\.\w+)\b")
_RUN = r"^(faith_jax\.runs\.|)(train\.train|infer\.infer)"
_BLOCK = re.compile(_RUN + r":[ \t]*(?:#.*)?\n((?:[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)+)", re.MULTILINE)
_ARGUMENT = re.compile(_RUN + r"\.(\w+)(?=[ \t]*=)", re.MULTILINE)


def with_present_names(text: str) -> str:
    """Returns a gin config with the names of this version in its imports and bindings.

    >>> with_present_names("from faith_jax.training import contrastive")
    'from faith_jax.training import infonce'
    >>> with_present_names("contrastive.InfoNCE.temperature = 0.1")
    'infonce.InfoNCE.temperature = 0.1'
    >>> with_present_names("train.train.eval_period = 20")
    'train.Evaluation.period = 20'
    """
    text = _FROM.sub(_present_import, text)
    for former, present in RENAMED_MODULES.items():
        text = re.sub(rf"\b{re.escape(former)}\b(?!\.gin)", present, text)
    bound = _BOUND.findall(text)  # by imports: a module of the user may have a former name of ours

    def rename_configurable(match: re.Match[str]) -> str:
        name, module = match.groups()
        return name if module in bound else RENAMED_CONFIGURABLES.get(name, name)

    text = _NAME.sub(rename_configurable, text)
    text = _BLOCK.sub(_as_bindings, text)
    records: dict[str, str] = {}  # for each record, the package prefix of its names

    def rename(match: re.Match[str]) -> str:
        package, run, argument = match.groups()
        present = RENAMED_ARGUMENTS[run].get(argument)
        if present is None:
            return match[0]
        record = present.rpartition(".")[0]
        if record in _RECORDS:
            records[record] = package
        return f"{package}{present}"

    text = _ARGUMENT.sub(rename, text)
    # A config with imports must also pass the records to the runs.
    first_import = _IMPORT.search(text)
    if not records or first_import is None:
        return text
    package = records.get("setup.StartingPoint")
    if package is not None:
        line = "import faith_jax.runs.setup" if package else "from faith_jax.runs import setup"
        text = f"{text[: first_import.end()]}{line}\n{text[first_import.end() :]}"
    references = (
        f"\n{package}{_RECORDS[record]} = @{package}{record}()"
        for record, package in records.items()
    )
    return text.rstrip("\n") + "".join(references) + "\n"


def _present_import(match: re.Match[str]) -> str:
    package, name, alias = match.groups()
    present = RENAMED_MODULES.get(f"{package}.{name}")
    if present is None:
        return match[0]
    package, _, renamed = present.rpartition(".")
    return f"from {package} import {renamed}" + (f" as {alias}" if alias else "")


def _as_bindings(block: re.Match[str]) -> str:
    """Splits a block of a run's arguments into single bindings, if some have moved to records."""
    package, run, body = block.groups()
    indentation = min(len(line) - len(line.lstrip()) for line in body.splitlines() if line.strip())
    argument = re.compile(rf"^[ \t]{{{indentation}}}(?=(\w+)[ \t]*=)", re.MULTILINE)
    if not RENAMED_ARGUMENTS[run].keys() & set(argument.findall(body)):
        return block[0]
    return argument.sub(f"{package}{run}.", body)
