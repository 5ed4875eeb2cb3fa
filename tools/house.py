"""Reports the package's size, structure and readability, or the functions that a command calls.

    python tools/house.py
    python tools/house.py --words statistics
    python tools/house.py --way reproduce faithdial --sample --models=t5=mini --output=out --dry-run

Without `--way` it only reads the code: lines by room (a folder or module below faith_jax), folders
with many files, and guards. Figures above their limit are marked with !. The exit status is 1 if
too many names, summaries or function names in the package say nothing, or too many names in the
tasks, tests or tools. A guard is an `if` that only raises, or an `except` that raises another
error; the share of guards is one of the lines of code, without blank lines, comments and
docstrings. A name says nothing if it is in `EMPTY_NAMES`; the share counts all names bound by
parameters, assignments, loops and so on. A summary says nothing if it begins with "What" or a
participle; a function's name, if it is a single word that is a participle or private. `--words`
lists all of these in a room or file.

With `--way` it runs a command and lists the package's functions that were called, each once. It
leaves out class bodies, comprehensions, lambdas, and calls during the import of a module.
"""

import argparse
import ast
import collections
import functools
import inspect
import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from typing import NamedTuple

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MOST_FILES, MOST_SHARE, MOST_GUARDS, MOST_LINES = 15, 0.15, 0.08, 50_000
PAPERS = "papers"  # the room that the rest of the library does not import
MOST_EMPTY = 0.01  # the largest share of names, and of summaries, that say nothing
# Names that tell a new reader nothing about their value.
# fmt: off
EMPTY_NAMES = frozenset((
    "found", "it", "told", "given", "known", "one", "own", "made", "them", "this", "that",
    "others", "other", "thing", "things", "said", "asked", "here", "there", "what", "res",
    "ret", "tmp", "obj", "val", "wanted", "shown", "theirs", "apart", "every", "ones", "chosen",
    "meant", "taken", "put", "alike",
))
# fmt: on
_CITATION = r"(?-i:[A-Z]\w+ (19|20)\d\d\b)"  # "Steen 2023": a name may look like a participle
_RIDDLE = re.compile(
    rf"(?!{_CITATION})(((Returns|Yields) )?what(ever)?\b|\w+(ed|en)\b(?! by))", re.IGNORECASE
)
# Rooms with computations, which need comments that explain why.
_NUMERICS = ("models", "decoding", "training", "statistics", "inference")


class File(NamedTuple):
    """The line counts of a file.

    Attributes:
      path: relative to the package.
      lines: all lines.
      code: lines that are not blank, comments or docstrings.
      guards: lines of code that belong to guards.
    """

    path: pathlib.PurePath
    lines: int
    code: int
    guards: int

    @property
    def room(self) -> str:
        """The folder or module below the package."""
        return self.path.parts[0]


def read_file(path: pathlib.Path, package: pathlib.Path) -> File:
    """Returns the line counts of a Python file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    code = _code_lines(text) - set(_docstring_lines(tree))
    guards = code & set(_guard_lines(tree))
    return File(path.relative_to(package), len(text.splitlines()), len(code), len(guards))


@functools.lru_cache(maxsize=1)
def _nodes(tree: ast.AST) -> list[ast.AST]:
    """Returns all nodes of a tree; cached, since several counts walk through the same tree."""
    return list(ast.walk(tree))


def _code_lines(text: str) -> set[int]:
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    code_lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*skipped, tokenize.ENDMARKER):
            code_lines.update(range(token.start[0], token.end[0] + 1))
    return code_lines


def _docstring_lines(tree: ast.AST) -> Iterator[int]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in _nodes(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def _guard_lines(tree: ast.AST) -> Iterator[int]:
    for node in _nodes(tree):
        if isinstance(node, ast.If):
            is_guard = isinstance(node.body[-1], ast.Raise) and not node.orelse
        else:
            is_guard = isinstance(node, ast.ExceptHandler) and isinstance(node.body[-1], ast.Raise)
        if is_guard:
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


class Word(NamedTuple):
    """A bound name, a function's name, or the summary of a docstring.

    Attributes:
      line: the line number.
      text: the name or the summary.
      is_empty: whether it says nothing.
    """

    line: int
    text: str
    is_empty: bool


def bindings(tree: ast.AST) -> Iterator[Word]:
    """Yields the names bound by parameters, assignments, loops and so on."""
    for node in _nodes(tree):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        if name.strip("_"):
            yield Word(node.lineno, name, name.strip("_") in EMPTY_NAMES)


def summaries(tree: ast.AST) -> Iterator[Word]:
    """Yields the first lines of the docstrings of functions and classes."""
    for node in _nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            first = text.splitlines()[0]
            yield Word(node.lineno, first, bool(_RIDDLE.match(first)))


def function_names(tree: ast.AST) -> Iterator[Word]:
    """Yields the names of functions; a single private word or participle says nothing."""
    for node in _nodes(tree):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
            continue
        is_value = any("property" in ast.unparse(d) for d in node.decorator_list)
        name = node.name.strip("_")
        is_vague = node.name.startswith("_") or re.fullmatch(r"(?!open$|embed$)\w+(ed|en)", name)
        yield Word(node.lineno, name, bool(is_vague) and "_" not in name and not is_value)


_KINDS = {"names": bindings, "summaries": summaries, "functions": function_names}


def words_report(package: pathlib.Path) -> Iterator[str]:
    """Yields the shares of names and summaries that say nothing, by room, and comment densities."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    total: collections.Counter[str] = collections.Counter()
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree, room = ast.parse(text), path.relative_to(package).parts[0]
        count = collections.Counter(
            comments=len(re.findall(r"^\s*#|  # ", text, re.MULTILINE)), lines=text.count("\n")
        )
        for kind, words_of in _KINDS.items():
            for word in words_of(tree):
                count[kind] += 1
                count[f"empty {kind}"] += word.is_empty
        counts[room] += count
        total += count
    for kind in _KINDS:
        share = total[f"empty {kind}"] / total[kind]
        yield f"{kind} that say nothing: {share:.1%}{_mark(share > MOST_EMPTY)}"
    for room, count in sorted(counts.items(), key=lambda pair: -pair[1]["empty names"]):
        shares = [count[f"empty {kind}"] / max(count[kind], 1) for kind in _KINDS]
        comments = f"{100 * count['comments'] / count['lines']:5.1f} comments in 100 lines"
        by_kind = ", ".join(
            f"{share:6.1%} {kind}" for share, kind in zip(shares, _KINDS, strict=True)
        )
        yield f"{by_kind}  {room}" + (f", {comments}" if room in _NUMERICS else "")


def names_beside(repository: pathlib.Path) -> Iterator[str]:
    """Yields the share of names that say nothing in the tasks, tests and tools."""
    for folder in ("tasks", "tests", "tools"):
        names = [
            name
            for path in sorted((repository / folder).rglob("*.py"))
            for name in bindings(ast.parse(path.read_text(encoding="utf-8")))
        ]
        if names:
            share = sum(name.is_empty for name in names) / len(names)
            yield f"{share:6.1%} names  {folder}{_mark(share > MOST_EMPTY)}"


def empty_words(path: pathlib.Path) -> Iterator[str]:
    """Yields the names and summaries that say nothing in a file or in a room's files."""
    for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for word in sorted(word for words_of in _KINDS.values() for word in words_of(tree)):
            if word.is_empty:
                yield f"{file}:{word.line}: {word.text}"


def report(package: pathlib.Path) -> Iterator[str]:
    """Yields the lines of the report on a package's code; ! marks figures above their limit."""
    files = [read_file(path, package) for path in sorted(package.rglob("*.py"))]
    lines, code = sum(f.lines for f in files), sum(f.code for f in files)
    guards = sum(f.guards for f in files)
    yield f"{lines:,} lines in {len(files)} files{_mark(lines > MOST_LINES)}; {code:,} of code"
    if papers := sum(f.lines for f in files if f.room == PAPERS):
        yield f"library: {lines - papers:,} lines; {PAPERS}: {papers:,} lines"
    yield f"guards: {guards / code:.1%} of the code{_mark(guards / code > MOST_GUARDS)}"
    rooms: dict[str, list[File]] = collections.defaultdict(list)
    folders: collections.Counter[pathlib.PurePath] = collections.Counter()
    for file in files:
        rooms[file.room].append(file)
        folders[file.path.parent] += 1
    yield ""
    for room, held in sorted(rooms.items(), key=lambda entry: -sum(f.lines for f in entry[1])):
        size, code_count = sum(f.lines for f in held), sum(f.code for f in held)
        share = size / lines
        room_line = (
            f"{size:7,} {share:6.1%} {sum(f.guards for f in held) / max(code_count, 1):6.1%} guards"
        )
        yield f"{room_line}  {room}{_mark(share > MOST_SHARE)}"
    yield ""
    for folder, count in folders.most_common():
        if count > MOST_FILES:
            yield f"{count:7} files  {folder}{_mark(True)}"


def _mark(too_much: bool) -> str:
    return " !" if too_much else ""


def way(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Runs a command, and returns the package's functions that it called: (file, name)."""
    from faith_jax.cli import main

    package = str(REPOSITORY / "faith_jax")
    called: dict[tuple[str, str], None] = {}
    importing = 0

    def note(frame, event, _):
        nonlocal importing
        code = frame.f_code
        if code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing and code.co_filename.startswith(package):
            name = code.co_qualname
            is_function = code.co_flags & inspect.CO_OPTIMIZED  # not set for class bodies
            if is_function and "<" not in name.replace("<locals>", ""):
                called[code.co_filename.removeprefix(package + "/"), name] = None

    sys.setprofile(note)
    try:
        main(list(arguments))
    finally:
        sys.setprofile(None)
    return list(called)


def run(arguments: Sequence[str] | None = None) -> int:
    """Prints the report, or the functions that a command calls; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", metavar="ROOM", help="a room, or a file below the package")
    parser.add_argument("--way", nargs=argparse.REMAINDER, help="a command of faith-jax")
    options = parser.parse_args(arguments)
    if options.way:
        called = way(options.way)
        for file, name in called:
            print(f"{file}: {name}")
        rooms = collections.Counter(file.partition("/")[0] for file, _ in called)
        print(", ".join(f"{room} {count}" for room, count in rooms.most_common()))
        print(f"{len(called)} functions in {len({file for file, _ in called})} files")
    elif options.words:
        print("\n".join(empty_words(REPOSITORY / "faith_jax" / options.words)))
    else:
        print("\n".join(report(REPOSITORY / "faith_jax")), end="\n\n")
        lines = [*words_report(REPOSITORY / "faith_jax"), *names_beside(REPOSITORY)]
        print("\n".join(lines))
        return int(any(line.endswith("!") for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(run())
