import json

import pytest

from faith_jax.cli import main
from faith_jax.runs.reproduce import RECIPES
from tests.paths import REAL, needs_shared

pytestmark = pytest.mark.usefixtures("offline_data_dir")


def reproduce(capsys, *arguments):
    status = main(["reproduce", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return status, output.splitlines(), errors.strip().splitlines()


@pytest.mark.parametrize("table", list(RECIPES))
def test_every_recipe_runs_on_the_samples(capsys, tmp_path, table):
    folder = tmp_path / "made"
    status, lines, _ = reproduce(capsys, table, "--sample", f"--output={folder}")
    assert status == 0
    assert lines[-1] == str(folder)
    names = {path.name for path in folder.iterdir()}
    assert {"table.md", "table.tex", "table.csv", "figures.json"} <= names
    scored = {name for name in names if name.endswith(".jsonl")}
    assert len(scored) == len(RECIPES[table].datasets)
    assert json.loads((folder / "figures.json").read_text())


def test_scored_files_are_kept_for_the_same_scorers(capsys, tmp_path):
    arguments = ("npov", "--sample", f"--output={tmp_path}")
    assert reproduce(capsys, *arguments)[0] == 0
    path = tmp_path / "npov_errors_sample_test.jsonl"
    before = path.stat().st_mtime_ns
    assert reproduce(capsys, *arguments)[0] == 0
    assert path.stat().st_mtime_ns == before
    status, _, errors = reproduce(capsys, *arguments, "--scorers=bleu")
    assert (status, "has other scorers; remove it" in errors[-1]) == (2, True)


def test_scorers_of_ones_own(capsys, tmp_path):
    arguments = ("true", "--sample", f"--output={tmp_path}", "--scorers=bleu,coverage")
    status, lines, _ = reproduce(capsys, *arguments)
    assert status == 0
    assert [line.split()[0] for line in lines[3:5]] == ["bleu", "coverage"]


def test_mistakes(capsys, tmp_path):
    status, _, errors = reproduce(capsys, "treu", f"--output={tmp_path}")
    assert status == 2
    assert "There is no recipe for 'treu'. Did you mean 'true'" in errors[-1]
    status, _, errors = reproduce(capsys, "pronouns", f"--output={tmp_path}/x")
    assert status == 2
    assert errors[-1].startswith("faith-jax: ")
    assert "cannot be fetched" in errors[-1]


@needs_shared
def test_corpora_that_are_not_at_hand_are_left_out(capsys, caplog, tmp_path):
    for corpus, folder in (("qags_c", "qags"), ("q2", "q2")):
        assert main(["prepare", f"true_benchmark/{corpus}", f"--raw={REAL / folder}"]) == 0
    capsys.readouterr()
    arguments = ("true", f"--output={tmp_path}", "--scorers=token_f1")
    status, lines, _ = reproduce(capsys, *arguments)
    assert status == 0
    assert lines[1].split() == ["scorer", "qags_c", "q2", "average"]
    assert lines[3].split()[1::2] == ["63.8", "65.9", "64.9"]
    assert any("frank_test is left out" in message for message in caplog.messages)
