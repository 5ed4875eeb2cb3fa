import json

import pytest

from faith_jax.cli import main
from tests.paths import REAL, needs_shared

pytestmark = pytest.mark.usefixtures("offline_data_dir")


def run(capsys, *arguments):
    """Returns the exit status, the lines of standard output, and the errors."""
    status = main(["describe", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return status, output.splitlines(), errors


def test_faithdials_sample_and_its_plot(capsys, tmp_path):
    status, lines, _ = run(capsys, "faithdial/sample", f"--plot={tmp_path / 'plot.png'}")
    assert status == 0
    assert lines[0] == "FaithDial (Dziri 2022, table 2)"
    assert any(line.split() == ["conversations", "6", "2", "2"] for line in lines)
    assert lines[-1] == str(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_seekers_of_faithdial_are_compared_with_wizard_of_wikipedia(capsys, tmp_path):
    turns = [
        ("0_Apprentice", "I want to start keeping bees. How?"),
        ("1_Wizard", "I opened my first hive on a rainy day and regretted it for a week!"),
    ]
    knowledge = "A beekeeper opens a hive on warm, dry days, because the bees are calmer then."
    dialog = [
        {"speaker": who, "text": text, "retrieved_passages": [{"Bees": [knowledge]}],
         "checked_sentence": {"chosen_Bees_0": knowledge}, "checked_passage": {"a": "Bees"}}
        for who, text in turns
    ]  # fmt: skip
    dialogue = {"chosen_topic": "Bees", "dialog": dialog, "chosen_topic_passage": []}
    (tmp_path / "train.json").write_text(json.dumps([dialogue]))
    status, lines, _ = run(capsys, "faithdial/sample", f"--wow={tmp_path}")
    assert status == 0
    assert [line.split()[3:] for line in lines if line.startswith("compared")] == [["1", "0", "0"]]
    (edited,) = (line.split()[4:] for line in lines if line.startswith("edited Seeker"))
    assert edited == ["100.00", "\u2013", "\u2013"]
    assert any(line.split()[3:5] == ["Hallucination", "9"] for line in lines)


def test_dialfacts_sample_has_counts_bigrams_and_extractiveness(capsys):
    status, lines, _ = run(capsys, "dialfact/sample")
    assert status == 0
    assert "Local mutual information (Gupta 2022, table 2)" in lines
    assert "Extractiveness (Dziri 2022, figure 3)" in lines
    assert any(line.split() == ["all", "101", "104"] for line in lines)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("labelled_responses/sample", ["40", "4", "4"]),
        ("text_to_text/sample", ["12", "4", "4"]),
    ],
)
def test_data_of_ones_own_is_counted(capsys, name, counts):
    status, lines, _ = run(capsys, name)
    assert status == 0
    assert ["all", *counts] in [line.split() for line in lines]


@pytest.mark.slow
def test_every_corpus_of_true_that_is_at_hand(capsys):
    status, lines, _ = run(capsys, "true_benchmark/sample")
    assert (status, len(lines)) == (0, 3 + 11)
    status, _, errors = run(capsys, "true_benchmark")
    assert status == 2
    assert "human_annotations_sentence.json: no such file" in errors


@pytest.mark.slow
@needs_shared
def test_real_files(capsys, tmp_path, monkeypatch):
    # Others expect that these data sets are not prepared.
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path))
    status, lines, _ = run(capsys, "true_benchmark", f"--raw={REAL / 'qags'}")
    assert status == 0
    assert lines[-1].split() == ["qags_c", "113", "48.09", "122", "51.91", "235"]
    status, lines, _ = run(capsys, "begin", f"--raw={REAL / 'begin'}")
    counts = {tuple(line.split()[:-1]): line.split()[-1] for line in lines if line}
    assert counts["wow", "Fully", "attributable"] == "180"
    assert counts["all",] == "1,229"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("faithdail",), "Did you mean 'faithdial'"),
        (("npov_errors/sample", "--plot=x.png"), "--plot: npov_errors has no knowledge"),
        (("faithdial/sample", "--wow=no_folder"), "--wow: no_folder: expected Wizard of"),
        (("begin/sample", "--wow=raw"), "--wow: goes with faithdial"),
        (("faithdial/sample", "--plot=/dev/null/x.png"), "/dev/null/x.png: cannot be written"),
    ],
)
def test_mistakes_are_one_line_and_status_2(capsys, arguments, message):
    status, _, errors = run(capsys, *arguments)
    assert status == 2
    assert message in errors.strip().splitlines()[-1]
