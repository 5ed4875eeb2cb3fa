import dataclasses
import json
import re
import sys

import pytest

from faith_jax.cli import main
from faith_jax.core.errors import ConfigError
from faith_jax.core.table import Table
from faith_jax.core.user_modules import entry_point_names, load_named
from faith_jax.papers.commands import ENTRY_POINTS
from faith_jax.papers.pmi import published_scores as pmi_tables
from faith_jax.papers.score_and_evaluate import comparable, with_published
from faith_jax.papers.tables import ScorerTable
from faith_jax.statistics.texts import text_metrics
from tests.paths import REAL, needs_shared

pytestmark = pytest.mark.usefixtures("offline_data_dir")


TABLES = {
    name: load_named(name, ENTRY_POINTS, object, "TABLE")
    for name in entry_point_names(ENTRY_POINTS)
}
SCORER_TABLES = {name: table for name, table in TABLES.items() if isinstance(table, ScorerTable)}


def test_a_recipe_runs_on_its_samples(command, tmp_path):
    table = "ragtruth"
    arguments = ("reproduce", table, "--sample", f"--output={tmp_path}")
    lines = command.succeeds(*arguments).splitlines()
    assert lines[-1] == str(tmp_path)
    assert any(line.startswith("SAMPLES, not the paper's data: ") for line in lines)
    names = {path.name for path in tmp_path.iterdir()}
    file_names = {f"{table}_sample.{ending}" for ending in ("md", "tex", "csv", "json")}
    assert file_names <= names
    # Two corpora BEGIN, of another release each, have files of their own.
    files = {
        f"{source.replace('/', '_')}_{split}.jsonl"
        for source, split in SCORER_TABLES[table].data_sets(sample=True)
    }
    assert {name for name in names if name.endswith(".jsonl")} == files
    figures = json.loads((tmp_path / f"{table}_sample.json").read_text())
    assert (figures["sample"], figures["title"].startswith("SAMPLES")) == (True, True)
    assert "published" not in figures
    assert "SAMPLES" in (tmp_path / f"{table}_sample.tex").read_text()
    # Scored files are kept for the same scorers.
    times = {name: (tmp_path / name).stat().st_mtime_ns for name in files}
    command.succeeds(*arguments)
    assert all((tmp_path / name).stat().st_mtime_ns == time for name, time in times.items())
    assert "with another value of scorers (" in command.refuses(*arguments, "--scorers=bleu")


def test_words_whose_errors_are_not_known(command, tmp_path):
    """The sample has no hallucinated words, and a note says so in place of the cells."""
    arguments = ("reproduce", "npov_words", "--sample")
    lines = command.succeeds(*arguments, f"--output={tmp_path}").splitlines()
    assert lines[0].count("Chang 2024, table 3") == 1
    assert any(line.startswith("Hallucinations: left out for npov_errors") for line in lines)
    arguments += ("--scorers=npov_rouge1_hallucination", f"--output={tmp_path / 'x'}")
    assert "whose rows do not say which words are hallucinated" in command.refuses(*arguments)


def test_a_stopped_run_says_how_to_go_on(command, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("faith_jax.papers.score_and_evaluate.score", stop)
    status, _, err = command("reproduce", "npov", "--sample", f"--output={tmp_path}")
    assert status == 130
    assert err.strip().endswith(f"kept in {tmp_path}; the same command resumes.")


@pytest.fixture
def begin_is_the_sample(monkeypatch):
    """Replaces the paper's data, which is not available, by the sample."""
    sample = dataclasses.replace(SCORER_TABLES["begin"], corpora=["sample"])
    monkeypatch.setattr(pmi_tables, "BEGIN", sample)


@pytest.mark.usefixtures("begin_is_the_sample")
def test_published_figures_stand_below_ours(command, tmp_path):
    arguments = ("--scorers=q2_baseline_bleu,bleu", f"--output={tmp_path}")
    lines = command.succeeds("reproduce", "begin", *arguments).splitlines()
    table = [line.split("  ") for line in lines]
    name = "q2_baseline_bleu"
    assert [cells[0] for cells in table[3:6]] == [name, f"{name} (published)", "bleu"]
    published = "\u2013 47.80 47.90 47.90 75.70 2.70 \u2013 62.00"
    assert lines[4].split()[2:] == published.split()
    figures = json.loads((tmp_path / "begin.json").read_text())
    assert figures["sample"] is False
    assert "Nandwani 2023, table 1" in figures["published"]["note"]
    assert figures["notes"][-1] == figures["published"]["note"]


def test_whose_figures_stand_beside_those_of_the_paper():
    """The paper's figures belong to rescaled BERTScore, and to PMI-Faith with the paper's cue."""
    options = {
        "bertscore": {"baseline": "b.tsv", "lower_grounding": True},
        "pmi_faith_mean": {"score_cue": True},
        "faith_critic_call": {},
    }
    note, figures = comparable(SCORER_TABLES["begin"], options)
    assert "Not beside" not in note
    expected = {
        "bertscore": [45.9, 67.3, 54.6, 73.9, 29.4, 43.2, 61.2],
        "pmi_faith_mean": [60.7, 81.8, 69.7, 83.4, 66.3, 58.4, 77.1],
        "faith_critic_call": [68.4, 49.2, 57.3, 82.9, 15.6, 3.9, 79.4],
    }
    for name, values in expected.items():
        columns = ("P", "R", "F1", "Acc", "F1 cmu", "F1 tc", "F1 wow")
        assert [figures[(name,)][column] for column in columns] == values
    options = {"pmi_faith_mean": {"score_cue": False}, "bleu": {}}
    note, figures = comparable(SCORER_TABLES["begin"], options)
    assert "Not beside pmi_faith_mean: pmi_faith_mean.score_cue is False, the paper's True." in note
    assert ("pmi_faith_mean",) not in figures
    note, figures = comparable(SCORER_TABLES["begin"], {"bertscore": {"layer": 1}})
    assert "Not beside bertscore: bertscore.baseline=FILE is not given, by which the pap" in note
    assert ("bertscore",) not in figures


def test_without_spacy_what_needs_it_is_left_out_by_default_alone(command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    text_metrics.english_tokenizer.cache_clear()
    arguments = ("reproduce", "begin", "--sample")
    lines = command.succeeds(*arguments, f"--output={tmp_path / 'made'}").splitlines()
    needed = "q2_baseline_token_f1 is left out: it needs spaCy (pip install 'faith_jax[augmentation"
    assert any(line.startswith(needed) for line in lines)
    assert not any(re.match(r"q2_baseline_token_f1 +\d", line) for line in lines)
    arguments += (f"--output={tmp_path / 'other'}", "--scorers=q2_baseline_token_f1")
    assert "q2_baseline_token_f1: spaCy, whose tokens" in command.refuses(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("begin", "--scorer-option=bertscore.layer=1"), "'bertscore' is not among --scorers"),
        (("begin", "--scorers=bleo"), "Did you mean 'bleu'"),
        (("begin", "--scorers=bleu", "--scorer-option=="), "--scorer-option"),
        (("begin", "--scorers=bleu", "--scorer-option=bleu.smooth=1"), "smooth"),
        (("begin", "--beams=2"), "reproduce begin has no argument '--beams=2'"),
        (("npov_detectoin", "--model=mini"), "there is no 'npov_detectoin'. Did you mean 'npov_d"),
    ],
)
def test_mistakes_make_no_folder(command, tmp_path, arguments, message):
    command_line = (*arguments, "--sample", f"--output={tmp_path / 'out'}")
    assert message in command.refuses("reproduce", *command_line)
    assert list(tmp_path.iterdir()) == []


def test_data_that_is_not_at_hand(command, tmp_path):
    error = command.refuses("reproduce", "pronouns", f"--output={tmp_path}/x")
    assert "cannot be fetched" in error


@pytest.mark.slow
@needs_shared
def test_corpora_that_are_not_at_hand_are_left_out(command, caplog, tmp_path, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "data"))
    for corpus, folder in (("qags_c", "qags"), ("q2", "q2")):
        command.succeeds("prepare", f"true_benchmark/{corpus}", f"--raw={REAL / folder}")
    arguments = ("reproduce", "true", f"--output={tmp_path}", "--scorers=token_f1")
    lines = command.succeeds(*arguments).splitlines()
    assert lines[1].split() == ["scorer", "qags_c", "q2", "average"]
    assert lines[3].split()[1::2] == ["63.8", "65.9", "64.9"]
    assert any("frank_test is left out" in message for message in caplog.messages)


def test_every_table_is_a_command(capsys):
    assert {"true", "begin", "pmi_decode", "faithdial", "dialfact", "nli"} <= set(TABLES)
    for table in TABLES:
        with pytest.raises(SystemExit) as stopped:
            main(["reproduce", table, "--help"])
        assert stopped.value.code == 0
        output = capsys.readouterr().out
        assert f"faith-jax reproduce {table}" in output
        assert ("--scorers" in output) == (table in SCORER_TABLES)
        assert "--output" in output


PAPER = {("a", "s"): {"old": 12.0, "new": 34.5}}


def test_rows_of_a_paper_stand_below_ours_and_bring_their_columns():
    tidy = Table("", ("error", "scorer", "slice", "auc", "low"), (("a", "s", "old", 0.1, 0.0),))
    rows = (("a", "s", "10.0 (0-20)"), ("b", "s", "1"))
    ours = Table("T", ("error", "scorer", "old"), rows, ("First.",), tidy)
    combined = with_published(ours, "From a paper.", PAPER)
    assert combined.columns == ("error", "scorer", "old", "new")
    assert combined.rows == (
        ("a", "s", "10.0 (0-20)", None),
        ("a", "s (published)", "12.0", "34.5"),
        ("b", "s", "1", None),
    )
    assert combined.notes == ("First.", "From a paper.")
    assert combined.tidy.rows[1:] == (
        ("a", "s (published)", "old", pytest.approx(0.12), None),
        ("a", "s (published)", "new", pytest.approx(0.345), None),
    )


def test_published_numbers_stay_numbers_and_may_be_missing():
    ours = Table("T", ("", "q2"), (("label", 0.1), ("s", 0.2)))
    combined = with_published(ours, *comparable(SCORER_TABLES["pronouns"], {}))
    assert combined.columns == ("", "q2", "begin", "dialfact")
    assert combined.rows[1] == ("label (published)", -0.03, -0.35, 0.05)
    assert len(combined.rows) == 3
    combined = with_published(ours, *comparable(SCORER_TABLES["true"], {}))
    assert (combined.rows, "scorers with models only" in combined.notes[0]) == (ours.rows, True)


def test_published_rows_have_a_figure_for_each_column():
    columns = {
        "title": "T",
        "data": "d",
        "corpora": ("c",),
        "scorers": (),
        "columns": ("a", "b", "c", "d"),
    }
    with pytest.raises(ConfigError, match="published: expected names of our row"):
        ScorerTable(**columns, published=[["one", "two", 3.0]])
