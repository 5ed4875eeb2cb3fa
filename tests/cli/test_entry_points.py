"""Commands of other packages, added through the same entry points as those of the papers."""

import pytest

from faith_jax import cli
from faith_jax.core.user_modules import entry_point_names, load_named

COMMAND = '''
import dataclasses


@dataclasses.dataclass(frozen=True)
class Longest:
    """Prints the longest word of a text.

    Attributes:
      text: words
      upper: in capitals

    Examples:
      %(prog)s "tea and honey"
    """

    text: str
    _: dataclasses.KW_ONLY
    upper: bool = False

    def run(self) -> str:
        word = max(self.text.split(), key=len)
        return word.upper() if self.upper else word
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package of one module with entry points; monkeypatch removes it."""

    def install(module, text, entry_points):
        (tmp_path / f"{module}.py").write_text(text)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_a_command_of_a_package(install, capsys):
    install("lab_words", COMMAND, "[faith_jax.commands]\nlongest = lab_words:Longest\n")
    assert cli.main(["longest", "tea and honey", "--upper"]) == 0
    assert capsys.readouterr().out == "HONEY\n"
    with pytest.raises(SystemExit):
        cli.main(["longest", "--help"])
    assert 'faith-jax longest "tea and honey"' in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("longest", "Prints the longest word", "reproduce"))
    assert cli.main(["longst", "tea"]) == 2
    assert "Did you mean 'longest'" in capsys.readouterr().err


def test_a_package_that_is_broken_stops_only_its_own_command(install, capsys):
    install("lab_broken", "import no_such_module", "[faith_jax.commands]\nlab = lab_broken:X\n")
    assert cli.main(["lab"]) == 2
    message = capsys.readouterr().err
    assert "The package lab_broken cannot be loaded" in message
    assert len(message.splitlines()) == 1
    assert cli.main(["scorers"]) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    captured = capsys.readouterr()
    assert "faith-jax: warning: The package lab_broken cannot be loaded" in captured.err
    assert "reproduce" in captured.out


def test_the_papers_commands_are_called_as_their_entry_points():
    for name in entry_point_names(cli.COMMAND_ENTRY_POINTS):
        command = load_named(name, cli.COMMAND_ENTRY_POINTS, type, "command")
        assert cli.command_name(command) == name


OBJECTS = """
from faith_jax.papers.tables import ScorerTable
from faith_jax.runs.scores.protocols import EvaluationProtocol
NONE = 1
FAILS = EvaluationProtocol(lambda files, options: 1 / 0)
TEXT = EvaluationProtocol(lambda files, options: "a text")
TABLE = ScorerTable("T", "true_benchmark", ("q2",), ("token_f1",))
class Other: pass
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "x.jsonl", "--protocol={file}:NONE"], "is no EvaluationProtocol"),
        (["evaluate", "x.jsonl", "--protocol={file}:FAIL"], "has no 'FAIL'. Did you mean 'FAILS'"),
        (["evaluate", "x.jsonl", "--protocol={file}"], "say which of its objects: "),
        (["evaluate", "x.jsonl", "--protocol={file}:FAILS"], "lab.py:5: ZeroDivisionError: "),
        (["evaluate", "x.jsonl", "--protocol=nowhere.py:X"], "there is no such file"),
        (["reproduce", "{file}", "--output=out"], "there is no"),
        (["reproduce", "{file}:Other", "--output=out"], "nor the options of a workflow"),
    ],
)
def test_objects_of_files_that_are_none(tmp_path, capsys, arguments, message):
    file = tmp_path / "lab.py"
    file.write_text(OBJECTS)
    assert cli.main([argument.format(file=file) for argument in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
