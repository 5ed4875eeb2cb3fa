"""The settings of a run `train`, as the config in its MODEL_DIR gives them.

Configs are compared by what they give each argument, followed through macros and references:
another name for the same value is no difference, nor is a value that nothing uses. Nothing that a
config names is run for that.
"""

import contextlib
import inspect
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gin
from gin import config_parser

from faith_jax.gin_files.former_names import with_present_names
from faith_jax.gin_files.values import PARSE_ERRORS, Macro, Reference, parse_statements

CONFIG = "config.gin"  # in MODEL_DIR
TRAIN, TRAIN_STEPS = "faith_jax.runs.train.train", "optimization.total_steps"


class Setting(NamedTuple):
    """The value that a config gives an argument."""

    value: Any  # followed through macros; of a reference, its name
    name: str  # by which it is set: its macro's, or such as "adafactor.decay_rate"


class SettingDifference(NamedTuple):
    """An argument that two configs give other values, as gin writes them."""

    path: str  # from the run's arguments: "dataset.batch_size"
    name: str  # by which it is set
    before: str
    now: str


def read_settings(folder: pathlib.Path) -> dict[str, Setting] | None:
    """Returns `settings_of` the config in MODEL_DIR; None where there is none to read."""
    try:
        return settings_of((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def settings_of(text: str) -> dict[str, Setting] | None:
    """Returns a run's arguments by their path, arguments of what they refer to included.

    Arguments that the config does not bind have their defaults, where these are known. None where
    the text is no readable config of a run `train`.
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
    """Returns where two runs' settings differ; of another reference, its arguments do not count."""
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
    """A parsed config, in which arguments are looked up."""

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
        """Yields the arguments of a configurable by path; `above` are those that refer to it."""
        if name in above:
            return
        # The defaults of a configurable that gin knows by now.
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
        for _ in range(len(self._macros)):  # no more, even if they name each other in a circle
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
            yield path, Setting(_without_references(self._macros, value), name)
            for key, part in parts:
                yield from self._resolve_value(part, f"{path}.{key}", name, above)
        else:
            yield path, Setting(value, name)

    def _whole_name(self, selector: str) -> str:
        """Returns a name with its whole module, as the config's imports say."""
        module, _, rest = selector.partition(".")
        return f"{self._modules[module]}.{rest}" if module in self._modules else selector


def _without_references(macros: Mapping[str, Any], value: Any) -> Any:
    """Returns a container with its macros' values, lists and tuples alike."""
    if isinstance(value, Macro):
        return _without_references(
            {k: v for k, v in macros.items() if k != value.name}, macros.get(value.name)
        )
    if isinstance(value, dict):
        return {k: _without_references(macros, v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_without_references(macros, v) for v in value)
    return value
