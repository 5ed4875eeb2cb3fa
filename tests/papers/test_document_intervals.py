"""Intervals of the papers' protocols for documents whose rows are correlated.

In populations with known figures, 95% intervals that resample documents contain the true value
about as often as they should, with and without the correlation. Intervals that resample rows do so
far less often if documents differ.
"""

import numpy as np
import pytest
from scipy import stats

from faith_jax.papers.dialfact.verifiable import verifiable_table
from faith_jax.papers.faithdial.critic_accuracy import AccuracyLayout, accuracy_table
from faith_jax.papers.npov.protocols import npov_cells
from faith_jax.statistics.bootstrap import Draws, interval_note
from faith_jax.statistics.scored_corpora import Corpus
from faith_jax.statistics.units import AUTO, ROWS
from tests.papers.planted import write_rows

DOCUMENTS, ROWS_OF_EACH = 40, 8
SAMPLES, RESAMPLES = 60, 100


def draw_rows(rng, correlation, leaning):
    """Returns a sample: labels, and scores that are one deviation higher for label 1.

    Scores within a document have this correlation; half of the documents mostly have label 1.
    """
    documents = np.repeat(np.arange(DOCUMENTS), ROWS_OF_EACH)
    shares = rng.choice([0.5 - leaning, 0.5 + leaning], DOCUMENTS)[documents]
    labels = (rng.random(documents.size) < shares).astype(float)
    common = rng.normal(size=DOCUMENTS)[documents]
    noise = rng.normal(size=documents.size)
    scores = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * noise + labels
    return documents, labels, scores


def corpus_of(documents, labels, scores, fields=()):
    ids = tuple(map(str, range(len(labels))))
    hashes = {"grounding": documents + 1}  # 0 stands for no grounding
    return Corpus("drawn", ids, labels, {"s": scores}, fields=tuple(fields), hashes=hashes)


def interval_of_verifiable(sample, cluster_field):
    documents, labels, scores = sample
    # Development says that scores from 0.5 on are verifiable.
    development = corpus_of(np.arange(4), np.array([0.0, 0, 1, 1]), np.array([-1, 0.4, 0.5, 2]))
    test = corpus_of(documents, labels, scores)
    row = verifiable_table(development, test, Draws(RESAMPLES), cluster_field).tidy.rows[0]
    return row[5:7]


def interval_of_accuracy(sample, cluster_field):
    rows = {"critic": {"drawn": corpus_of(*sample)}}
    settings = RESAMPLES, 0.95, 0, cluster_field
    (row,) = accuracy_table(rows, AccuracyLayout(), *settings).tidy.rows
    return 100 * row[4], 100 * row[5]


def interval_of_npov(sample, cluster_field):
    documents, labels, scores = sample
    fields = [{"has_hallucination": str(1 - int(x)), "has_coverage_error": "0"} for x in labels]
    corpora = {"drawn": corpus_of(documents, np.full(labels.size, np.nan), scores, fields)}
    cells = npov_cells(corpora, resamples=RESAMPLES, cluster_field=cluster_field)
    interval = cells["hallucination", "s"]["drawn"].interval
    return 100 * interval.low, 100 * interval.high


# From 0.5 on a row is called 1, half a deviation from the mean of each class.
ACCURACY = 100 * stats.norm.cdf(0.5)
TRUTHS = {
    interval_of_verifiable: ACCURACY,
    interval_of_accuracy: ACCURACY,
    interval_of_npov: 100 * stats.norm.cdf(1 / np.sqrt(2)),
}


def coverage(interval_of, cluster_field, correlation, leaning, samples=SAMPLES):
    """Returns how often the interval contains the true value."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(samples):
        low, high = interval_of(draw_rows(rng, correlation, leaning), cluster_field)
        held += low <= TRUTHS[interval_of] <= high
    return held / samples


@pytest.mark.papers
@pytest.mark.parametrize("interval_of", TRUTHS)
def test_intervals_over_documents_hold_the_truth(interval_of):
    planted, nothing = (0.6, 0.45), (0.0, 0.0)
    assert coverage(interval_of, AUTO, *planted) >= 0.88
    # Intervals that ignore documents are too short if these differ, and only then.
    assert coverage(interval_of, ROWS, *planted) <= 0.82
    for cluster_field in (AUTO, ROWS):
        assert coverage(interval_of, cluster_field, *nothing) >= 0.88


def one_document():
    rng = np.random.default_rng(0)
    _, labels, scores = draw_rows(rng, 0.0, 0.0)
    return np.zeros(labels.size, int), labels, scores


@pytest.mark.parametrize("interval_of", TRUTHS)
def test_one_document_has_no_interval(interval_of):
    assert np.isnan(interval_of(one_document(), AUTO)).all()
    low, high = interval_of(one_document(), ROWS)
    assert low < high


def test_notes_name_the_unit():
    documents, labels, scores = draw_rows(np.random.default_rng(0), 0.0, 0.0)
    of_all = "drawn: rows with the same grounding are one unit: 40 groups of 320 rows."
    for table in (
        verifiable_table(
            corpus_of(documents, labels, scores), corpus_of(documents, labels, scores)
        ),
        accuracy_table({"a": {"drawn": corpus_of(documents, labels, scores)}}, AccuracyLayout()),
    ):
        assert of_all in table.notes
        assert interval_note(0.95, 1000, "groups") in table.notes
    alone = corpus_of(*one_document())
    (_, note) = accuracy_table({"a": {"drawn": alone}}, AccuracyLayout(), 100).notes
    assert note.startswith("drawn: all 320 rows have the same grounding: one group, of which there")


def test_the_commands_take_another_unit(command, tmp_path):
    documents, labels, scores = draw_rows(np.random.default_rng(0), 0.6, 0.45)
    path = tmp_path / "scored.jsonl"
    rows = []
    for number, document in enumerate(documents.tolist()):
        label = int(labels[number])
        row = {"id": str(number), "corpus": "drawn", "generated_text": "Yes.", "label": label}
        row |= {"grounding": [f"Document {document}."], "scores": {"s": scores[number]}}
        errors = {"has_hallucination": str(1 - label), "has_coverage_error": "0"}
        rows.append(row | {"fields": {"topic": str(document // 4)} | errors})
    write_rows(path, rows)
    for protocol in ("npov", "accuracy", "verifiable"):
        arguments = ["evaluate", str(path), f"--protocol={protocol}", "--resamples=100"]
        if protocol == "verifiable":
            arguments.append(f"--development={path}")
        notes = "rows with the same {} are one unit: {} groups of 320 rows"
        for more, note in (
            ([], notes.format("grounding", 40)),
            (["--cluster-field=topic"], notes.format("topic", 10)),
            (["--cluster-field=none"], "percentile bootstrap over rows"),
        ):
            assert note in command.succeeds(*arguments, *more)
        assert "has no field 'x'" in command.refuses(*arguments, "--cluster-field=x")
    command.succeeds("report", path, f"--output={tmp_path / 'r.html'}")
    page = (tmp_path / "r.html").read_text()
    assert "percentile bootstrap over groups" in page
