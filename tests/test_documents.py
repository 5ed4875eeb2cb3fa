"""The Python examples of README.md and docs/ run, and give the stated results.

The blocks of a page run one after the other. A block whose first line begins with "# needs" is only
parsed: its requirements are not available. A literal in the comment after an expression is its
value.
"""

import ast
import contextlib
import json
import re
import shlex
import shutil

import pytest
import seqio

from faith_jax.cli import main
from faith_jax.datasets import samples
from faith_jax.scoring.judges.card import preset_names, read_card
from tests.paths import REPOSITORY
from tests.runs.judges.test_verdicts import write_calibration
from tests.scoring import tiny_models

pytestmark = pytest.mark.usefixtures("own_seqio_tasks", "own_scorers")

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = {
    page.name: blocks for page in PAGES if (blocks := _BLOCK.findall(page.read_text("utf-8")))
}

# With mini or mini_nli, which take seconds to compile.
LONG = ("README.md", "api.md", "checking.md", "models.md", "mini.md")


def run(block, names):
    """Runs a block; returns pairs of an expression's value and the value in its comment."""
    lines, pairs = block.splitlines(), []
    for statement in ast.parse(block).body:
        code = ast.Module([statement], [])
        if not isinstance(statement, ast.Expr):
            exec(compile(code, "document", "exec"), names)
            continue
        value = eval(compile(ast.Expression(statement.value), "document", "eval"), names)
        behind = lines[statement.end_lineno] if statement.end_lineno < len(lines) else ""
        if behind.startswith("# "):
            with contextlib.suppress(SyntaxError, ValueError):  # of words
                pairs.append((value, ast.literal_eval(behind[2:])))
    return pairs


@pytest.fixture
def folder(tmp_path, monkeypatch, offline_data_dir):
    """A working folder with the files that the examples read."""
    shutil.copytree(samples.sample_folder("procon_npov"), tmp_path / "my_topics")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page in LONG else ()) for page in EXAMPLES],
)
def test_examples_run(page, folder):
    names = {}
    for block in EXAMPLES[page]:
        if block.startswith("# needs"):
            ast.parse(block)
            continue
        for actual, expected in run(block, names):
            assert actual == expected


@pytest.mark.slow
def test_the_users_own_task_is_trained_on(folder, command, tmp_path):
    """The module and the command of extending.md."""
    (module,) = (block for block in EXAMPLES["extending.md"] if "TaskRegistry.add" in block)
    (tmp_path / "my_tasks.py").write_text(module)
    for split in ("train", "validation"):
        (tmp_path / f"colours_{split}.tsv").write_text("the sky\tblue\nthe grass\tgreen\n")
    page = (REPOSITORY / "docs" / "extending.md").read_text("utf-8")
    arguments = re.search(r"^t5x (train .*?)^```$", page, re.DOTALL | re.MULTILINE)[1]
    seqio.TaskRegistry.remove("colours")  # of the example, which has run before
    out = command.succeeds(*shlex.split(arguments.replace("\\\n", " ")))
    assert "colours" in out


def test_the_users_own_files(folder, command, tmp_path):
    """The modules and the commands of extending.md."""
    scorers, _, protocols, tables, tasks, _ = EXAMPLES["extending.md"]
    (tmp_path / "my_scorers.py").write_text(scorers)
    (tmp_path / "my_protocols.py").write_text(protocols)
    (tmp_path / "my_tables.py").write_text(tables)
    # Another name, as the task of the other test has been imported.
    (tmp_path / "my_tasks.py").write_text(tasks.replace('"colours"', '"my_colours"'))
    for split in ("train", "validation"):
        (tmp_path / f"colours_{split}.tsv").write_text("the sky\tblue\nthe grass\tgreen\n")
    row = {"id": "r", "grounding": "40 minutes, 12 euros", "response": "12 euros, 45 minutes"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    page = (REPOSITORY / "docs" / "extending.md").read_text("utf-8")
    lines = re.findall(r"^faith-jax (.*)$", page.replace("\\\n", " "), re.MULTILINE)
    assert len(lines) == 6
    printed = []
    for line in lines:
        out = command.succeeds(*shlex.split(line.replace("colours ", "my_colours ")))
        printed.append(out)
    assert "number_precision" in printed[0]
    scored = json.loads((tmp_path / "scores.jsonl").read_text("utf-8"))
    assert scored["scores"]["number_precision"] == 0.5
    assert printed[2].startswith("Medians\n")
    assert printed[2].splitlines()[3].split()[1:] == ["token_f1", "0.75"]
    assert "SAMPLES" in printed[3]
    assert (tmp_path / "runs/summaries/summaries_sample.md").exists()
    assert "my_colours, validation, row 0" in printed[4]


def test_the_pages_have_examples():
    assert {"README.md", "api.md", "models.md"} <= set(EXAMPLES)
    assert sum(not b.startswith("# needs") for blocks in EXAMPLES.values() for b in blocks) >= 6


def test_the_first_commands_of_the_readme_print_its_table(tmp_path, monkeypatch, capsys):
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    commands, table = re.findall(r"^```\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)[:2]
    shutil.copytree(REPOSITORY / "docs" / "first_steps", tmp_path / "docs" / "first_steps")
    monkeypatch.chdir(tmp_path)
    for command in commands.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "faith-jax"
        assert main(arguments) == 0
    assert table in capsys.readouterr().out


def test_the_users_own_judge(folder, command, tmp_path):
    """The card and the command of judge_cards.md."""
    page = (REPOSITORY / "docs" / "judge_cards.md").read_text("utf-8")
    (card,) = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(card.splitlines()) <= 15
    (tmp_path / "my_judge.toml").write_text(card)
    tiny_models.write_judge_t5(tmp_path / "checkpoints" / "support_desk")
    rows = "grounding,response\nTea is a leaf. It is hot.,It is a leaf. It is hot.\n"
    (tmp_path / "answers.csv").write_text(rows)
    arguments, _ = re.findall(r"^faith-jax (score --scorers=my_judge.*?)^```$", page, re.S | re.M)
    command.succeeds(*shlex.split(arguments.replace("\\\n", " ")))
    (row,) = map(json.loads, (tmp_path / "judged.jsonl").read_text().splitlines())
    assert row["scores"].keys() == {"my_judge", "whole"}
    assert len(row["evidence"]["my_judge"]) == 2
    assert len(row["evidence"]["whole"]) == 1


def test_the_examples_of_judges(folder, tmp_path):
    """The blocks of judges.md that call a judge."""
    tiny_models.write_judge_t5(tmp_path / "checkpoints" / "minicheck_flan_t5_large")
    write_calibration(tmp_path / "calibration.json", "minicheck_flan_t5_large", answers=3.0)
    blocks = [block for block in EXAMPLES["judges.md"] if "faith_jax.judge(" in block]
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        run(block, names)
    assert 0 < names["judged"]["judge_score"][0] < 1
    assert names["verdict"].supported in (True, False)


def test_the_table_of_judges_is_that_of_the_cards():
    page = (REPOSITORY / "docs" / "judges.md").read_text("utf-8")
    table = page.partition("## The cards")[2].partition("\n\nThe head")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    rows_by_judge = {name: row for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert rows_by_judge.keys() == set(preset_names())
    for name, row in rows_by_judge.items():
        card = read_card(name)
        assert f"`{card.checkpoint}`" in row[1]
        assert row[2] == card.size
        threshold = "none" if card.threshold is None else f"{card.threshold:g}"
        assert row[6].split()[0] == threshold
        assert row[7].startswith(card.licence.split(" (")[0].split(",")[0])
        assert ("none" in row[4]) == (card.chunks is None)
        assert card.response.sentences in row[5]
