import csv
import dataclasses
import io
import math
import statistics

import pytest

from faith_jax.papers.push import table_forms as nli_tables
from faith_jax.papers.push import tables_1_2_4 as nli
from faith_jax.papers.push.table_forms import AVERAGE
from faith_jax.papers.tables import read_published_figures
from faith_jax.report.table_pages import render_table
from faith_jax.statistics.auc_table import AucCell, AucTable, Compared
from faith_jax.statistics.bootstrap import Interval

PUBLISHED = read_published_figures("faith_jax.papers.push.tables_1_2_4")
METHODS = PUBLISHED["methods"]
MARKS = {"t5_anli": "*", "base": "\u2020"}


def cell(auc, **compared):
    return AucCell(auc, Interval(auc - 0.1, auc + 0.1), compared)


def table(averaged=("frank", "q2")):
    better = Compared(0.2, Interval(0.1, 0.3), 0.01, 0.02)
    worse = Compared(-0.2, Interval(-0.3, -0.1), 0.01, 0.02)
    cells = {
        "base": {"frank": cell(0.5), "q2": cell(0.6)},
        "all": {"frank": cell(0.7, base=better, t5_anli=better), "q2": cell(0.4, base=worse)},
    }
    same = Compared(0.0, Interval(-0.1, 0.1), 0.5, 1.0)
    average = {"base": cell(0.55), "all": cell(0.55, base=same)}
    return AucTable({"frank": 20, "q2": 30}, {"frank": 0, "q2": 0}, cells, averaged, average)


def test_marks_and_published_rows():
    auc_table = nli_tables.auc_table_of_methods(table(), MARKS, PUBLISHED)
    rows = {row[0]: row[1:] for row in auc_table.rows}
    assert rows["all"] == (
        "70.0*\u2020 (60.0\u201380.0)",
        "40.0 (30.0\u201350.0)",
        "55.0 (45.0\u201365.0)",
    )
    figures = METHODS["all"]
    mean = statistics.fmean((figures["frank"], figures["q2"]))
    assert rows["all (published)"] == ("87.7", "89.4", f"{mean:.1f}")
    assert rows["rows"] == ("20", "30", "")
    assert "of other models than these" in auc_table.notes[-1]
    plain = nli_tables.auc_table_of_methods(table(), MARKS, {})
    assert [row[0] for row in plain.rows] == ["base", "all", "rows"]
    assert "published" not in render_table(plain)


def test_averages_of_the_paper_are_over_the_same_corpora():
    figures = METHODS["base"]
    corpora = [name for name in figures if name != AVERAGE]
    assert nli_tables.published_average(figures, corpora) == 79.8
    assert nli_tables.published_average(figures, ["frank", "q2"]) == 82.7
    assert nli_tables.published_average(figures, ["frank", "fever"]) is None
    assert nli_tables.published_average(figures, []) is None


def test_the_tidy_form_has_all_figures():
    text = render_table(nli_tables.auc_table_of_methods(table(), MARKS, PUBLISHED), "csv")
    rows = {
        (row["method"], row["corpus"], row["figure"]): row
        for row in csv.DictReader(io.StringIO(text))
    }
    auc = rows["all", "frank", "auc"]
    values = [float(auc[name]) for name in ("value", "low", "high", "published")]
    assert values == pytest.approx([0.7, 0.6, 0.8, 0.877])
    assert float(rows["all", "frank", "p_base"]["value"]) == 0.01
    assert float(rows["all", "frank", "p_holm_base"]["value"]) == 0.02
    assert ("all", "q2", "p_t5_anli") not in rows


def test_differences_have_signs():
    differences = nli_tables.difference_table(table(), ["all"], "base", {})
    assert differences.columns == ("corpus", "all")
    assert differences.rows == (
        ("frank", "+20.0 (+10.0 to +30.0)"),
        ("q2", "-20.0 (-30.0 to -10.0)"),
        (AVERAGE, "+0.0 (-10.0 to +10.0)"),
    )


def test_published_differences():
    cells, average = table().cells, table().average
    scored_table = dataclasses.replace(
        table(),
        cells={"base": cells["base"], "augmented": cells["all"]},
        average={"base": average["base"], "augmented": average["all"]},
    )
    rows = nli_tables.difference_table(scored_table, ["augmented"], "base", PUBLISHED).rows
    assert ("q2 (published)", "+4.2") in rows
    assert (f"{AVERAGE} (published)", "+2.6") in rows


def test_costs():
    costs = {
        "q2": (0.807, {"millions": (0.5, 220.4), "examples_per_second": 2.345}),
        "base_mc": (math.nan, {"millions": (1234.5,), "examples_per_second": 1234.0}),
    }
    cost_table = nli_tables.cost_table(costs, 7, PUBLISHED)
    assert cost_table.rows == (
        ("q2", "80.7", "0.5 + 220", "#Q \u00d7 (Ql + 2)", "2.35"),
        ("q2 (published)", "81.4", "220 + 355 + 355", "#Q \u00d7 (Ql + 2)", ""),
        ("base_mc", "undefined", "1,234", "7", "1,234"),
    )
    tidy = {(row[1], row[3]): row[5:] for row in cost_table.tidy.rows}
    assert tidy["q2", "parameters_in_millions"][0] == pytest.approx(220.9)
    assert tidy["q2", "parameters_in_millions"][-1] == 930
    assert tidy["q2", "auc"][-1] == 0.814


@pytest.mark.parametrize(
    ("method", "calls"),
    [("summac_zs", "#snt \u00d7 #snt"), ("t5_anli", "1"), ("base_mc", "7"), ("all", "7")],
)
def test_model_calls(method, calls):
    assert nli_tables.model_calls(method, 7) == calls


def test_draws():
    draws = {"frank": [0.5, 0.6, 0.7], "q2": [0.9, 0.9, 0.9], AVERAGE: [0.7, 0.75, 0.8]}
    base = {"frank": 0.4, "q2": 0.8, AVERAGE: 0.6}
    all_ = {"frank": 0.65, "q2": 0.85, AVERAGE: 0.75}
    summary = nli_tables.phrase_table(draws, base, all_, ("frank", "q2"), PUBLISHED)
    names = ("corpus", "average", "from all", "std", "min", "max", "no augmentation")
    assert summary.columns == names
    assert summary.rows[:2] == (
        ("frank", "60.0", "-5.0", "8.2", "50.0", "70.0", "40.0"),
        ("frank (published)", "86.7", "-1.0", "0.4", "85.8", "87.6", "86.2"),
    )
    # The paper's average is over nine corpora.
    assert [row[0] for row in summary.rows] == [
        "frank",
        "frank (published)",
        "q2",
        "q2 (published)",
        AVERAGE,
    ]
    one_draw = nli_tables.phrase_table({"frank": [0.5]}, base, {}, (), {})
    assert one_draw.columns == tuple(name for name in names if name != "from all")
    assert one_draw.rows == (("frank", "50.0", "\u2013", "50.0", "50.0", "40.0"),)
    tidy = {(row[1], row[2], row[3]): row[5] for row in summary.tidy.rows}
    assert tidy["draw_1", "q2", "auc"] == 0.9
    assert tidy["draws", "frank", "std"] == pytest.approx(math.sqrt(0.02 / 3))


def test_the_papers_names_are_ours():
    assert METHODS.keys() <= {*nli.METHODS, *nli.ENSEMBLES}
    assert PUBLISHED["differences"].keys() == set(nli.MODIFICATIONS)
    assert METHODS["all"]["dialfact"] == 92.5
    assert PUBLISHED["differences"]["augmented"]["qags_c"] == 3.5
    assert PUBLISHED["draws"]["mnbm"]["no augmentation"] == 75.1
