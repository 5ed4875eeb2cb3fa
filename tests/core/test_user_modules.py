"""Users' modules, by name and by file."""

import importlib
import sys

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.user_modules import (
    entry_point_names,
    import_user_module,
    load_entry_points,
    module_digest,
)


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_a_file_is_imported_once_with_what_lies_beside_it(tmp_path):
    (tmp_path / "beside_it_7.py").write_text("cups = []\n")
    (tmp_path / "my_module_7.py").write_text(
        "import json\nfrom beside_it_7 import cups\ncups.append(1)\n"
    )
    first = import_user_module(str(tmp_path / "my_module_7.py"), "--module")
    again = import_user_module(str(tmp_path / "my_module_7.py"), "--module")
    assert first is again
    assert first.cups == [1]
    before = module_digest(first)
    (tmp_path / "beside_it_7.py").write_text("cups = [2]\n")
    beside = module_digest(first)
    assert beside != before
    (tmp_path / "my_module_7.py").write_text("cups = 2\n")
    assert module_digest(first) not in (before, beside)


def test_modules_of_a_package_belong_to_its_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "package_11"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("WEIGHT = 1\n")
    (package / "scorers.py").write_text("import math\nfrom .inner import WEIGHT\n")
    module = import_user_module("package_11.scorers", "--module")
    before = module_digest(module)
    assert module_digest(module) == before
    (package / "inner.py").write_text("WEIGHT = 2\n")
    assert module_digest(module) != before


def test_a_name_is_found_in_the_working_folder_behind_what_is_installed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_module_8.py").write_text("cups = 8\n")
    (tmp_path / "faith_jax.py").write_text("raise RuntimeError\n")
    assert import_user_module("my_module_8", "--module").cups == 8
    assert import_user_module("faith_jax", "--module").__file__ != str(tmp_path / "faith_jax.py")


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        ("none_9.py", None, r"^--module = '.*none_9.py': there is no such file.$"),
        ("bad_9.py", "1 / 0", r"bad_9.py' cannot be imported \(ZeroDivisionError: division"),
        ("exits_9.py", "exit(3)", r"exits_9.py' cannot be imported \(SystemExit: 3"),
        ("syntax_9.py", "def (", r"syntax_9.py' cannot be imported \(SyntaxError: invalid syntax"),
    ],
)
def test_what_cannot_be_imported(tmp_path, place, text, message):
    if text is not None:
        (tmp_path / place).write_text(text)
    for _ in range(2):  # the second time, too
        with pytest.raises(ConfigError, match=message):
            import_user_module(str(tmp_path / place), "--module")
    with pytest.raises(ConfigError, match=r"--module = 'no_such_9\.tasks' cannot be imported"):
        import_user_module("no_such_9.tasks", "--module")


def test_entry_points_of_packages(tmp_path, monkeypatch):
    package = tmp_path / "colours-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: colours\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[faith_jax.cups]\nred = cups_10\n")
    module = tmp_path / "cups_10.py"
    module.write_text("raise KeyError('red')\n")
    assert not entry_point_names("faith_jax.cups")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert entry_point_names("faith_jax.cups")
    message = "The package colours cannot be loaded, which has the entry point cups_10 of"
    with pytest.raises(ConfigError, match=message):
        load_entry_points("faith_jax.cups")
    module.write_text("cups = 10\n")
    load_entry_points("faith_jax.cups")
    assert sys.modules["cups_10"].cups == 10
