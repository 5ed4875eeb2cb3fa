"""Claims of responses, their evidence and verdicts, through the command and in Python."""

import csv
import gzip
import json
import math
import shutil

import pytest

import faith_jax
from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import VERDICTS, DialFactLabel, response_verdict
from faith_jax.core.types import Grounding
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.inference.packing import MOST_SHAPES
from faith_jax.report.claims import GOLD, GOLD_RESPONSE
from faith_jax.retrieval.index import build
from faith_jax.retrieval.knowledge_base import KnowledgeBase
from faith_jax.runs.options import FindingOptions
from faith_jax.runs.scores import check
from faith_jax.runs.scores.fact_checker import FactChecker, claims_of, verdict_of
from faith_jax.scoring.claims import ClaimVerifier
from faith_jax.statistics.texts.text_metrics import lexical_overlap
from tests.paths import REPOSITORY
from tests.runs.test_as_trained import model_dir
from tests.scoring import reference, tiny_models

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
def t5(tmp_path_factory):
    return str(tiny_models.write_t5(tmp_path_factory.mktemp("models") / "t5"))


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
    options = (f"--model={nli}", f"--knowledge-base={base}", f"--output={output}", f"--html={page}")
    out = command.succeeds("check", f"--input={responses}", *options)
    rows = rows_of(output)
    assert [row["id"] for row in rows] == ["a#0", "a#1", "b#0", "c#0"]
    assert [row["fields"]["response_id"] for row in rows] == ["a", "a", "b", "c"]
    assert rows[1]["history"] == ["Tea?", "Tea is a hot drink."]
    first = rows[0]
    assert (first["perspectives"][0], first["grounding"][0]) == ("Tea", "Tea is a hot drink.")
    assert first["fields"]["evidence_urls"][0] == "u/Tea"
    assert rows[2]["grounding"] == []
    assert set(rows[2]["scores"].values()) == {None}
    assert rows[2]["undefined"]["claim_supports"] == "no sentence of evidence was judged"
    verdicts = [row["fields"]["verdict"] for row in rows]
    of_responses = [row["fields"]["response_verdict"] for row in rows]
    assert of_responses == [response_verdict(verdicts[:2])] * 2 + verdicts[2:]
    assert first["fields"]["decisive"] in first["grounding"]
    assert "decisive" not in rows[2]["fields"] or rows[2]["fields"]["decisive"] is None
    for row, verdict in zip(rows, verdicts, strict=True):
        scores = [row["scores"][name] or 0 for name in check.CLAIM_SCORERS]
        assert verdict == verdict_of(row["scores"]["lexical_overlap"] or 0, scores, 0.2)
    assert verdicts[2] == "NOT VERIFIABLE"
    counts = [line.split()[-2:] for line in out.splitlines()[3:] if line]
    assert [sum(map(int, column)) for column in zip(*counts, strict=True)] == [3, 4]
    html = page.read_text()
    assert "Tea is a hot drink." in html
    headings = (
        f"Responses: {responses}",
        f"Knowledge base: {base} (2 articles)",
        f"Verifier: {nli}, ",
    )
    assert all(line in html for line in headings)
    assert sorted(p.name for p in tmp_path.iterdir()) == [page.name, output.name, responses.name]
    # Python says the same.
    checker = FactChecker(base, nli)
    checks = checker.check_all(
        [row["response"] for row in RESPONSES], [row.get("context", []) for row in RESPONSES]
    )
    assert [[claim.verdict for claim in reply.claims] for reply in checks] == [
        verdicts[:2],
        verdicts[2:3],
        verdicts[3:],
    ]
    assert [reply.verdict for reply in checks] == of_responses[1:]
    claim = checks[0].claims[0]
    assert claim.probabilities["SUPPORTS"] == pytest.approx(
        first["scores"]["claim_supports"], abs=1e-5
    )
    assert claim.decisive.sentence == first["fields"]["decisive"]
    assert checks[1].claims[0].decisive is None
    assert all(map(math.isnan, checks[1].claims[0].probabilities.values()))
    assert faith_jax.FactChecker is FactChecker


def test_a_single_claim(command, nli, base):
    options = (f"--model={nli}", f"--knowledge-base={base}", "--claim=It is made of leaves.")
    out = command.succeeds("check", *options, "--history=What is tea?")
    verdict, first, *_ = out.splitlines()
    assert verdict.partition(":")[0] in {*DialFactLabel, "NOT VERIFIABLE"}
    assert "It is made of leaves. (supports 0." in verdict
    assert first == "  [decides] Tea: It is made of leaves."
    # A response of several sentences has a verdict.
    _, out, _ = command("check", *options[:2], "--claim=It is made of leaves. Qwxyz.")
    first, *middle, last = out.splitlines()
    reason = "(at most 0% of its words are in one sentence)"
    assert f"NOT VERIFIABLE: Qwxyz. {reason}" in middle
    assert last == f"The response: {first.partition(':')[0]}"


def test_responses_in_other_formats_and_columns(command, nli, base, tmp_path):
    path, output = tmp_path / "answers.csv", tmp_path / "checked.parquet"
    path.write_text("number,question,said\n7,Tea?,Tea is a hot drink.\n8,\n9,,The lake freezes.\n")
    arguments = ("check", f"--input={path}", f"--model={nli}", f"--knowledge-base={base}")
    columns = ("--response-column=said", "--id-column=number")
    status, _, err = command(*arguments, *columns)
    assert (status, f"{path}:3" in err, err.count("\n")) == (2, True, 1)
    out = command.succeeds(*arguments, *columns, f"--output={output}", "--skip-bad-rows")
    assert "1 bad row skipped:" in out
    rows = list(read_scored_rows(output))
    assert [(row["id"], row["corpus"], row["history"]) for row in rows] == [
        ("7#0", "answers", ["Tea?"]),
        ("9#0", "answers", []),
    ]
    status, _, err = command(*arguments, "--response-column=sad")
    assert (status, "column 'sad' is missing. Did you mean 'said'?" in err) == (2, True)


def test_a_table_names_what_decides(command, nli, base, responses, tmp_path):
    options = ("check", f"--input={responses}", f"--model={nli}", f"--knowledge-base={base}")
    assert command(*options, f"--output={tmp_path / 'checked.parquet'}")[0] == 0
    assert command(*options, f"--output={tmp_path / 'checked.jsonl'}")[0] == 0
    parquet, jsonl = (
        list(read_scored_rows(tmp_path / f"checked.{form}")) for form in ("parquet", "jsonl")
    )
    assert [row["fields"] for row in parquet] == [row["fields"] for row in jsonl]
    json_path = tmp_path / "told.json"
    out = command.succeeds("evaluate", str(tmp_path / "checked.parquet"), f"--json={json_path}")
    assert "Checked claims" in out
    verdicts = [row["fields"]["verdict"] for row in parquet]
    counts = {
        row["verdict"]: row["claims"] for row in json.loads(json_path.read_text())["verdicts"]
    }
    assert counts == {name: verdicts.count(name) for name in VERDICTS}


def test_verdicts_are_measured_by_labels(command, nli, base, tmp_path):
    path, output, json_path = (tmp_path / name for name in ("r.jsonl", "c.jsonl", "told.json"))
    arguments = ("check", f"--input={path}", f"--model={nli}", f"--knowledge-base={base}")
    rows = [
        {"response": "Tea is a hot drink. I like it!", "verdict": ["supports", "NOT_VERIFIABLE"]},
        {"response": "Qwxyz.", "verdict": "not verifiable", "topic": "a"},
        {"response": "The lake freezes.", "verdict": "Not enough info", "topic": "a"},
        {"response": "The lake freezes.", "verdict": None, "topic": "a"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    out = command.succeeds(*arguments, "--label-column=verdict", f"--output={output}")
    checked = rows_of(output)
    assert checked[0]["fields"]["input_verdict"] == ["supports", "NOT_VERIFIABLE"]
    gold = [[item["fields"].get(name) for item in checked] for name in (GOLD, GOLD_RESPONSE)]
    of_all = ["SUPPORTS", "SUPPORTS", "NOT VERIFIABLE", "NOT ENOUGH INFO", None]
    assert gold == [["SUPPORTS", "NOT VERIFIABLE", None, None, None], of_all]
    verdicts = [checked[place]["fields"]["response_verdict"] for place in (0, 2, 3)]
    hits = [item.replace("VERIFIABLE", "ENOUGH INFO") == right.replace("VERIFIABLE", "ENOUGH INFO")
            for item, right in zip(verdicts, of_all[1:], strict=False)]  # fmt: skip
    again = command("evaluate", str(output), f"--json={json_path}")[1]
    assert again.strip().endswith(out.partition("\n\n")[2].strip())
    figures = {
        (row["of"], row["figure"]): row
        for row in json.loads(json_path.read_text())["verdicts_against_labels"]
    }
    assert figures["responses", "accuracy"]["value"] == pytest.approx(100 * sum(hits) / 3)
    assert figures["responses", "accuracy"]["number"] == 3
    assert figures["claims", "accuracy"]["number"] == 2
    assert figures["responses", "F1 not verifiable"]["value"] == 100
    assert "'topic'" in command("evaluate", str(output), "--cluster-field=topic")[2]
    assert "no row has 'verdicts'. Did you mean 'verdict'?" in command(
        *arguments, "--label-column=verdicts"
    )[2]  # fmt: skip
    for label, message in (
        ("maybe", "r.jsonl, row 1: field 'response_label': expected one of SUPPORTS, REFUTES, NOT"),
        (["SUPPORTS"], "expected a text, or one for each of the 2 sentences of the response"),
    ):
        path.write_text(json.dumps({"response": "Tea. Lake.", "response_label": label}))
        assert message in command(*arguments)[2]
    path.write_text(json.dumps({"response": "Tea. Lake.", "hallucination": "yes"}))
    arguments += ("--label-column=hallucination",)
    assert "by its name, 1 or yes means an error; say" in command(*arguments)[2]
    turned = "--label-values=yes=UNSUPPORTED,no=SUPPORTS"
    output = tmp_path / "turned.jsonl"
    command.succeeds(*arguments, turned, f"--output={output}")
    assert rows_of(output)[0]["fields"][GOLD_RESPONSE] == "UNSUPPORTED"


def test_other_labels_and_the_turns_of_a_chat(command, nli, base, tmp_path):
    path, output = tmp_path / "r.jsonl.gz", tmp_path / "c.jsonl"
    chat = [{"role": "user", "content": "Is tea hot?"}, {"role": "assistant", "content": " Yes."}]
    labels = ["entailment", "ok", "Nay", "neutral", 2.0, 1.0]
    rows = [{"response": "Tea is hot.", "history": chat, "truth": label} for label in labels]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    arguments = ("check", f"--input={path}", f"--model={nli}", f"--knowledge-base={base}")
    arguments += ("--label-column=truth", f"--output={output}")
    assert "say what others mean with --label-values=LABEL=VERDICT" in command(*arguments)[2]
    for values in ("nay=false", "=REFUTES", "ok"):
        assert "--label-values: expected LABEL=VERDICT" in command(
            *arguments, f"--label-values={values}"
        )[2]  # fmt: skip
    command.succeeds(*arguments, "--label-values=ok=supports, nay = Refutes, 2=refutes")
    checked = rows_of(output)
    expected = ["SUPPORTS", "SUPPORTS", "REFUTES", "NOT ENOUGH INFO", "REFUTES", "SUPPORTS"]
    assert [row["fields"][GOLD_RESPONSE] for row in checked] == expected
    assert checked[0]["history"] == ["Is tea hot?", "Yes."]


def test_claims_without_evidence_are_no_rows_to_score(command, nli, base, responses, tmp_path):
    output = tmp_path / "checked.jsonl"
    options = (f"--model={nli}", f"--knowledge-base={base}", f"--output={output}")
    assert command("check", f"--input={responses}", *options)[0] == 0
    score = ("score", f"--input={output}", "--scorers=coverage", f"--output={tmp_path / 's.jsonl'}")
    _, _, err = command(*score)
    assert "checked.jsonl:3: field 'grounding': expected a text" in err
    assert "--skip-bad-rows leaves out what has no grounding" in err
    status, out, err = command(*score, "--skip-bad-rows")
    assert (status, "--skip-bad-rows" in out + err) == (0, False)  # no remedy that is taken
    _, _, err = command(
        "score", f"--input={output}", "--scorers=a=claim_supports", "--output=other.jsonl"
    )
    assert "--scorer-option=a.model=FOLDER" in err


@pytest.mark.slow
def test_few_sizes_are_compiled_however_often_a_run_stops(
    command, nli, base, tmp_path, monkeypatch
):
    """A sample of the whole file determines them, so a resumed run gives the same bytes."""
    texts = [
        "Tea is a hot drink.",
        "The lake freezes in winter; children skate on it.",
        "I like it!",
    ]
    rows = [{"id": str(n), "response": " ".join(texts[: n * n % 4] * (n % 3))} for n in range(60)]
    path, outputs = tmp_path / "rows.jsonl", [tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"]
    path.write_text("\n".join(map(json.dumps, rows)))
    model = shutil.copytree(nli, tmp_path / "model")  # an engine that no other test has used
    options = (f"--input={path}", f"--model={model}", f"--knowledge-base={base}", "--batch-size=7")
    verdicts, compiled, stops = ClaimVerifier.verdicts, [], []

    def stopping(self, rows):
        compiled.append(self._classify.engine.num_compilations)
        if stops and stops[0] == 1:
            raise KeyboardInterrupt
        if stops:
            stops[0] -= 1
        return verdicts(self, rows)

    jobs, choose = [], ClaimVerifier.choose_shapes

    def remembers(self, rows, *job):
        jobs.append((rows, *job))
        choose(self, rows, *job)

    monkeypatch.setattr(ClaimVerifier, "verdicts", stopping)
    monkeypatch.setattr(ClaimVerifier, "choose_shapes", remembers)
    assert command("check", *options, f"--output={outputs[0]}")[0] == 0
    for stops[:] in ([2], []):
        assert command("check", *options, f"--output={outputs[1]}")[0] == (130 if stops else 0)
    whole, resumed = (output.read_text() for output in outputs)
    assert resumed.replace("stopped", "whole") == whole
    assert 1 <= max(compiled) <= MOST_SHAPES
    assert len(jobs) == 3
    assert all(job == jobs[0] for job in jobs)


def test_what_cannot_be_is_said_before_evidence_is_found(command, nli, base, responses, tmp_path):
    output = tmp_path / "checked.jsonl"
    arguments = ("check", f"--input={responses}", f"--knowledge-base={base}", f"--output={output}")
    assert command(*arguments, "--model=nowhere")[0] == 2
    output.write_text("")
    status, _, err = command(*arguments, f"--model={nli}")
    assert (status, "--output: " in err, "exists already" in err) == (2, True, True)
    page = output.rename(tmp_path / "page.html")
    status, _, err = command(*arguments, f"--model={nli}", f"--html={page}")
    assert (status, f"--html: {page} exists already" in err) == (2, True)
    status, _, err = command(*arguments[:-1], f"--model={nli}", "--output=/dev/null")
    device = "/dev/null: a device is no place for an output that is made in parts; name a file or"
    assert (status, device in err, "remove" in err) == (2, True, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [page.name, responses.name]


def test_a_page_on_standard_output_is_alone_there(command, nli, base, responses):
    arguments = ("check", f"--input={responses}", f"--knowledge-base={base}", f"--model={nli}")
    status, table, _ = command(*arguments)
    assert status == 0
    status, page, errors = command(*arguments, "--html=-")
    assert (status, page[:15], page[-8:].strip()) == (0, "<!doctype html>", "</html>")
    assert table in errors


def test_responses_without_a_sentence_are_counted(command, nli, base, tmp_path, caplog):
    path, out, page = (tmp_path / name for name in ("r.jsonl", "o.jsonl", "o.html"))
    path.write_text('{"id": "a", "response": " "}\n{"id": "b", "response": "N/A"}\n')
    output = command.succeeds(
        "check", f"--input={path}", f"--output={out}", f"--model={nli}",
        f"--knowledge-base={base}", f"--html={page}",
    )  # fmt: skip
    assert "1 response without a sentence, and so without claims" in output
    assert "response: 'N/A' is scored as the text of an answer" in caplog.text
    assert "1 response without a sentence, and so without claims" in page.read_text()
    assert len(out.read_text().splitlines()) == 1
    # The page is made of an output that is there.
    before = page.read_text()
    page.unlink()
    options = (f"--model={nli}", f"--knowledge-base={base}", f"--html={page}")
    status, again, err = command("check", f"--input={path}", f"--output={out}", *options)
    assert (status, again) == (0, output), err
    start = before.index("<table")
    assert before[start:] == page.read_text()[page.read_text().index("<table") :]
    assert f"Claims: {out}" in page.read_text()


def test_a_run_that_is_killed_behind_its_output_is_ended(
    command, nli, base, responses, tmp_path, monkeypatch
):
    output, page = tmp_path / "o.jsonl", tmp_path / "o.html"
    arguments = ("check", f"--input={responses}", f"--model={nli}", f"--knowledge-base={base}")
    arguments += (f"--output={output}", f"--html={page}")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(check, "claims_page", killed)
        assert command(*arguments)[0] == 130
    before = output.read_bytes()
    assert command(*arguments)[0] == 0
    assert output.read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} == {responses.name, output.name, page.name}
    assert f"--output: {output} exists already" in command(*arguments)[2]


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("1. Tea is hot.\n2. Tea is a drink.", ["Tea is hot.", "Tea is a drink."]),
        ("- Tea is hot.\n* It is **very** old.", ["Tea is hot.", "It is very old."]),
        ("# Tea\n__Tea__ has `2` leaves.", ["Tea has 2 leaves."]),
        (
            "Kinds:\n- green tea\n- black\n  tea\n\nBoth",
            ["Kinds:", "green tea", "black\n  tea", "Both"],
        ),
        ("It costs 5 * 3 euros in my__file.", ["It costs 5 * 3 euros in my__file."]),
        ("**", []),
        (
            "Tea is hot. https://example.org/tea\n\n<www.example.org> ...\n\nSee https://example.org.",
            ["Tea is hot.", "See https://example.org."],
        ),
    ],
)
def test_marks_of_markdown_are_no_claims(text, claims):
    assert claims_of(text) == claims


def test_texts_in_place_of_lists_are_told(nli, base):
    checker = FactChecker(base, nli)
    with pytest.raises(ConfigError, match=r"history: expected a list of turns, got a text: 'Hi\.'"):
        checker("Tea is hot.", history="Hi.")
    with pytest.raises(ConfigError, match="responses: expected a list, got a text"):
        checker.check_all("Tea is hot.")
    with pytest.raises(ConfigError, match=r"response: expected a text, got \['Tea is hot\.'\]"):
        checker(["Tea is hot."])
    with pytest.raises(ConfigError, match="histories: expected 2, one for each response, got 1"):
        checker.check_all(["Tea.", "Tea."], [["Hi."]])


def test_few_words_in_the_evidence_are_no_verifiable_claim():
    assert verdict_of(0.2, (0.1, 0.2, 0.7), 0.2) == "NOT ENOUGH INFO"
    assert verdict_of(0.19, (0.1, 0.2, 0.7), 0.2) == "NOT VERIFIABLE"
    assert verdict_of(float("nan"), (0.9, 0.1, 0.0), 0.2) == "NOT VERIFIABLE"


def test_sentences_about_another_subject_do_not_count(nli, tmp_path):
    texts = {
        "Cello": "The cello is low. Four strings are tuned in fifths.",
        "Guitar": "The guitar has six strings. Six strings are plucked, unlike those of a cello.",
    }
    rows = [{"title": title, "text": text} for title, text in texts.items()]
    (tmp_path / "articles.jsonl").write_text("\n".join(map(json.dumps, rows)))
    build(tmp_path / "articles.jsonl", tmp_path / "base")
    checker = FactChecker(tmp_path / "base", nli)

    def found(claim, history=()):
        return [entry.sentence for entry in checker(claim, history).claims[0].evidence]

    of_guitars = "The guitar has six strings."
    with_cello = "Six strings are plucked, unlike those of a cello."
    cello = ["The cello is low.", "Four strings are tuned in fifths."]
    assert sorted(found("The cello has six strings.")) == sorted([*cello, with_cello])
    assert of_guitars in found("Six strings are tuned low.")  # it names nothing
    assert of_guitars not in found("It has six strings.", ["Do you play the cello?"])
    assert of_guitars in found("The guitar has six strings.", ["Do you play the cello?"])
    assert with_cello in found("The guitar is low.")


def test_the_context_finds_what_a_pronoun_means(nli, base):
    finding = FindingOptions(retrievers=("bm25",), sentences=1)
    checker = FactChecker(base, nli, finding=finding)
    (with_context,) = checker("It is very cold.", ["Does the lake freeze in winter?"]).claims
    assert [entry.title for entry in with_context.evidence] == ["Lake"]
    (without,) = checker("It is very cold.").claims
    assert without.evidence == []


def test_mini_nli_and_the_encyclopedia_need_nothing(command, new_user_cache, caplog):
    claim = "The accordion has bellows and keys. I have played it for ten years."
    out = command.succeeds("check", f"--claim={claim}", "--history=What instrument is that?")
    page = (REPOSITORY / "docs" / "checking.md").read_text("utf-8")
    sample = page.partition("```text\n")[2].partition("  …")[0]
    assert sample.startswith("SUPPORTS: The accordion")
    assert out.startswith(sample)
    assert "mini_nli is a small model to try things out" in caplog.text
    (kept,) = (new_user_cache / "encyclopedia").iterdir()
    assert len(KnowledgeBase.open(kept)) == 188


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give either --input or --claim."),
        (["--input=b.jsonl", "--history=a"], "--history: goes with --claim"),
        (["--claim=Tea.", "--knowledge-base=nowhere"], "nowhere: no knowledge base"),
        (["--claim=Tea.", "--label-column=x"], "--label-column: goes with --input"),
        (
            ["--input=b.csv", "--grounding-column=x", "--knowledge-base=base"],
            "--knowledge-base: goes with a knowledge base, in whose place --grounding-column is",
        ),
        (["--claim=Tea.", "--output=no/x.jsonl"], "(no such folder); make its folder first"),
    ],
)
def test_wrong_options(command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = command("check", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert not list(tmp_path.iterdir())


def test_labels_of_two_kinds(command, nli, tmp_path):
    path, output, json_path = (tmp_path / name for name in ("r.csv", "c.jsonl", "told.json"))
    lines = ["context,response,label"]
    # "Qwxyz." has no known word and is not verifiable; other verdicts are the random model's.
    lines += ["Tea is a hot drink.,Qwxyz.,0", "Tea is a hot drink.,Qwxyz.,true"]
    lines += ["Tea is a hot drink.,Tea is a hot drink.,Faithful", "Tea is hot.,Qwxyz.,"]
    path.write_text("\n".join(lines))
    arguments = ("check", f"--input={path}", f"--model={nli}", "--grounding-column=context")
    out = command.succeeds(*arguments, f"--output={output}")
    checked = rows_of(output)
    gold = [row["fields"].get(GOLD_RESPONSE) for row in checked]
    assert gold == ["UNSUPPORTED", "SUPPORTS", "SUPPORTS", None]
    command("evaluate", str(output), f"--json={json_path}")
    (accuracy,) = (
        row for row in json.loads(json_path.read_text())["verdicts_against_labels"]
        if row["figure"] == "accuracy"
    )  # fmt: skip
    hits = 1 + (checked[2]["fields"]["response_verdict"] == "SUPPORTS")
    assert (accuracy["number"], accuracy["value"]) == (3, pytest.approx(100 * hits / 3))
    assert "F1 UNSUPPORTED" in out


def test_claims_are_checked_by_the_grounding_of_their_response(command, tmp_path):
    answers = REPOSITORY / "docs" / "first_steps" / "answers.csv"
    output, page = tmp_path / "checked.jsonl", tmp_path / "checked.html"
    arguments = ("check", f"--input={answers}", "--grounding-column=context")
    command.succeeds(*arguments, f"--output={output}", f"--html={page}")
    rows = list(read_scored_rows(output))
    verdicts = {row["id"]: row["fields"]["verdict"] for row in rows}
    # What mini_nli gets right: three of the answers that are supported, and one that is invented.
    assert [verdicts[f"{number}#0"] for number in (2, 4, 8)] == ["SUPPORTS"] * 3
    assert verdicts["7#0"] == "NOT VERIFIABLE"
    # A claim that joins two sentences is judged by both.
    by_id = {row["id"]: row for row in rows}
    decisive = by_id["4#0"]["fields"]["decisive"]
    assert decisive.startswith("You may return an unused lamp within 30 days. Return postage")
    context_by_id = {}
    with answers.open(newline="") as file:
        for number, line in enumerate(csv.DictReader(file), 1):
            context_by_id[f"{number}#0"] = line["context"]
    assert all(text in context_by_id[row["id"]] for row in rows for text in row["grounding"])
    text = page.read_text()
    assert "Grounding: context of each response" in text
    assert "<li>: " not in text
    assert "column 'contxt' is missing. Did you mean 'context'?" in command.refuses(
        *arguments[:2], "--grounding-column=contxt"
    )


def test_groundings_in_python(nli, base):
    checker = FactChecker(None, nli)
    tea, lake = Grounding(("Tea is a hot drink. It is made of leaves.",)), Grounding(("Ice.",))
    response = "Tea is made of leaves. I like it."
    tea_response, lake_response = checker.check_all([response, response], groundings=[tea, lake])
    assert [len(claim.evidence) for claim in tea_response.claims] == [3, 0]
    assert [claim.evidence for claim in lake_response.claims] == [[], []]
    assert lake_response.verdict == "NOT VERIFIABLE"
    assert tea_response.claims[0].decisive in tea_response.claims[0].evidence
    with pytest.raises(ConfigError, match="groundings: expected 1, one for each response, got 2"):
        checker.check_all([response], groundings=[tea, lake])
    with pytest.raises(ConfigError, match="groundings: give them without a knowledge base"):
        checker.check_all([response])
    with pytest.raises(ConfigError, match="groundings: give them without a knowledge base"):
        FactChecker(base, nli).check_all([response], groundings=[tea])


def test_a_t5_that_was_trained_for_another_form(nli, base, t5, tmp_path, caplog):
    with pytest.raises(ConfigError, match="mini_nli was not trained on dialfact_verify_"):
        FactChecker(base, "mini_nli", form="dialfact")
    for form, needed in (("dialfact", "dialfact_verify_…"), ("nli", "NLI")):
        FactChecker(base, t5, form=form)
        assert f"whether it was trained on {needed} cannot be seen in it" in caplog.text
    run = tmp_path / "run"
    for task, right, wrong in (
        ("dialfact_verify_oracle", "dialfact", "nli"),
        ("nli_dnli", "nli", "dialfact"),
        ("npov_generate", "nli", "dialfact"),
    ):
        shutil.rmtree(run, ignore_errors=True)
        model_dir(run, f"MIXTURE_OR_TASK_NAME={task}")
        shutil.copytree(t5, run, dirs_exist_ok=True)
        FactChecker(base, str(run), form=right)
        with pytest.raises(ConfigError, match=f"on {task}, which --form={wrong} does not fit"):
            FactChecker(base, str(run), form=wrong)
    assert "was trained on npov_generate, which does not look like NLI" in caplog.text
    assert "trained on nli_dnli, which" not in caplog.text


def test_a_stopped_run_resumes(command, nli, base, responses, tmp_path, monkeypatch):
    options = (f"--input={responses}", f"--model={nli}", f"--knowledge-base={base}")
    options += ("--batch-size=1",)
    assert command("check", *options, f"--output={tmp_path / 'whole.jsonl'}")[0] == 0
    output, verdicts, seen = tmp_path / "checked.jsonl", ClaimVerifier.verdicts, []

    def stops(self, rows):
        seen.append(len(rows))
        if len(seen) == 2:
            raise KeyboardInterrupt
        return verdicts(self, rows)

    monkeypatch.setattr(ClaimVerifier, "verdicts", stops)
    assert command("check", *options, f"--output={output}")[0] == 130
    assert not output.exists()
    status, _, err = command("check", *options, f"--output={output}", "--documents=3")
    assert (status, "another value of documents (10, not 3)" in err) == (2, True)
    assert command("check", *options, f"--output={output}")[0] == 0
    assert seen == [2, 1, 1, 1]  # the first response is not checked again
    assert output.read_text() == (tmp_path / "whole.jsonl").read_text().replace("whole", "checked")


def test_a_response_of_nothing_claims_nothing(nli, base):
    assert FactChecker(base, nli).check_all(["", "  "], [None, []]) == [("NOT VERIFIABLE", [])] * 2


def test_sentences_with_few_words_of_a_claim_do_not_decide(nli, base):
    claim = "Tea, lakes, snow, ice, frost, wind and rain are what children skate on."
    (claim_check,) = FactChecker(base, nli, verifiable=0.15).check_all([claim])[0].claims
    shares = [lexical_overlap(claim, [entry.sentence]) for entry in claim_check.evidence]
    assert min(shares) < 0.15 <= max(shares)
    assert lexical_overlap(claim, [claim_check.decisive.sentence]) >= 0.15
