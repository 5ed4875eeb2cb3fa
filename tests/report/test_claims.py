from faith_jax.report.claims import MOST, claims_page, verdict_table

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
    page = claims_page("Claims & more", [row(), row(1, "NOT VERIFIABLE")], SCORERS)
    assert "<h1>Claims &amp; more</h1>" in page
    assert 'class="verdict NOT">NOT VERIFIABLE</div>' in page
    assert "0.88 / 0.12" in page
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


def test_a_page_has_the_first_claims_and_counts_all():
    page = claims_page("", (row(number) for number in range(MOST + 3)), SCORERS)
    assert f"The first {MOST:,} of {MOST + 3:,} claims" in page
    assert page.count('<tr id="r#') == MOST
    assert f"SUPPORTS</td><td>1</td><td>{MOST + 3:,}</td>" in page


def test_verdicts_are_counted_by_system():
    def of(system, response, verdict):
        found = row(verdict=verdict)
        ours = {"system": system, "response_id": response, "response_verdict": "REFUTES"}
        return {**found, "fields": found["fields"] | ours}

    rows = [of("a", "1", "SUPPORTS"), of("a", "1", "REFUTES"), of("a", "2", "REFUTES")]
    table = verdict_table([*rows, of("b", "1", "SUPPORTS")])
    assert table.columns == ("system", "verdict", "responses", "claims")
    assert table.rows[:2] == (("a", "SUPPORTS", 0, 1), ("a", "REFUTES", 2, 2))
    assert table.rows[4:6] == (("b", "SUPPORTS", 0, 1), ("b", "REFUTES", 1, 0))
    assert verdict_table([]).rows == ()
