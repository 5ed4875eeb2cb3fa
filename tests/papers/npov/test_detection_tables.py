"""Chang 2024's study through the command, with tiny random models and fixed responses."""

import json
import math
import pathlib

import numpy as np
import pytest
import sklearn.metrics

from faith_jax.papers.npov import detection_tables as npov_detection
from faith_jax.papers.npov.detection import detections
from faith_jax.papers.npov.detection_tables import Table
from faith_jax.papers.npov.options import NpovDetection
from faith_jax.scoring import registry
from faith_jax.statistics.scored_corpora import Corpus
from tests.papers.npov.npov_study import run_study, told, topics, write_marks, write_responses
from tests.papers.planted import write_rows
from tests.papers.workflows import rows_of, run_in_process, shown_commands
from tests.scoring.tiny_models import write_model, write_t5

pytestmark = pytest.mark.usefixtures("offline_data_dir")


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("topics")
    write_rows(folder / "topics.jsonl", topics())
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "bart": write_model(folder / "bart", "bart", max_positions=512),
        "roberta": write_model(folder / "roberta", "roberta"),
        "reader": write_t5(folder / "reader", num_heads=1),
        "errors": write_t5(folder / "errors"),
    }


def options_of(models, knowledge, **changes):
    settings = {"combinations": 4, "resamples": 100, "knowledge": str(knowledge)}
    settings |= {"salience_model": models["reader"]}
    return NpovDetection(output="", model=models["bart"], **(settings | changes))


def cells_of(rows):
    return {(r["table"], r["test set"], r["error"], r["method"]): r for r in rows}


@pytest.fixture(scope="module")
def done(tmp_path_factory, models, knowledge):
    """The folder of a study, and the rows of its CSV."""
    folder = tmp_path_factory.mktemp("done")
    errors = models["errors"]
    settings = {"hallucination_model": errors, "classifiers": {"synth": (errors, errors)}}

    def respond(row):
        return told(row) if not row["id"].endswith("04-t0.7") else "Nobody knows."

    write_responses(folder / "responses.jsonl", knowledge, respond)
    return folder, run_study(folder, options_of(models, knowledge, **settings))


@pytest.mark.slow
def test_the_workflows_commands(models, knowledge, tmp_path, capfd):
    """A random model tells no given argument, so its responses are judged by marks."""
    marks, output = tmp_path / "marks.jsonl", tmp_path / "out"
    marks.touch()
    arguments = (f"--model={models['bart']}", f"--knowledge={knowledge}", "--splits=test")
    arguments += ("--combinations=1", "--max-length=6", "--max-input-length=256", "--resamples=100")
    arguments += (f"--salience-model={models['reader']}", f"--classifiers=dev={models['errors']},")
    arguments += (f"--marks={marks}", f"--output={output}")
    commands = shown_commands(capfd, "npov_detection", *arguments)
    (place,) = (number for number, line in enumerate(commands) if "npov sets" in line)
    run_in_process(capfd, output, commands[:place])
    rows = rows_of(output / "responses.jsonl")
    assert [row["id"] for row in rows] == [
        f"{name}-01-t{temperature}"
        for temperature in ("0.0", "0.7")
        for name in ("cocoa", "coffee")
    ]
    assert all(math.isfinite(row["log_prob"]) for row in rows)
    rows = [row | {"response": row["prediction"]} for row in rows]
    wrong = {"hallucination": True, "unsupported_spans": [[0, 1]]}
    write_marks(marks, rows, lambda row: wrong if row["topic"] == "coffee" else {})
    run_in_process(capfd, output, commands[place:])
    options = NpovDetection(**json.loads((output / "options.json").read_text())["options"])
    Table(options, lambda *_: 0).write(output)
    text = (output / "npov_detection.md").read_text()
    assert "Error-free by people's marks" in text
    assert f"Classifier for hallucination, dev: {models['errors']}." in text
    rows = json.loads((output / "npov_detection.json").read_text())["rows"]
    methods = {row["method"] for row in rows if row["test set"] == "full organic"}
    assert methods == {"ROUGE", "salience", "classifier", "+Dev", "max", "sum", "negative entropy"}


@pytest.mark.papers
def test_the_tables_have_the_figures_of_the_scored_files(done):
    folder, rows = done
    cells, scored = cells_of(rows), {}
    for name in ("rouge", "salience"):
        score_rows = rows_of(folder / "scores" / f"{name}.jsonl")
        scored[name] = [row for row in score_rows if row["corpus"] == "unparaphrased synthetic"]
    for error, field in (
        ("hallucination", "has_hallucination"),
        ("coverage", "has_coverage_error"),
    ):
        name = "unparaphrased synthetic"
        for method, file, scorer in (
            ("ROUGE", "rouge", f"npov_rouge1_{error}"),
            ("salience", "salience", f"salience_{error}"),
        ):
            kept = [r for r in scored[file] if r["fields"]["error"] == "none" or r["fields"][field]]
            labels = [int(r["fields"]["error"] == "none") for r in kept]
            scores = [r["scores"][scorer] for r in kept]
            area = sklearn.metrics.roc_auc_score(labels, scores)
            cell = cells["1", name, error, method]
            assert float(cell["auc"]) == pytest.approx(area)
            if cell["low"]:  # equal areas in all resamples have no interval
                assert float(cell["low"]) <= area <= float(cell["high"])
            assert (int(cell["rows"]), int(cell["errors"])) == (len(kept), labels.count(0))
            # Table 6 has the same by the usual aggregation.
            if method == "salience":
                assert cells["6", name, error, "max"]["auc"] == cell["auc"]
                scores = [r["scores"][f"{scorer}_sum"] for r in kept]
                area = sklearn.metrics.roc_auc_score(labels, scores)
                assert float(cells["6", name, error, "sum"]["auc"]) == pytest.approx(area)
    # Responses that copy their arguments are a simple case for words.
    assert float(cells["1", "unparaphrased synthetic", "coverage", "ROUGE"]["auc"]) > 0.9
    # Of an added argument's four words, one is the topic's name, which is told: 1 - 1/4 / 2.
    words = cells["3", "unparaphrased synthetic", "coverage", "ROUGE"]
    assert float(words["auc"]) == pytest.approx(0.875)
    # The same classifier stands in both tables.
    first, second = (
        cells[table, "paraphrased synthetic", "hallucination", method]
        for table, method in (("1", "classifier"), ("2", "+Synth"))
    )
    assert first["auc"] == second["auc"]
    assert ("1", "paraphrased synthetic", "coverage", "classifier") not in cells
    published = cells["1", "unparaphrased synthetic", "hallucination", "classifier"]["published"]
    assert float(published) == pytest.approx(0.998)


@pytest.mark.papers
def test_what_is_missing_is_said(done):
    text = (done[0] / "npov_detection.md").read_text()
    assert "STAND-IN for the paper's annotation: 24 of 28 responses count as error-free" in text
    assert "Organic errors are not annotated: give --marks" in text
    assert "No classifier for coverage is given" in text
    assert "Not scored: +Para, +Dev, +Org, of which no classifier is given." in text
    assert "of another model (64 billion parameters" in text
    line = next(line for line in text.splitlines() if line.startswith("| full organic  "))
    assert line.count("not annotated") == 6
    line = next(line for line in text.splitlines() if "full organic (published)" in line)
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[1:] == ["0.840", "0.808", "0.953", "0.795", "0.852", "0.905"]
    page = (done[0] / "npov_detection.html").read_text()
    assert page.count("<h2") == 7
    assert page.count('<tr class="published">') == 4 + 2 + 4 + 2 + 3


def test_mistakes(command, models, knowledge, tmp_path):
    few, no_train = tmp_path / "few", tmp_path / "test_only"
    lacking = [topic | {"con": topic["con"][:1]} for topic in topics()]
    write_rows(few / "topics.jsonl", lacking)
    write_rows(no_train / "topics.jsonl", [t for t in topics() if t["split"] == "test"])
    bart, folder = f"--model={models['bart']}", tmp_path / "made"
    for arguments, message in (
        ((), "npov_detection needs a generator: give --model=CHECKPOINT."),
        ((f"--model={models['roberta']}",), "--model: {}: expected a language model, got an enc"),
        ((bart, "--marks=nowhere"), "--marks: nowhere: no such file."),
        ((bart, "--coverage-model=nowhere"), "--coverage-model: nowhere: there is no such check"),
        ((bart, "--classifiers=dev=no,where"), "--classifiers dev, hallucination: no: there is "),
        ((bart, "--classifiers=devel=a,b"), "there is no 'devel'. Did you mean 'dev'"),
        ((bart, "--classifiers=dev"), "expected NAME=HALL_FOLDER,COV_FOLDER, got 'dev'"),
        ((bart, "--splits=tets"), "--splits: there is no 'tets'. Did you mean 'test'"),
        ((bart, "--splits=train"), "--splits: the tables are of test topics; name test too."),
        ((bart, f"--knowledge={few}"), "topic 'tea' has 3 pro and 1 con: expected at least 2"),
        ((bart, f"--knowledge={no_train}"), "no topic has the split 'train', only test"),
        ((bart, "--sample"), "--sample: is of the topics in the package, --knowledge of"),
        ((bart, "--least-recall=2"), "--least-recall: expected a share in [0, 1], got 2;"),
        ((bart, "--errors-per-response=0"), "the kinds of errors, or published, got 0"),
        ((bart, "--errors-per-response=paper"), "or published, got paper"),
        (
            (bart, "--errors-per-response=3"),
            "validation, paraphrased: 3 rows with an error to each",
        ),
        ((bart, "--beams=2"), "reproduce npov_detection has no argument '--beams=2'"),
        ((bart, "--scorers=bleu"), "has no argument '--scorers=bleu'"),
    ):
        filled = (f"--knowledge={knowledge}", "--combinations=4", f"--output={folder}", *arguments)
        error = command.refuses("reproduce", "npov_detection", *filled)
        assert message.format(models["roberta"]) in error, (arguments, error)
    assert not folder.exists()


def test_salience_is_of_the_generator_by_all_aggregations(models, knowledge):
    """All six scorers share one model, so that its maps are made once."""
    for changes, model in (({"salience_model": ""}, "bart"), ({"salience_model": "mini"}, "mini")):
        detectors = Table(options_of(models, knowledge, **changes), lambda *_: 0).detectors[
            "salience"
        ]
        assert detectors == {
            f"salience_{error}{suffix}=salience_{error}": {
                "model": models.get(model, model),
                "aggregation": aggregation,
            }
            for error in ("hallucination", "coverage")
            for suffix, aggregation in (
                ("", "max"), ("_sum", "sum"), ("_negative_entropy", "negative_entropy"),
            )
        }  # fmt: skip
    reader = Table(options_of(models, knowledge), lambda *_: 0).detectors["salience"]
    loaded = [registry.load_scorer(spec.partition("=")[2], **o) for spec, o in reader.items()]
    assert len({id(scorer._compute) for scorer in loaded}) == 1


def drawn(test_set, **scores):
    """Returns scores of 60 rows, of which every other one has a hallucination."""
    fields = [{"has_hallucination": str(i % 2), "has_coverage_error": "0"} for i in range(60)]
    ids = tuple(map(str, range(60)))
    values = {name: np.asarray(score) for name, score in scores.items()}
    return {test_set: Corpus(test_set, ids, np.full(60, np.nan), values, ids, tuple(fields))}


FORM = json.loads(pathlib.Path(npov_detection.__file__).with_suffix(".json").read_text("utf-8"))


def table_of(number, corpora, is_marked=False):
    (form,) = (
        npov_detection.DetectionTable(**entry)
        for entry in FORM["tables"]
        if entry["number"] == number
    )
    areas = detections(corpora, form.scorers(), form.words, resamples=50)
    return npov_detection.detection_table(form, areas, FORM, is_marked)


def test_the_form_of_the_tables():
    noise = np.random.default_rng(0).normal(size=60)
    good = 1.0 - np.arange(60) % 2
    scores = {"npov_rouge1_hallucination": noise, "salience_hallucination": good}
    corpora = drawn("unparaphrased synthetic", npov_hallucination=noise[::-1], **scores)
    first = table_of(1, corpora)
    assert first.title == "Detection of errors (Chang 2024, table 1): ROC AUC"
    assert first.columns[:4] == (
        "test set", "hallucinations: ROUGE", "hallucinations: salience",
        "hallucinations: classifier",
    )  # fmt: skip
    rows = {row[0]: row[1:] for row in first.rows}
    assert rows["full organic"] == ("not annotated",) * 6
    assert table_of(1, corpora, True).rows[0][1:] == ("not scored",) * 6
    ours = rows["unparaphrased synthetic"]
    assert ours[1] == "1.000*"  # the same in all resamples
    assert "*" not in ours[0] + ours[2]
    assert ours[3:] == ("not scored",) * 3
    assert list(rows)[2:4] == ["unparaphrased synthetic", "unparaphrased synthetic (published)"]
    line = dict(zip(first.tidy.columns, first.tidy.rows[0], strict=True))
    assert (line["table"], line["method"], line["published"]) == (1, "ROUGE", 0.772)
    sixth = table_of(6, corpora)
    assert sixth.columns == ("aggregation", "test set", "hallucinations", "coverage errors")
    assert sixth.rows[0] == ("max", "full organic", "not annotated", "not annotated")
    assert sixth.rows[1] == ("max", "full organic (published)", "0.808", "0.852")
    assert sixth.rows[2][:2] == ("max", "unparaphrased synthetic")
    # A set without the error has no area.
    one_class = drawn("unparaphrased synthetic", salience_hallucination=good)
    for fields in one_class["unparaphrased synthetic"].fields:
        fields["has_hallucination"] = "0"
    assert "one class" in table_of(1, one_class).rows[2]


@pytest.mark.parametrize("number", [1, 2, 3, 5, 6])
def test_all_published_figures_are_shown(number):
    """Each figure of the paper is shown once."""
    (form,) = (entry for entry in FORM["tables"] if entry["number"] == number)
    published = [
        f"{value / 100:.3f}"
        for rows in form["published"].values()
        for values in rows.values()
        for value in values
        if value is not None
    ]
    rows = [row for row in table_of(number, {}).rows if any(str(c).endswith("d)") for c in row)]
    shown_cells = [cell for row in rows for cell in row if cell in published]
    assert sorted(shown_cells) == sorted(published)
    assert len(shown_cells) == {1: 24, 2: 16, 3: 16, 5: 4, 6: 6}[number]
