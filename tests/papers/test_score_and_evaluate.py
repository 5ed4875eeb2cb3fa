import dataclasses
import json
import re
import sys

import pytest

from faith_jax.cli import main
from faith_jax.core.table import Table
from faith_jax.core.user_modules import entry_point_names, load_named
from faith_jax.papers.commands import ENTRY_POINTS
from faith_jax.papers.pmi import published_scores as pmi_tables
from faith_jax.papers.score_and_evaluate import comparable, with_published
from faith_jax.papers.tables import ScorerTable
from faith_jax.statistics.texts import text_metrics
from tests.paths import REAL, needs_shared
from tests.quick import slow_except
from tests.scoring import tiny_models

pytestmark = pytest.mark.usefixtures("offline_data_dir")


TABLES = {
    name: load_named(name, ENTRY_POINTS, object, "TABLE")
    for name in entry_point_names(ENTRY_POINTS)
}
SCORER_TABLES = {name: table for name, table in TABLES.items() if isinstance(table, ScorerTable)}


def reproduce(capsys, *arguments):
    status = main(["reproduce", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return status, output.splitlines(), errors.strip().splitlines()


@pytest.mark.parametrize("table", slow_except(SCORER_TABLES, list(SCORER_TABLES)[:2]))
def test_every_recipe_runs_on_the_samples(capsys, tmp_path, table):
    folder = tmp_path / "made"
    status, lines, _ = reproduce(capsys, table, "--sample", f"--output={folder}")
    assert status == 0
    assert lines[-1] == str(folder)
    assert any(line.startswith("SAMPLES, not the paper's data: ") for line in lines)
    names = {path.name for path in folder.iterdir()}
    made = {f"{table}_sample.{ending}" for ending in ("md", "tex", "csv", "json")}
    assert made <= names
    scored = {name for name in names if name.endswith(".jsonl")}
    assert len(scored) == len(SCORER_TABLES[table].data_sets(sample=True))
    figures = json.loads((folder / f"{table}_sample.json").read_text())
    assert (figures["sample"], figures["title"].startswith("SAMPLES")) == (True, True)
    assert "published" not in figures
    assert "SAMPLES" in (folder / f"{table}_sample.tex").read_text()


def test_scored_files_are_kept_for_the_same_scorers(capsys, tmp_path):
    arguments = ("npov", "--sample", f"--output={tmp_path}")
    assert reproduce(capsys, *arguments)[0] == 0
    path = tmp_path / "npov_errors_sample_test.jsonl"
    before = path.stat().st_mtime_ns
    assert reproduce(capsys, *arguments)[0] == 0
    assert path.stat().st_mtime_ns == before
    status, _, errors = reproduce(capsys, *arguments, "--scorers=bleu")
    assert (status, "with another value of scorers (" in errors[-1]) == (2, True)


@pytest.mark.papers
def test_tables_in_one_folder_do_not_mix_their_data(capsys, tmp_path):
    """Both tables have a corpus BEGIN, of another release each."""
    scorers = "--scorers=token_f1"
    for folders in ({"begin": "one", "true": "one"}, {"begin": "two", "true": "three"}):
        for table, folder in folders.items():
            arguments = (table, "--sample", f"--output={tmp_path / folder}", scorers)
            assert reproduce(capsys, *arguments)[0] == 0
    for table, folder in {"begin": "two", "true": "three"}.items():
        for ending in ("json", "csv"):
            name = f"{table}_sample.{ending}"
            assert (tmp_path / "one" / name).read_text() == (tmp_path / folder / name).read_text()
    corpora = json.loads((tmp_path / "one" / "true_sample.json").read_text())["rows"]
    assert len(corpora) == 9


def test_words_whose_errors_are_not_known(capsys, tmp_path):
    """The sample says nothing of hallucinated words, which is said in the place of the cells."""
    arguments = ("npov_words", "--sample", f"--output={tmp_path}")
    _, lines, _ = reproduce(capsys, *arguments)
    assert any(line.startswith("Hallucinations: left out for npov_errors") for line in lines)
    scorer = "--scorers=npov_rouge1_hallucination"
    status, _, errors = reproduce(capsys, *arguments[:2], f"--output={tmp_path / 'x'}", scorer)
    assert status == 2
    assert "whose rows do not say which words are hallucinated" in errors[-1]


def test_a_stopped_run_says_how_to_go_on(capsys, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("faith_jax.papers.score_and_evaluate.score", stop)
    status, _, errors = reproduce(capsys, "npov", "--sample", f"--output={tmp_path}")
    assert status == 130
    assert errors[-1].endswith(f"kept in {tmp_path}; the same command resumes.")


def test_scorers_of_ones_own(capsys, tmp_path):
    arguments = ("true", "--sample", f"--output={tmp_path}", "--scorers=bleu,coverage")
    status, lines, _ = reproduce(capsys, *arguments)
    assert status == 0
    assert [line.split()[0] for line in lines[3:5]] == ["bleu", "coverage"]


@pytest.fixture
def begin_is_the_sample(monkeypatch):
    """Puts the sample in the place of the paper's data, which is not at hand."""
    sample = dataclasses.replace(SCORER_TABLES["begin"], corpora=["sample"])
    monkeypatch.setattr(pmi_tables, "BEGIN", sample)


@pytest.mark.usefixtures("begin_is_the_sample")
def test_published_figures_stand_below_ours(capsys, tmp_path):
    scorers = "--scorers=q2_baseline_bleu,bleu"
    status, lines, _ = reproduce(capsys, "begin", f"--output={tmp_path}", scorers)
    assert status == 0
    table = [line.split("  ") for line in lines]
    name = "q2_baseline_bleu"
    assert [cells[0] for cells in table[3:6]] == [name, f"{name} (published)", "bleu"]
    published = lines[4].split()
    assert published[2:] == [
        "\u2013",
        "47.80",
        "47.90",
        "47.90",
        "75.70",
        "2.70",
        "\u2013",
        "62.00",
    ]
    figures = json.loads((tmp_path / "begin.json").read_text())
    assert figures["sample"] is False
    assert "Nandwani 2023, table 1" in figures["published"]["note"]
    assert figures["notes"][-1] == figures["published"]["note"]


@pytest.mark.usefixtures("begin_is_the_sample")
def test_scorers_with_models_have_their_figures_too(capsys, tmp_path):
    """PMI-Faith's and the critic's calls; of BERTScore only what is rescaled."""
    gpt2 = tiny_models.write_model(tmp_path / "gpt2", "gpt2", max_positions=320)
    roberta = tiny_models.write_model(tmp_path / "roberta", "roberta", max_positions=320)
    critic = tiny_models.write_model(
        tmp_path / "critic", "roberta", max_positions=320, label_names=("faithful", "unfaithful")
    )
    given = (
        "begin",
        f"--output={tmp_path / 'made'}",
        "--scorers=pmi_faith_mean,faith_critic_call,bertscore",
        f"--scorer-option=pmi_faith_mean.model={gpt2}",
        f"--scorer-option=faith_critic_call.model={critic}",
        f"--scorer-option=bertscore.model={roberta}",
        "--scorer-option=bertscore.layer=1",
    )
    status, lines, errors = reproduce(capsys, *given)
    assert status == 0, errors
    rows = [line for line in lines if "(published)" in line]
    assert [row.split("  ")[0] for row in rows] == [
        "pmi_faith_mean (published)",
        "faith_critic_call (published)",
    ]
    assert rows[0].split()[3:] == ["60.70", "81.80", "69.70", "83.40", "66.30", "58.40", "77.10"]
    assert rows[1].split()[3:] == ["68.40", "49.20", "57.30", "82.90", "15.60", "3.90", "79.40"]
    why = "Not beside bertscore: bertscore.baseline=FILE is not given, by which the paper's is resc"
    assert any(why in line for line in lines)
    scored = [
        json.loads(line)["scores"]["faith_critic_call"]
        for line in (tmp_path / "made" / "begin_sample_test.jsonl").read_text().splitlines()
    ]
    assert set(scored) <= {0.0, 1.0}
    # The same command keeps the scores; with another option they are of another scorer.
    before = (tmp_path / "made" / "begin.json").read_text()
    assert reproduce(capsys, *given)[1] == lines
    assert (tmp_path / "made" / "begin.json").read_text() == before
    status, _, errors = reproduce(capsys, *given, "--scorer-option=pmi_faith_mean.score_cue=False")
    assert status == 2
    assert "with another value of scorer-option of pmi_faith_mean" in errors[-1]
    baseline = tmp_path / "baseline.tsv"
    baseline.write_text("LAYER,P,R,F\n1,0.5,0.5,0.5\n")
    given = (given[0], f"--output={tmp_path / 'rescaled'}", *given[2:])
    given = (*given, "--scorer-option=pmi_faith_mean.score_cue=False")
    status, lines, errors = reproduce(
        capsys, *given, f"--scorer-option=bertscore.baseline={baseline}"
    )
    assert status == 0, errors
    rows = [line for line in lines if "(published)" in line]
    assert [row.split("  ")[0] for row in rows] == [
        "faith_critic_call (published)",
        "bertscore (published)",
    ]
    assert rows[1].split()[3:] == ["45.90", "67.30", "54.60", "73.90", "29.40", "43.20", "61.20"]
    why = "Not beside pmi_faith_mean: pmi_faith_mean.score_cue is False, the paper's True."
    assert any(why in line for line in lines)


def test_without_spacy_what_needs_it_is_left_out_by_default_alone(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    text_metrics.english_tokenizer.cache_clear()
    status, lines, _ = reproduce(capsys, "begin", "--sample", f"--output={tmp_path / 'made'}")
    assert status == 0
    needed = "q2_baseline_token_f1 is left out: it needs spaCy (pip install 'faith_jax[augmentation"
    assert any(line.startswith(needed) for line in lines)
    assert not any(re.match(r"q2_baseline_token_f1 +\d", line) for line in lines)
    given = ("begin", "--sample", f"--output={tmp_path / 'other'}")
    status, _, errors = reproduce(capsys, *given, "--scorers=q2_baseline_token_f1")
    assert status == 2
    assert "q2_baseline_token_f1: spaCy, whose tokens" in errors[-1]


def test_options_of_a_scorer_that_is_not_scored(capsys, tmp_path):
    given = ("begin", "--sample", f"--output={tmp_path}", "--scorer-option=bertscore.layer=1")
    status, _, errors = reproduce(capsys, *given)
    assert (status, "'bertscore' is not among --scorers" in errors[-1]) == (2, True)


@pytest.mark.parametrize(
    "wrong", ["--scorers=bleo", "--scorer-option==", "--scorer-option=bleu.smooth=1"]
)
def test_wrong_scorers_make_no_folder(capsys, tmp_path, wrong):
    given = ("begin", "--sample", f"--output={tmp_path / 'out'}", "--scorers=bleu", wrong)
    assert reproduce(capsys, *given)[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_mistakes(capsys, tmp_path):
    status, _, errors = reproduce(capsys, "treu", f"--output={tmp_path}")
    assert status == 2
    assert "TABLE: there is no 'treu'. Did you mean 'true'" in errors[-1]
    status, _, errors = reproduce(capsys, "pronouns", f"--output={tmp_path}/x")
    assert status == 2
    assert errors[-1].startswith("faith-jax: ")
    assert "cannot be fetched" in errors[-1]


@pytest.mark.slow
@needs_shared
def test_corpora_that_are_not_at_hand_are_left_out(capsys, caplog, tmp_path, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "data"))
    for corpus, folder in (("qags_c", "qags"), ("q2", "q2")):
        assert main(["prepare", f"true_benchmark/{corpus}", f"--raw={REAL / folder}"]) == 0
    capsys.readouterr()
    arguments = ("true", f"--output={tmp_path}", "--scorers=token_f1")
    status, lines, _ = reproduce(capsys, *arguments)
    assert status == 0
    assert lines[1].split() == ["scorer", "qags_c", "q2", "average"]
    assert lines[3].split()[1::2] == ["63.8", "65.9", "64.9"]
    assert any("frank_test is left out" in message for message in caplog.messages)


def test_an_unknown_table_is_named_before_its_options(command, tmp_path):
    output = tmp_path / "out"
    given = ("reproduce", "npov_detectoin", "--model=mini", f"--output={output}")
    status, _, err = command(*given)
    assert status == 2
    assert "there is no 'npov_detectoin'. Did you mean 'npov_detection'" in err
    assert not output.exists()


def test_every_table_is_a_command(capsys):
    assert {"true", "begin", "pmi_decode", "faithdial", "dialfact", "nli"} <= set(TABLES)
    for table in TABLES:
        with pytest.raises(SystemExit) as stopped:
            main(["reproduce", table, "--help"])
        assert stopped.value.code == 0
        shown = capsys.readouterr().out
        assert f"faith-jax reproduce {table}" in shown
        assert ("--scorers" in shown) == (table in SCORER_TABLES)
        assert "--output" in shown


PAPER = {("a", "s"): {"old": 12.0, "new": 34.5}}


def test_rows_of_a_paper_stand_below_ours_and_bring_their_columns():
    tidy = Table("", ("error", "scorer", "slice", "auc", "low"), (("a", "s", "old", 0.1, 0.0),))
    rows = (("a", "s", "10.0 (0-20)"), ("b", "s", "1"))
    ours = Table("T", ("error", "scorer", "old"), rows, ("First.",), tidy)
    found = with_published(ours, "From a paper.", PAPER)
    assert found.columns == ("error", "scorer", "old", "new")
    assert found.rows == (
        ("a", "s", "10.0 (0-20)", None),
        ("a", "s (published)", "12.0", "34.5"),
        ("b", "s", "1", None),
    )
    assert found.notes == ("First.", "From a paper.")
    assert found.tidy.rows[1:] == (
        ("a", "s (published)", "old", pytest.approx(0.12), None),
        ("a", "s (published)", "new", pytest.approx(0.345), None),
    )


def test_published_numbers_stay_numbers_and_may_be_missing():
    ours = Table("T", ("", "q2"), (("label", 0.1), ("s", 0.2)))
    found = with_published(ours, *comparable(SCORER_TABLES["pronouns"], {}))
    assert found.columns == ("", "q2", "begin", "dialfact")
    assert found.rows[1] == ("label (published)", -0.03, -0.35, 0.05)
    assert len(found.rows) == 3
    found = with_published(ours, *comparable(SCORER_TABLES["true"], {}))
    assert (found.rows, "scorers with models only" in found.notes[0]) == (ours.rows, True)


def test_f1_is_that_of_precision_and_recall():
    """A check of the copy: F1 follows from P and R, but for their rounding."""
    for values in SCORER_TABLES["begin"].figures().values():
        expected = 2 * values["P"] * values["R"] / (values["P"] + values["R"])
        assert values["F1"] == pytest.approx(expected, abs=0.1)
