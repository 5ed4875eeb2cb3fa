"""Data frames are evaluated and compared in the same way as files by the commands."""

import json
import pickle

import numpy as np
import pandas
import pytest

import faith_jax
from faith_jax.core.errors import ConfigError, InputError

DOCUMENTS = [f"The ferry {number} leaves at {number} in the morning." for number in range(12)]
SCORERS = ["token_f1", "rouge1_precision"]


def scored(responses, prefix="q"):
    index = [f"{prefix}{number}" for number in range(len(responses))]
    frame = pandas.DataFrame({"knowledge": DOCUMENTS, "response": responses}, index=index)
    return faith_jax.score(frame, scorers=SCORERS)


@pytest.fixture(scope="module")
def systems():
    """Two systems; the second is wrong about every other ferry."""
    right = [f"The ferry {number} leaves at {number}." for number in range(12)]
    wrong = [text if number % 2 else "Buses never leave." for number, text in enumerate(right)]
    return scored(right), scored(wrong)


def test_the_better_system_is_named(systems):
    right, wrong = systems
    figures = faith_jax.compare(right, wrong, names=("ferry", "bus"))
    assert figures.attrs["notes"][0].startswith("Verdict: ferry is better by ")
    rows = figures.set_index(["system", "column"])
    for scorer in SCORERS:
        assert rows.value["ferry", scorer] == pytest.approx(right[scorer].mean())
        difference = (wrong[scorer] - right[scorer]).mean()
        assert rows.difference["bus", scorer] == pytest.approx(difference)
        assert rows.difference_rows["bus", scorer] == 12
    # Rows are matched by the index, in any order.
    shuffled = faith_jax.compare(
        right, wrong.sample(frac=1, random_state=0), names=("ferry", "bus")
    )
    pandas.testing.assert_frame_equal(figures, shuffled)


def test_a_notebook_shows_the_verdict(systems):
    figures = faith_jax.compare(*systems, names=("<b>ferry", "bus"))
    page = figures._repr_html_()
    assert page.startswith("<p><b>Systems</b></p><div>")
    assert "<li>Verdict: &lt;b&gt;ferry is better by " in page
    assert "<td>&lt;b&gt;ferry</td>" in page
    assert "<b>ferry" not in page
    assert pickle.loads(pickle.dumps(figures)).attrs == figures.attrs
    # A part of it has no verdict.
    assert "Verdict" not in figures.head(1)._repr_html_()


def test_equal_systems_are_undecided(systems):
    right, _ = systems
    figures = faith_jax.compare(right, right.copy())
    assert "undecided" in figures.attrs["notes"][0]
    differences = figures.difference.dropna()
    np.testing.assert_array_equal(differences, np.zeros(len(differences)))


def test_figures_are_those_of_the_command(systems, tmp_path, command):
    right, wrong = systems
    labelled = pandas.concat(
        [right.assign(label=1), wrong.assign(label=0).rename(index=lambda name: f"{name}b")]
    )
    figures = faith_jax.evaluate(labelled, baseline="rouge1_precision")
    rows = [
        {
            "id": name, "label": int(row.label), "grounding": [row.knowledge],
            "generated_text": row.response, "scores": {s: float(row[s]) for s in SCORERS},
        }
        for name, row in labelled.iterrows()
    ]  # fmt: skip
    path = tmp_path / "frame.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command.succeeds(
        "evaluate", str(path), "--baseline=rouge1_precision", f"--json={tmp_path / 'all.json'}"
    )
    content = json.loads((tmp_path / "all.json").read_text())
    assert figures.attrs["notes"] == content["notes"]
    by_scorer = figures.set_index("scorer").auc
    areas = {scorer: content["corpora"][scorer]["frame"]["auc"] for scorer in SCORERS}
    assert areas == pytest.approx(dict(by_scorer))


def test_figures_of_a_corpus_column_are_those_of_each_corpus(systems):
    frame = systems[1].assign(label=[0, 1] * 6, corpus=["sea"] * 8 + ["lake"] * 4)
    figures = faith_jax.evaluate(frame, scorers=["token_f1"])
    assert figures.attrs["title"] == "ROC AUC, with 95% intervals"  # as shares, not per cent
    assert figures.set_index("corpus").auc.to_dict() == {"sea": 1.0, "lake": 1.0, "average": 1.0}
    assert figures.set_index("corpus").rows["sea"] == 8
    compared = faith_jax.compare(*(f.assign(corpus="sea") for f in systems), names=("a", "b"))
    assert set(compared.corpus) == {"sea"}


def test_one_value_of_a_repeatable_option_needs_no_list(systems):
    options = {"names": ("ferry", "bus"), "scorers": ["token_f1"]}
    one, several = (
        faith_jax.compare(*systems, below=below, **options)
        for below in ("token_f1:0.3", ["token_f1:0.3"])
    )
    assert one.column.unique().tolist() == ["token_f1", "token_f1 < 0.3, %"]
    pandas.testing.assert_frame_equal(one, several)


def test_a_page_is_written(systems, tmp_path):
    right, wrong = systems
    page = faith_jax.write_report({"ferry": right, "bus": wrong}, str(tmp_path / "page.html"))
    text = (tmp_path / "page.html").read_text()
    assert page == str(tmp_path / "page.html")
    assert "ferry and bus" in text
    assert "Buses never leave." in text
    renamed = wrong.rename(index=lambda name: f"{name}x")  # of another corpus
    faith_jax.write_report({"ferry": right, "bus": renamed}, str(tmp_path / "both.html"))
    assert (tmp_path / "both.html").is_file()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a, b: faith_jax.evaluate(a[["response"]]), ConfigError, "no column of frame is na"),
        (lambda a, b: faith_jax.evaluate(a, scorers=["tokn"]), ConfigError, "no column 'tokn'"),
        (lambda a, b: faith_jax.evaluate(a, scorers="tok"), ConfigError, "a list of names"),
        (lambda a, b: faith_jax.compare(a, b, names=["a"]), ConfigError, "expected 2 different"),
        (lambda a, b: faith_jax.compare(a, b, names=["a", "b/c"]), ConfigError, "without slashes"),
        (lambda a, b: faith_jax.compare(a, b, baselin="a"), ConfigError, "Did you mean 'baseline'"),
        (lambda a, b: faith_jax.evaluate(a, undefined="0"), ConfigError, "value of a wrong type"),
        (
            lambda a, b: faith_jax.evaluate(a, protocol="begin", development=b),
            ConfigError, "development: expected a text, got a DataFrame.",
        ),
        (
            lambda a, b: faith_jax.write_report(a, "p.html", titel="x"),
            ConfigError, "no option 'titel'. Did you mean 'title'",
        ),
        (
            lambda a, b: faith_jax.compare(a, b.rename(index=lambda name: name + "x")),
            InputError, "a and b have no rows in common: their first ids are 'q0' and 'q0x'",
        ),
        (lambda a, b: faith_jax.compare(a.iloc[:0], b), InputError, "a: the frame has no rows"),
        (
            lambda a, b: faith_jax.evaluate(a.assign(token_f1=np.inf)),
            InputError, "frame[0]: field 'token_f1': expected a finite number, or nothing, got Inf",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(call, error, message, systems):
    with pytest.raises(error) as caught:
        call(*systems)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
