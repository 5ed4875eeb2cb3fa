"""Commands from dataclasses."""

import dataclasses
import re
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, ClassVar, Literal, get_args

import pytest

from faith_jax.cli import _COMMANDS, COMMAND_ENTRY_POINTS, main, t5x_main
from faith_jax.cli.parser import CommandParser, add_commands, command_name
from faith_jax.core.errors import ConfigError
from faith_jax.core.settings import OutputReader
from faith_jax.papers.commands import Reproduce


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shared:
    """What is drawn.

    Attributes:
      seed (N): of what
        is drawn
    """

    group: ClassVar = "drawing"
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class CountWords(Shared):
    """Counts words.

    More on it.

    Attributes:
      files (FILE): to read
      share: of them
      also (WORD): another word (repeatable)
      kind: of words
      dry_run: count nothing
      parts (OPTIONS): in parallel
      limit (N): most
      folders (NAME=FOLDER): by name (repeatable)
      sizes (NUMBERS): with commas
      cores (N): at work (default: all)

    Examples:
      %(prog)s a.txt
    """

    files: tuple[str, ...]
    _: dataclasses.KW_ONLY
    share: float
    also: tuple[str, ...] = ()
    kind: Literal["all", "long"] | None = None
    dry_run: bool = False
    parts: str | bool = False
    limit: int | None = None
    folders: dict[str, Annotated[str, str.upper]] = dataclasses.field(default_factory=dict)
    sizes: Annotated[tuple[int, ...], lambda text: tuple(map(int, text.split(",")))] = (1, 2)
    cores: int = 0


def parser():
    command_parser = CommandParser(prog="prog")
    add_commands(command_parser.add_subparsers(dest="command", required=True), [CountWords])
    return command_parser


def parsed(*arguments):
    options = parser().parse_args(["count-words", *arguments])
    return options.make(options)


def test_what_is_not_given_has_the_fields_defaults():
    assert parsed("a", "--share=0.5") == CountWords(("a",), share=0.5)


def test_each_type_of_option():
    arguments = [
        "--share=1",
        "--also=x",
        "--also=y",
        "--kind=long",
        "--dry-run",
        "--parts",
        "--limit=3",
        "--seed=2",
        "--folders=one=a=b",
        "--folders= two = c",
        "--sizes=3,4",
    ]
    assert parsed("a", "b", *arguments) == CountWords(
        ("a", "b"), share=1.0, also=("x", "y"), kind="long", dry_run=True, parts=True, limit=3,
        seed=2, folders={"one": "A=B", "two": "C"}, sizes=(3, 4),
    )  # fmt: skip
    assert parsed("a", "--share=1", "--parts=two", "--dry_run").parts == "two"


def test_help_has_the_docstring_with_groups_and_defaults(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["count-words", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["examples:", "  prog count-words a.txt"]
    assert "Attributes:" not in lines
    words = [line.split() for line in lines]
    seed = words.index(["--seed", "N", "of", "what", "is", "drawn", "(default:", "0)"])
    assert lines[seed - 1] == "drawing:"
    assert ["--kind", "{all,long}", "of", "words"] in words
    assert ["--sizes", "NUMBERS", "with", "commas", "(default:", "1,2)"] in words
    assert ["--cores", "N", "at", "work", "(default:", "all)"] in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "prog count-words: the following arguments are required: --share; see prog count"),
        (["a", "--share=x"], "--share: expected a number, got x"),
        (["a", "--share=1", "--kind=lang"], "--kind: there is no 'lang'. Did you mean 'long'"),
        (["--share=1"], "are required: FILE"),
        (["a", "--share=1", "--folders=one="], "--folders: expected NAME=FOLDER, got 'one='"),
    ],
)
def test_wrong_usage_is_one_line(arguments, message):
    with pytest.raises(ConfigError) as error:
        parser().parse_args(["count-words", *arguments])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_path_that_cannot_be_is_one_line(tmp_path, capsys):
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    for arguments, message in (
        (["evaluate", "x" * 5000], '"xxxxx'),
        (["prepare", "nli", f"--raw={'x' * 5000}"], "File name too long"),
        (["evaluate", str(loop), f"--json={tmp_path / 'out'}"], "Too many levels of symbolic"),
    ):
        assert main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("faith-jax: ")
        assert message in line
    assert list(tmp_path.iterdir()) == [loop]


def empty_outputs():
    """Yields for each output of each command a command line with an empty path."""
    papers = map(EntryPoint.load, entry_points(group=COMMAND_ENTRY_POINTS))
    for command in (*_COMMANDS, *(cls for cls in papers if cls is not Reproduce)):
        for cls in getattr(command, "parts", (command,)):
            words = [command_name(command), *([command_name(cls)] if cls is not command else [])]
            before = []
            for field in dataclasses.fields(cls):
                if any(isinstance(part, OutputReader) for part in get_args(field.type)):
                    option = f"--{field.name.replace('_', '-')}"
                    given = [f"{option}="] if field.kw_only else [*before, ""]
                    name = option if field.kw_only else "[A-Z]+"
                    yield pytest.param(words, given, name, id=" ".join([*words, field.name]))
                before += [] if field.kw_only else ["a"]


@pytest.mark.parametrize(("words", "given", "name"), empty_outputs())
def test_an_output_has_a_path(words, given, name, capsys):
    assert main([*words, *given]) == 2
    called = " ".join(["faith-jax", *words])
    assert re.fullmatch(
        f"{called}: argument {name}: the path is empty; name a file or folder, or leave the option "
        f"out; see {called} --help.\n",
        capsys.readouterr().err,
    )


def test_a_name_is_given_once():
    arguments = ["count-words", "a", "--share=1", "--folders=one=a", "--folders=one=b"]
    options = parser().parse_args(arguments)
    with pytest.raises(ConfigError, match="--folders: 'one' is given twice"):
        options.make(options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scor"], "faith-jax: command: there is no 'scor'. Did you mean 'score'"),
        (["quickstart", "a", "extra"], "faith-jax: faith-jax quickstart has no argument 'extra'."),
        (["tasks", "--targets-length=-7"], "expected a positive whole number, got -7"),
        (
            ["score", "a.csv", "--output=s.jsonl"],
            "no argument 'a.csv'. A file is given as --input=a",
        ),
        (["tasks", "--row=3"], "has no argument '--row=3'. Did you mean '--rows'? See"),
    ],
)
def test_commands_and_options_that_are_not_there(capsys, arguments, message):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_t5x_has_its_three_commands_alone(capsys):
    assert t5x_main(["score"]) == 2
    assert "There are: train, eval, infer;" in capsys.readouterr().err


def shown(capsys, program, *arguments):
    try:
        status = program(list(arguments))
    except SystemExit as done:  # --help
        status = done.code
    return status, capsys.readouterr().out


@pytest.mark.parametrize("program", [main, t5x_main])
def test_without_a_command_the_help_is_shown(capsys, program):
    status, text = shown(capsys, program)
    assert (status, text) == shown(capsys, program, "--help")
    assert status == 0
    assert "Generates a response for each row" in " ".join(text.split())
