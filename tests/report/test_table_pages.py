import math

from faith_jax.core.table import Table
from faith_jax.report.table_pages import render_table, table_page

TABLE = Table("A title", ("name", "count", "share"), (("a_b", 1200, 0.125), ("c", 3, math.nan)))


def test_text_and_markdown():
    lines = render_table(TABLE).splitlines()
    assert lines[0] == "A title"
    assert [line.split() for line in lines[3:]] == [["a_b", "1,200", "0.12"], ["c", "3", "\u2013"]]
    markdown = render_table(TABLE, "markdown").splitlines()
    assert markdown[0] == "**A title**"
    assert markdown[2].split("|")[1].strip() == "name"
    assert markdown[-1].split("|")[2].strip() == "3"


def test_latex_and_csv():
    latex = render_table(TABLE, "latex")
    assert latex.startswith(
        "\\begin{table}\n\\centering\n\\caption{A title.}\n\\begin{tabular}{lrr}"
    )
    assert r"a\_b" in latex
    assert render_table(TABLE, "csv") == "name,count,share\na_b,1200,0.125\nc,3,\n"


def test_notes_stand_below_and_in_latex_in_the_caption():
    table = TABLE._replace(notes=("* is 5 % \u2264 x_y.", "Second."))
    assert render_table(table).splitlines()[-2:] == list(table.notes)
    assert render_table(table, "markdown").endswith(" |\n\n\\* is 5 % \u2264 x_y.\n\nSecond.\n")
    assert render_table(table, "csv") == render_table(TABLE, "csv")
    latex = render_table(table, "latex")
    assert r"\caption{A title. * is 5 \% $\leq$ x\_y. Second.}" in latex
    assert latex.endswith("\\end{tabular}\n\\end{table}\n")
    assert "\u2013" not in latex  # not every engine sets it


def test_csv_is_the_tidy_form():
    tidy = Table("", ("name", "low"), (("a", 0.1),))
    assert render_table(TABLE._replace(tidy=tidy), "csv") == "name,low\na,0.1\n"


def test_texts_are_escaped_and_published_rows_look_different():
    table = Table("A <table>", ("set", "auc"), (("x & y", 0.5), ("x (published)", "0.9")), ("N.",))
    page = table_page("T<i>", ["Note > all"], [table])
    assert "<title>T&lt;i&gt;</title>" in page
    assert "<p>Note &gt; all</p>" in page
    assert '<h2 id="table1">A &lt;table&gt;</h2>' in page
    assert '<th scope="row">x &amp; y</th><td class="number">0.50</td>' in page
    assert page.count('<tr class="published">') == 1
    assert '<tr class="published"><th scope="row">x (published)</th><td>0.9</td>' in page
    assert '<p class="faint">N.</p>' in page
    assert "<script" not in page
    assert "://" not in page


def test_texts_of_data_are_neutralised_in_every_format():
    """Formulas for spreadsheets, escapes for terminals, tags and cells for pages."""
    names = ("=cmd|'/C calc'!A0", "a\x1b[31mb\u202ec", "<script>x</script>|y", r"\input{a}~^")
    table = Table("T\x1b]0;t\x07", ("name\x1b[2J", "n"), tuple((name, 1) for name in names))
    csv = render_table(table, "csv")
    assert csv.splitlines()[:3] == [
        "name\\x1b[2J,n",
        "'=cmd|'/C calc'!A0,1",
        r"a\x1b[31mb\u202ec,1",
    ]
    for form in ("text", "markdown", "latex", "csv"):
        text = render_table(table, form)
        assert not any(ord(c) < 32 and c != "\n" for c in text)
        assert "\u202e" not in text
    markdown = render_table(table, "markdown")
    assert r"&lt;script>x&lt;/script>\|y" in markdown
    latex = render_table(table, "latex")
    assert r"\input" not in latex
    assert r"\textbackslash" in latex
    assert r"\textasciitilde{}" in latex


def test_a_methods_name_may_begin_with_a_sign():
    cells = ("+Synth", "+ e\u2212c", "-1+1|x", "+cmd()", "@x", "-")
    lines = render_table(Table("T", ("a",), tuple((cell,) for cell in cells)), "csv").splitlines()
    assert lines == ["a", "+Synth", "+ e\u2212c", "'-1+1|x", "'+cmd()", "'@x", "'-"]
