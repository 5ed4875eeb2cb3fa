"""The settings of a `train` run, read from the config in its MODEL_DIR.

Configs are compared by the value of each argument, followed through macros and references: neither
another name for the same value nor a value that nothing uses is a difference. No code that a config
names is run for this.
"""

import contextlib
import inspect
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gin
from gin import config_parser

from faith_jax.gin_files.former_names import with_present_names
from faith_jax.gin_files.values import PARSE_ERRORS, Macro, Reference, parse_statements, resolve

CONFIG = "config.gin"  # in MODEL_DIR
TRAIN, TRAIN_STEPS = "faith_jax.runs.train.train", "optimization.total_steps"


class Setting(NamedTuple):
    """The value that a config gives an argument."""

    value: Any  # followed through macros; for a reference, its name
    name: str  # the name that sets it: a macro, or for example "adafactor.decay_rate"


class SettingDifference(NamedTuple):
    """An argument with different values in two configs; values are in gin's form."""

    path: str  # from the run's arguments: "dataset.batch_size"
    name: str  # the name that sets it
    before: str
    now: str


def read_settings(folder: pathlib.Path) -> dict[str, Setting] | None:
    """Returns `settings_of` the config in MODEL_DIR; None if there is no readable config."""
    try:
        return settings_of((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def settings_of(text: str) -> dict[str, Setting] | None:
    """Returns a run's arguments by path, including arguments of the configurables they refer to.

    Arguments that the config does not bind have their defaults, if these are known. Returns None if
    the text is not a readable config of a `train` run.
    """
    try:
        statements = list(parse_statements(with_present_names(text)))
    except PARSE_ERRORS:
        return None
    config = _Config(statements)
    settings = dict(config.arguments(TRAIN, (), "", ()))
    return settings if TRAIN_STEPS in settings else None


def differences(
    before: Mapping[str, Setting], now: Mapping[str, Setting]
) -> list[SettingDifference]:
    """Returns the differences of two runs' settings, without arguments of differing references."""
    changed: list[SettingDifference] = []
    for path in {**now, **before}:
        was, current = before.get(path), now.get(path)
        if was is not None and current is not None and was.value == current.value:
            continue
        if any(path.startswith(f"{above.path}.") for above in changed):
            continue
        name = (current or was or Setting(None, path)).name
        changed.append(SettingDifference(path, name, _setting_text(was), _setting_text(current)))
    return changed


def _setting_text(setting: Setting | None) -> str:
    if setting is None:
        return "not set"
    if isinstance(setting.value, Reference):
        return f"@{setting.value.name.removeprefix('faith_jax.')}"
    return repr(setting.value)


class _Config:
    """A parsed config that can look up arguments."""

    def __init__(self, statements: list[Any]):
        self._modules: dict[str, str] = {
            s.bound_name(): s.module if s.is_from or s.alias else s.bound_name()
            for s in statements
            if isinstance(s, config_parser.ImportStatement)
        }
        self._macros: dict[str, Any] = {}
        self._bound: dict[tuple[str, str], dict[str, Any]] = {}
        for s in statements:
            if not isinstance(s, config_parser.BindingStatement):
                continue
            if s.arg_name:
                place = (s.scope, self._whole_name(s.selector))
                self._bound.setdefault(place, {})[s.arg_name] = s.value
            else:
                self._macros[f"{s.scope}/{s.selector}".strip("/")] = s.value

    def arguments(
        self, name: str, scopes: tuple[str, ...], path: str, above: tuple[str, ...]
    ) -> Iterator[tuple[str, Setting]]:
        """Yields a configurable's arguments by path; `above` are the configurables that use it."""
        if name in above:
            return
        # The defaults, if the configurable is registered with gin already.
        configurables, parameters = gin.config._REGISTRY.get_all_matches(name), []
        if len(configurables) == 1:
            with contextlib.suppress(TypeError, ValueError):
                parameters = list(inspect.signature(configurables[0].wrapped).parameters.values())
        bound = {p.name: p.default for p in parameters if p.default is not p.empty}
        for depth in range(len(scopes) + 1):
            bound |= self._bound.get(("/".join(scopes[:depth]), name), {})
        for argument, value in bound.items():
            short_name = f"{name.rpartition('.')[2]}.{argument}"
            yield from self._resolve_value(value, f"{path}{argument}", short_name, (*above, name))

    def _resolve_value(
        self, value: Any, path: str, name: str, above: tuple[str, ...]
    ) -> Iterator[tuple[str, Setting]]:
        for _ in range(len(self._macros)):  # bounded, in case of a circle
            if not isinstance(value, Macro):
                break
            if name not in self._macros:
                name = value.name
            value = self._macros.get(value.name)
        if isinstance(value, Reference):
            *scopes, selector = value.name.split("/")
            whole = self._whole_name(selector)
            yield path, Setting(Reference("/".join([*scopes, whole])), name)
            yield from self.arguments(whole, tuple(scopes), f"{path}.", above)
        elif isinstance(value, dict | list | tuple):
            parts = value.items() if isinstance(value, dict) else enumerate(value)
            yield path, Setting(_with_tuples(resolve(value, self._macros)), name)
            for key, part in parts:
                yield from self._resolve_value(part, f"{path}.{key}", name, above)
        else:
            yield path, Setting(value, name)

    def _whole_name(self, selector: str) -> str:
        """Returns a name with its full module, resolved by the config's imports."""
        module, _, rest = selector.partition(".")
        return f"{self._modules[module]}.{rest}" if module in self._modules else selector


def _with_tuples(value: Any) -> Any:
    """Returns a value with tuples in place of lists, which mean the same here."""
    if isinstance(value, dict):
        return {k: _with_tuples(v) for k, v in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value
