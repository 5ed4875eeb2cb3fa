"""The command line's imports before it answers: no library that takes seconds to load."""

import argparse
import importlib
import subprocess
import sys

import pytest

from faith_jax import cli
from faith_jax.core.heavy_imports import _hide_packages
from tests.paths import REPOSITORY
from tests.scoring import tiny_models

SLOW = {
    *("absl", "clu", "flax", "gin", "jax", "jaxlib", "matplotlib", "nltk", "numpy", "optax"),
    *("orbax", "pandas", "pyarrow", "scipy", "seqio", "sklearn", "snakemake", "spacy"),
    *("t5x", "tensorflow", "tensorflow_datasets", "tensorstore", "tokenizers"),
    *("aiohttp", "etils", "fsspec", "gcsfs", "google", "s3fs", "upath"),
}
# Libraries that neither responses nor scores of a model need.
SLOW_BESIDE_JAX = {"matplotlib", "nltk", "optax", "orbax", "pandas", "scipy", "sklearn", "spacy"}


def commands(parser, called=()):
    """Yields the arguments of each command and of each subcommand."""
    yield called
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, part in action.choices.items():
                yield from commands(part, (*called, name))


def all_commands(monkeypatch, program):
    parsers = []
    monkeypatch.setattr(cli.CommandParser, "print_help", lambda parser: parsers.append(parser))
    program([])
    return list(commands(parsers[0]))


def loaded(code):
    """Returns the top packages that are loaded after code has run in a new process."""
    code = f"import sys\nfrom faith_jax import cli\n{code}\nprint('loaded', *sys.modules)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert result.returncode == 0, result.stderr
    output, _, names = result.stdout.rpartition("loaded ")
    return output, {name.split(".")[0] for name in names.split()}


def test_help_the_list_of_tasks_and_wrong_names_import_nothing_slow(monkeypatch):
    called = {
        program: [[*names, "--help"] for names in all_commands(monkeypatch, getattr(cli, program))]
        for program in ("main", "t5x_main")
    }
    assert all(["infer", "--help"] in command_line for command_line in called.values())
    assert {("reproduce", "faithdial"), ("npov", "sets"), ("annotate", "read")} <= {
        tuple(arguments[:-1]) for arguments in called["main"]
    }
    command_lines = [["tasks"], ["tasks", "faithdial_generte"], ["index", "nowhere.jsonl", "base"]]
    output, names = loaded(f"""
import contextlib
for program, given in {called!r}.items():
    for arguments in given:
        with contextlib.suppress(SystemExit):
            getattr(cli, program)(arguments)
for arguments in {command_lines!r}:
    print("status:", cli.main(arguments))
""")
    assert output.count("usage: ") == sum(map(len, called.values()))
    assert [line for line in output.splitlines() if line.startswith("status: ")] == [
        "status: 0",
        "status: 2",
        "status: 2",
    ]
    assert not names & SLOW


def test_scores_without_a_model_import_nothing_slow(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"grounding": "Tea is hot.", "generated_text": "Tea."}\n')
    scorers = "--scorers=token_f1,rouge1_precision,rougeL_f1,npov_rouge1_coverage"
    score = ["score", scorers, "--scorer-option=rougeL_f1.use_stemmer=True"]
    score += [f"--input={tmp_path}/rows.jsonl", f"--output={tmp_path}/scores.jsonl"]
    _, names = loaded(f"assert cli.main({score!r}) == 0")
    # NumPy takes a tenth of a second; rouge-score brings absl.
    assert names & SLOW <= {"absl", "numpy"}


def test_files_that_check_cannot_read_are_named_before_jax_is_imported():
    check = ["check", "--input=no.jsonl", "--output=no.out"]
    _, names = loaded(f"assert cli.main({check!r}) == 2")
    assert not names & (SLOW_BESIDE_JAX | {"jax", "flax", "tensorflow"})


def test_what_is_hidden_from_tensorflow_can_be_imported_after_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with _hide_packages("colorsys", "argparse"):
        assert importlib.import_module("argparse") is argparse
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("colorsys")
    assert importlib.import_module("colorsys") is not None


def test_scores_tables_plans_and_responses_to_a_file_import_no_tensorflow(tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        '{"id": "1", "grounding": "Tea is a leaf.", "generated_text": "Tea.", "label": 1}\n'
        '{"id": "2", "grounding": "Tea is a leaf.", "generated_text": "No.", "label": 0}\n'
    )
    (tmp_path / "queries.jsonl").write_text('{"query": "Tea?", "pro": ["Yes."], "con": ["No."]}\n')
    (tmp_path / "own.gin").write_text(f"INPUT_FILE = '{tmp_path}/queries.jsonl'\n")
    salience = ["salience_hallucination", "salience_coverage"]
    score = ["score", f"--scorers=token_f1,{','.join(salience)}", f"--input={tmp_path}/rows.jsonl"]
    model = tiny_models.write_t5(tmp_path / "t5")
    score += [f"--scorer-option={name}.model={model}" for name in salience]
    score.append(f"--output={tmp_path}/s.jsonl")
    infer = ["infer", "--gin_file=runs/infer_file.gin", f"--gin_file={tmp_path}/own.gin"]
    infer += [f"--gin.CHECKPOINT_PATH={model}", "--gin.DECODE_LENGTH=2"]
    infer.append(f"--gin.INFER_OUTPUT_DIR={tmp_path}/responses")
    recipe = (["quickstart.gin"], ["MODEL_DIR='runs/none'"], [], [])
    output, names = loaded(f"""
import jax
programs = []
jax.monitoring.register_event_listener(
    lambda event, **_: programs.append(event) if event.endswith("requests_use_cache") else None
)
assert cli.t5x_main({[*infer, "--dry_run"]!r}) == 0
assert not programs
assert cli.t5x_main({infer!r}) == 0
print("of infer:", len(programs))
assert cli.main({score!r}) == 0
print("of both:", len(programs))
print("slow:", sys.modules.keys() & {SLOW_BESIDE_JAX!r})
assert cli.main({["evaluate", f"{tmp_path}/s.jsonl"]!r}) == 0
from faith_jax.planning.topologies import parse_topology
from faith_jax.planning.worker import Recipe, Session
topology = parse_topology("cpu:1")
type(topology).devices = lambda _: jax.devices()[:1]
assert Session(Recipe(*{recipe!r}), topology).facts.devices == 1
""")
    assert (tmp_path / "responses" / "predictions.jsonl").exists()
    assert not names & {"tensorflow", "tensorflow_datasets", "tensorflow_text", "seqio", "t5x"}
    assert {"jax", "gin"} <= names
    # One program for decoding a single shape, and one for the maps that both scorers share. Other
    # computations compile no programs.
    told = [
        line for line in output.splitlines() if line.startswith(("of infer", "of both", "slow"))
    ]
    assert told == ["of infer: 1", "of both: 2", "slow: set()"]


@pytest.mark.slow
def test_tensorflow_does_not_take_the_indexes_of_knowledge_bases_away():
    code = (
        "import faith_jax, tensorflow, sqlite3\n"
        "sqlite3.connect(':memory:').execute('CREATE VIRTUAL TABLE t USING fts5(a)')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
