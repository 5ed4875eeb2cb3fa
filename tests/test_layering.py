"""Checks the layers of the package: imports go downwards, and numerics need no TensorFlow."""

import ast
import functools
import subprocess
import sys

import pytest

from tests.paths import REPOSITORY

PACKAGE = REPOSITORY / "faith_jax"

# A room is a module or package of faith_jax; it imports from rooms of lower floors and itself.
FLOORS = {
    "core": 0,
    "version": 0,
    "models": 1,
    "checkpoints": 2,
    "decoding": 2,
    "statistics": 2,
    "tokenizers": 3,
    "datasets": 3,
    "inference": 4,
    "training": 4,
    "annotation": 5,
    "gin_configs": 5,
    "retrieval": 5,
    "scoring": 5,
    "tasks": 5,
    "export": 6,
    "gin_files": 6,
    "input": 6,
    "report": 7,
    "runs": 8,
    "planning": 9,
    "cli": 10,
    "papers": 11,
    "command": 11,
    "__main__": 12,
}
# `import faith_jax` re-exports names of floor 0, and names of higher floors only on first use.
FACADE = "__init__"

HEAVY = {"tensorflow", "tensorflow_datasets", "tensorflow_text", "seqio", "t5x", "gin"}
# Where SeqIO, TensorFlow and gin may be imported: rooms and modules, by their dotted names.
MAY_BE_HEAVY = {
    "cli",
    "gin_files",
    "input",
    "papers",
    "planning",
    "runs",
    "tasks",
    "export.tfds",
    "core.heavy_imports",
    "datasets.builders",
    "tokenizers.seqio_vocabulary",
}


# Only these modules may use a library, so that there is one of each mechanism. Exported judges
# score without faith_jax.
_ALONE = "runs.judges.standalone_score"
OWNERS = {
    "argparse": "cli runs.options",
    "apache_beam": "datasets.builders.apache_beam",
    "clu": "training.metrics",
    "filelock": "core.files",
    "fsspec": "core.files.stores",
    "jinja2": "report.table_pages",
    "matplotlib": "report.figures runs.data.describe",
    "orbax": "checkpoints.native training.checkpoints",
    "pooch": "datasets.raw_files",
    "mwparserfromhell": "retrieval.articles",
    "safetensors": f"checkpoints.tensors {_ALONE}",
    "sentencepiece": f"tokenizers.sentencepiece {_ALONE}",
    "spacy": "datasets.augmentation.tagging statistics.texts.text_metrics",
    "tabulate": "cli.score_commands report.table_pages",
    "tensorstore": "checkpoints.native checkpoints.t5x",
    "tokenizers": f"tokenizers.huggingface {_ALONE}",
    "upath": "core.files.stores",
}


def modules():
    """Yields (dotted name below faith_jax, path) of every module of the library and its tasks."""
    for room, folder in {"": PACKAGE, "tasks.": REPOSITORY / "tasks"}.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            if len(parts) > 1 and parts[-1] == "__init__":
                parts = parts[:-1]
            yield room + ".".join(parts), path


MODULES = dict(modules())


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


@functools.cache
def parsed(name):
    """The syntax tree of a module."""
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def imports(tree, *, lazy):
    """Yields (line, absolute dotted name) of imports; `lazy` ones are those inside functions."""
    pending = [(node, False) for node in tree.body]
    while pending:
        node, inside = pending.pop()
        if is_type_checking(node):
            continue
        if isinstance(node, ast.Import):
            if lazy or not inside:
                yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if lazy or not inside:
                assert node.level == 0, f"line {node.lineno}: imports are absolute here"
                # `from package import module` and `from module import name` look alike: keep both.
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        else:
            inside |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            parts = ("body", "orelse", "finalbody", "handlers", "cases")  # imports are statements
            pending += [(child, inside) for part in parts for child in getattr(node, part, ())]


def room_of(name):
    return name.split(".")[0]


def is_heavy_room(name):
    return any(name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_BE_HEAVY)


LIGHT = [name for name in MODULES if not is_heavy_room(name)]


def violations(name, tree):
    """Returns one line for each import of a module that the floors do not allow."""
    if name == FACADE:
        return []
    messages = []
    floor = FLOORS[room_of(name)]
    for line, target in imports(tree, lazy=True):
        top, _, rest = target.partition(".")
        if top != "faith_jax" or not rest:
            continue
        room = room_of(rest)
        if room not in FLOORS:  # a name that faith_jax/__init__.py re-exports
            if floor < FLOORS["runs"]:
                messages.append(f"{name}:{line} imports {target} from the facade above it")
        elif room != room_of(name) and FLOORS[room] >= floor:
            messages.append(f"{name}:{line} imports {target}, which does not stand below it")
    return messages


def test_every_room_has_a_floor():
    without = {room_of(name) for name in MODULES} - set(FLOORS) - {FACADE}
    assert not without, (
        f"{sorted(without)}: give each new room a floor in FLOORS, as DESIGN's table has it"
    )


def test_imports_go_downwards():
    assert [message for name in MODULES for message in violations(name, parsed(name))] == []


def test_only_data_tasks_and_runs_know_tensorflow_and_gin():
    assert [
        f"{name}:{line}: {target}"
        for name in LIGHT
        for line, target in imports(parsed(name), lazy=True)
        if room_of(target) in HEAVY
    ] == []


def test_models_and_what_they_compute_import_no_storage():
    numerics = [n for n in MODULES if room_of(n) in ("models", "decoding", "statistics")]
    assert [
        f"{name}:{line}: {target}"
        for name in numerics
        for line, target in imports(parsed(name), lazy=False)
        if target.startswith("faith_jax.core.files")
    ] == []


@functools.cache
def imported_libraries(name):
    return {room_of(target) for _, target in imports(parsed(name), lazy=True)}


@pytest.mark.parametrize("library", OWNERS)
def test_one_mechanism_uses_a_library(library):
    users = {name for name in MODULES if library in imported_libraries(name)}
    owners = tuple(OWNERS[library].split())
    assert users, "nothing uses it any more: remove its line"
    assert {
        name for name in users if not (name + ".").startswith(tuple(f"{o}." for o in owners))
    } == set()


def test_the_command_line_imports_nothing_slow_at_once():
    tree = parsed("cli")
    slow = HEAVY | {"jax", "flax", "orbax", "optax", "matplotlib", "rich"}
    eager = {room_of(target) for _, target in imports(tree, lazy=False)}
    assert not eager & slow


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("models.layers", "from faith_jax.decoding import search", "does not stand below it"),
        ("models.layers", "import faith_jax.runs.train", "does not stand below it"),
        (
            "decoding.search",
            "def f():\n    from faith_jax.datasets import npov",
            "search:2 imports",
        ),
        ("statistics.tables", "from faith_jax import load_model", "from the facade above it"),
        ("training.trainer", "from faith_jax.scoring import nli", "does not stand below it"),
    ],
)
def test_the_reader_sees_an_import_upwards(name, source, message):
    (violation,) = violations(name, ast.parse(source))
    assert message in violation


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "models.layers",
            "from faith_jax.models import config\nfrom faith_jax.core.types import Array",
        ),
        ("runs.train", "from faith_jax import training, tasks"),
        ("models.layers", "if TYPE_CHECKING:\n    from faith_jax.runs import train"),
        ("models.layers", "import jax\nfrom flax import linen"),
    ],
)
def test_the_reader_lets_imports_downwards_pass(name, source):
    assert violations(name, ast.parse(source)) == []


def run_python(code):
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_library_imports_without_tensorflow_seqio_t5x_and_gin():
    # Blocked, not only absent: flax uses TensorFlow where it finds it.
    light = [
        "faith_jax" if name == FACADE else f"faith_jax.{name}"
        for name in LIGHT
        if name != "__main__"
    ]
    output = run_python(f"""
import importlib, importlib.abc, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY!r}:
            raise ImportError(f"{{name}} is blocked in this test")

sys.meta_path.insert(0, Blocker())
for name in {light!r}:
    importlib.import_module(name)
print(len(set({light!r}) & set(sys.modules)))
try:
    import tensorflow
except ImportError as error:
    print(error)
import faith_jax
print(type(faith_jax.load_model("mini")).__name__)
""")
    assert output.splitlines() == [
        str(len(light)), "tensorflow is blocked in this test", "EncoderDecoderModel"
    ]  # fmt: skip
    assert {"faith_jax", "faith_jax.models.transformer", "faith_jax.core.types"} <= set(light)
