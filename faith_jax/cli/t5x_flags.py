"""Translates T5X's flags, and flags of its parser (absl), to the options of our `t5x`."""

from collections.abc import Iterable, Sequence

from faith_jax.core.errors import ConfigError

_RENAMED = {
    "--gin_bindings": "--gin.NAME=VALUE",
    "--multiprocess_gpu": "--multiprocess",
    "--initialization_timeout": "--process_timeout",
}
_LOG = "the log goes to standard error, with all that it says"
# Flags that have no effect here, with the reason.
_EXPLAINED = {
    "--logtostderr": _LOG,
    "--alsologtostderr": _LOG,
    "--stderrthreshold": _LOG,
    "--showprefixforinfo": _LOG,
    "--log_dir": f"{_LOG}; redirect that",
    "--v": _LOG,
    "--verbosity": _LOG,
    "--default_gin_search_paths": "faith_jax's own gin_configs come last, whatever it says",
    "--jax_backend_target": "JAX finds its devices by itself; set JAX_PLATFORMS for others",
    "--jax_xla_backend": "JAX finds its devices by itself; set JAX_PLATFORMS for others",
    "--run_mode": "the command says it: t5x train, t5x eval, t5x infer",
}
_WITHOUT_VALUE = {"--logtostderr", "--alsologtostderr", "--showprefixforinfo"}


def translate_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns arguments with our option names, and lines that explain the flags left out.

    >>> translate_flags(["train", "--gin_bindings=BATCH_SIZE = 4", "--v=1"])[0]
    ['train', '--gin.BATCH_SIZE = 4']
    """
    translated: list[str] = []
    explained: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        flag, equals, value = argument.partition("=")
        # Like absl, accept a single dash, and `no` in front of flags without a value.
        name = f"--{flag.lstrip('-')}" if flag.startswith("-") else flag
        if (positive := f"--{name.removeprefix('--no')}") in _WITHOUT_VALUE:
            name = positive
        if name in _EXPLAINED:
            explained[name] = f"{name} has no effect: {_EXPLAINED[name]}"
            if not equals and name not in _WITHOUT_VALUE:
                next(rest, None)
        elif name == "--gin_bindings":
            translated.append(f"--gin.{value if equals else _take_next_value(rest, name)}")
        elif name == "--multiprocess_gpu":
            if value.lower() not in ("false", "0"):
                translated.append(_RENAMED[name])
        elif name in _RENAMED:
            translated += [_RENAMED[name], value if equals else _take_next_value(rest, name)]
        else:
            translated.append(argument)
    return translated, list(explained.values())


def _take_next_value(rest: Iterable[str], name: str) -> str:
    value = next(iter(rest), None)
    if value is None:
        raise ConfigError(f"{name}: expected a value.")
    return value
