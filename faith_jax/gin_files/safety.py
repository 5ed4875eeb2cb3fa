"""The imports and calls that a gin file may make: a fixed list, and the user's additions.

A gin file names functions that the program then calls. Users must be able to run files from others
without reading them, so a file can only call the functions that recipes need. Functions that read,
write or delete files are not among them, nor are functions that a module merely imports.
"""

import graphlib
import io
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gin

from faith_jax.core.errors import ConfigError

# Packages whose modules a gin file may import; importing runs no code outside of them.
IMPORTABLE = ("faith_jax", "seqio", "t5x", "optax", "flax", "jax", "jaxlib")
# Modules in which everything may be called, and single names that may be called.
CALLABLE = (
    "faith_jax.decoding.config",
    "faith_jax.inference.checkpoint_decoding.from_checkpoint",
    "faith_jax.input.epochs.steps",
    "faith_jax.input.task_batches.DatasetConfig",
    "faith_jax.models.config",
    "faith_jax.models.partitioning",
    "faith_jax.models.soft_prompt",
    "faith_jax.models.transformer",
    "faith_jax.runs.as_trained.cut_policy",
    "faith_jax.runs.as_trained.decode_length",
    "faith_jax.runs.as_trained.decoding",
    "faith_jax.runs.infer.InputFile",
    "faith_jax.runs.infer.Models",
    "faith_jax.runs.infer.Output",
    "faith_jax.runs.setup.StartingPoint",
    "faith_jax.runs.setup.encode_default",
    "faith_jax.runs.setup.model_from_checkpoint",
    "faith_jax.runs.train.Evaluation",
    "faith_jax.runs.train.Optimization",
    "faith_jax.runs.train.Output",
    "faith_jax.tokenizers.seqio_vocabulary",
    "faith_jax.training.in_batch_negatives",
    "faith_jax.training.infonce",
    "faith_jax.training.label_cross_entropy",
    "faith_jax.training.loss_truncation",
    "faith_jax.training.objectives",
    "faith_jax.training.optimizers",
    "faith_jax.training.repetition",
    "flax.linen",
    *(f"jax.numpy.{name}" for name in ("bfloat16", "float16", "float32", "float64", "int32")),
    "jax._src.nn",  # where jax.nn's functions are defined
    "optax",
    "seqio.preprocessors",
    *(f"seqio.utils.mixing_rate_num_{unit}" for unit in ("characters", "examples")),
    "seqio.vocabularies",
)
_GINS_OWN = ("gin.macro", "gin.constant", "gin.singleton")
_REMEDY = "A gin file can run what it names: if you trust this one, add --gin_allow={}."


def check_imports(text: str, where: str, allowed: Sequence[str]) -> None:
    """Raises ConfigError for an import of a module that is neither `IMPORTABLE` nor `allowed`.

    The text is read as tokens, as gin does, since a statement may span several lines.
    """
    for statement in _split_statements(text):
        if statement[0] not in ("import", "from"):
            continue
        # The module ends there in "from MODULE import NAME" and "import MODULE as NAME".
        end = {"from": "import", "import": "as"}[statement[0]]
        words = statement[1:]
        module = "".join(words[: words.index(end)] if end in words else words)
        if not _is_under(module, ("__gin__", "gin", *IMPORTABLE, *allowed)):
            raise ConfigError(f"{where}: imports {module}. {_REMEDY.format(module)}")


def _split_statements(text: str) -> Iterator[list[str]]:
    """Yields the words of each logical line, up to the first error in the text."""
    words: list[str] = []
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NEWLINE, tokenize.ENDMARKER) or token.string == ";":
                if words:
                    yield words
                words = []
            elif token.type not in skipped:
                words.append(token.string)
    except (tokenize.TokenError, SyntaxError):  # gin stops here too, and reports the line
        if words:
            yield words


def check_calls(allowed: Sequence[str]) -> None:
    """Raises ConfigError if gin has parsed a reference that is neither `CALLABLE` nor `allowed`.

    Functions are checked by the module that defines them, since modules also import others.
    """
    for reference in _find_references(list(gin.config._CONFIG.values())):
        selector = reference.configurable.selector
        if selector in _GINS_OWN:
            continue
        function = reference.configurable.wrapped
        module = getattr(function, "__module__", None) or type(function).__module__
        name = f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"
        if not _is_under(name, (*CALLABLE, *allowed)):
            raise ConfigError(f"gin: @{selector} is {name}. {_REMEDY.format(name)}")


def check_macros_end() -> None:
    """Raises ConfigError for macros that are defined by themselves."""
    used = {
        name: [
            r.scopes[-1] for r in _find_references(values) if r.selector == "gin.macro" and r.scopes
        ]
        for (name, selector), values in gin.config._CONFIG.items()
        if selector == "gin.macro"
    }
    try:
        graphlib.TopologicalSorter(used).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1][:0:-1]  # each macro follows the one that uses it
        first = circle.index(min(circle))
        names = [*circle[first:], *circle[:first], circle[first]]
        way = " -> ".join(f"%{macro}" for macro in names)
        raise ConfigError(f"gin: the macro {names[0]} is given by itself: {way}.") from None


def _find_references(value: Any) -> Iterator[Any]:
    """Yields the references in a value, including keys of dictionaries."""
    if isinstance(value, gin.config.ConfigurableReference):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from _find_references(pair)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _find_references(item)


def _is_under(name: str, allowed: Sequence[str]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in allowed)
