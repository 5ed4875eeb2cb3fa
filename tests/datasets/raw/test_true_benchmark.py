import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets.raw import true_benchmark
from faith_jax.datasets.raw.true_benchmark import CORPORA
from faith_jax.datasets.raw_files import sample_files
from tests.paths import REAL, needs_shared


def rows(name, paths, bad_rows=None):
    return list(CORPORA[name].examples(paths, "test", bad_rows))


def test_the_average_is_over_nine():
    assert len(CORPORA) == 11
    assert set(CORPORA) - set(true_benchmark.AVERAGED) == {"fever", "vitaminc"}


@pytest.mark.parametrize("name", list(CORPORA))
def test_samples_have_the_schema_and_both_labels(name):
    found = rows(name, sample_files(CORPORA[name]))
    assert {row["label"] for row in found} == {0, 1}
    assert len({row["id"] for row in found}) == len(found)
    for row in found:
        assert row.keys() == CORPORA[name].features.keys()
        assert row["corpus"] == name
        assert row["id"].startswith(f"{name}-")
        assert row["grounding"]
        assert row["generated_text"]


# How grounding and text of each sample's first row begin; the text is consistent.
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


@pytest.mark.parametrize("name", list(CORPORA))
def test_what_is_grounding_and_what_is_judged(name):
    first = rows(name, sample_files(CORPORA[name]))[0]
    grounding, text = FIRST_ROWS[name]
    assert first["grounding"].startswith(grounding)
    assert first["generated_text"].startswith(text)
    assert first["label"] == 1


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
    found = rows(name, {path.name: path})
    assert (len(found), sum(row["label"] for row in found)) == (count, consistent)
    published = (REAL / "true_scores" / f"{scores}.jsonl").read_text(encoding="utf-8")
    labels = [json.loads(line)["label"] for line in published.splitlines()]
    assert [row["label"] for row in found] == labels


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


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return {name: path}


def frank(tags, split="valid", **fields):
    annotations = [{f"annotator_{i}": t for i, t in enumerate(sentence)} for sentence in tags]
    return {
        "hash": "h",
        "model_name": "m",
        "article": "A.",
        "summary": "S.",
        "summary_sentences_annotations": annotations,
        "split": split,
    } | fields


def test_franks_first_tags_of_the_valid_part_count(tmp_path):
    no_error, error = ["NoE"], ["EntE", "NoE"]
    items = [
        frank([[no_error, no_error, error]], model_name="a"),
        frank([[no_error] * 3, [error, error, no_error]], model_name="b", Factuality=1),
        frank([[no_error] * 3], split="test"),
    ]
    paths = write(tmp_path, "human_annotations_sentence.json", json.dumps(items))
    found = rows("frank", paths)
    assert [(row["id"], row["label"]) for row in found] == [("frank-h-a", 1), ("frank-h-b", 0)]
    assert {row["source_id"] for row in found} == {"h"}


MNBM_HEADER = "bbcid,system,summary,hallucination_type,worker_id\n"


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
    name = "hallucination_annotations_xsum_summaries.csv"
    paths = write(tmp_path, name, MNBM_HEADER + "".join(lines))
    paths |= write(tmp_path, "mnbm_articles.jsonl", '{"id": "7", "article": "An article."}\n')
    (row,) = rows("mnbm", paths)
    assert (row["label"], row["grounding"], row["source_id"]) == (label, "An article.", "7")


def test_a_missing_article_is_named(tmp_path):
    name = "hallucination_annotations_xsum_summaries.csv"
    paths = write(tmp_path, name, MNBM_HEADER + "7,PtGen,A summary.,NULL,wid_0\n")
    paths |= write(tmp_path, "mnbm_articles.jsonl", '{"id": "8", "article": "An article."}\n')
    with pytest.raises(InputError, match=r"\.csv:2: mnbm_articles.jsonl has no id '7'"):
        rows("mnbm", paths)


@pytest.mark.parametrize(("scores", "label"), [((5, 5, 5), 1), ((5, 5, 4), 0)])
def test_summevals_experts(tmp_path, scores, label):
    item = {
        "id": "dm-test-abc",
        "decoded": "A summary.",
        "expert_annotations": [{"consistency": score} for score in scores],
    }
    paths = write(tmp_path, "model_annotations.aligned.jsonl", json.dumps(item) + "\n")
    paths |= write(tmp_path, "summeval_articles.jsonl", '{"id": "abc", "article": "Text."}\n')
    (row,) = rows("summeval", paths)
    assert (row["label"], row["source_id"], row["grounding"]) == (label, "abc", "Text.")


def claim(**fields):
    return {
        "id": "1--0",
        "context_id": "1",
        "context": ["Hi."],
        "response": "A claim.",
        "evidence_list": [["T", "u", "One.", "0"], ["T", "u", "Two.", "1"]],
        "response_label": "SUPPORTS",
        "type_label": "factual",
        "data_type": "written",
    } | fields


def test_dialfacts_factual_claims_with_evidence(tmp_path):
    claims = [
        claim(),
        claim(id="1--1", response_label="REFUTES"),
        claim(id="1--2", type_label="personal"),
        claim(id="1--3", evidence_list=[]),
        claim(id="1--4", evidence_list=[["T", "u", "", "0"]]),
    ]
    content = "".join(json.dumps(c) + "\n" for c in claims)
    found = rows("dialfact", write(tmp_path, "valid_split.jsonl", content))
    assert [(row["id"], row["label"]) for row in found] == [
        ("dialfact-1--0", 1),
        ("dialfact-1--1", 0),
    ]
    assert found[0]["grounding"] == "One. Two."
    assert found[0]["source_id"] == "1"


def test_fevers_labels_come_by_id_and_items_without_context_go(tmp_path):
    items = [
        {"cid": "1", "query": "C.", "context": "E."},
        {"cid": "2", "query": "C.", "context": ""},
        {"cid": "3", "query": "D.", "context": "F."},
    ]
    labels = [{"id": 1, "label": "REFUTES"}, {"id": 3, "label": "SUPPORTS"}]
    paths = write(tmp_path, "dev_fitems.jsonl", "\n".join(map(json.dumps, items)))
    paths |= write(tmp_path, "shared_task_dev.jsonl", "\n".join(map(json.dumps, labels)))
    assert [(row["id"], row["label"]) for row in rows("fever", paths)] == [
        ("fever-1", 0),
        ("fever-3", 1),
    ]
    paths |= write(tmp_path, "shared_task_dev.jsonl", json.dumps(labels[0]))
    with pytest.raises(InputError, match=r"dev_fitems\.jsonl:3: .* no claim 3"):
        rows("fever", paths)


def test_trues_own_form_is_read_instead(tmp_path):
    content = ',grounding,generated_text,label\n0,"A, b.",C.,1\n1,D.,E.,0\n'
    paths = write(tmp_path, "true_paws.csv", content)
    found = rows("paws", paths | {"paws_wiki_dev.tsv": tmp_path / "absent"})
    assert [(row["id"], row["grounding"], row["label"]) for row in found] == [
        ("paws-0", "A, b.", 1),
        ("paws-1", "D.", 0),
    ]


@pytest.mark.parametrize(
    ("name", "file", "line", "message"),
    [
        (
            "qags_x",
            "mturk_xsum.jsonl",
            '{"article": "A.", "summary_sentences": [{"sentence": "S.", "responses": '
            '[{"response": "maybe"}]}]}',
            r"field 'summary_sentences\[0\].responses\[0\].response': expected one of yes, no",
        ),
        ("vitaminc", "vitaminc_dev.jsonl", '{"unique_id": "1"}', "field 'claim' is missing"),
        ("paws", "true_paws.csv", "grounding,generated_text,label\nA.,B.,2", "one of 0, 1"),
        ("paws", "paws_wiki_dev.tsv", "id\tsentence1\tsentence2\tlabel\n1\tA.\t1", "4 columns"),
    ],
)
def test_bad_input(tmp_path, name, file, line, message):
    with pytest.raises(InputError, match=message):
        rows(name, write(tmp_path, file, line + "\n"))
