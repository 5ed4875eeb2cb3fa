"""Human judges with planted answers, through sheets and back."""

import csv
import json
import math

import numpy as np
import pytest
from statsmodels.stats import inter_rater

from faith_jax.annotation.agreement import binary_agreement
from faith_jax.annotation.ratings import fleiss_kappa, forms, interval_alpha
from faith_jax.cli import main

TURNS = 12
NAMES = ("ada", "ben", "eve")


def write_responses(path, corpus, systems):
    """Writes scored rows of systems; each response has the number of its turn."""
    rows = [
        {
            "id": f"test-{n}", "corpus": corpus, "label": None, "perspectives": [],
            "grounding": [f"Kettle {n} boils in {n} minutes."], "history": ["How long?", "Which?"],
            "generated_text": f"It takes {n} minutes, says {system}.",
            "fields": {"system": system}, "scores": {"token_f1": 0.5}, "words": {},
            "cut_tokens": {}, "cut": {}, "undefined": {},
        }
        for system in systems
        for n in range(TURNS)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def fill(path, answers_of):
    """Fills a sheet: by judge, number of the turn and system."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    filled = []
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        _, _, number, *_, system = cells["response"].rstrip(".").split()
        cells |= answers_of(cells["annotator"], int(number), system) or {}
        filled.append(cells)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(filled)
    return filled


@pytest.fixture
def judged(capsys, tmp_path):
    """Fills in sheets as judges; returns status, figures, agreement, text and errors."""

    def run(questions, corpus, systems, answers_of, *more):
        scores, sheet = tmp_path / "scores.jsonl", tmp_path / "judged.csv"
        write_responses(scores, corpus, systems)
        write = (f"--input={scores}", f"--output={sheet}", f"--annotators={','.join(NAMES)}")
        about = f"--questions={questions}"
        assert main(["annotate", "write", about, "--overwrite", *write]) == 0
        fill(sheet, answers_of)
        capsys.readouterr()
        figures = tmp_path / "figures.json"
        arguments = [about, f"--input={scores}", f"--json={figures}", *more]
        status = main(["annotate", "ratings", str(sheet), *arguments])
        out, err = capsys.readouterr()
        if status:
            return status, {}, {}, out, err.strip()
        report = json.loads(figures.read_text())
        rows = {(row["system"], row["column"]): row for row in report["rows"]}
        agreed = {row["figure"]: row for row in report["agreement"]}
        return status, rows, agreed, out, err.strip()

    return run


def pmi_answers(is_planted):
    """PMI is faithful to three turns in four, likelihood to one, or both to two of them."""
    generator = np.random.default_rng(2)

    def answers(judge, number, system):
        if is_planted:
            faithful = "agree" if number % 4 < {"pmi": 3, "likelihood": 1}[system] else "disagree"
        else:
            faithful = ("agree", "disagree")[int(generator.integers(2))]
        grammar = "neutral" if judge == "eve" else "agree"
        return {"faithfulness": faithful, "relevance": "agree", "grammar": grammar.upper()}

    return answers


@pytest.mark.parametrize("is_planted", [True, False])
def test_table_4_of_pmi(judged, is_planted):
    status, rows, agreed, text, error = judged(
        "pmi_decode", "multidoc2dial", ("likelihood", "pmi"), pmi_answers(is_planted),
        "--baseline=likelihood",
    )  # fmt: skip
    assert (status, error) == (0, "")
    kappa = agreed["Fai"]["Fleiss' kappa"]
    p_value = rows["pmi", "Fai"]["p_value"]
    if is_planted:
        assert rows["pmi", "Fai"]["value"] == pytest.approx(0.75)
        assert rows["likelihood", "Fai"]["value"] == pytest.approx(0.25)
        assert kappa == pytest.approx(1)
        assert p_value < 0.05
    else:
        assert abs(kappa) < 0.25
        assert p_value > 0.05
    assert 0 <= rows["pmi", "Fai"]["low"] <= rows["pmi", "Fai"]["high"] <= 1
    assert rows["pmi", "Gra"]["value"] == pytest.approx(2 / 3)
    # Each response has two agree and one neutral: (1/3 - 5/9) / (1 - 5/9).
    assert agreed["Gra"]["Fleiss' kappa"] == pytest.approx(-0.5)
    assert agreed["Rel"]["Fleiss' kappa"] is None  # all say agree
    assert rows["pmi", "Fai"]["published"] == 0.6
    assert rows["likelihood", "Rel"]["published"] == 0.72
    assert "pmi (published)" in text
    assert "Filled in: 72 rows of 3 judges; 0 empty." in text


def faithdial_answers(judge, number, system):
    """InfoNCE is better; a quarter of T5's responses cannot be interpreted or hallucinate."""
    if system == "wow/t5" and number % 4 == 0:
        return {"interpretable": "no"}
    if system == "wow/t5" and number % 4 == 1:
        return {"interpretable": "yes", "verdict": "hallucination"}
    if judge == "eve" and number == 2:
        return {"interpretable": "yes", "verdict": "generic"}
    score = {"wow/t5": 1 + number % 2, "faithdial/t5_infonce": 3 + number % 2}[system]
    qualities = dict.fromkeys(("cooperativeness", "engagingness"), str(score))
    abstract = 1 + (number + NAMES.index(judge)) % 4  # nobody agrees
    return {
        "interpretable": "Yes", "verdict": "faithful", "abstractiveness": abstract, **qualities,
    }  # fmt: skip


def test_table_7_of_faithdial(judged):
    systems = ("wow/t5", "faithdial/t5_infonce")
    status, rows, agreed, text, error = judged("faithdial", "faithdial", systems, faithdial_answers)
    assert (status, error) == (0, "")
    expected = {
        ("wow/t5", "Interpretable"): 75, ("wow/t5", "Hallucination"): 25,
        ("wow/t5", "Generic"): 100 / 36, ("wow/t5", "Faithful"): 50 - 100 / 36,
        ("wow/t5", "Coop."): 1.5, ("faithdial/t5_infonce", "Interpretable"): 100,
        ("faithdial/t5_infonce", "Hallucination"): 0, ("faithdial/t5_infonce", "Enga."): 3.5,
        ("faithdial/t5_infonce", "Generic"): 100 / 36,
    }  # fmt: skip
    assert {key: rows[key]["value"] for key in expected} == pytest.approx(expected)
    assert rows["wow/t5", "Hallucination"]["published"] == 55.8
    assert rows["faithdial/t5_infonce", "Abst."]["published"] == 2.92
    for figure in ("Interpretable", "Hallucination", "Coop.", "Enga."):
        assert agreed[figure]["Krippendorff's alpha"] == 1
    assert agreed["Abst."]["Krippendorff's alpha"] < 0.2
    assert agreed["Coop."]["responses"] == TURNS // 2 + TURNS
    assert "0.92, 0.91, 0.88" in text


def test_systems_are_compared_on_rows_that_are_judged_for_all(judged):
    def answers(judge, number, system):
        is_judged = judge == "ada" and (number < 8 or system == "pmi")
        return pmi_answers(True)(judge, number, system) if is_judged else None

    _, rows, agreed, text, _ = judged("pmi_decode", "mine", ("likelihood", "pmi"), answers)
    assert rows["pmi", "Fai"]["rows"] == rows["likelihood", "Fai"]["rows"] == 8
    assert rows["pmi", "Fai"]["published"] is None
    assert "mine: 4 rows left out, judged for some of the systems only." in text
    assert agreed["Fai"]["responses"] == 0
    assert agreed["Fai"]["Fleiss' kappa"] is None


def test_judges_see_no_system_and_systems_take_turns(capsys, tmp_path):
    scores, sheet = tmp_path / "scores.jsonl", tmp_path / "sheet.csv"
    write_responses(scores, "faithdial", ("a", "b", "c"))
    arguments = ["--questions=faithdial", f"--input={scores}", f"--output={sheet}", "--sample=5"]
    assert main(["annotate", "write", *arguments]) == 0
    rows = fill(sheet, lambda *_: {})
    assert len({row["id"] for row in rows}) == len(rows) == 15
    assert not {"test", "faithdial"} & {part for row in rows for part in row["id"].split("-")}
    # The responses to a row stand together, in an order that differs from row to row.
    orders = [
        tuple(row["response"].rstrip(".").split()[-1] for row in rows[n : n + 3])
        for n in range(0, 15, 3)
    ]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert len(set(orders)) > 1
    assert set(rows[0]) >= {"query", "arguments", "response", "verdict", "engagingness", "note"}


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"interpretable": "maybe"}, "field 'interpretable': expected one of yes, no, got"),
        ({"interpretable": "yes"}, "'verdict': expected one of faithful, hallucination, generic"),
        (
            {"interpretable": "no", "verdict": "generic"},
            "'verdict': expected nothing, unless interpretable = yes",
        ),
        (
            {"interpretable": "yes", "verdict": "faithful", "cooperativeness": "5"},
            "'cooperativeness': expected one of 1, 2, 3, 4, got",
        ),
        ({"annotator": "", "interpretable": "no"}, "'annotator': expected who judged the row"),
        ({"response": "It takes none."}, "'response': expected"),
        (None, "no row is filled in yet"),
    ],
)
def test_bad_sheets(judged, answers, message):
    status, *_, error = judged("faithdial", "faithdial", ("wow/t5",), lambda *_: answers)
    assert status == 2
    assert message in error
    assert len(error.splitlines()) == 1


def test_bad_arguments(capsys, judged, tmp_path):
    systems, answers = ("likelihood", "pmi"), pmi_answers(True)
    *_, error = judged("pmi_decode", "mine", systems, answers, "--baseline=pmy")
    assert "There is no system 'pmy'. Did you mean 'pmi'?" in error
    scores, sheet = tmp_path / "scores.jsonl", tmp_path / "judged.csv"
    for questions, inputs, message in (
        ("faithdial", [scores], "missing: interpretable, verdict"),
        ("pmi_decode", [scores, scores], "pmi has two responses to this row of mine"),
        ("pmi_decod", [scores], "pmi_decod"),
    ):
        arguments = [f"--questions={questions}", *(f"--input={path}" for path in inputs)]
        status = main(["annotate", "ratings", str(sheet), *arguments])
        error = capsys.readouterr().err
        assert status == 2
        assert message in error.replace("likelihood has", "pmi has")


def test_alpha_of_yes_and_no_is_the_nominal_one():
    generator = np.random.default_rng(0)
    ratings = [generator.integers(0, 2, size).tolist() for size in (1, 2, 3, 3, 4, 2, 5)]
    columns = [np.array(rater)[:, None] for rater in ratings]
    expected = binary_agreement(columns, resamples=100).alpha
    assert interval_alpha(ratings) == pytest.approx(expected)
    # Differences of two scales agree with the definition: 1 - Do / De, of pairs.
    units = [[1, 2], [4, 4, 3], [2, 1]]
    values = [value for unit in units for value in unit]
    observed = sum(
        sum((a - b) ** 2 for a in unit for b in unit) / (len(unit) - 1) for unit in units
    ) / len(values)
    chance = sum((a - b) ** 2 for a in values for b in values) / (len(values) * (len(values) - 1))
    assert interval_alpha([*units, [4]]) == pytest.approx(1 - observed / chance)
    assert math.isnan(interval_alpha([[1, 1], [1, 1]]))
    assert math.isnan(interval_alpha([[1], [2]]))


def test_kappa_agrees_with_statsmodels():
    generator = np.random.default_rng(1)
    answers = generator.choice(["agree", "neutral", "disagree"], (30, 3), p=[0.6, 0.3, 0.1])
    counts, _ = inter_rater.aggregate_raters(answers)
    assert fleiss_kappa(answers.tolist()) == pytest.approx(inter_rater.fleiss_kappa(counts))
    assert math.isnan(fleiss_kappa([["agree", "agree"], ["agree", "neutral", "agree"]]))


def test_published_figures_are_of_the_forms_columns():
    for form in forms().values():
        names = {question.name for question in form.questions}
        assert {figure.question for figure in form.figures.values()} <= names
        for systems in form.published.values():
            for row in systems.values():
                assert set(row) <= set(form.figures)
