"""`npov inputs` and `npov sets`: combinations of arguments, and responses with errors."""

import json

import pytest

from tests.papers.npov.npov_study import SPLITS, topics, write_marks, write_responses
from tests.papers.planted import write_rows
from tests.papers.workflows import rows_of


@pytest.fixture
def knowledge(tmp_path):
    write_rows(tmp_path / "knowledge" / "topics.jsonl", topics())
    return tmp_path / "knowledge"


@pytest.fixture
def sets(tmp_path, knowledge):
    """The command that makes sets of the responses in the folder."""
    options = (f"--input={tmp_path}/responses.jsonl", f"--output={tmp_path}/data")
    return ("npov", "sets", f"--knowledge={knowledge}", *options)


def made(tmp_path):
    return {path.stem: rows_of(path) for path in (tmp_path / "data").glob("*.jsonl")}


def all_but_one(row):
    """Tells the arguments, except in one response per topic."""
    if row["id"].endswith("04-t0.7"):
        return "Nobody knows."
    pro, con = (" ".join(row[f"{side}_arguments"]) for side in ("pro", "con"))
    return f"{row['query']} Supporters say: {pro} Critics say: {con}"


def test_inputs_are_of_both_temperatures(command, tmp_path, knowledge):
    options = (f"--output={tmp_path / 'inputs'}", "--combinations=4", "--splits=test")
    out = command.succeeds("npov", "inputs", f"--knowledge={knowledge}", *options)
    greedy, sampled = (rows_of(tmp_path / "inputs" / f"t{t}.jsonl") for t in ("0.0", "0.7"))
    expected = [f"{name}-{n:02d}-t0.0" for name in SPLITS["test"] for n in (1, 2, 3)]
    assert [row["id"] for row in greedy] == expected
    assert len(sampled) == 8
    assert all(len(row["pro_arguments"]) == len(row["con_arguments"]) for row in sampled)
    assert "8 rows for temperature 0.7" in out


def test_data_sets_nest_and_keep_to_their_topics(command, tmp_path, knowledge, sets):
    write_responses(tmp_path / "responses.jsonl", knowledge, all_but_one)
    out = command.succeeds(*sets)
    assert "STAND-IN for the paper's annotation: 24 of 28 responses count as error-free" in out
    splits = made(tmp_path)
    tests = [splits.pop("test_unparaphrased_synthetic"), splits.pop("test_paraphrased_synthetic")]
    whole = splits.pop("test")
    assert [{k: v for k, v in row.items() if k != "corpus"} for row in whole] == [
        row for rows in tests for row in rows
    ]
    corpora = [
        *["unparaphrased synthetic"] * len(tests[0]), *["paraphrased synthetic"] * len(tests[1]),
    ]  # fmt: skip
    assert [row["corpus"] for row in whole] == corpora
    assert set(splits) == {"train_synth", "train_para", "train_dev", "validation"}
    # 6 of 7 responses a topic are error-free, and each has 4 rows, or 3 where nothing is unused.
    synth, para, dev = (splits[f"train_{name}"] for name in ("synth", "para", "dev"))
    assert para[: len(synth)] == synth
    assert dev[: len(para)] == para
    assert (len(para), len(dev)) == (2 * len(synth), len(para) + len(splits["validation"]))
    assert {row["topic"] for row in para} == {"tea"}
    assert {row["topic"] for row in dev[len(para) :]} == {"mate"}
    assert {row["topic"] for row in whole} == {"cocoa", "coffee"}
    for plain, twin in zip(synth, para[len(synth) :], strict=True):
        assert twin["id"] == f"{plain['id']}-paraphrased"
        assert twin["response"] == plain["response"]
        assert all(text.startswith("Drinkers") for text in twin["pro_arguments"])
        assert bool(twin["added_argument"]) == bool(plain["added_argument"])
        assert twin["removed_argument"].startswith("Drinkers" if plain["removed_argument"] else "")
    for row in synth:
        for start, end in row["hallucinated_spans"]:
            # The topic's name is in the query too.
            assert row["removed_argument"].endswith(f" {row['response'][start:end]}.")
    counts, _ = json.loads((tmp_path / "data" / "sets.json").read_text())["tables"]
    (tea,) = (row for row in counts["rows"] if row[1] == "tea")
    assert counts["columns"] == [
        "split", "topic", "responses", "error-free", "left out", "unused told", "other words",
        "empty",
    ]  # fmt: skip
    assert tea == ["train", "tea", 7, 6, 1, 0, 0, 0]


def test_marks_make_the_organic_sets(command, tmp_path, knowledge, sets):
    rows = write_responses(tmp_path / "responses.jsonl", knowledge)

    def marks(row):
        return {
            "01-t0.0": {"hallucination": True, "unsupported_spans": [[0, 5]]},
            "01-t0.7": {"coverage": True, "missing_arguments": ["pro 1", "con 1"]},
            "02-t0.0": {"repetition": True},
            "03-t0.7": None,
        }.get(row["id"].partition("-")[2], {})

    write_marks(tmp_path / "marks.jsonl", rows, marks)
    command.succeeds(*sets)
    before = len(made(tmp_path)["test_unparaphrased_synthetic"])
    out = command.succeeds(*sets, f"--marks={tmp_path / 'marks.jsonl'}")
    assert "Error-free by people's marks" in out
    assert "STAND-IN" not in out
    splits = made(tmp_path)
    assert len(splits["test_unparaphrased_synthetic"]) < before  # fewer are error-free
    organic, ambiguous = splits["test_full_organic"], splits["test_ambiguous_organic"]
    # Of 7 responses to each of 2 topics, 3 are error-free and 2 have full errors.
    assert [row["error"] for row in organic].count("organic") == 4
    assert [row["error"] for row in organic].count("none") == 6
    missing = next(row for row in organic if row["has_coverage_error"])
    assert missing["added_argument"] == [missing["pro_arguments"][0], missing["con_arguments"][0]]
    assert [row["error"] for row in ambiguous].count("organic") == 2
    dev, org = splits["train_dev"], splits["train_org"]
    assert org[: len(dev)] == dev
    assert [row["error"] for row in org[len(dev) :]] == ["organic"] * 4
    assert {row["topic"] for row in org[len(dev) :]} == {"tea", "mate"}
    assert list(dict.fromkeys(row["corpus"] for row in splits["test"])) == [
        "full organic", "unparaphrased synthetic", "paraphrased synthetic", "ambiguous organic",
    ]  # fmt: skip
    command.succeeds(*sets)  # sets that cannot be made any more go
    assert "test_full_organic" not in made(tmp_path)


def test_mistakes(command, tmp_path, knowledge, sets):
    path = tmp_path / "responses.jsonl"
    (row, *_) = write_responses(path, knowledge, lambda row: "Nobody knows.", splits=("test",))
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({"id": row["id"], "annotators": 2}) + "\n")
    for options, message in (
        ((), "none of 14 responses to a test topic is error-free"),
        ((f"--marks={labels}",), "name the file of `annotate read --output`"),
        (("--least-recall=2",), "--least-recall: expected a share in [0, 1], got 2;"),
        (("--errors-per-response=0",), "the kinds of errors, or published, got 0"),
    ):
        assert message in command.refuses(*sets, *options)
    for change, message in (
        ({"topic": "milk"}, f"{path}:1: field 'topic': 'milk' is no topic of --knowledge"),
        ({"response": None}, f"{path}:1: field 'response'"),
        ({"pro_arguments": "x"}, f"{path}:1: field 'pro_arguments': expected a list"),
    ):
        write_rows(path, [row | change])
        assert message in command.refuses(*sets)
    write_rows(path, [row, row])
    assert f"{path}:2: field 'id': {row['id']!r} occurs twice." in command.refuses(*sets)
    inputs = ("npov", "inputs", f"--output={tmp_path / 'x'}")
    assert "no such file" in command.refuses(*inputs, f"--knowledge={tmp_path}")
    error = command.refuses(*inputs, f"--knowledge={knowledge}", "--splits=tets")
    assert "no topic has the split 'tets', only train, validation, test" in error
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "data").exists()
