import json

import numpy as np
import pytest

from faith_jax.cli import main


@pytest.fixture
def scored(tmp_path):
    """A file of 300 scored rows, two of each grounding; 30% have an error, which scores lower."""
    rng = np.random.default_rng(4)
    rows = []
    for number in range(300):
        label = int(rng.random() < 0.7)
        fields = {"id": str(number), "corpus": "bot", "grounding": [f"Page {number // 2}."]}
        scores = {"good": rng.normal(3 * label), "blind": rng.normal()}
        rows.append(fields | {"generated_text": "Yes.", "label": label, "scores": scores})
    path = tmp_path / "scored.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def figures(path, tmp_path, *options):
    output = str(tmp_path / "figures.json")
    assert main(["evaluate", str(path), "--protocol=thresholds", f"--json={output}", *options]) == 0
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    return {(row["scorer"], row["wish"].split()[0]): row for row in rows}


def test_wishes_are_fulfilled_on_held_out_rows_where_the_scorer_sees(scored, tmp_path, capsys):
    by_wish = figures(scored, tmp_path, "--catch=0.8", "--risk=0.1")
    catch, accept = by_wish["good", "read"], by_wish["good", "accept"]
    assert catch["low"] < 0.8 < catch["high"]
    assert catch["rows"] < 0.4
    assert accept["low"] < 0.1 < accept["high"]
    assert accept["rows"] > 0.5
    assert catch["units"] == 150
    # With a blind scorer, people must read most rows and can accept almost none.
    assert by_wish["blind", "read"]["rows"] > 0.7
    assert by_wish["blind", "accept"]["rows"] < 0.1
    printed = capsys.readouterr().out
    assert "rows with the same grounding are one unit: 150 groups of 300 rows" in printed
    assert f"<= {catch['threshold']:.4g}" in printed


@pytest.mark.parametrize("option", ["--catch=0", "--catch=2", "--risk=1", "--risk=x"])
def test_wrong_wishes(scored, option, capsys):
    assert main(["evaluate", str(scored), "--protocol=thresholds", option]) == 2
    assert f"{option.partition('=')[0]}: expected" in capsys.readouterr().err


def test_nothing_is_invented_where_no_rows_can_be_held_out(scored, tmp_path, capsys):
    rows = [json.loads(line) for line in scored.read_text().splitlines()]
    for name, grounding, reason in (
        ("one", lambda row: "Page.", "the rows of the only group cannot be held out"),
        ("two", lambda row: f"Page {row['label']}.", "all errors are in one fold"),
    ):
        path = tmp_path / f"{name}.jsonl"
        changed = [row | {"grounding": [grounding(row)]} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in changed))
        catch = figures(path, tmp_path)["good", "read"]
        assert catch["threshold"] is not None
        assert catch["share"] is catch["rows"] is catch["low"] is None
        printed = capsys.readouterr().out
        assert f"good, read 90% of the errors: unknown on held-out rows, as {reason}" in printed
        assert "0.0%" not in printed
    # The same rows as units of their own have figures.
    assert 0 < figures(path, tmp_path, "--cluster-field=none")["good", "read"]["rows"] < 1


def test_errors_without_a_score_are_told_and_can_be_counted(scored, tmp_path, capsys):
    rows = [json.loads(line) for line in scored.read_text().splitlines()]
    errors = [row for row in rows if row["label"] == 0]
    for row in errors[::2]:
        row["scores"]["good"] = None
    scored.write_text("".join(json.dumps(row) + "\n" for row in rows))
    silent = len(errors[::2])
    figures(scored, tmp_path, "--scorers=good")
    note = f"bot: {silent} of {len(errors)} errors have no score, and are in no share"
    assert note in capsys.readouterr().out
    counted = figures(scored, tmp_path, "--scorers=good", "--undefined=-9", "--catch=0.5")
    printed = capsys.readouterr().out
    assert "have no score" not in printed
    assert "Undefined scores count as -9." in printed
    assert counted["good", "read"]["rows"] == pytest.approx(silent / len(rows), abs=0.02)


def test_a_threshold_does_not_depend_on_the_gaps_of_other_scorers(scored, tmp_path, capsys):
    rows = [json.loads(line) for line in scored.read_text().splitlines()]
    all_gaps = {"blind": range(0, 300, 3)}, {"blind": range(0, 300, 2), "good": range(1, 300, 2)}
    for number, gaps in enumerate(all_gaps):
        for scorer, places in gaps.items():
            for place in places:
                rows[place]["scores"][scorer] = None
        path = tmp_path / f"gaps_{number}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        alone = {}
        for scorer in ("good", "blind"):
            alone |= figures(path, tmp_path, f"--scorers={scorer}")
        capsys.readouterr()
        assert figures(path, tmp_path) == alone
        printed = capsys.readouterr().out.splitlines()
        for scorer in gaps:
            missing = sum(row["scores"][scorer] is None for row in rows)
            assert f"bot, {scorer}: of 300 rows, {scorer} undefined in {missing}." in printed
    # If all scorers lack the same rows, a note is of the corpus.
    for row in rows:
        row["scores"]["blind"] = row["scores"]["good"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    figures(path, tmp_path)
    assert "bot: of 300 rows, good undefined in 150, blind undefined in 150." in (
        capsys.readouterr().out.splitlines()
    )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--protocol=thresholds"], "bot"),
        (["--protocol=auc"], "bot"),
        (["--protocol=balanced_accuracy"], "bot"),
        (["--protocol=balanced_accuracy", "--slice-field=part"], "first"),
        (["--protocol=hallucinations"], "bot"),
    ],
)
@pytest.mark.parametrize("turned", [True, False])
def test_labels_that_mean_errors_are_warned_of(scored, capsys, options, name, turned):
    rows = [json.loads(line) for line in scored.read_text().splitlines()]
    for row in rows:
        row["scores"] = {"good": min(max(row["scores"]["good"] / 4, 0), 1)}
        row["label"] = 1 - row["label"] if turned else row["label"]
        row["part"] = "first"
    scored.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["evaluate", str(scored), *options]) == 0
    message = f"{name}: Warning: rows with the label 0 have higher scores of every scorer"
    assert (message in capsys.readouterr().out) == turned
