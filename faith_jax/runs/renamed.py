"""What gin files and MODEL_DIRs of former versions name otherwise."""

import re

# Former and present modules.
MODULES: dict[str, str] = {
    "faith_jax.models.prompts": "faith_jax.models.soft_prompt",
    "faith_jax.runs.checkpoint_decoding": "faith_jax.inference.checkpoint_decoding",
    "faith_jax.runs.datasets": "faith_jax.input.task_batches",
    "faith_jax.training.contrastive": "faith_jax.training.infonce",
    "faith_jax.training.partitioning": "faith_jax.models.partitioning",
    "faith_jax.training.truncation": "faith_jax.training.loss_truncation",
}
# What former bindings call by the last name of such a module.
CONFIGURABLES: dict[str, str] = {
    "contrastive.InfoNCE": "infonce.InfoNCE",
    "datasets.DatasetConfig": "task_batches.DatasetConfig",
    "prompts.class_labels": "soft_prompt.class_labels",
    "prompts.from_npy": "soft_prompt.from_npy",
    "prompts.sampled_vocabulary": "soft_prompt.sampled_vocabulary",
    "prompts.uniform": "soft_prompt.uniform",
    "truncation.LossTruncation": "loss_truncation.LossTruncation",
}

_FROM = re.compile(r"^from (\S+) import (\w+)(?: as (\w+))?[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"\b(?<![\w.])(\w+\.\w+)\b")


def with_present_names(text: str) -> str:
    """Returns a gin config whose imports and bindings have the names of this version.

    >>> with_present_names("from faith_jax.training import contrastive")
    'from faith_jax.training import infonce'
    >>> with_present_names("contrastive.InfoNCE.temperature = 0.1")
    'infonce.InfoNCE.temperature = 0.1'
    """
    text = _FROM.sub(_present_import, text)
    for former, present in MODULES.items():
        text = re.sub(rf"\b{re.escape(former)}\b(?!\.gin)", present, text)
    return _NAME.sub(lambda name: CONFIGURABLES.get(name[1], name[1]), text)


def _present_import(match: re.Match[str]) -> str:
    package, name, alias = match.groups()
    present = MODULES.get(f"{package}.{name}")
    if present is None:
        return match[0]
    package, _, renamed = present.rpartition(".")
    return f"from {package} import {renamed}" + (f" as {alias}" if alias else "")
