"""Modules that gin files and MODEL_DIRs of former versions name otherwise."""

import re

# Former and present names.
MODULES: dict[str, str] = {
    "faith_jax.tokenizers.seqio_vocabulary": "faith_jax.tokenizers.seqio_vocabulary",
}

_FROM = re.compile(r"^from (\S+) import (\w+)(?: as (\w+))?[ \t]*$", re.MULTILINE)


def with_present_names(text: str) -> str:
    """Returns a gin config whose imports and names are those of this version.

    What a config calls a module stays as it is, so that its bindings need no change.

    >>> MODULES["faith_jax.old.losses"] = "faith_jax.training.objectives"
    >>> with_present_names("from faith_jax.old import losses")
    'from faith_jax.training import objectives as losses'
    >>> with_present_names("import faith_jax.old.losses")
    'import faith_jax.training.objectives'
    >>> del MODULES["faith_jax.old.losses"]
    """
    text = _FROM.sub(_present_import, text)
    for former, present in MODULES.items():
        text = re.sub(rf"\b{re.escape(former)}\b(?!\.gin)", present, text)
    return text


def _present_import(match: re.Match[str]) -> str:
    package, name, alias = match.groups()
    present = MODULES.get(f"{package}.{name}")
    if present is None:
        return match[0]
    package, _, renamed = present.rpartition(".")
    alias = alias or name
    return f"from {package} import {renamed}" + ("" if alias == renamed else f" as {alias}")
