import json
import math

import numpy as np
import pytest

from faith_jax.core.errors import FaithJaxError
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.evaluate_scores import evaluation
from faith_jax.statistics.detection import called_spans

TEXT = "Tea is a leaf, and it grows on trees in Rome."


def words_of(text, wrong):
    """Each word with the score 0 if it is among the wrong ones, else 1."""
    words, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        words.append([start, start + len(word), float(word not in wrong), None])
        start += len(word)
    return words


def row(number, label, score, spans, wrong=(), corpus="QA", text=TEXT):
    return {
        "id": f"{corpus}-{number}",
        "corpus": corpus,
        "label": label,
        "grounding": [f"document {number}"],
        "generated_text": text,
        "scores": {"judge": score},
        "words": {"judge": words_of(text, wrong)},
        "fields": {"hallucinated_spans": json.dumps(spans)},
    }


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def evaluated(*files, **options):
    return evaluation(files, EvaluateOptions(protocol="hallucinations", **options))


def figures(outcome):
    return {(r["of"], r["scorer"], r["figure"]): r["value"] for r in outcome.figures["rows"]}


def test_responses_and_characters(tmp_path):
    """Characters of all responses are pooled, as in RAGTruth."""
    start = TEXT.index("trees in Rome")
    span = [start, start + len("trees in Rome")]  # 13 characters
    rows = [
        row(0, 0, 0.1, [span], ("on", "trees")),  # "on trees": 8 called, "trees" found
        row(1, 0, 0.9, [[0, 3], [1, 3]]),  # 3 marked, none called
        row(2, 1, 0.2, [], ("Tea",)),  # 3 called in vain
        row(3, 1, 0.8, []),
    ]
    by_key = figures(evaluated(write(tmp_path / "s.jsonl", rows)))
    assert {f: by_key["responses", "judge", f"QA {f}"] for f in ("P", "R", "F1")} == {
        "P": 0.5,
        "R": 0.5,
        "F1": 0.5,
    }
    precision, recall = 5 / 11, 5 / 16
    assert by_key["characters", "judge", "QA P"] == pytest.approx(precision)
    assert by_key["characters", "judge", "QA R"] == pytest.approx(recall)
    f1 = 2 * precision * recall / (precision + recall)
    assert by_key["characters", "judge", "QA F1"] == pytest.approx(f1)


def test_parts_are_pooled(tmp_path):
    rows = [row(i, i % 2, 0.1, [], corpus="QA") for i in range(4)]
    rows += [row(i, i % 2, float(i % 2), [], corpus="Summary") for i in range(8)]
    outcome = evaluated(write(tmp_path / "s.jsonl", rows))
    by_key = figures(outcome)
    # Of QA 2 of 4 that are called, of Summary all 4.
    assert by_key["responses", "judge", "QA P"] == 0.5
    assert by_key["responses", "judge", "overall P"] == pytest.approx(6 / 8)
    assert outcome.table.columns[2:] == tuple(
        f"{part} {figure}" for part in ("QA", "Summary", "overall") for figure in ("P", "R", "F1")
    )
    # Nobody marked anything and nothing is called: no figure.
    assert outcome.table.rows[1][2:] == ("\u2013",) * 9


def test_a_threshold_of_a_development_part(tmp_path):
    rows = [row(i, i % 2, 0.7 + 0.2 * (i % 2), []) for i in range(10)]
    test = write(tmp_path / "s.jsonl", rows)
    assert figures(evaluated(test))["responses", "judge", "QA R"] == 0.0
    outcome = evaluated(test, development=test)
    assert figures(outcome)["responses", "judge", "QA F1"] == 1.0
    assert (
        "up to 0.7 by judge, tuned on the development part by F1. characters"
        in (outcome.table.notes[0])
    )
    # Nobody marked a word there.
    assert outcome.table.notes[0].endswith("words with scores below 0.5.")
    (cut,) = {r["cut"] for r in outcome.figures["rows"] if r["of"] == "responses"}
    assert 0.7 < cut < 0.7 + 1e-9


def test_a_threshold_of_words(tmp_path):
    """Marked words have 0.7 and others 0.8 or 0.9, so none is called at the cut of 0.5."""
    words = words_of(TEXT, ())
    marked = [words[2][:2]]
    scored = [
        [*word[:2], 0.7 if i == 2 else 0.8 + 0.1 * (i % 2), None] for i, word in enumerate(words)
    ]
    rows = [{**row(i, i % 2, 0.1, [] if i % 2 else marked)} for i in range(6)]
    rows = [{**r, "words": {"judge": scored[3:] if r["label"] else scored}} for r in rows]
    file = write(tmp_path / "s.jsonl", rows)
    assert figures(evaluated(file))["characters", "judge", "QA R"] == 0.0
    outcome = evaluated(file, development=file)
    assert figures(outcome)["characters", "judge", "QA F1"] == 1.0
    (cut,) = {r["cut"] for r in outcome.figures["rows"] if r["of"] == "characters"}
    assert 0.7 < cut < 0.7 + 1e-9


def test_rows_without_spans_or_words(tmp_path):
    rows = [{**row(i, i % 2, 0.1, []), "fields": {}} for i in range(4)]
    notes = " ".join(evaluated(write(tmp_path / "a.jsonl", rows)).table.notes)
    assert "No row of characters for judge: the rows of QA have no field 'hallucinated_sp" in notes
    rows = [{**row(i, i % 2, 0.1, []), "words": {}} for i in range(4)]
    notes = " ".join(evaluated(write(tmp_path / "b.jsonl", rows)).table.notes)
    assert "No row of characters for judge: the rows have no scores of its words" in notes


@pytest.mark.parametrize("spans", ["[[40, 46]]", "[[3, 1]]", "[[1]]", "no JSON"])
def test_spans_that_are_none(tmp_path, spans):
    rows = [row(i, i % 2, 0.1, []) for i in range(3)]
    rows[1]["fields"]["hallucinated_spans"] = spans
    with pytest.raises(
        FaithJaxError,
        match=r"QA: row 'QA-1': field 'hallucinated_spans': expected a JSON list of \[start, end\]",
    ):
        evaluated(write(tmp_path / "s.jsonl", rows))


def test_a_development_part_that_does_not_fit(tmp_path):
    test = write(tmp_path / "s.jsonl", [row(i, i % 2, 0.1, []) for i in range(4)])
    one_class = write(tmp_path / "d.jsonl", [row(i, 1, 0.1, []) for i in range(4)])
    with pytest.raises(FaithJaxError, match="--development: all rows with scores of 'judge' have"):
        evaluated(test, development=one_class)
    unscored = [{**row(0, 1, 0.1, []), "scores": {"b": 0.1}, "words": {}}]
    with pytest.raises(FaithJaxError, match="--development: QA has no scores of 'judge'"):
        evaluated(test, development=write(tmp_path / "b.jsonl", unscored))


def test_a_planted_effect_shows_and_vanishes(tmp_path):
    """A realistic number of responses; marked words or random words get low scores."""
    generator = np.random.default_rng(0)
    for is_planted in (True, False):
        rows = []
        for number in range(900):
            words = TEXT.split()
            is_wrong = generator.random(len(words)) < 0.2
            marked, scored, start = [], [], 0
            called = is_wrong if is_planted else generator.random(len(words)) < 0.2
            for word, wrong, low in zip(words, is_wrong, called, strict=True):
                start = TEXT.index(word, start)
                scored.append([start, start + len(word), 0.1 if low else 0.9, None])
                marked += [[start, start + len(word)]] if wrong else []
                start += len(word)
            score = 1 - float(called.any()) * 0.9
            rows.append({**row(number, int(not marked), score, marked), "words": {"judge": scored}})
        outcome = evaluated(write(tmp_path / "s.jsonl", rows))
        by_key = {(r["of"], r["figure"]): r for r in outcome.figures["rows"]}
        f1, precision = by_key["characters", "QA F1"], by_key["characters", "QA P"]
        if is_planted:
            # White space between two marked words is called, but nobody marked it.
            assert by_key["characters", "QA R"]["value"] == 1.0
            assert 0.95 < f1["value"] < 1.0
            assert by_key["responses", "QA F1"]["value"] == 1.0
        else:
            assert f1["low"] < 0.2 < f1["high"]
            assert abs(precision["value"] - 0.2) < 0.03
        assert not math.isnan(f1["low"])


def test_words_side_by_side_are_one_span():
    words = words_of(TEXT, ("on", "trees", "Rome."))
    start = TEXT.index("on trees")
    rome = TEXT.index("Rome.")
    assert called_spans(words, TEXT, 0.5) == [
        (start, start + len("on trees")),
        (rome, rome + len("Rome.")),
    ]
    # A word of the grounding is not one of the response, and a score at the cut is not below it.
    assert called_spans([[0, 3, 0.0, 0], [4, 6, 0.5, None]], TEXT, 0.5) == []
