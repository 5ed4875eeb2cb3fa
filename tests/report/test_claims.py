import pytest

from faith_jax.core.errors import InputError
from faith_jax.report.claims import (
    GOLD,
    GOLD_RESPONSE,
    MOST,
    claims_page,
    gold_table,
    verdict_table,
)
from faith_jax.statistics.bootstrap import Draws

SCORERS = ("supports", "refutes")


def row(number=0, verdict="SUPPORTS", text="The lake <b>freezes</b>.", url="https://x.org/Lake"):
    return {
        "id": f"r#{number}",
        "corpus": "c",
        "generated_text": text,
        "history": ["Is it cold?", "In winter."],
        "perspectives": ["Lake", "Ice"],
        "grounding": ["The lake freezes in winter.", "Ice is cold & hard."],
        "fields": {
            "verdict": verdict,
            "response_id": "r",
            "response_verdict": "SUPPORTS",
            "decisive": "Ice is cold & hard.",
            "evidence_urls": f'["{url}", ""]',
        },
        "scores": {"supports": 0.875, "refutes": 0.125},
    }


def test_evidence_stands_beside_the_claim_with_its_words_marked():
    rows = [row(), row(1, "NOT VERIFIABLE") | {"scores": dict.fromkeys(SCORERS)}]
    page = claims_page("Claims & more", rows, SCORERS, ["Responses: <a>"])
    assert "<h1>Claims &amp; more</h1>" in page
    assert 'class="verdict NOT">NOT VERIFIABLE</div>' in page
    assert page.count(" / 0.12") == page.count("0.88 / 0.12") == 1
    assert '<p class="faint">Responses: &lt;a&gt;</p>' in page
    # The conversation before a response is shown above its first claim.
    assert (
        page.count('<div class="faint">Is it cold?</div><div class="faint">In winter.</div>') == 1
    )
    assert '<a href="https://x.org/Lake" rel="noreferrer">Lake</a>: The <mark>lake</mark> ' in page
    assert "<mark>freezes</mark> in <mark>winter</mark>." in page
    assert "Ice: Ice is <mark>cold</mark> &amp; hard." in page
    assert "The lake &lt;b&gt;freezes&lt;/b&gt;." in page
    assert "<b>" not in page
    assert '<li class="decides">Ice: Ice is' in page
    assert page.count('The response: <span class="verdict SUPPORTS">') == 1


def test_other_addresses_are_no_links():
    page = claims_page("", [row(url="javascript:alert(1)")], SCORERS)
    assert "javascript" not in page
    assert "<a " not in page


def test_verdicts_are_counted_by_system():
    def of(system, response, verdict):
        claim_row = row(verdict=verdict)
        ours = {"system": system, "response_id": response, "response_verdict": "REFUTES"}
        return {**claim_row, "fields": claim_row["fields"] | ours}

    rows = [of("a", "1", "SUPPORTS"), of("a", "1", "REFUTES"), of("a", "2", "REFUTES")]
    table = verdict_table([*rows, of("b", "1", "SUPPORTS")])
    assert table.columns == ("system", "verdict", "responses", "claims")
    assert table.rows[:2] == (("a", "SUPPORTS", 0, 1), ("a", "REFUTES", 2, 2))
    assert table.rows[4:6] == (("b", "SUPPORTS", 0, 1), ("b", "REFUTES", 1, 0))
    assert verdict_table([]).rows == ()


def test_verdicts_against_labels():
    def of(response, gold, call, *claims):
        for number, (right, verdict) in enumerate(claims or [("", call)]):
            cells = row(number, verdict)
            fields = {"response_id": response, "response_verdict": call, "topic": response[0]}
            fields |= {name: cell for name, cell in ((GOLD, right), (GOLD_RESPONSE, gold)) if cell}
            yield {**cells, "fields": cells["fields"] | fields}

    n, v = "NOT ENOUGH INFO", "NOT VERIFIABLE"
    rows = [
        *of("a1", "SUPPORTS", "SUPPORTS", ("SUPPORTS", "SUPPORTS"), (v, n)),
        *of("a2", "REFUTES", n),
        *of("b1", v, n),
        *of("b2", "", "REFUTES"),
    ]
    table = gold_table(rows, Draws(resamples=100))
    cells = {tuple(cell[1:4:2]): (cell[2], cell[4]) for cell in table.tidy.rows}
    assert table.columns == ("of", "number", "figure", "%")
    assert cells["responses", "accuracy"] == (3, pytest.approx(200 / 3))
    assert cells["responses", f"F1 {n}"] == (3, pytest.approx(200 / 3))
    assert cells["responses", "macro F1"] == (3, pytest.approx(100 * (1 + 2 / 3 + 0) / 3))
    # None of the three was called not verifiable.
    assert cells["responses", "accuracy, verifiable or not"] == (3, pytest.approx(200 / 3))
    assert cells["responses", "F1 verifiable"] == (3, pytest.approx(80))
    assert cells["claims", "accuracy"] == (2, 100)
    together = gold_table(rows, Draws(resamples=100), "topic")
    assert together.notes[1] == "Rows with the same topic are drawn together."
    ends = [cell[5:] for cell in together.tidy.rows if cell[1:4:2] == ("responses", "accuracy")]
    assert ends == [(50, 100)]
    assert gold_table(of("b2", "", "REFUTES")).rows == ()
    with pytest.raises(InputError, match="r#0: the row has no field 'where'"):
        gold_table(rows, cluster_field="where")


def test_a_page_has_the_first_claims_and_counts_all():
    page = claims_page("", (row(number) for number in range(MOST + 3)), SCORERS)
    assert f"The first {MOST:,} of {MOST + 3:,} claims" in page
    assert page.count('<tr id="r#') == MOST
    assert f"SUPPORTS</td><td>1</td><td>{MOST + 3:,}</td>" in page
