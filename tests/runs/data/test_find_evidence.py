"""The command `evidence`."""

import json

import numpy as np
import pytest

from faith_jax.core.files import output_lock
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw import dialfact
from faith_jax.datasets.samples import sample_folder
from faith_jax.retrieval.documents import Query
from faith_jax.retrieval.sentence_ranking import Candidate
from faith_jax.runs.data import find_evidence as evidence
from faith_jax.scoring.pair_classifier import pair_classifier
from tests.paths import REPOSITORY
from tests.retrieval.encyclopedia import built
from tests.scoring import tiny_models

CLAIM = {
    "id": "1",
    "context": ["Hi!", "We planted hornbeam.", "Nice, does it stay green?"],
    "response": "It keeps brown leaves in the winter.",
    "evidence_list": [["Hornbeam", "u", "It keeps its brown leaves through the winter.", "0"]],
}
CLAIMS = [
    CLAIM,
    CLAIM
    | {"id": "2", "evidence_list": [["Oslo", "u", "Nothing of this is known anywhere.", "0"]]},
    {"id": "3", "response": "I think so, yes!"},
    {"id": "4", "response": "Oslo is a capital.", "evidence_list": [["Oslo", "u", "", "0"]]},
]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return str(built(tmp_path_factory.mktemp("knowledge")).folder)


@pytest.fixture
def claims(tmp_path):
    path = tmp_path / "claims.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in CLAIMS))
    return str(path)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_evidence_is_written_and_recall_is_told(command, base, claims, tmp_path):
    output, recall_path = tmp_path / "evidence.jsonl", tmp_path / "recall.json"
    out = command.succeeds("evidence", claims, base, f"--output={output}", f"--json={recall_path}")
    figures = json.loads(recall_path.read_text())["rows"]
    assert [row["what"] for row in figures] == ["entities", "bm25", "fused", "sentences"]
    assert {(row["recall"], row["low"], row["high"], row["claims"]) for row in figures} == {
        (0.5, 0.0, 1.0, 2)
    }
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][1:] == ["evidence", "of", "4", "claims"]
    figures = {line[0]: line[1:] for line in lines[4:8]}
    assert {name: (values[0], values[1], values[-1]) for name, values in figures.items()} == {
        "entities": ("10", "50.0", "2"),
        "bm25": ("10", "50.0", "2"),
        "fused": ("10", "50.0", "2"),
        "sentences": ("5", "50.0", "2"),
    }
    first, _, third, fourth = rows_of(output)
    assert first["documents"][0] == "Hornbeam"
    title, url, sentence, rank, score = first["evidence"][0]
    assert (title, url, rank) == ("Hornbeam", "https://example.org/hornbeam", "0")
    assert sentence == "It keeps its brown leaves through the winter."
    assert score > first["evidence"][1][4]
    assert third == {"id": "3", "evidence": [], "documents": []}
    assert fourth["documents"] == ["Oslo"]
    read = dialfact.read_retrieved(output, BadRows())
    assert read["1"][0] == dialfact.Evidence(title, url, sentence, score)


def test_the_context_is_left_out_where_it_is_told(command, base, claims, tmp_path):
    for turns, expected in (("0", []), ("1", []), ("2", ["Hornbeam"])):
        output = tmp_path / f"{turns}.jsonl"
        settings = ("--retrievers=entities", f"--context-turns={turns}", f"--output={output}")
        assert command("evidence", claims, base, *settings)[0] == 0
        assert rows_of(output)[0]["documents"] == expected


def test_a_stopped_run_resumes(command, base, claims, tmp_path, monkeypatch):
    command("evidence", claims, base, f"--output={tmp_path / 'whole'}")
    output, find = tmp_path / "evidence", evidence._evidence_rows
    monkeypatch.setattr(evidence, "_BATCH", 2)

    def stops(batch, *rest):
        if batch[0].id == "3":
            raise KeyboardInterrupt
        return find(batch, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(evidence, "_evidence_rows", stops)
        status, _, err = command("evidence", claims, base, f"--output={output}")
    assert (status, "the same command resumes" in err) == (130, True)
    assert not output.exists()
    seen = []
    with monkeypatch.context() as patched:
        patched.setattr(
            evidence,
            "_evidence_rows",
            lambda batch, *rest: seen.extend(batch) or find(batch, *rest),
        )
        assert command("evidence", claims, base, f"--output={output}")[0] == 0
    assert [row.id for row in seen] == ["3", "4"]
    assert output.read_text() == (tmp_path / "whole").read_text()


def test_a_run_that_is_killed_behind_its_output_is_ended(
    command, base, claims, tmp_path, monkeypatch
):
    output, recall_path = tmp_path / "evidence.jsonl", tmp_path / "recall.json"
    arguments = ("evidence", claims, base, f"--output={output}", f"--json={recall_path}")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(evidence, "write_json", killed)
        assert command(*arguments)[0] == 130
    assert command(*arguments)[0] == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"claims.jsonl", output.name, recall_path.name}


def test_the_documentation_shows_what_the_sample_prints(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (REPOSITORY / "docs" / "retrieval.md").read_text("utf-8")
    printed = page.partition("They print:\n\n```text\n")[2].partition("```")[0]
    first = command("index", "sample", "knowledge")[1]
    second = command("evidence", "sample", "knowledge", "--output=evidence.jsonl")[1]
    assert (first + second).strip() == printed.strip()
    claims = dialfact.read_claims(sample_folder("dialfact") / "test_split.jsonl", BadRows())
    retrieved = dialfact.read_retrieved(tmp_path / "evidence.jsonl", BadRows())
    assert set(retrieved) == {claim["id"] for claim in claims}


def test_a_classifier_ranks_sentences(command, base, claims, tmp_path):
    names = ("irrelevant", "relevant")
    model = tiny_models.write_model(tmp_path / "model", "bert", label_names=names)
    output = tmp_path / "evidence.jsonl"
    options = (f"--evidence-model={model}", "--sentences=20", "--documents=3", f"--output={output}")
    command.succeeds("evidence", claims, base, *options)
    turns, claim = CLAIM["context"][-2:], CLAIM["response"]
    ranked = rows_of(output)[0]["evidence"]
    assert len(ranked) > 3
    classify = pair_classifier(model)
    # The context and the claim come first, then the sentence without its title.
    dialogue = f"{turns[0]} [EOT] {turns[1]} [EOT] {claim}"
    rows = [classify.encode.response_first(dialogue, sentence) for _, _, sentence, *_ in ranked]
    expected = 2 * classify.probabilities(rows)[:, 1] - 1
    np.testing.assert_allclose([row[-1] for row in ranked], expected, atol=1e-6)
    assert sorted(expected, reverse=True) == pytest.approx(list(expected))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--retrievers=bm26",), "--retrievers: there is no 'bm26'. Did you mean 'bm25'?"),
        (("--retrievers=,",), "--retrievers: name at least one of entities, bm25, dense."),
        (("--tagger=none",), "There is no tagger 'none'"),
        (("--sentences=0",), "expected a positive whole number"),
        (("--evidence-model=nowhere",), "nowhere"),
    ],
)
def test_wrong_options_are_one_line(command, base, claims, tmp_path, arguments, message):
    status, _, err = command("evidence", claims, base, f"--output={tmp_path / 'o'}", *arguments)
    assert (status, err.count("\n")) == (2, 1)
    assert message in err
    assert {path.name for path in tmp_path.iterdir()} == {"claims.jsonl"}


def test_the_figures_of_recall_have_one_writer(command, base, claims, tmp_path):
    figures = tmp_path / "recall.json"
    with output_lock(figures):
        status, out, err = command(
            "evidence", claims, base, f"--output={tmp_path / 'o'}", f"--json={figures}"
        )
    assert (status, out) == (2, "")
    assert f"--json: another run is writing {figures}; wait for it, or name another output." in err
    assert {path.name for path in tmp_path.iterdir()} == {"claims.jsonl"}


def test_bad_claims_are_one_line(command, base, tmp_path):
    (tmp_path / "claims.jsonl").write_text(json.dumps(CLAIM) + "\n" + json.dumps(CLAIM) + "\n")
    arguments = (str(tmp_path / "claims.jsonl"), base, f"--output={tmp_path / 'o'}")
    status, _, err = command("evidence", *arguments)
    assert (status, "claims.jsonl:2: field 'id': '1' occurs twice" in err) == (2, True)
    (tmp_path / "claims.jsonl").write_text('{"id": "1"}\n')
    status, _, err = command("evidence", *arguments)
    assert (status, "claims.jsonl:1: none of the columns id is known" in err) == (2, True)
    status, _, err = command("evidence", arguments[0], str(tmp_path / "none"), arguments[2])
    assert (status, "no knowledge base" in err) == (2, True)


@pytest.mark.parametrize(
    ("names", "place"),
    [(("irrelevant", "relevant"), 1), (("Relevant", "no"), 0), (("LABEL_0", "LABEL_1"), 1)],
)
def test_the_class_of_relevant_sentences(names, place):
    assert evidence.relevant_class(names) == place


class Classifier:
    """A stand-in for a classifier that records its inputs and returns fixed outputs."""

    label_names = ("irrelevant", "relevant")

    def __init__(self, form, says):
        self.encode = self
        self.form, self.says, self.asked = form, says, []

    def relevance(self, *texts):
        return texts

    def probabilities(self, rows):
        self.asked += rows
        return np.array(self.says)


def test_a_classifier_scores_from_minus_one_to_one():
    classifier = Classifier(None, [[0.9, 0.1], [0.25, 0.75]])
    rank = evidence.ClassifierRanker(classifier)
    candidates = [Candidate("Tea", "u", "Tea is hot."), Candidate("Oslo", "u", "It is a city.")]
    query = Query("Is it hot?", ("Tea?",))
    assert rank(query, candidates).tolist() == [pytest.approx(-0.8), 0.5]
    assert classifier.asked[0] == ("Is it hot?", ("Tea?",), "Tea", "Tea is hot.")
    assert rank(query, []).tolist() == []
