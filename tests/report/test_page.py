import json
import math
import re

import numpy as np

from faith_jax.core.table import Table
from faith_jax.report.page import curves, histogram, outline, report_page
from faith_jax.report.panels import Line, histogram_panels
from faith_jax.statistics.scored_corpora import Corpus

EVIL = "</script><script>alert(1)</script>&amp;\u2028<img src=x onerror=alert(2)>"


def corpus(name="c", labels=(1, 0, 1, 0), scores=(0.9, 0.1, 0.4, 0.4)):
    ids = tuple(map(str, range(len(labels))))
    return Corpus(name, ids, np.array(labels, float), {"s": np.array(scores, float)}, ids)


def row(text="A response.", words=(), grounding=("A grounding.",)):
    return {
        "id": "1",
        "corpus": "c",
        "label": 1,
        "grounding": list(grounding),
        "perspectives": [],
        "history": [],
        "generated_text": text,
        "scores": {"s": 0.5},
        "words": {"s": list(words)} if words else {},
    }


def page(*rows, **options):
    table = Table("A title", ("scorer", "c"), (("s", 0.5),))
    return report_page("Title", {"c": corpus()}, [table], rows, **options)


def data_of(html):
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    return json.loads(text)


def test_texts_cannot_leave_their_place():
    table = Table(EVIL, ("scorer", EVIL), ((EVIL, 0.5),))
    html = report_page(EVIL, {EVIL: corpus(EVIL)}, [table], [row(EVIL)])
    assert html.count("<script") == html.count("</script>") == 2
    assert "<img src=x" not in html
    assert data_of(html)[0]["response"] == EVIL
    assert html.count("&lt;img src=x onerror=alert(2)&gt;") >= 4


def test_the_page_needs_no_network():
    html = page(row())
    assert not re.search(r"(?:src|href)=|url\(|@import|https?:", html)
    assert "default-src 'none'" in html


def test_words_are_placed_as_javascript_counts():
    text = "\U0001f600 tea and \U0001f600\U0001f600 milk"
    start = text.index("milk")
    (example,) = data_of(page(row(text, [[2, 5, 0.5, None], [start, start + 4, 0.0, None]])))
    units = text.encode("utf-16-le")
    for (first, last, _, _), word in zip(example["words"]["0"], ("tea", "milk"), strict=True):
        assert units[2 * first : 2 * last].decode("utf-16-le") == word


def test_curves_and_histograms():
    lines = {"s": Line("#0072b2", (4, 2))}
    (line,) = curves(corpus(), lines)["lines"]
    assert (line["colour"], line["dashes"]) == ("#0072b2", "0.04 0.02")
    assert line["auc"] == "87.5"
    points = [tuple(map(float, point.split(","))) for point in line["points"].split()]
    assert points == [(0, 1), (0, 0.5), (0.5, 0), (1, 0)]
    assert curves(corpus(labels=(1, 1, 1, 1)), lines)["lines"] == []
    many = corpus(labels=[0, 1] * 2000, scores=np.linspace(0, 1, 4000))
    assert len(curves(many, lines)["lines"][0]["points"].split()) <= 200
    (drawn,) = map(histogram, histogram_panels({"c": corpus()}))
    assert [c["count"] for c in drawn["classes"]] == [2, 2]
    assert max(h for c in drawn["classes"] for h in c["heights"]) == 1
    assert (drawn["low"], drawn["high"], drawn["top"]) == ("0", "1", "50 %")
    assert outline([0.5, 1.0], 0.5) == (
        "0.0000,0.6000 0.0000,0.3000 0.5000,0.3000 0.5000,0.0000 1.0000,0.0000 1.0000,0.6000"
    )
    (nothing,) = map(histogram, histogram_panels({"c": corpus(scores=[math.nan] * 4)}))
    assert not any(h for c in nothing["classes"] for h in c["heights"])


def test_what_has_no_labels_has_no_curves():
    unlabelled = corpus("u", [math.nan] * 4)
    (drawn,) = map(histogram, histogram_panels({"u": unlabelled}))
    assert [(c["name"], c["count"], c["filled"]) for c in drawn["classes"]] == [
        ("no label", 4, True)
    ]
    table = Table("A title", ("scorer", "c"), (("s", 0.5),))
    html = report_page("Title", {"c": corpus(), "u": unlabelled}, [table], [row()])
    assert html.count("ROC curves of ") == 1
    assert "without curves: u." in html
    assert "no label (4), filled" in html


def test_rows_with_the_same_words_are_alike():
    texts = ("Tea is hot.", "tea is  HOT", "Tea is cold.", "Tea is hot.")
    rows = [row(text) for text in texts]
    rows[3]["label"] = 0
    assert [example["alike"] for example in data_of(page(*rows))] == [0, 0, 1, 2]


def test_missing_arguments_are_those_of_scorers_of_whole_texts():
    grounding = ("Tea calms.", "Tea stains.", "Tea.")
    whole = row("Tea.", [[0, 10, 1.0, 0], [0, 11, 0.0, 1], [0, 4, 0.0, 2]], grounding)
    of_words = row("Tea.", [[0, 3, 0.0, 0], [0, 4, 0.0, 2]], grounding)
    data = data_of(page(whole, of_words, row("Tea.", [[0, 4, 0.0, None]])))
    assert [example["missing"] for example in data] == [[1, 2], [], []]
