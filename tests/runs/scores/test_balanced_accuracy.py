import csv
import json
import math

import numpy as np
import pytest

from faith_jax.core.errors import FaithJaxError, InputError
from faith_jax.datasets.benchmarks.described_rows import LLM_AGGREFACT
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.evaluate_scores import evaluation

# As many rows as LLM-AggreFact's test part has.
SIZES = {
    "AggreFact-CNN": 558, "AggreFact-XSum": 558, "TofuEval-MediaS": 726, "TofuEval-MeetB": 772,
    "Wice": 358, "Reveal": 1710, "ClaimVerify": 1088, "FactCheck-GPT": 1566, "ExpertQA": 3702,
    "Lfqa": 1911, "RAGTruth": 16371,
}  # fmt: skip
CLAIMS_OF_A_DOCUMENT = 8


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def row(number, label, scores, corpus="one", document=None):
    grounding = [f"document {number if document is None else document}"]
    return {
        "id": f"{corpus}-{number}",
        "corpus": corpus,
        "label": label,
        "grounding": grounding,
        "scores": scores,
    }


def evaluated(files, **options):
    options = EvaluateOptions(protocol="balanced_accuracy", **options)
    return evaluation([str(file) for file in files], options)


def figures(outcome):
    """Returns the tidy rows by threshold, scorer and part."""
    return {(r["threshold"], r["scorer"], r["part"]): r for r in outcome.figures["rows"]}


def test_calls_at_one_half_and_at_tuned_thresholds(tmp_path):
    """Two parts with different scales: with tuning, each part has its own threshold."""
    test = [row(i, i % 2, {"a": 0.3 + 0.1 * (i % 2)}, "low") for i in range(20)]
    test += [row(i, i % 2, {"a": 0.7 + 0.1 * (i % 2)}, "high") for i in range(20)]
    development = [{**r, "id": f"dev {r['id']}"} for r in test]
    files = write(tmp_path / "test.jsonl", test), write(tmp_path / "dev.jsonl", development)
    outcome = evaluated(files[:1], development=files[1])
    by_key = figures(outcome)
    assert {part: by_key["0.5", "a", part]["balanced accuracy"] for part in ("low", "high")} == {
        "low": 0.5,
        "high": 0.5,
    }
    assert by_key["tuned", "a", "average"]["balanced accuracy"] == 1.0
    assert by_key["tuned", "a", "low"]["cut"] == pytest.approx(0.4)
    assert by_key["tuned", "a", "high"]["cut"] == pytest.approx(0.8)
    assert [r[:2] for r in outcome.table.rows] == [("0.5", "a"), ("tuned", "a")]
    assert outcome.table.columns == ("threshold", "scorer", "low", "high", "average")
    assert not any(key[0] == "tuned" for key in figures(evaluated(files[:1])))


def test_a_table_of_another_system(tmp_path):
    """The columns of the benchmark and a score: parts and documents are columns."""
    path = tmp_path / "mine.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("dataset", "doc", "claim", "label", "mine"))
        for i in range(40):
            part = ("Wice", "Reveal")[i % 4 // 2]
            # Every fifth is wrong.
            score = (i % 2 if i % 5 else 1 - i % 2) * 0.9
            writer.writerow((part, f"document {i // 8}", f"claim {i}", i % 2, score))
    outcome = evaluated([path], scorers=("mine",), slice_field="dataset", cluster_field="doc")
    by_key = figures(outcome)
    assert by_key["0.5", "mine", "average"]["balanced accuracy"] == pytest.approx(0.8)
    assert (by_key["0.5", "mine", "Wice"]["rows"], by_key["0.5", "mine", "Wice"]["units"]) == (
        20,
        5,
    )
    assert "Rows with the same doc are one unit: Wice 5 of 20 rows" in " ".join(outcome.table.notes)
    outcome = evaluated([path], scorers=("mine",))
    assert "Each row counts as independent in mine" in " ".join(outcome.table.notes)


def test_a_baseline_is_compared_by_pairs(tmp_path):
    rows = [
        row(i, i % 2, {"good": float(i % 2), "same": float(i % 2), "bad": float(i % 3 == 0)})
        for i in range(60)
    ]
    file = write(tmp_path / "s.jsonl", rows)
    outcome = evaluated([file], baseline="good")
    (further,) = outcome.further
    (worse,) = [row for row in outcome.figures["differences"] if row["scorer"] == "bad"]
    assert worse["difference"] == pytest.approx(-0.5)
    assert (worse["units"], worse["p_corrected"] < 0.001) == (60, True)
    cells = {r[1]: r[2:] for r in further.rows}
    assert cells["same"] == ("+0.0", "p = 1.000")
    difference, p_value = cells["bad"]
    assert difference.startswith("-50.0")
    assert p_value.startswith("p < 0.001")
    with pytest.raises(FaithJaxError, match=r"--baseline: there are no scores of 'god'.*'good'"):
        evaluated([file], baseline="god")


def test_scores_of_another_scale_have_no_row_at_one_half(tmp_path):
    rows = [row(i, i % 2, {"log": -3.0 + i % 2}) for i in range(20)]
    file = write(tmp_path / "s.jsonl", rows)
    with pytest.raises(FaithJaxError, match=r"No threshold for log: 0\.5 is one for scores from 0"):
        evaluated([file])
    outcome = evaluated([file], development=file)
    assert [r[:2] for r in outcome.table.rows] == [("tuned", "log")]
    assert "log: no row at 0.5" in outcome.table.notes[0]


@pytest.mark.parametrize(
    ("development", "message"),
    [
        ([row(0, 1, {"a": 0.1}, "two")], "no rows of the part 'one', only of two"),
        ([row(0, 1, {"b": 0.1})], "no scores of 'a' in the part 'one', only of b"),
        ([{"id": "1", "label": 1}], r"dev\.jsonl:1: field 'scores' is missing"),
        ([row(0, 2, {"a": 0.1})], r"dev\.jsonl:1: field 'label': expected 1, 0 or null, got 2"),
    ],
)
def test_a_development_part_that_does_not_fit(tmp_path, development, message):
    test = write(tmp_path / "test.jsonl", [row(i, i % 2, {"a": 0.5}) for i in range(4)])
    with pytest.raises(FaithJaxError, match=message):
        evaluated([test], development=write(tmp_path / "dev.jsonl", development))


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "balanced_accuracy"},
        {"protocol": "hallucinations"},
        {"protocol": "begin", "group_field": ""},
    ],
)
def test_undefined_scores_of_development_rows_are_told(tmp_path, options):
    rows = [row(i, i % 2, {"a": 0.1 + 0.4 * (i % 2), "b": 0.01 * i}) for i in range(40)]
    test = write(tmp_path / "test.jsonl", rows)
    for gap in rows[1:15:2]:
        gap["scores"]["b"] = None
    options = options | {"development": write(tmp_path / "dev.jsonl", rows)}
    note = "one (development): of 40 rows, b undefined in 7."
    outcome = evaluation([test], EvaluateOptions(**options))
    assert note in outcome.table.notes
    outcome = evaluation([test], EvaluateOptions(**options, undefined=0.5))
    assert note not in outcome.table.notes


def test_development_rows_of_one_class_or_another_scale_are_told(tmp_path):
    test = write(tmp_path / "test.jsonl", [row(i, i % 2, {"a": 50.0 + i}) for i in range(8)])
    one_class = write(tmp_path / "dev.jsonl", [row(i, 1, {"a": 60.0}) for i in range(4)])
    (note,) = [n for n in evaluated([test], development=one_class).table.notes if "tuned:" in n][1:]
    assert note.startswith("tuned: no threshold for one, whose development rows are not of both")
    shares = write(tmp_path / "d.jsonl", [row(i, i % 2, {"a": i / 8}) for i in range(8)])
    notes = " ".join(evaluated([test], development=shares).table.notes)
    assert "all test scores of one (50 to 57) are outside of the range of its development" in notes
    inside = write(tmp_path / "e.jsonl", [row(i, i % 2, {"a": 52.0 + i}) for i in range(8)])
    assert "outside" not in " ".join(evaluated([test], development=inside).table.notes)


@pytest.mark.parametrize("order", [1, -1])
def test_two_parts_of_one_name(tmp_path, order):
    """A part of one file, and another file of this name without parts."""
    parts = [row(n, n % 2, {"s": 0.5}, "b") | {"part": "one"} for n in range(4)]
    whole = [row(n, n % 2, {"s": 0.5}, "one") for n in range(4)]
    path = write(tmp_path / "rows.jsonl", [*parts, *whole][::order])
    with pytest.raises(InputError, match="the part 'one' is in another file too"):
        evaluated([path], slice_field="part")


def test_other_mistakes(tmp_path):
    test = write(tmp_path / "test.jsonl", [row(i, i % 2, {"a": 0.5}) for i in range(4)])
    with pytest.raises(FaithJaxError, match="--development: give a file"):
        evaluated([test], development="split")
    again = write(tmp_path / "b.jsonl", [{**row(9, 1, {"a": 0.5}, "b"), "fields": {"part": "one"}}])
    with pytest.raises(FaithJaxError, match="b: the part 'one' is in another file too"):
        evaluated([test, again], slice_field="part")


def test_a_part_of_one_class_is_no_part_of_the_average(tmp_path):
    rows = [row(i, 1, {"a": 1.0}, "ones") for i in range(5)]
    rows += [row(i, i % 2, {"a": float(i % 2)}, "both") for i in range(20)]
    outcome = evaluated([write(tmp_path / "s.jsonl", rows)])
    assert outcome.table.rows[0][2] == "\u2013"
    average = figures(outcome)["0.5", "a", "average"]
    assert (average["balanced accuracy"], average["rows"], average["units"]) == (1.0, 20, 20)
    assert any("not both classes in ones" in note for note in outcome.table.notes)


# The experiment: generated data of the benchmark's size, in its form, with a planted effect.


def raw_file(path, seed):
    generator = np.random.default_rng(seed)
    with open(path, "w", encoding="utf-8") as file:
        for part, size in SIZES.items():
            documents = max(2, size // CLAIMS_OF_A_DOCUMENT)
            for number in range(size):
                document = generator.integers(documents)
                fields = {
                    "dataset": part,
                    "doc": f"Document {document} of {part} tells of number {document}.",
                    "claim": f"Claim {number}.",
                    "label": int(generator.random() < 0.6),
                    "contamination_identifier": f"{number:064x}",
                }
                file.write(json.dumps(fields) + "\n")
    return path


def scored_file(path, examples, seed, right):
    """Writes scores of a judge that is right about a share of the claims."""
    generator = np.random.default_rng(seed)
    rows = []
    for example in examples:
        call = example["label"] if generator.random() < right else 1 - example["label"]
        score = 0.5 * call + 0.5 * generator.random()
        fields = {name: example[name] for name in ("id", "corpus", "label")}
        rows.append(
            {**fields, "grounding": [example["grounding"]], "scores": {"judge": min(score, 1.0)}}
        )
    return write(path, rows)


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    """The examples of generated raw files: the development and the test part."""
    folder = tmp_path_factory.mktemp("aggrefact")
    return [
        list(LLM_AGGREFACT.examples({"test.jsonl": raw_file(folder / "raw.jsonl", seed)}, "test"))
        for seed in (1, 2)
    ]


@pytest.mark.slow
def test_a_planted_effect_shows_and_vanishes(benchmark, tmp_path):
    development, test = benchmark
    assert len(test) == sum(SIZES.values()) == 29320
    for right, expected in ((0.8, 0.8), (0.5, 0.5)):
        files = [
            scored_file(tmp_path / f"{name}.jsonl", examples, seed, right)
            for name, examples, seed in (("dev", development, 3), ("test", test, 4))
        ]
        by_key = figures(evaluated(files[1:], development=files[0]))
        for kind in ("0.5", "tuned"):
            average = by_key[kind, "judge", "average"]
            assert average["low"] < expected < average["high"]
            # Binomial: the mean of eleven parts, the smallest of 358 rows, is surer than 3 points.
            assert average["high"] - average["low"] < 0.03
        parts = [by_key["0.5", "judge", part] for part in SIZES]
        assert sum(part["low"] < expected < part["high"] for part in parts) >= 9
        assert [part["rows"] for part in parts] == list(SIZES.values())


def test_claims_of_a_document_are_no_independent_evidence(tmp_path):
    """A judge that is right or wrong about whole documents: errors in 8 rows count as one."""
    rng = np.random.default_rng(5)
    is_right = np.repeat(rng.random(500) < 0.8, 8)
    labels = (rng.random(4000) < 0.6).astype(int)
    calls = np.where(is_right, labels, 1 - labels)
    rows = [
        row(number, int(label), {"judge": float(call)}, document=number // 8)
        for number, (label, call) in enumerate(zip(labels, calls, strict=True))
    ]
    scored = write(tmp_path / "test.jsonl", rows)
    wide, narrow = (
        figures(evaluated([scored], cluster_field=field))["0.5", "judge", "one"]
        for field in ("auto", "none")
    )
    assert wide["balanced accuracy"] == narrow["balanced accuracy"]
    assert (wide["units"], narrow["units"]) == (500, 4000)
    ratio = (wide["high"] - wide["low"]) / (narrow["high"] - narrow["low"])
    assert ratio == pytest.approx(math.sqrt(8), rel=0.15)
