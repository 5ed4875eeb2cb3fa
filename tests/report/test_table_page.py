"""The page of tables."""

from faith_jax.report.table_page import table_page
from faith_jax.statistics.dataset_statistics import Table


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
