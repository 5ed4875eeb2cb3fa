import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw import fact_verification
from faith_jax.datasets.raw.dialfact import DIALFACT
from faith_jax.datasets.raw_catalogue import DATASETS

NOT_ENOUGH = "NOT ENOUGH INFO"
VITAMINC = {
    "unique_id": "r7_2",
    "case_id": "r7",
    "wiki_revision_id": None,
    "label": "REFUTES",
    "claim": "The mill has three floors.",
    "evidence": "The mill has four floors.",
    "page": "Old mill",
    "revision_type": "real",
}
FEVER = {
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
COLLOQUIAL = {
    "fever_id": 17,
    "fever_claim": "The film is from 1931.",
    "fever_label": NOT_ENOUGH,
    "colloquial_claims": ["I saw that one, it's from 1931!", "That film is from 1931, right?"],
    "evidences": [{"title": "M_-LRB-film-RRB-", "evidence": "It was made in Berlin ."}],
    "gold_evidence_set": [],
}


def read(dataset, tmp_path, *rows, bad_rows=None):
    (name,) = dataset.splits["train"]
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return list(dataset.examples({name: path}, "train", bad_rows))


def claim(**fields):
    plain = {"context_id": "", "context": [], "evidence_added": 0, "data_type": "written"}
    return plain | {"type_label": "factual"} | fields


def test_a_claim_of_vitaminc(tmp_path):
    assert read(fact_verification.VITAMINC, tmp_path, VITAMINC) == [
        claim(
            id="r7_2",
            response="The mill has three floors.",
            response_label="REFUTES",
            label=0,
            evidence_titles=["Old mill"],
            evidence_urls=[""],
            evidence=["The mill has four floors."],
            evidence_ids=["0"],
        )
    ]


def test_a_claim_of_fever_has_plain_titles_and_sentences_and_no_empty_ones(tmp_path):
    assert read(fact_verification.FEVER, tmp_path, FEVER) == [
        claim(
            id="51",
            response="The film is from 1931.",
            response_label="SUPPORTS",
            label=1,
            evidence_titles=["M (film)"],
            evidence_urls=[""],
            evidence=['" M " ( 1931 ) is a film .'],
            evidence_ids=["0"],
        )
    ]


def test_each_rewriting_of_a_colloquial_claim_is_an_example(tmp_path):
    found = read(fact_verification.COLLOQUIAL_CLAIMS, tmp_path, COLLOQUIAL)
    assert [(row["id"], row["response"]) for row in found] == [
        ("17-0", "I saw that one, it's from 1931!"),
        ("17-1", "That film is from 1931, right?"),
    ]
    assert {(row["response_label"], row["label"]) for row in found} == {(NOT_ENOUGH, 0)}
    assert {(*row["evidence_titles"], *row["evidence"]) for row in found} == {
        ("M (film)", "It was made in Berlin .")
    }


@pytest.mark.parametrize(
    ("dataset", "row", "change", "message"),
    [
        ("VITAMINC", VITAMINC, {"label": "SUPPORTED"}, "'label': expected one of SUPPORTS"),
        ("FEVER", FEVER, {"evidence": [[1, 2, None, None]]}, "'evidence"),
        ("COLLOQUIAL_CLAIMS", COLLOQUIAL, {"colloquial_claims": []}, "'colloquial_claims'"),
        ("COLLOQUIAL_CLAIMS", COLLOQUIAL, {"evidences": [{"title": "M"}]}, "evidence"),
    ],
)
def test_bad_rows_name_their_place_and_are_skipped_on_request(
    tmp_path, dataset, row, change, message
):
    dataset = getattr(fact_verification, dataset)
    with pytest.raises(InputError) as error:
        read(dataset, tmp_path, row | change)
    assert f"{dataset.splits['train'][0]}:1: field " in str(error.value)
    assert message in str(error.value)
    bad_rows = BadRows(skip=True)
    assert len(read(dataset, tmp_path, row | change, row, bad_rows=bad_rows)) in (1, 2)
    assert bad_rows.count == 1


def test_examples_have_the_fields_of_dialfact_so_that_one_task_reads_both():
    names = ("vitaminc", "fever", "colloquial_claims")
    found = {dataset.name: dataset.features for dataset in DATASETS if dataset.name in names}
    assert found == dict.fromkeys(names, DIALFACT.features)
