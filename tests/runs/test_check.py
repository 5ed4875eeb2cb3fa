"""Claims of responses, their evidence and verdicts, through the command and in Python."""

import json

import pytest

import faith_jax
from faith_jax.core.labels import DialFactLabel
from faith_jax.retrieval.index import build
from faith_jax.runs import check
from faith_jax.runs.check import FactChecker, verdict_of
from faith_jax.runs.options import FindingOptions
from faith_jax.scoring.claims import ClaimVerifier
from tests.paths import REPOSITORY
from tests.scoring import reference

ARTICLES = [
    {"title": "Tea", "text": "Tea is a hot drink. It is made of leaves.", "url": "u/Tea"},
    {"title": "Lake", "text": "The lake freezes in winter. Children skate on it."},
]
RESPONSES = [
    {"id": "a", "response": "Tea is a hot drink. I like it!", "context": ["Tea?"]},
    {"id": "b", "response": "Qwxyz."},
    {"id": "c", "response": "The lake freezes.", "context": []},
]


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    return reference.write_models(tmp_path_factory.mktemp("models"))["nli"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("knowledge")
    (folder / "articles.jsonl").write_text("\n".join(map(json.dumps, ARTICLES)))
    build(folder / "articles.jsonl", folder / "base")
    return str(folder / "base")


@pytest.fixture
def responses(tmp_path):
    path = tmp_path / "responses.jsonl"
    path.write_text("\n".join(map(json.dumps, RESPONSES)))
    return path


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_file_of_responses(command, nli, base, responses, tmp_path):
    output, page = tmp_path / "checked.jsonl", tmp_path / "checked.html"
    given = (f"--model={nli}", f"--knowledge-base={base}", f"--output={output}", f"--html={page}")
    status, out, err = command("check", f"--input={responses}", *given)
    assert status == 0, err
    rows = rows_of(output)
    assert [row["id"] for row in rows] == ["a#0", "a#1", "b#0", "c#0"]
    assert [row["fields"]["response_id"] for row in rows] == ["a", "a", "b", "c"]
    assert rows[1]["history"] == ["Tea?", "Tea is a hot drink."]
    first = rows[0]
    assert (first["perspectives"][0], first["grounding"][0]) == ("Tea", "Tea is a hot drink.")
    assert first["fields"]["evidence_urls"][0] == "u/Tea"
    assert rows[2]["grounding"] == []
    assert rows[2]["scores"]["claim_not_enough_info"] == 1
    verdicts = [row["fields"]["verdict"] for row in rows]
    for row, verdict in zip(rows, verdicts, strict=True):
        scores = [row["scores"][name] for name in check.SCORERS]
        assert verdict == verdict_of(row["scores"]["lexical_overlap"] or 0, scores, 0.2)
    assert verdicts[2] == "NOT VERIFIABLE"
    assert sum(int(line.split()[0]) for line in out.splitlines()) == 4
    assert "Tea is a hot drink." in page.read_text()
    assert [path.name for path in tmp_path.iterdir() if "evidence" in path.name] == []
    # Python says the same.
    checker = FactChecker(base, nli)
    found = checker.check_all(
        [row["response"] for row in RESPONSES], [row.get("context", []) for row in RESPONSES]
    )
    assert [[claim.verdict for claim in claims] for claims in found] == [
        verdicts[:2],
        verdicts[2:3],
        verdicts[3:],
    ]
    claim = found[0][0]
    assert claim.probabilities["SUPPORTS"] == pytest.approx(
        first["scores"]["claim_supports"], abs=1e-5
    )
    assert claim.decisive in claim.evidence
    assert found[1][0].decisive is None
    assert faith_jax.FactChecker is FactChecker


def test_a_single_claim(command, nli, base):
    given = (f"--model={nli}", f"--knowledge-base={base}", "--claim=It is made of leaves.")
    status, out, err = command("check", *given, "--history=What is tea?")
    assert status == 0, err
    verdict, first, *_ = out.splitlines()
    assert verdict.partition(":")[0] in {*DialFactLabel, "NOT VERIFIABLE"}
    assert "It is made of leaves. (supports 0." in verdict
    assert first == "  Tea: It is made of leaves."


def test_a_stopped_run_resumes(command, nli, base, responses, tmp_path, monkeypatch):
    given = (f"--input={responses}", f"--model={nli}", f"--knowledge-base={base}")
    output = f"--output={tmp_path / 'checked.jsonl'}"

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ClaimVerifier, "verdicts", stop)
        assert command("check", *given, output)[0] != 0
    assert not (tmp_path / "checked.jsonl").exists()
    status, _, err = command("check", *given, output, "--documents=3")
    assert (status, "another value of documents (10, not 3)" in err) == (2, True)
    with monkeypatch.context() as patched:  # no evidence is found again
        patched.setattr(check, "_grounded", stop)
        status, _, err = command("check", *given, output)
    assert status == 0, err
    assert len(rows_of(tmp_path / "checked.jsonl")) == 4


def test_what_cannot_be_is_said_before_evidence_is_found(command, nli, base, responses, tmp_path):
    output = tmp_path / "checked.jsonl"
    given = ("check", f"--input={responses}", f"--knowledge-base={base}", f"--output={output}")
    assert command(*given, "--model=nowhere")[0] == 2
    output.write_text("")
    status, _, err = command(*given, f"--model={nli}")
    assert (status, "exists already" in err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [output.name, responses.name]


def test_a_response_of_nothing_claims_nothing(nli, base):
    assert FactChecker(base, nli).check_all(["", "  "]) == [[], []]


def test_few_words_in_the_evidence_are_no_verifiable_claim():
    assert verdict_of(0.2, (0.1, 0.2, 0.7), 0.2) == "NOT ENOUGH INFO"
    assert verdict_of(0.19, (0.1, 0.2, 0.7), 0.2) == "NOT VERIFIABLE"
    assert verdict_of(float("nan"), (0.9, 0.1, 0.0), 0.2) == "NOT VERIFIABLE"


def test_the_context_finds_what_a_pronoun_means(nli, base):
    finding = FindingOptions(retrievers=("bm25",), sentences=1)
    checker = FactChecker(base, nli, finding=finding)
    (with_context,) = checker("It is very cold.", ["Does the lake freeze in winter?"])
    assert [it.title for it in with_context.evidence] == ["Lake"]
    (without,) = checker("It is very cold.")
    assert without.evidence == []


def test_mini_nli_and_the_encyclopedia_need_nothing(command):
    claim = "The accordion has bellows and keys. I have played it for ten years."
    status, out, err = command("check", f"--claim={claim}", "--history=What instrument is that?")
    assert status == 0, err
    page = (REPOSITORY / "docs" / "dialfact.md").read_text("utf-8")
    shown = page.partition("```text\n")[2].partition("  …")[0]
    assert shown.startswith("SUPPORTS: The accordion")
    assert out.startswith(shown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give either --input or --claim."),
        (["--claim=a", "--input=b"], "Give either --input or --claim."),
        (["--input=b.jsonl", "--history=a"], "--history: goes with --claim"),
        (["--claim=Tea.", "--knowledge-base=nowhere"], "nowhere: no knowledge base"),
        (["--claim=Tea.", "--retrievers=spell"], "--retrievers: there is no 'spell'"),
        (["--claim=Tea.", "--model=nowhere"], "nowhere"),
        (["--claim=Tea.", "--verifiable=2"], "--verifiable"),
        (["--input=none.jsonl", "--output=x.jsonl"], "none.jsonl"),
    ],
)
def test_wrong_options(command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = command("check", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert not list(tmp_path.iterdir())


def test_an_id_that_is_given_twice(command, nli, base, tmp_path):
    path = tmp_path / "twice.jsonl"
    path.write_text('{"id": "a", "response": "Tea."}\n{"id": "a", "response": "Tea!"}\n')
    given = (f"--model={nli}", f"--knowledge-base={base}")
    status, _, err = command("check", f"--input={path}", *given)
    assert status == 2
    assert "twice.jsonl:2: the id a is given twice" in err
