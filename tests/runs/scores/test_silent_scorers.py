"""A scorer without scores where it would be wrong: no protocol may let it win unnoticed."""

import json

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.evaluate_scores import evaluation

ROWS, SILENT = 60, 12
PROTOCOLS = {
    "begin": "A row without a score is called unfaithful",
    "verifiable": "A claim without a score is called not verifiable",
    "balanced_accuracy": "Figures are of the 48 of 60 rows that every scorer has",
    "hallucinations": "Figures are of the 48 of 60 rows that every scorer has",
}


def write(path, seed, silent):
    """Writes scores of `speaks` and of its copy `silent`, which lacks the scores of some rows.

    These are a fifth of the rows: the unfaithful ones with the highest scores ("wrong"), or random
    ones, the same for both scorers ("drawn"); "" = none.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(ROWS) % 2
    scores = 0.3 + 0.4 * rng.random(ROWS) + 0.25 * (labels == 1)
    worst = np.argsort(np.where(labels == 0, -scores, 1.0))[:SILENT]
    missing = {"wrong": worst, "drawn": rng.permutation(ROWS)[:SILENT], "": []}[silent]
    rows = []
    for number in range(ROWS):
        score = float(scores[number])
        is_missing = number in missing
        by_scorer = {
            "speaks": None if is_missing and silent == "drawn" else score,
            "silent": None if is_missing else score,
        }
        fields = {"source": "wow" if number % 3 else "tc"}
        row = {"id": str(number), "corpus": "c", "generated_text": "Yes."}
        rows.append(row | {"label": int(labels[number]), "scores": by_scorer, "fields": fields})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def evaluated(tmp_path, protocol, silent, **options):
    development = write(tmp_path / "development.jsonl", 1, silent)
    test = write(tmp_path / "test.jsonl", 2, silent)
    options = EvaluateOptions(protocol=protocol, development=development, **options)
    return evaluation([test], options)


def figures(outcome, scorer):
    """Returns all figures of a scorer."""
    rows = [row for row in outcome.figures["rows"] if row["scorer"] == scorer]
    assert rows
    return [{name: value for name, value in row.items() if name != "scorer"} for row in rows]


def warnings(outcome):
    return [note for note in outcome.table.notes if "Warning" in note]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_silence_is_warned_of_and_its_share_is_shown(tmp_path, protocol):
    outcome = evaluated(tmp_path, protocol, "wrong")
    (warning,) = warnings(outcome)
    assert warning == (
        "c: Warning: silent is undefined in 20.0% of the rows with a label, speaks in 0.0% "
        f"(p < 0.001). {PROTOCOLS[protocol]}; --undefined=VALUE counts an undefined score as VALUE."
    )
    shares = outcome.further[-1]
    assert shares.title == "Undefined scores of the rows with a label"
    assert [row[0] for row in shares.rows] == [
        "silent: undefined, %",
        "silent \u2212 speaks: undefined, %",
    ]
    assert shares.rows[0][1].startswith("20.0* (")
    assert shares.rows[1][1].startswith("+20.0* (")
    assert outcome.figures["undefined"]["silent: undefined, %"] == {"c": shares.rows[0][1]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scorers_that_are_silent_on_the_same_rows_are_not_warned_of(tmp_path, protocol):
    outcome = evaluated(tmp_path, protocol, "drawn")
    assert not warnings(outcome)
    assert figures(outcome, "silent") == figures(outcome, "speaks")
    labels = [row[0] for row in outcome.further[-1].rows]
    assert labels == ["speaks: undefined, %", "silent: undefined, %"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_silence_nothing_is_added(tmp_path, protocol):
    outcome = evaluated(tmp_path, protocol, "")
    assert not warnings(outcome)
    assert not outcome.further
    assert "undefined" not in outcome.figures
    assert figures(outcome, "silent") == figures(outcome, "speaks")


@pytest.mark.parametrize("protocol", ["balanced_accuracy", "hallucinations"])
def test_a_threshold_is_tuned_on_the_rows_that_all_have(tmp_path, protocol):
    """With a threshold tuned on its easy rows, the silent copy would win on the common rows."""
    outcome = evaluated(tmp_path, protocol, "wrong")
    assert figures(outcome, "silent") == figures(outcome, "speaks")


def write_systems(folder, missing):
    """Writes a file for each system; the systems in `missing` lack the rows they get wrong."""
    rng = np.random.default_rng(0)
    labels = np.arange(ROWS) % 2
    wrong = rng.permutation(ROWS)[:SILENT]
    files = []
    for system in ("speaks", "silent"):
        rows = []
        # In another order, and with another corpus of its own.
        for number in range(ROWS) if system == "speaks" else reversed(range(ROWS)):
            is_wrong = number in wrong
            score = None if is_wrong and system in missing else float(labels[number] != is_wrong)
            row = {"id": str(number), "corpus": "c", "generated_text": "Yes."}
            row |= {"label": int(labels[number]), "fields": {"system": system}}
            rows.append(row | {"scores": {"critic": score}})
        rows.append(rows[0] | {"corpus": system, "scores": {"critic": 1.0}})
        path = folder / f"{system}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        files.append(str(path))
    return files


@pytest.mark.parametrize("missing", [("silent",), ("silent", "speaks"), ()])
def test_systems_that_are_silent_are_warned_of_in_accuracy(tmp_path, missing):
    files = write_systems(tmp_path, missing)

    def accuracies(**options):
        outcome = evaluation(files, EvaluateOptions(protocol="accuracy", **options))
        rows = outcome.figures["rows"]
        return {row["system"]: row["accuracy"] for row in rows if row["corpus"] == "c"}, outcome

    shares, outcome = accuracies()
    expected = {name: 1.0 if name in missing else 0.8 for name in ("speaks", "silent")}
    assert shares == pytest.approx(expected)
    assert len(warnings(outcome)) == (len(missing) == 1)
    assert bool(outcome.further) == bool(missing)
    if len(missing) == 1:
        assert warnings(outcome)[0].startswith(
            "c: Warning: silent is undefined in 20.0% of the rows with a label, speaks in 0.0% "
            "(p < 0.001). Accuracies are of the rows that a system has; --undefined=VALUE counts"
        )
    # Half of what is called wrongly is labelled 0, near enough.
    shares, outcome = accuracies(undefined=1.0)
    assert not warnings(outcome)
    assert all(0.8 <= share < 1 for share in shares.values())


@pytest.mark.parametrize(("protocol", "figure"), [("begin", "F1"), ("verifiable", "Acc")])
def test_a_null_call_stays_what_the_paper_has_or_counts_as_the_user_says(
    tmp_path, protocol, figure
):
    def gain(**options):
        outcome = evaluated(tmp_path, protocol, "wrong", **options)
        (silent,), (speaks,) = (figures(outcome, name) for name in ("silent", "speaks"))
        return silent[figure] - speaks[figure], outcome

    won, outcome = gain()
    assert won > 5
    assert any("An undefined score" in note for note in outcome.table.notes)
    # As a high score of unfaithful rows, silence gains next to nothing.
    lost, outcome = gain(undefined=0.69)
    assert abs(lost) < won / 2
    assert not warnings(outcome)
    assert "Undefined scores count as 0.69." in outcome.table.notes
    assert not any("An undefined score" in note for note in outcome.table.notes)
    assert outcome.further[-1].rows[0][1].startswith("20.0")


@pytest.mark.parametrize("protocol", ["balanced_accuracy", "hallucinations"])
def test_corpora_of_different_scorers_are_refused(tmp_path, protocol):
    files = []
    for name in ("a", "b"):
        row = {"corpus": name, "generated_text": "Yes.", "scores": {f"of_{name}": 0.5}}
        rows = [row | {"id": str(number), "label": number % 2} for number in range(20)]
        files.append(str(tmp_path / f"{name}.jsonl"))
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    with pytest.raises(ConfigError, match="'b' has scores of of_b, but 'a' of of_a"):
        evaluation(files, EvaluateOptions(protocol=protocol))
