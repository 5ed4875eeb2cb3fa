from faith_jax.datasets.raw.dialfact import DIALFACT
from faith_jax.datasets.raw.fact_verification import COLLOQUIAL_CLAIMS, FEVER, VITAMINC
from tests.datasets.raw.files import read

NOT_ENOUGH = "NOT ENOUGH INFO"
VITAMINC_ROW = {
    "unique_id": "r7_2",
    "case_id": "r7",
    "wiki_revision_id": None,
    "label": "REFUTES",
    "claim": "The mill has three floors.",
    "evidence": "The mill has four floors.",
    "page": "Old mill",
    "revision_type": "real",
}
FEVER_ROW = {
    "id": 51,
    "original_id": 17,
    "claim": "The film is from 1931.",
    "label": "SUPPORTS",
    "verifiable": "VERIFIABLE",
    "evidence": [
        ["M_-LRB-film-RRB-", "0", "`` M '' -LRB- 1931 -RRB- is a film ."],
        ["Empty_page", "2", " "],
    ],
}
COLLOQUIAL_ROW = {
    "fever_id": 17,
    "fever_claim": "The film is from 1931.",
    "fever_label": NOT_ENOUGH,
    "colloquial_claims": ["I saw that one, it's from 1931!", "That film is from 1931, right?"],
    "evidences": [{"title": "M_-LRB-film-RRB-", "evidence": "It was made in Berlin ."}],
    "gold_evidence_set": [],
}


def claim(**fields):
    plain = {"context_id": "", "context": [], "evidence_added": 0, "data_type": "written"}
    return plain | {"type_label": "factual", "evidence_urls": [""], "evidence_ids": ["0"]} | fields


def test_a_claim_of_vitaminc(tmp_path):
    assert read(VITAMINC, "train", tmp_path, [VITAMINC_ROW]) == [
        claim(
            id="r7_2",
            response="The mill has three floors.",
            response_label="REFUTES",
            label=0,
            evidence_titles=["Old mill"],
            evidence=["The mill has four floors."],
        )
    ]


def test_a_claim_of_fever_has_plain_titles_and_sentences_and_no_empty_ones(tmp_path):
    assert read(FEVER, "train", tmp_path, [FEVER_ROW]) == [
        claim(
            id="51",
            response="The film is from 1931.",
            response_label="SUPPORTS",
            label=1,
            evidence_titles=["M (film)"],
            evidence=['" M " ( 1931 ) is a film .'],
        )
    ]


def test_each_rewriting_of_a_colloquial_claim_is_an_example(tmp_path):
    texts = COLLOQUIAL_ROW["colloquial_claims"]
    assert read(COLLOQUIAL_CLAIMS, "train", tmp_path, [COLLOQUIAL_ROW]) == [
        claim(
            id=f"17-{number}",
            response=text,
            response_label=NOT_ENOUGH,
            label=0,
            evidence_titles=["M (film)"],
            evidence=["It was made in Berlin ."],
        )
        for number, text in enumerate(texts)
    ]


def test_examples_have_the_fields_of_dialfact_so_that_one_task_reads_both():
    for dataset in (VITAMINC, FEVER, COLLOQUIAL_CLAIMS):
        assert dataset.features == DIALFACT.features
