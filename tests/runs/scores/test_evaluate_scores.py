import json
import pathlib
import random
import re

import numpy as np
import pytest
from scipy import stats

from faith_jax.cli import main
from faith_jax.datasets.samples import sample_folder
from tests.paths import REAL, needs_shared

PNG = b"\x89PNG"


def write(path, scores, labels, corpus="c", scorer="s", **fields):
    rows = [
        {
            "id": str(number),
            "corpus": corpus,
            "generated_text": "I think so." if number % 3 else "Yes.",
            "label": label,
            "scores": {scorer: score},
            "fields": {name: values[number] for name, values in fields.items()},
        }
        for number, (score, label) in enumerate(zip(scores, labels, strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def evaluate(capsys, *arguments):
    """Returns the exit status, the lines of standard output, and the last line of errors."""
    status = main(["evaluate", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return status, output.splitlines(), (errors.strip().splitlines() or [""])[-1]


SCORES, LABELS = [0.9, 0.8, 0.3, 0.7, 0.2, 0.1], [1, 1, 1, 0, 0, 0]


def test_two_scorers_in_two_files_and_all_outputs(capsys, tmp_path):
    of_s = write(tmp_path / "one.jsonl", SCORES, LABELS)
    of_t = write(tmp_path / "two.jsonl", SCORES[::-1], LABELS, scorer="t")
    names = ("json", "markdown", "latex", "csv", "histograms", "roc-curves")
    outputs = {name: tmp_path / f"out.{name}" for name in names[:4]}
    outputs |= {name: tmp_path / f"{name}.png" for name in names[4:]}
    status, lines, _ = evaluate(
        capsys, of_s, of_t, "--baseline=t", *(f"--{name}={path}" for name, path in outputs.items())
    )
    assert status == 0
    assert lines[3].split()[:2] == ["s", "88.9"]
    assert lines[4].split()[:4] == ["s", "\u2212", "t", "+77.8"]
    assert lines[5].split()[:2] == ["t", "11.1"]
    figures = json.loads(outputs["json"].read_text())
    assert figures["corpora"]["s"]["c"]["auc"] == pytest.approx(8 / 9)
    assert figures["rows"] == {"c": 6}
    assert outputs["markdown"].read_text().startswith("**ROC AUC")
    assert r"\begin{tabular}" in outputs["latex"].read_text()
    settings = {"protocol": "auc", "test": "t", "confidence": 0.95}
    settings |= {"resamples": 1000, "seed": 0, "baseline": "t", "cluster_field": "auto"}
    assert {name: figures[name] for name in settings} == settings
    assert figures["title"] == lines[0]
    assert [note.split(":")[0] for note in figures["notes"]] == [
        "c",
        "Intervals and p-values",
        "c",
        "* significantly better than t on the same rows",
        "c",
    ]
    assert figures["notes"][0].startswith("c: Verdict by only 6 rows: s has the largest AUC (88.9)")
    assert [row["other"] for row in figures["best"]] == ["t"]
    assert figures["units"] == {"c": 6}
    header, first, *_ = outputs["csv"].read_text().splitlines()
    assert header == "scorer,corpus,rows,left_out,auc,low,high,p_value,significantly_better"
    assert first.startswith("s,c,6,0,0.888888")
    assert outputs["histograms"].read_bytes().startswith(PNG)
    assert outputs["roc-curves"].read_bytes().startswith(PNG)


def test_the_protocol_of_begin(capsys, tmp_path):
    sources = ["wow", "tc"] * 3
    development = write(tmp_path / "dev.jsonl", SCORES, LABELS, source=sources)
    test = write(tmp_path / "test.jsonl", [*SCORES[:5], None], LABELS, source=sources)
    arguments = (test, "--protocol=begin", f"--json={tmp_path / 'f.json'}")
    status, lines, _ = evaluate(capsys, *arguments, f"--development={development}")
    assert status == 0
    assert " ".join(lines[1].split()) == "scorer threshold P R F1 Acc F1 tc F1 wow"
    (row,) = json.loads((tmp_path / "f.json").read_text())["rows"]
    assert (row["scorer"], row["threshold"], row["R"]) == ("s", 0.3, 100)
    assert "An undefined score reaches no threshold." in lines
    assert "c: of 6 rows, s undefined in 1." in lines
    message = evaluate(capsys, *arguments)[2]
    assert "needs the scored development part" in message
    assert "--development=split" in message
    other_path = tmp_path / "other.jsonl"
    other_path.write_text(pathlib.Path(development).read_text().replace('"s":', '"t":'))
    message = evaluate(capsys, *arguments, f"--development={other_path}")[2]
    assert "development part has scores of t, the test part of s" in message


def test_which_claims_can_be_verified(capsys, tmp_path):
    development = write(tmp_path / "dev.jsonl", [0.9, 0.8, 0.3, 0.4, 0.5], [1, 1, 1, 0, 0])
    test = write(tmp_path / "test.jsonl", [0.8, 0.7, 0.9, None], [1, 0, 0, 1])
    arguments = ("--protocol=verifiable", f"--development={development}")
    status, lines, _ = evaluate(capsys, test, *arguments)
    assert (status, lines[0].endswith("(Gupta 2022, table 3)")) == (0, True)
    assert lines[3].split()[:6] == ["s", "\u2265", "0.8", "80.0", "50.0", "(0.0\u2013100.0)"]
    assert lines[4].split()[-3:] == ["50.0", "50.0", "50.0"]
    assert "goes with --protocol=begin" in evaluate(capsys, test, *arguments, "--group-field=x")[2]


def test_scores_that_one_half_cannot_divide_are_warned_of(capsys, tmp_path):
    file = write(tmp_path / "likert.jsonl", [1, 2, 3, 4, 5, 3], LABELS)
    for protocol in ("accuracy", "hallucinations"):
        _, lines, _ = evaluate(capsys, file, f"--protocol={protocol}")
        (warning,) = (line for line in lines if "Warning" in line)
        assert "scores of s run from 1 to 5, so that 0.5 is no threshold for them" in warning


def test_thresholds_on_a_random_half(capsys, tmp_path):
    generator = random.Random(1)
    labels = [number % 2 for number in range(200)]
    scores = [0.6 * label + 0.5 * generator.random() for label in labels]
    path = write(tmp_path / "s.jsonl", scores, labels)
    arguments = (path, "--protocol=begin", "--development=split", "--group-field=")
    status, lines, _ = evaluate(capsys, *arguments)
    assert status == 0
    threshold, *_, accuracy = (float(cell) for cell in lines[3].split()[1:])
    assert 0.5 <= threshold <= 0.7
    assert accuracy == 100
    half = "100 rows, tested on the other 100"
    assert f"Thresholds chosen on {half}: a random split with the seed 0." in lines
    assert evaluate(capsys, *arguments)[1] == lines
    assert evaluate(capsys, *arguments, "--seed=4")[1] != lines
    # Without a relation, thresholds of one half say nothing of the other.
    random.Random(2).shuffle(labels)
    path = write(tmp_path / "t.jsonl", scores, labels)
    assert float(evaluate(capsys, path, *arguments[1:])[1][3].split()[-1]) < 70


def test_a_random_half_does_not_divide_documents(capsys, tmp_path):
    rows = [
        {"id": str(n), "corpus": "c", "label": n % 2, "grounding": [f"Document {n // 8}."],
         "scores": {"s": n % 2 * 0.5 + n / 1000}}
        for n in range(48)
    ]  # fmt: skip
    path = tmp_path / "s.jsonl"
    arguments = (path, "--protocol=begin", "--development=split", "--group-field=")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, lines, _ = evaluate(capsys, *arguments)
    half = "24 rows, tested on the other 24: a random split with the seed 0, in which rows"
    assert f"Thresholds chosen on {half} with the same grounding stay together." in lines
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:8]))
    status, _, message = evaluate(capsys, *arguments)
    assert status == 2
    assert "--development=split: 8 rows with the same grounding cannot be divided" in message


def test_a_corpus_of_one_class_and_undefined_scores(capsys, tmp_path):
    first = write(tmp_path / "one.jsonl", [0.1, 0.2], [1, 1], corpus="single")
    second = write(tmp_path / "two.jsonl", [*SCORES[:5], None], LABELS)
    status, lines, _ = evaluate(capsys, first, second, f"--json={tmp_path / 'f.json'}")
    assert status == 0
    assert "one class" in lines[3]
    figures = json.loads((tmp_path / "f.json").read_text())
    assert figures["left_out_ids"] == {"single": [], "c": ["5"]}
    assert ["rows", "left", "out", "0", "1"] in [line.split() for line in lines]
    assert "average" not in lines[1]
    assert "c: of 6 rows, s undefined in 1." in lines
    assert "single (2), c (5): so few rows can say little: figures may change much." in lines


def test_bad_input_is_one_line_and_status_2(capsys, tmp_path):
    good = write(tmp_path / "good.jsonl", SCORES, LABELS)
    fewer = write(tmp_path / "fewer.jsonl", SCORES[:5], LABELS[:5], scorer="t")
    bare = write(tmp_path / "bare.jsonl", [0.1, 0.2], [None, None])
    again = write(tmp_path / "again.jsonl", SCORES, LABELS)
    (tmp_path / "infinite.jsonl").write_text(good.read_text().replace("0.9", "Infinity"))
    (tmp_path / "twice.jsonl").write_text(good.read_text() * 2)
    for arguments, message in (
        ((tmp_path / "none.jsonl",), "none.jsonl: no such file"),
        ((good, fewer), "fewer.jsonl lacks '5', one of 1 row that only one of them has; compare"),
        ((good, again), "again.jsonl both have scores of s on 'c'; compare systems with ev"),
        ((tmp_path / "infinite.jsonl",), "e.jsonl:1: field 'scores.s': expected a finite number"),
        ((tmp_path / "twice.jsonl",), "corpus 'c' has the id '0' twice"),
        ((bare, "--protocol=auc"), "c: no row has a label (1 or 0), which the figures need"),
        ((bare, bare), f"{bare} is given 2 times; name each file once."),
        ((bare, "--below=s"), "--below: expected SCORER:VALUE, such as coverage:0.5, got 's'"),
        ((bare, "--test=delong", "--baseline=c"), "--test: goes with --protocol=auc, not with sys"),
        ((good, "--baseline=best"), "The baseline 'best' is none of s"),
        (
            (good, "--baseline=s", "--cluster-field=doc", "--test=hanley_mcneil"),
            "randomization and delong can",
        ),
        ((good, "--scorers=t"), "c has no scores of 't', only of s"),
        ((good, f"--json={tmp_path}/no/f.json"), "cannot be written (no such folder)"),
    ):
        status, lines, error = evaluate(capsys, *arguments)
        assert (status, lines) == (2, []), arguments
        assert message in error


@pytest.mark.slow
@needs_shared
def test_real_rows(capsys, tmp_path):
    """Token F1's AUC on SummEval: a file in TRUE's format, with summaries of one document."""
    source, scores = REAL / "summeval" / "true_summeval.csv", tmp_path / "s.jsonl"
    arguments = ["--scorers=token_f1", f"--input={source}", "--id-column=", f"--output={scores}"]
    assert main(["score", *arguments]) == 0
    assert capsys.readouterr().out == f"{scores}: 1,600 rows, 1 scorer\n"
    status, lines, _ = evaluate(capsys, scores, "--cluster-field=id", "--resamples=200")
    assert status == 0
    assert lines[3].split()[:2] == ["token_f1", "61.4"]


@pytest.mark.slow
def test_the_protocol_of_npov(capsys, tmp_path, offline_data_dir):
    """Also with the label column of `score`'s own example, and from every output format."""
    names = "npov_rouge1_hallucination,npov_rouge1_coverage"
    data = ["--tfds=npov_errors/sample", "--split=test", "--label-column=has_hallucination"]
    data += ["--labels-are-errors"]
    areas = {}
    for name in ("npov.jsonl", "npov.parquet", "npov"):
        scores, figures = tmp_path / name, tmp_path / f"{name}.json"
        assert main(["score", f"--scorers={names}", *data, f"--output={scores}"]) == 0
        capsys.readouterr()
        status, lines, _ = evaluate(capsys, scores, "--protocol=npov", f"--json={figures}")
        assert status == 0
        areas[name] = json.loads(figures.read_text())
    assert [line.split()[:2] for line in lines[3:5]] == [
        ["hallucination", "npov_rouge1_hallucination"],
        ["coverage", "npov_rouge1_coverage"],
    ]
    assert areas["npov.jsonl"] == areas["npov.parquet"] == areas["npov"]
    assert areas["npov"]["coverage"]["npov_rouge1_coverage"]["npov_errors/sample"]["auc"] > 0.9
    scores, page = tmp_path / "npov", tmp_path / "r.html"
    assert main(["report", str(scores), f"--output={page}"]) == 0
    assert "npov_errors/sample" in page.read_text()
    capsys.readouterr()
    status, lines, _ = evaluate(capsys, scores, "--protocol=npov_words")
    assert (status, len(lines)) == (0, 6)
    assert lines[3].split()[:2] == ["coverage", "npov_rouge1_coverage"]
    assert lines[4] == (
        "Intervals: 95% percentile bootstrap over rows, 1,000 resamples. Figures that are the same "
        "in all resamples have no interval."
    )
    assert lines[5].startswith("Hallucinations: left out for npov_errors/sample, whose rows do not")
    scorer_option = "--scorers=npov_rouge1_hallucination"
    status, _, error = evaluate(capsys, scores, "--protocol=npov_words", scorer_option)
    assert (status, "do not say which words are hallucinated" in error) == (2, True)


def test_the_protocol_of_dialfact(capsys, tmp_path, offline_data_dir):
    path = tmp_path / "predictions.jsonl"
    claims = (sample_folder("dialfact") / "test_split.jsonl").read_text().splitlines()
    rows = [{"id": json.loads(line)["id"], "prediction": "SUPPORTS"} for line in claims]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = (path, "--protocol=dialfact", "--dataset=dialfact/sample")
    status, lines, _ = evaluate(capsys, *arguments)
    assert status == 0
    assert lines[3].split()[1:4] == ["all", "104", "30.8"]  # 32 of 104 are supported
    assert "claims have no prediction" in evaluate(capsys, *arguments, "--split=validation")[2]
    assert (
        "--histograms: goes with --protocol=auc or"
        in evaluate(capsys, *arguments, "--histograms=h.png")[2]
    )
    assert "splits validation, test" in evaluate(capsys, *arguments, "--split=train")[2]


def test_scored_claims_are_predictions(capsys, tmp_path, offline_data_dir):
    """The most probable label is predicted; claims without evidence are not scored."""
    path, table = tmp_path / "scores.jsonl", tmp_path / "table.json"
    text = (sample_folder("dialfact") / "test_split.jsonl").read_text()
    claims = [json.loads(line) for line in text.splitlines()]
    names = {"SUPPORTS": "claim_supports", "REFUTES": "claim_refutes"}
    labels = [*names, "NOT ENOUGH INFO"]
    scored = [claim for claim in claims if claim["evidence_list"]]
    rows = [
        {"id": claim["id"], "scores": {
            name: 0.6 if label == claim["response_label"] else 0.2
            for label, name in zip(labels, [*names.values(), "claim_not_enough_info"], strict=True)
        }}
        for claim in scored
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = (path, "--protocol=dialfact", "--dataset=dialfact/sample", f"--json={table}")
    assert evaluate(capsys, *arguments)[0] == 0
    entry = json.loads(table.read_text())["rows"][0]
    # Those without evidence are personal, which count as NOT ENOUGH INFO.
    assert (entry["number"], entry["3-way Acc"], entry["3-way F1"]) == (104, 100, 100)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[1:]))
    assert "1 of 104 claims have no prediction, '3___1--0'" in evaluate(capsys, *arguments)[2]
    del rows[0]["scores"]["claim_refutes"]
    path.write_text(json.dumps(rows[0]) + "\n")
    assert (
        "scores.jsonl:1: field 'scores.claim_refutes' is missing" in evaluate(capsys, *arguments)[2]
    )


def test_an_ensemble_is_a_further_scorer(capsys, tmp_path):
    e_minus_c = [2 * score - 1 for score in SCORES[::-1]]
    first = write(tmp_path / "one.jsonl", SCORES, LABELS, scorer="token_f1")
    second = write(tmp_path / "two.jsonl", e_minus_c, LABELS, scorer="nli_e_minus_c")
    mine = write(tmp_path / "own.jsonl", [8 * score for score in SCORES], LABELS, scorer="mine")
    table = tmp_path / "table.json"
    status, lines, _ = evaluate(
        capsys, first, second, mine, "--ensemble=both=token_f1,nli_e_minus_c", f"--json={table}",
        "--ensemble=all=token_f1,nli_e_minus_c,mine:0:8", "--scorers=token_f1",
    )  # fmt: skip
    assert status == 0
    content = json.loads(table.read_text())
    areas = {name: row["c"]["auc"] for name, row in content["corpora"].items()}
    # The two orders are each other's reverse: their mean is 0.5 everywhere.
    assert list(areas) == ["token_f1", "both", "all"]
    assert areas["both"] is None
    assert areas["all"] == areas["token_f1"] == pytest.approx(8 / 9)
    note = next(line for line in lines if line.startswith("Ensembles: "))
    assert "both = token_f1 (0 to 1), nli_e_minus_c (-1 to 1)" in note
    assert "mine (0 to 8)" in note


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("both=token_f1", "SCORER or SCORER:LOW:HIGH, got 'both=token_f1'"),
        ("x=token_f1,mine:0", "SCORER or SCORER:LOW:HIGH, got 'x=token_f1,mine:0'"),
        ("x=token_f1,mine", "mine has no known finite range; say it: mine:LOW:HIGH"),
        ("mine=token_f1,mine:0:1", "is a scorer's name; give the ensemble another"),
    ],
)
def test_ensembles_that_there_cannot_be(capsys, tmp_path, option, message):
    first = write(tmp_path / "one.jsonl", SCORES, LABELS, scorer="token_f1")
    second = write(tmp_path / "two.jsonl", SCORES, LABELS, scorer="mine")
    status, _, error = evaluate(capsys, first, second, f"--ensemble={option}")
    assert status == 2
    assert error.startswith("faith-jax: --ensemble: ")
    assert message in error


def write_answers(path, answers, scorer="token_f1", first=0):
    """Writes unlabelled rows: {grounding: [(score, response), ...]}."""
    answer_rows = [(g, score, text) for g, those in answers.items() for score, text in those]
    rows = [
        {
            "id": str(number),
            "corpus": path.stem,
            "grounding": [grounding],
            "generated_text": text,
            "label": None,
            "scores": {scorer: score, "own": 10 * score},
        }
        for number, (grounding, score, text) in enumerate(answer_rows, first)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def cells_of(line):
    return [cell.strip() for cell in re.split(r"  +", line)]


def test_answers_without_labels_have_means_shares_and_the_worst_first(capsys, tmp_path):
    scores = [0.1 * number for number in range(10)] * 3
    answers = {f"text {i}": [(score, f"answer {i}")] for i, score in enumerate(scores)}
    path = write_answers(tmp_path / "mine.jsonl", answers)
    status, lines, _ = evaluate(capsys, path, "--worst=2", f"--json={tmp_path}/f.json")
    assert status == 0
    assert cells_of(lines[1]) == ["system", "token_f1", "token_f1 < 0.5, %", "own"]
    cells = cells_of(lines[3])
    assert [cell.split()[0] for cell in cells] == ["mine", "0.450", "50.0", "4.500"]
    title = lines.index("Lowest token_f1")
    assert [cells_of(line) for line in lines[title + 3 :]] == [
        ["mine", "0", "0.00", "answer 0"],
        ["mine", "10", "0.00", "answer 10"],
    ]
    content = json.loads((tmp_path / "f.json").read_text())
    assert content["protocol"] == "systems"
    assert content["rows"][0]["corpus"] == "rows"
    assert content["worst"][0] == {
        "system": "mine",
        "id": "0",
        "token_f1": 0,
        "query": "",
        "response": "answer 0",
        "alike": 0,
    }
    status, lines, _ = evaluate(capsys, path, "--worst=0", "--below=own:2", "--scorers=own")
    assert cells_of(lines[1])[1:] == ["own", "own < 2, %"]
    assert cells_of(lines[3])[2].startswith("20.0")
    assert not any(line.startswith("Lowest") for line in lines)


def test_the_worst_answers_have_their_query_and_each_stands_once(capsys, tmp_path):
    texts = ["I do not know.", "i do  NOT know", "I do not know", "No idea.", "Yes."]
    answers = {f"text {i}": [(0.1 * i, text)] for i, text in enumerate(texts, 1)}
    path = write_answers(tmp_path / "mine.jsonl", answers)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["history"], rows[3]["history"] = ["Hi.", "When?"], ["Why?"]
    rows.append(rows[0] | {"id": "5", "scores": {"token_f1": 0.05, "own": 1.0}})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, lines, _ = evaluate(capsys, path, "--worst=2", f"--json={tmp_path}/f.json")
    title = lines.index("Lowest token_f1")
    assert cells_of(lines[title + 1]) == ["system", "id", "token_f1", "query", "response"]
    assert [cells_of(line) for line in lines[title + 3 :]] == [
        ["mine", "5", "0.05", "When?", "I do not know. (also 0, 1, 2)"],
        ["mine", "3", "0.40", "Why?", "No idea."],
    ]
    worst = json.loads((tmp_path / "f.json").read_text())["worst"]
    assert [(row["response"], row["alike"]) for row in worst] == [
        ("I do not know.", 3),
        ("No idea.", 0),
    ]


def test_the_worst_answer_has_the_most_marks(capsys, tmp_path):
    answers = {f"text {n}": [(score, "Ten cats.")] for n, score in enumerate((0.1, 0.5, 0.8, 0.9))}
    path = write_answers(tmp_path / "mine.jsonl", answers)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row, first, second in zip(rows, (0.1, 0.3, 0.8, 0.9), (0.1, 0.7, 0.8, 0.9), strict=True):
        row["generated_text"] += f" {row['id']}"
        row["words"] = {"token_f1": [[0, 3, first, None], [4, 8, second, None]]}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, lines, _ = evaluate(capsys, path, "--worst=3")
    title = lines.index("Lowest token_f1 ([words] score less than 0.33, half of the median score)")
    assert [cells_of(line)[-1] for line in lines[title + 3 :]] == [
        "[Ten cats]. 0",
        "[Ten] cats. 1",
        "Ten cats. 2",
    ]


def test_two_files_of_the_same_rows_are_compared(capsys, tmp_path):
    generator = random.Random(0)
    scores = [generator.uniform(0, 0.8) for _ in range(40)]
    old = {f"text {i}": [(score, "old")] for i, score in enumerate(scores)}
    gains = [0.1 + 0.02 * (i % 2) for i in range(40)]
    new = {
        f"text {i}": [(score + gain, "new")]
        for i, (score, gain) in enumerate(zip(scores, gains, strict=True))
    }
    files = [write_answers(tmp_path / f"{n}.jsonl", a) for n, a in (("old", old), ("new", new))]
    status, lines, _ = evaluate(capsys, *files, "--scorers=own")
    assert status == 0
    rows = dict(map(cells_of, lines[3:6]))
    assert list(rows) == ["old", "new", "new \u2212 old"]
    # A gain of 1.1 with a deviation of 0.1: 2.02 standard errors of 0.1 / sqrt(39) to both sides.
    assert rows["new \u2212 old"] == "+1.100* (+1.068 to +1.132), p < 0.001"
    assert "Verdict: new is better by own (p < 0.001); 40 rows." in lines
    assert any("differs from its baseline (old) on the rows that both" in line for line in lines)
    # Equal systems have no difference.
    same = write_answers(tmp_path / "same.jsonl", old)
    _, lines, _ = evaluate(capsys, files[0], same, "--scorers=own")
    assert cells_of(lines[5])[1] == "+0.000, p = 1.000"
    _, lines, _ = evaluate(capsys, *files, "--scorers=own", "--baseline=new")
    assert cells_of(lines[4])[0] == "old \u2212 new"


def test_other_rows_are_not_compared(capsys, tmp_path):
    first = write_answers(tmp_path / "one.jsonl", {f"a {i}": [(0.5, "x")] for i in range(30)})
    second = write_answers(tmp_path / "two.jsonl", {f"b {i}": [(0.7, "y")] for i in range(30)})
    status, lines, _ = evaluate(capsys, first, second)
    assert status == 0
    assert (
        "one, two: have no rows of the same grounding or question in common, and are not compared. "
        "Rows are paired by their ids (score --id-column)." in lines
    )
    assert not any("\u2212" in line for line in lines[3:5])
    part = write_answers(
        tmp_path / "part.jsonl", {f"a {i}": [(0.9, "z")] for i in range(5, 25)}, first=5
    )
    status, lines, _ = evaluate(capsys, first, part)
    assert cells_of(lines[5])[0] == "part \u2212 one"
    assert (
        "Compared on the 20 rows that all systems have with the same grounding or question; the "
        "largest has 30."
    ) in lines


def test_retrievers_are_compared_on_the_questions_that_they_share(capsys, tmp_path):
    """Each system has found its own passages; row 0 asks a different question."""
    generator = random.Random(0)
    for name in ("old", "new"):
        rows = [
            {"id": str(i), "corpus": name, "history": [f"What of {i or name}?"]}
            | {"grounding": [f"{name} passage {i}"], "generated_text": f"{name} {i}"}
            | {"label": None, "scores": {"s": generator.random() + (name == "new")}}
            for i in range(30)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, lines, _ = evaluate(capsys, tmp_path / "old.jsonl", tmp_path / "new.jsonl")
    assert "Verdict: new is better by s (p < 0.001); 29 rows." in lines
    assert any("In 29 rows the systems have other groundings for the same" in x for x in lines)


def test_the_order_of_systems_does_not_matter(capsys, tmp_path):
    """Only one of the systems knows that its rows share four documents."""
    own = write_systems(tmp_path, two_systems())
    for file, documents in zip(own, (["a", "b", "c", "d"], [""]), strict=True):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for number, row in enumerate(rows):
            row["grounding"] = list(filter(None, [documents[number % len(documents)]]))
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    figures = []
    for files in (own, own[::-1]):
        _, lines, _ = evaluate(capsys, *files, "--worst=0")
        note = (
            "Rows with the same grounding in any of the systems are one unit: 4 groups of 24 rows."
        )
        assert note in lines
        figures.append(re.findall(r"\d\.\d+", lines[5]))
        figures.append(sorted(line.split("  ", 1)[1].replace("*", "") for line in lines[3:5]))
        assert any("Verdict by only 4 groups (24 rows): new is better by" in x for x in lines)
    difference, means, mirrored, mirrored_means = figures
    low, high = difference[1:3]
    assert mirrored == [difference[0], high, low, *difference[3:]]
    assert mirrored_means == means


def test_pairs_of_other_questions_about_one_document_are_told(capsys, tmp_path):
    """Both frames are numbered, and the second lacks row 3."""
    questions = [f"What of {i}?" for i in range(30)]
    for name, texts in (("old", questions), ("new", questions[:3] + questions[4:])):
        rows = [
            {"id": str(i), "grounding": ["A passage."], "history": [question], "scores": {"s": i}}
            for i, question in enumerate(texts)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, lines, _ = evaluate(capsys, tmp_path / "old.jsonl", tmp_path / "new.jsonl")
    assert any("In 26 rows the systems answer other questions about the" in x for x in lines)


def test_a_system_has_one_baseline(capsys, tmp_path):
    systems = [write(tmp_path / f"{s}.jsonl", SCORES, [None] * 6, system=[s] * 6) for s in "abcd"]
    for options, baseline in ((("--compare=c:a",), "a"), (("--baseline=d",), "d")):
        status, lines, error = evaluate(capsys, *systems, *options, "--compare=c:b")
        assert (status, lines) == (2, [])
        assert f"--compare=c:b: c is compared with {baseline} already" in error
    # Each pair has its own baseline, so nothing is corrected across pairs.
    _, lines, _ = evaluate(capsys, *systems, "--compare=b:a", "--compare=d:c")
    verdicts = [line for line in lines if "Verdict" in line]
    assert len(verdicts) == 2
    assert not any("corrected" in verdict for verdict in verdicts)


def test_labelled_rows_of_two_systems_are_said_to_be_so(capsys, tmp_path):
    """An average over corpora would treat the same questions as independent."""
    files = [tmp_path / f"{name}.jsonl" for name in ("old", "new", "other")]
    for file in files:
        topic = "other" if file.stem == "other" else "shared"
        rows = [
            {"id": str(i), "corpus": file.stem, "grounding": [f"{topic} {i}"]}
            | {"generated_text": f"{file.stem} {i}", "label": i % 2, "scores": {"s": i / 9}}
            for i in range(8)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, lines, _ = evaluate(capsys, *files)
    (note,) = (line for line in lines if "--protocol=systems" in line)
    assert note.startswith("old, new: have rows of the same ids and groundings.")
    assert not any("--protocol=systems" in line for line in evaluate(capsys, *files[1:])[1])


def test_systems_of_other_scorers(capsys, tmp_path):
    answers = {f"text {i}": [(0.1 * i, "x")] for i in range(8)}
    first = write_answers(tmp_path / "one.jsonl", answers)
    second = write_answers(tmp_path / "two.jsonl", answers, scorer="coverage")
    status, lines, _ = evaluate(capsys, first, second)
    assert status == 0
    assert cells_of(lines[1]) == ["system", "own"]
    note = "Left out, because not all systems have their scores: coverage, token_f1."
    assert note in lines
    second.write_text(second.read_text().replace('"own"', '"mine"'))
    status, lines, _ = evaluate(capsys, first, second)
    assert "one, two: have no scorers in common, and are not compared." in lines
    assert [cells_of(line)[0] for line in lines[3:5]] == ["one", "two"]


def write_systems(folder, scores, **columns):
    """Writes unlabelled rows of several systems: {system: scores}; columns have a value a row."""
    paths = []
    for system, values in scores.items():
        rows = [
            {
                "id": f"q{number}",
                "generated_text": f"{system} {number}",
                "grounding": ["The library opens at ten."],
                "history": [f"Question {number // 2}?"],
                "scores": {"mine": score},
                "fields": {name: column[number] for name, column in columns.items()},
            }
            for number, score in enumerate(values)
        ]
        paths.append(folder / f"{system}.jsonl")
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths


def two_systems(size=24):
    generator = random.Random(5)
    old = [generator.uniform(0, 1) for _ in range(size)]
    return {"old": old, "new": [score + generator.gauss(0.4, 0.3) for score in old]}


def test_one_shared_document_allows_no_test(capsys, tmp_path):
    files = write_systems(tmp_path, two_systems())
    status, lines, _ = evaluate(capsys, *files, "--worst=0")
    assert status == 0
    assert re.fullmatch(r"new \u2212 old  \+0\.\d{3}", lines[5])
    assert re.fullmatch(r"old +0\.\d{3}", lines[3])
    assert any(line.startswith("All 24 rows have the same grounding: one group") for line in lines)
    verdict = "Verdict by only 1 group (24 rows): new against old: undecided by mine (no test)."
    assert verdict in lines
    assert "p = " not in "".join(lines)


def relabel(files, *changes):
    """Changes fields of the rows of files; None removes one."""
    for file, change in zip(files, changes, strict=True):
        rows = [json.loads(line) | change for line in file.read_text().splitlines()]
        rows = [{name: v for name, v in row.items() if v is not None} for row in rows]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_systems_with_a_file_each_are_compared_whatever_their_corpora(capsys, tmp_path):
    """`score --system=NAME` writes the name of the scored file as the corpus."""
    files = write_systems(tmp_path, two_systems())
    options = ("--worst=0", "--cluster-field=id")
    _, expected, _ = evaluate(capsys, *files, *options)
    assert cells_of(expected[5])[0] == "new \u2212 old"
    for changes in (
        (
            {"corpus": "a", "fields": {"system": "old"}},
            {"corpus": "b", "fields": {"system": "new"}},
        ),
        ({"corpus": "a", "fields": {"system": "old"}}, {"corpus": "new", "fields": {}}),
        ({"corpus": "old", "fields": {"system": ""}}, {"corpus": "new"}),
    ):
        relabel(files, *changes)
        assert evaluate(capsys, *files, *options)[1] == expected
    _, lines, _ = evaluate(capsys, *files, *options, "--compare=old:new")
    assert cells_of(lines[4])[0] == "old \u2212 new"


def test_rows_without_a_system_beside_others_are_a_system(capsys, tmp_path):
    files = write_systems(tmp_path, two_systems())
    relabel(files, {"corpus": "all", "fields": {"system": ""}}, {"fields": {" System": "new"}})
    both = tmp_path / "all.jsonl"
    both.write_text("".join(file.read_text() for file in files).replace('"corpus": "all", ', ""))
    _, lines, _ = evaluate(capsys, both, "--worst=0", "--cluster-field=id")
    assert [cells_of(line)[:2] for line in lines[3:6]] == [
        ["all", "all"],
        ["all", "new"],
        ["all", "new \u2212 all"],
    ]
    assert "Rows of all without a system count as the system 'all'." in lines


def test_models_that_are_taken_as_one_system_are_told(capsys, tmp_path):
    models = ["gpt", "bert"] * 12
    (file,) = write_systems(tmp_path, {"old": two_systems()["old"]}, model=models)
    _, lines, _ = evaluate(capsys, file)
    assert (
        "old: the 2 values of 'model' are taken as one system; if they are systems to compare, "
        "call the field 'system'."
    ) in lines


def test_systems_without_a_common_corpus_are_said_not_to_be_compared(capsys, tmp_path):
    files = write_systems(tmp_path, two_systems())
    relabel(files, {"corpus": "a", "fields": {"system": "old"}}, {"corpus": "b"})
    relabel(files[1:], {"fields": {"system": "new"}})
    both = tmp_path / "both.jsonl"
    both.write_text("".join(file.read_text() for file in files))
    where = (
        "new is in b; old is in a. Systems are compared on a corpus that both have: score "
        "--corpus=NAME names it."
    )
    status, lines, _ = evaluate(capsys, both, "--worst=0")
    assert status == 0
    assert f"No systems are compared: {where}" in lines
    for option in ("--compare=new:old", "--baseline=old"):
        status, lines, error = evaluate(capsys, both, option)
        assert (status, lines) == (2, [])
        assert error == f"faith-jax: Cannot compare new with old: {where}"
    other = write_systems(tmp_path, {"other": [0.5] * 24})
    relabel(other, {"grounding": ["Another text."], "history": None})
    _, _, error = evaluate(capsys, files[0], *other, "--baseline=other")
    assert "faith-jax: Cannot compare old with other: old, other: have no rows of the same" in error


@pytest.mark.parametrize(("field", "groups"), [("none", 24), ("question", 12), ("topic", 3)])
def test_any_field_is_the_unit(capsys, tmp_path, field, groups):
    scores = two_systems()
    topics = [str(number // 8) for number in range(24)]
    files = write_systems(tmp_path, scores, topic=topics)
    status, lines, _ = evaluate(capsys, *files, f"--cluster-field={field}", "--worst=0")
    assert status == 0
    differences = [b - a for a, b in zip(scores["old"], scores["new"], strict=True)]
    size = 24 // groups
    sums = [sum(differences[start : start + size]) for start in range(0, 24, size)]
    expected = stats.ttest_1samp(np.array(sums) / size, 0)
    low, high = expected.confidence_interval()
    p_value = "p < 0.001" if expected.pvalue < 0.001 else f"p = {expected.pvalue:.3f}"
    mark = "*" if expected.pvalue <= 0.05 else ""
    text = f"{np.mean(differences):+.3f}{mark} ({low:+.3f} to {high:+.3f}), {p_value}"
    assert cells_of(lines[5]) == ["new \u2212 old", text]
    few = [line for line in lines if "allows no p-value below 2/2^3 = 0.25" in line]
    assert len(few) == (groups == 3)


def test_what_there_is_nothing_to_compare_of(capsys, tmp_path):
    nothing = write_systems(tmp_path, {"old": [None] * 3, "new": [None] * 3})
    status, lines, error = evaluate(capsys, *nothing)
    assert (status, lines) == (2, [])
    assert "All scores of mine are undefined in all rows" in error
    single = write_systems(tmp_path, {"old": [0.1], "new": [0.2]})
    for files in (single, single[:1]):
        status, lines, error = evaluate(capsys, *files)
        assert (status, lines) == (2, [])
        assert "has only the row 'q0'; an evaluation needs at least two rows" in error
    labelled = write(tmp_path / "one.jsonl", [0.5], [1])
    assert "has only the row '0'" in evaluate(capsys, labelled)[2]


def test_undefined_scores_count_as_what_the_user_says(capsys, tmp_path):
    old, new = write_systems(
        tmp_path, {"old": [0.5] * 15 + [0.0] * 15, "new": [0.5] * 15 + [None] * 15}
    )
    run = (old, new, "--cluster-field=id", "--worst=0")
    status, lines, _ = evaluate(capsys, *run)
    assert cells_of(lines[5]) == ["new \u2212 old", "+0.000, p = 1.000, 15 of 30 rows"]
    assert [cells_of(line)[0] for line in lines[6:9]] == [
        "old: undefined, %",
        "new: undefined, %",
        "new \u2212 old: undefined, %",
    ]
    assert cells_of(lines[8])[1].startswith("+50.0* (+31.0 to +69.0), p < 0.001")
    assert any(
        line.startswith("Warning: 50.0% of new's scores of mine are undef") for line in lines
    )
    status, lines, _ = evaluate(capsys, *run, "--undefined=0")
    assert cells_of(lines[5]) == ["new \u2212 old", "+0.000, p = 1.000"]
    assert (
        "Warning: 50.0% of new's scores of mine are undefined, 0.0% of old's (p < 0.001). They "
        "count as 0 in means and differences."
    ) in lines
    assert not any("Means are of the rows that a system has" in line for line in lines)
    status, _, error = evaluate(capsys, *run, "--undefined=nan")
    assert (status, "--undefined: expected a finite number" in error) == (2, True)
    assert "--undefined: goes with" in evaluate(capsys, old, "--protocol=npov", "--undefined=0")[2]


@pytest.mark.parametrize(
    ("label", "options"),
    [
        (None, []),
        (1, []),
        (1, ["--protocol=accuracy"]),
        (1, ["--protocol=thresholds"]),
    ],
)
def test_undefined_scores_count_as_a_score_that_there_can_be(capsys, tmp_path, label, options):
    labels = [label and i % 2 for i in range(20)]
    scores = [0.1, 0.2, 0.3, 0.4, None] * 4
    known = write(tmp_path / "known.jsonl", scores, labels, scorer="token_f1")
    name = "token_f1, c" if options == ["--protocol=accuracy"] else "c"
    status, lines, error = evaluate(capsys, known, *options, "--undefined=5")
    assert (status, lines) == (2, [])
    assert error == (
        f"faith-jax: --undefined=5: {name} has undefined scores of token_f1, whose scores are from "
        "0 to 1; give a value in this range, or leave the scorer out (--scorers=NAMES)."
    )
    # Scores beyond the range are those of another scorer, and others are not replaced.
    for others in ([0.1, 0.2, 0.3, 5.0, None] * 4, [0.1, 0.2, 0.3, 0.4, 0.5] * 4):
        other = write(tmp_path / "other.jsonl", others, labels, scorer="token_f1")
        assert evaluate(capsys, other, *options, "--undefined=5")[0] == 0


def test_accuracy_says_of_which_rows_it_is(capsys, tmp_path):
    scores = [None if i % 2 else 0.1 for i in range(30)] + [0.9 * (i % 2) for i in range(10)]
    file = write(tmp_path / "a.jsonl", scores, [i % 2 for i in range(40)])
    _, lines, _ = evaluate(capsys, file, "--protocol=accuracy")
    assert "s, c: of 40 rows, s undefined in 15." in lines
    path = write(tmp_path / "one.jsonl", [0.9], [1])
    _, lines, _ = evaluate(capsys, path, "--protocol=accuracy")
    assert cells_of(lines[3]) == ["s", "100.0"]  # of one row there is no interval
    assert any("1 row can say little" in line for line in lines)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "3___1--0"}', "predictions.jsonl:2: field 'prediction' is missing"),
        ('{"id": "3___1--1", "prediction": ""}', "predictions.jsonl:2: field 'id': '3___1--1' occ"),
    ],
)
def test_bad_predictions(capsys, tmp_path, offline_data_dir, line, message):
    path = tmp_path / "predictions.jsonl"
    path.write_text(f'{{"id": "3___1--1", "prediction": "SUPPORTS"}}\n{line}\n')
    arguments = (path, "--protocol=dialfact", "--dataset=dialfact/sample")
    status, _, error = evaluate(capsys, *arguments)
    assert (status, message in error) == (2, True), error


def test_the_worst_answers_of_many(capsys, tmp_path):
    scores = [(7 * i % 50) / 100 for i in range(50)]
    answers = {f"text {i}": [(score, f"answer {i % 25}")] for i, score in enumerate(scores)}
    path = write_answers(tmp_path / "mine.jsonl", answers)
    _, lines, _ = evaluate(capsys, path, "--worst=3")
    lowest = {}
    for i, score in enumerate(scores):
        lowest[i % 25] = min(lowest.get(i % 25, 1), score)
    expected = sorted(lowest.items(), key=lambda pair: pair[1])[:3]
    ties = {i % 25: str(i) for i, score in enumerate(scores) if score > lowest[i % 25]}
    assert [cells_of(line)[2:] for line in lines[-3:]] == [
        [f"{score:.2f}", f"answer {number} (also {ties[number]})"] for number, score in expected
    ]


@pytest.mark.parametrize("scorer", ["hhem_2_1_open", "token_f1"])
def test_the_threshold_of_a_judges_authors_is_no_guess(capsys, tmp_path, scorer):
    rows = (f"{i},{i / 30}\n" for i in range(30))
    (tmp_path / "answers.csv").write_text(f"id,{scorer}\n" + "".join(rows))
    _, lines, _ = evaluate(capsys, tmp_path / "answers.csv", f"--scorers={scorer}")
    assert f"{scorer} < 0.5, %" in lines[1]
    notes = ("hhem_2_1_open: its authors find a response supported above 0.5.", "Scores rank answ")
    assert [any(line.startswith(note) for line in lines) for note in notes] == [
        scorer == "hhem_2_1_open",
        scorer == "token_f1",
    ]


def test_scores_beyond_the_range_of_the_scorer_of_their_name(capsys, tmp_path):
    """F1 in per cent, as SQuAD's script writes it."""
    generator = random.Random(0)
    for name in ("old", "new"):
        rows = (f"{i},{generator.uniform(20, 90)}\n" for i in range(30))
        (tmp_path / f"{name}.csv").write_text("id,token_f1\n" + "".join(rows))
    files = (tmp_path / "old.csv", tmp_path / "new.csv")
    _, lines, _ = evaluate(capsys, *files, "--scorers=token_f1")
    assert cells_of(lines[1]) == ["system", "token_f1"]  # without a share below 0.5
    value, low, high = map(float, re.findall(r"[\d.]+", cells_of(lines[3])[1]))
    assert low < value < high
    assert any("are beyond the range of the scorer of this name, 0 to 1" in x for x in lines)


def test_two_systems_whose_answers_have_the_same_name(capsys, tmp_path):
    """As `score` writes them for old/answers.csv and new/answers.csv: both get corpus "answers"."""
    answers = {f"text {i}": [(0.1 * (i % 8), "x")] for i in range(24)}
    for name, scores in (("old", answers), ("new", answers)):
        (tmp_path / name).mkdir()
        write_answers(tmp_path / name / "answers.jsonl", scores)
    paths = [tmp_path / name / "answers.jsonl" for name in ("old", "new")]
    moved = [path.rename(tmp_path / f"{path.parent.name}.jsonl") for path in paths]
    status, lines, _ = evaluate(capsys, *moved)
    assert status == 0
    assert [cells_of(line)[:2] for line in lines[3:6]] == [
        ["answers", "old"],
        ["answers", "new"],
        ["answers", "new \u2212 old"],
    ]


def test_begin_without_its_sources_says_what_to_do(capsys, tmp_path):
    test = write(tmp_path / "test.jsonl", SCORES, LABELS, topic=list("aabbcc"))
    for development in (test, "split"):
        status, _, error = evaluate(
            capsys, test, "--protocol=begin", f"--development={development}"
        )
        assert status == 2
        assert "has no field 'source'; it has: topic. F1 is also shown for each value" in error
        assert (
            "name another field (--group-field=NAME), or leave this out (--group-field=)" in error
        )
