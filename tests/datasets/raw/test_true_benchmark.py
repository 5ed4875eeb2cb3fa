import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.raw import true_benchmark
from faith_jax.datasets.raw.true_benchmark import CORPORA
from faith_jax.datasets.raw_files import sample_files
from tests.datasets.raw.files import read
from tests.paths import REAL, needs_shared


def rows(name, paths):
    return list(CORPORA[name].examples(paths, "test"))


def test_the_average_is_over_nine():
    assert len(CORPORA) == 11
    assert set(CORPORA) - set(true_benchmark.AVERAGED) == {"fever", "vitaminc"}


# The starts of the grounding and the text in each sample's first row; the text is consistent.
FIRST_ROWS = {
    "frank": ("The village bakery closed on Friday", "The bakery closed after ninety years. A c"),
    "mnbm": ("Engineers found cracks in two piers", "a railway bridge has cracks"),
    "summeval": ("The village bakery closed on Friday", "The bakery closed after ninety years."),
    "qags_c": ("The village bakery closed on Friday", "The bakery closed after ninety years. F"),
    "qags_x": ("The library has lent its one", "A pupil has borrowed"),
    "begin": ("a beehive has one queen, who lays", "the queen lays all the eggs"),
    "q2": ("The ferry to Langholm will run", "it runs every hour from next week"),
    "dialfact": ("The lighthouse has 212 steps and was", "It has 212 steps, and gas"),
    "paws": ("The guard in the north tower saw", "The boat was first seen by the guard"),
    "fever": ("Copper that lies in damp air", "Copper turns green"),
    "vitaminc": ("In 2019, 43 boats took part", "More than forty boats took part"),
}


@pytest.mark.parametrize("name", CORPORA)
def test_what_is_grounding_and_what_is_judged(name):
    judged = rows(name, sample_files(CORPORA[name]))
    grounding, text = FIRST_ROWS[name]
    assert judged[0]["grounding"].startswith(grounding)
    assert judged[0]["generated_text"].startswith(text)
    assert judged[0]["label"] == 1
    assert {row["label"] for row in judged} == {0, 1}
    assert len({row["id"] for row in judged}) == len(judged)
    for row in judged:
        assert row["corpus"] == name
        assert row["id"].startswith(f"{name}-")
        assert row["grounding"]
        assert row["generated_text"]


@needs_shared
@pytest.mark.parametrize(
    ("name", "file", "scores", "count", "consistent"),
    [
        ("q2", "q2/cross_annotation.csv", "q2", 1088, 628),
        ("qags_c", "qags/mturk_cnndm.jsonl", "qags_cnndm", 235, 113),
        ("summeval", "summeval/true_summeval.csv", "summeval", 1600, 1306),
    ],
)
def test_real_files_give_trues_rows_in_trues_order(name, file, scores, count, consistent):
    path = REAL / file
    judged = rows(name, {path.name: path})
    assert (len(judged), sum(row["label"] for row in judged)) == (count, consistent)
    published = (REAL / "true_scores" / f"{scores}.jsonl").read_text(encoding="utf-8")
    labels = [json.loads(line)["label"] for line in published.splitlines()]
    assert [row["label"] for row in judged] == labels


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([[True, True, False]], 1),
        ([[True, True, True], [False, False, True]], 0),
        # Python rounds half to even: two of four are 0, as is one of two.
        ([[True, True, False, False]], 0),
        ([[]], 0),
    ],
)
def test_votes(votes, expected):
    assert true_benchmark.all_pass(votes) == expected


def made(name, tmp_path, *contents):
    """Returns id, grounding and label of each row of files in the authors' form."""
    items = read(CORPORA[name], "test", tmp_path, *contents)
    return [(row["id"].removeprefix(f"{name}-"), row["grounding"], row["label"]) for row in items]


def frank(model, *tags, split="valid", **fields):
    annotations = [{f"annotator_{i}": t for i, t in enumerate(sentence)} for sentence in tags]
    summary = {"hash": "h", "model_name": model, "article": "A.", "summary": "S.", "split": split}
    return summary | {"summary_sentences_annotations": annotations} | fields


def test_franks_first_tags_of_the_valid_part_count(tmp_path):
    no_error, error = ["NoE"], ["EntE", "NoE"]
    summaries = [
        frank("a", [no_error, no_error, error]),
        frank("b", [no_error] * 3, [error, error, no_error], Factuality=1),
        frank("c", [no_error] * 3, split="test"),
    ]
    assert made("frank", tmp_path, summaries) == [("h-a", "A.", 1), ("h-b", "A.", 0)]


@pytest.mark.parametrize(
    ("votes", "label"),
    [
        ([("NULL", 0), ("NULL", 1), ("extrinsic", 2)], 1),
        ([("intrinsic", 0), ("NULL", 1), ("extrinsic", 2)], 0),
        # The last row of a worker counts, and a worker without one found nothing.
        ([("intrinsic", 0), ("NULL", 0), ("extrinsic", 1)], 1),
        ([("NULL", 0), ("intrinsic", 0), ("extrinsic", 1)], 0),
    ],
)
def test_mnbms_workers(tmp_path, votes, label):
    lines = [f"7,PtGen,A summary.,{kind},wid_{worker}\n" for kind, worker in votes]
    table = "bbcid,system,summary,hallucination_type,worker_id\n" + "".join(lines)
    articles = [{"id": "7", "article": "An article."}]
    assert made("mnbm", tmp_path, table, articles) == [("7-PtGen", "An article.", label)]
    with pytest.raises(InputError, match=r"\.csv:\d: mnbm_articles.jsonl has no id '7'"):
        made("mnbm", tmp_path, table, [{"id": "8", "article": "An article."}])


@pytest.mark.parametrize(("scores", "label"), [((5, 5, 5), 1), ((5, 5, 4), 0)])
def test_summevals_experts(tmp_path, scores, label):
    marks = [{"consistency": score} for score in scores]
    summary = {"id": "dm-test-abc", "decoded": "A summary.", "expert_annotations": marks}
    articles = [{"id": "abc", "article": "Text."}]
    assert made("summeval", tmp_path, [summary], articles) == [("1", "Text.", label)]


def claim(**fields):
    evidence = [["T", "u", "One.", "0"], ["T", "u", "Two.", "1"]]
    plain = {"id": "1", "context_id": "1", "response": "A claim.", "evidence_list": evidence}
    plain |= {"response_label": "SUPPORTS", "type_label": "factual", "data_type": "written"}
    return plain | fields


def test_dialfacts_factual_claims_with_evidence(tmp_path):
    claims = [
        claim(),
        claim(id="2", response_label="REFUTES"),
        claim(id="3", type_label="personal"),
        claim(id="4", evidence_list=[]),
        claim(id="5", evidence_list=[["T", "u", "", "0"]]),
    ]
    assert made("dialfact", tmp_path, claims) == [("1", "One. Two.", 1), ("2", "One. Two.", 0)]


def test_fevers_labels_come_by_id_and_items_without_context_go(tmp_path):
    items = [
        {"cid": "1", "query": "C.", "context": "E."},
        {"cid": "2", "query": "C.", "context": ""},
        {"cid": "3", "query": "D.", "context": "F."},
    ]
    labels = [{"id": 1, "label": "REFUTES"}, {"id": 3, "label": "SUPPORTS"}]
    assert made("fever", tmp_path, items, labels) == [("1", "E.", 0), ("3", "F.", 1)]
    with pytest.raises(InputError, match=r"dev_fitems\.jsonl:3: .* no claim 3"):
        made("fever", tmp_path, items, labels[:1])


def test_trues_own_form_is_read_instead(tmp_path):
    path = tmp_path / "true_paws.csv"
    path.write_text(',grounding,generated_text,label\n0,"A, b.",C.,1\n1,D.,E.,0\n')
    paths = {path.name: path, "paws_wiki_dev.tsv": tmp_path / "absent"}
    judged = [(row["id"], row["grounding"], row["label"]) for row in rows("paws", paths)]
    assert judged == [("paws-0", "A, b.", 1), ("paws-1", "D.", 0)]
    path.write_text("grounding,generated_text,label\nA.,B.,2\n")
    with pytest.raises(InputError, match="one of 0, 1"):
        rows("paws", paths)
