from faith_jax.report.claims import MOST, claims_page

SCORERS = ("supports", "refutes")


def row(number=0, verdict="SUPPORTS", text="The lake <b>freezes</b>.", url="https://x.org/Lake"):
    return {
        "id": f"r#{number}",
        "generated_text": text,
        "history": ["Is it cold?", "In winter."],
        "perspectives": ["Lake", "Ice"],
        "grounding": ["The lake freezes in winter.", "Ice is cold & hard."],
        "fields": {"verdict": verdict, "evidence_urls": f'["{url}", ""]'},
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


def test_other_addresses_are_no_links():
    page = claims_page("", [row(url="javascript:alert(1)")], SCORERS)
    assert "javascript" not in page
    assert "<a " not in page


def test_a_page_has_the_first_claims_and_counts_all():
    page = claims_page("", (row(number) for number in range(MOST + 3)), SCORERS)
    assert f"The first {MOST:,} of {MOST + 3:,} claims" in page
    assert page.count('<tr id="r#') == MOST
    assert f"SUPPORTS</span> {MOST + 3:,}" in page
