import dataclasses
import math

import pytest

from faith_jax.report.tables import auc_figures, auc_rows, npov_rows, rendered
from faith_jax.statistics.auc_table import AucCell, AucTable, Compared
from faith_jax.statistics.bootstrap import Interval
from faith_jax.statistics.dataset_statistics import Table

TABLE = Table("A title", ("name", "count", "share"), (("a_b", 1200, 0.125), ("c", 3, math.nan)))


def test_text_and_markdown():
    lines = rendered(TABLE).splitlines()
    assert lines[0] == "A title"
    assert [line.split() for line in lines[3:]] == [["a_b", "1,200", "0.12"], ["c", "3", "\u2013"]]
    markdown = rendered(TABLE, "markdown").splitlines()
    assert markdown[0] == "**A title**"
    assert markdown[2].split("|")[1].strip() == "name"
    assert markdown[-1].split("|")[2].strip() == "3"


def test_latex_and_csv():
    latex = rendered(TABLE, "latex")
    assert latex.startswith(
        "\\begin{table}\n\\centering\n\\caption{A title.}\n\\begin{tabular}{lrr}"
    )
    assert r"a\_b" in latex
    assert rendered(TABLE, "csv") == "name,count,share\na_b,1200,0.125\nc,3,\n"


def test_notes_stand_below_and_in_latex_in_the_caption():
    table = TABLE._replace(notes=("* is 5 % \u2264 x_y.", "Second."))
    assert rendered(table).splitlines()[-2:] == list(table.notes)
    assert rendered(table, "markdown").endswith(" |\n\n\\* is 5 % \u2264 x_y.\n\nSecond.\n")
    assert rendered(table, "csv") == rendered(TABLE, "csv")
    latex = rendered(table, "latex")
    assert r"\caption{A title. * is 5 \% $\leq$ x\_y. Second.}" in latex
    assert latex.endswith("\\end{tabular}\n\\end{table}\n")
    assert "\u2013" not in latex  # not every engine sets it


def test_csv_is_the_tidy_form():
    tidy = Table("", ("name", "low"), (("a", 0.1),))
    assert rendered(TABLE._replace(tidy=tidy), "csv") == "name,low\na,0.1\n"


NONE = AucCell(math.nan, Interval(math.nan, math.nan))
OVER_B = {"b": Compared(0.16, Interval(0.1, 0.2), 0.005, 0.01)}
AUCS = AucTable(
    {"q2": 100, "one": 5},
    {"q2": 2, "one": 0},
    {
        "a": {"q2": AucCell(0.6589, Interval(0.63, 0.6912), OVER_B), "one": NONE},
        "b": {"q2": AucCell(0.5, Interval(0.4, 0.6)), "one": NONE},
    },
    average={"a": AucCell(0.6589, Interval(0.63, 0.6912)), "b": AucCell(0.5, Interval(0.4, 0.6))},
    tested={"b": ("a",)},
)


def test_areas_in_per_cent():
    table = auc_rows(AUCS)
    assert table.columns == ("scorer", "q2", "one", "average")
    assert table.rows == (
        ("a", "65.9* (63.0\u201369.1)", "one class", "65.9 (63.0\u201369.1)"),
        ("b", "50.0 (40.0\u201360.0)", "one class", "50.0 (40.0\u201360.0)"),
        ("rows", "100", "5", ""),
        ("rows left out", "2", "0", ""),
    )


def test_notes_state_the_test_and_the_family_of_its_correction():
    assert auc_rows(AUCS).notes == (
        "Intervals: percentile bootstrap of 1,000 resamples.",
        "Left out: rows without a label, or without a defined score of every scorer.",
        "* significantly better than b on the same rows: two-sided p \u2264 0.05 by approximate "
        "randomisation of 1,000 rounds, with Holm's correction for the 1 comparison of each "
        "corpus, and of the average, on its own.",
    )
    whole = dataclasses.replace(AUCS, average={}, left_out=dict.fromkeys(AUCS.rows, 0))
    alone = dataclasses.replace(whole, cluster_field="doc", test="delong", resamples=10)
    assert auc_rows(alone).columns == ("scorer", "q2", "one")
    assert auc_rows(alone).notes == (
        "Intervals: percentile bootstrap of 10 resamples.",
        "Rows with the same doc are taken as dependent in all.",
        "* significantly better than b on the same rows: two-sided p \u2264 0.05 by DeLong's test, "
        "with Holm's correction for the 1 comparison of each corpus on its own.",
    )
    assert auc_rows(dataclasses.replace(alone, tested={})).notes == auc_rows(alone).notes[:2]


def test_too_few_rounds_for_a_mark_are_told():
    few = dataclasses.replace(AUCS, resamples=18, test="delong")
    assert auc_rows(few).notes[-2:] == (
        "Averages are compared by approximate randomisation of 18 rounds.",
        "So few rounds allow no mark, whatever the scores; at least 19 are needed.",
    )
    assert "rounds allow" not in auc_rows(dataclasses.replace(few, resamples=19)).notes[-1]


def test_csv_has_one_figure_in_a_cell():
    lines = rendered(auc_rows(AUCS), "csv").splitlines()
    assert lines == [
        "scorer,corpus,rows,left_out,auc,low,high,p_value,significantly_better",
        "a,q2,100,2,0.6589,0.63,0.6912,0.01,1",
        "a,one,5,0,,,,,",
        "a,average,,,0.6589,0.63,0.6912,,",
        "b,q2,100,2,0.5,0.4,0.6,,",
        "b,one,5,0,,,,,",
        "b,average,,,0.5,0.4,0.6,,",
    ]
    cells = {("coverage", "s"): {"all": AucCell(0.75, Interval(0.5, 1.0))}}
    assert rendered(npov_rows(cells), "csv").splitlines() == [
        "error,scorer,slice,auc,low,high",
        "coverage,s,all,0.75,0.5,1.0",
    ]


def test_figures_for_json():
    found = auc_figures(AUCS)
    assert found["corpora"]["a"]["q2"] == {
        "auc": 0.6589,
        "low": 0.63,
        "high": 0.6912,
        "p_value": 0.01,
        "better": True,
    }
    assert found["corpora"]["a"]["one"]["auc"] is None
    assert found["average"]["b"]["auc"] == pytest.approx(0.5)
    assert found["rows"] == {"q2": 100, "one": 5}
