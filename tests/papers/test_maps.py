"""The maps of the papers only name existing modules, recipes, commands and scorers."""

import importlib.util
import re

import pytest

from faith_jax.core.user_modules import entry_point_names
from faith_jax.scoring.registry import scorer_names
from tests.paths import REPOSITORY

ROOMS = ("benchmarks", "faithdial", "dialfact", "pmi", "npov", "push")


def map_of(room):
    return (REPOSITORY / "faith_jax/papers" / room / "__init__.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_map_names_is_there(room):
    text = map_of(room)
    package = f"faith_jax.papers.{room}"
    modules = [
        m if m[0] == "f" else package + m for m in re.findall(r"`((?:faith_jax)?\.\S+?)`", text)
    ]
    assert len(modules) >= 6
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []
    recipes = re.findall(r"(\S+\.gin)", text)
    assert [name for name in recipes if not (REPOSITORY / "gin_configs" / name).exists()] == []
    pages = re.findall(r"docs/\w+\.md", text)
    assert [page for page in pages if not (REPOSITORY / page).exists()] == []
    tables = re.findall(r"reproduce (\w+)", text)
    assert set(tables) <= set(entry_point_names("faith_jax.tables"))
    protocols = re.findall(r"--protocol=(\w+)", text)
    assert set(protocols) <= set(entry_point_names("faith_jax.protocols"))
    for names in re.findall(r"scorers? ((?:`\w+`(?:,\s+)?)+)", text):
        assert set(re.findall(r"`(\w+)`", names)) <= set(scorer_names())


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_of_a_room_is_on_its_map(room):
    text = map_of(room)
    files = (REPOSITORY / "faith_jax/papers" / room).glob("*.py")
    unnamed = {file.stem for file in files if f".{file.stem}`" not in text}
    # Declarations of the command line, and modules that another module of the room represents.
    assert unnamed <= {"__init__", "commands", "options"}


def test_every_table_and_protocol_of_a_paper_is_on_a_map():
    text = "".join(map(map_of, ROOMS))
    tables = {
        name for name in entry_point_names("faith_jax.tables") if f"reproduce {name}" not in text
    }
    assert tables <= {"npov_words"}
    protocols = entry_point_names("faith_jax.protocols")
    assert {name for name in protocols if f"--protocol={name}" not in text} <= {
        "npov_words",
        "accuracy",
    }
