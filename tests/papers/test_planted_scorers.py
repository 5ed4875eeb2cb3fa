"""Planted effects in the tables of scorers: TRUE, BEGIN, NPOV and pronouns, from raw files."""

import json

import numpy as np
import pytest

from faith_jax.cli import main
from faith_jax.papers.pmi.published_scores import BEGIN
from faith_jax.papers.push.published_scores import PRONOUNS
from tests.papers.planted import prepare, sentences, write_corpus, write_rows, write_table

CORPORA = ("frank", "begin", "q2", "paws")


pytestmark = pytest.mark.usefixtures("offline_data_dir")


def figures(table, folder, *arguments):
    """Runs a table and returns the figures that it wrote."""
    assert main(["reproduce", table, f"--output={folder}", *arguments]) == 0
    return json.loads((folder / f"{table}.json").read_text("utf-8"))


def copied_and_invented(count, seed):
    """Returns (grounding, response, label): 90% of copies and 10% of the others are consistent."""
    texts = sentences(2 * count, seed)
    rows = []
    for number, grounding in enumerate(texts[:count]):
        copies = number % 2 == 0
        response = grounding if copies else texts[count + number]
        is_wrong = number // 2 % 10 == 0
        rows.append((grounding, response, int(copies != is_wrong)))
    return rows


def with_labels_exchanged(rows):
    """Exchanges labels so that copies and the others have equal shares of consistent responses."""
    return [(*row[:-1], number // 2 % 2) for number, row in enumerate(rows)]


@pytest.mark.papers
def test_true(tmp_path, monkeypatch):
    """Overlap is right in 9 of 10 cases; with exchanged labels it has no information."""
    tables = {}
    for name in ("planted", "exchanged"):
        monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / name / "prepared"))
        for seed, corpus in enumerate(CORPORA):
            rows = copied_and_invented(40, seed)
            rows = with_labels_exchanged(rows) if name == "exchanged" else rows
            write_corpus(tmp_path / name / "raw" / corpus, corpus, rows)
        scorers = "--scorers=token_f1,rougeL_f1"
        tables[name] = figures("true", tmp_path / name / "made", scorers)
    for scorer in ("token_f1", "rougeL_f1"):
        planted, exchanged = (tables[name]["corpora"][scorer] for name in tables)
        assert set(planted) == set(CORPORA)
        for cell in planted.values():
            # The share of pairs in order, of 20 and 20 rows with two wrong ones in each half.
            assert cell["auc"] == pytest.approx(0.9)
            assert cell["low"] > 0.7
        assert all(cell["auc"] == pytest.approx(0.5) for cell in exchanged.values())
        planted, exchanged = (tables[name]["average"][scorer] for name in tables)
        assert exchanged["low"] < 0.5 < exchanged["high"]
        assert exchanged["high"] < 0.65 < 0.8 < planted["low"]
        assert planted["auc"] == pytest.approx(0.9)


def begin_files(raw, shuffle):
    """Writes BEGIN's second release: responses that are generic, invented or copied."""
    kinds = ("Fully attributable", "Not fully attributable", "Generic")
    for part, count in (("dev", 12), ("test", 30)):
        for seed, source in enumerate(("wow", "cmu", "tc")):
            texts = sentences(2 * count, seed)
            rows = []
            for number in range(count):
                label = kinds[number % 3]
                by_label = {
                    "Fully attributable": texts[number],
                    "Generic": "That is so nice to hear.",
                    "Not fully attributable": texts[count + number],
                }
                rows.append(
                    {
                        "model_name": "t5",
                        "data_source": source,
                        "knowledge": texts[number],
                        "message": "Tell me more.",
                        "response": by_label[label],
                        "begin_label": label,
                    }
                )
            if shuffle:
                labels = np.random.default_rng(seed).permutation([r["begin_label"] for r in rows])
                for row, label in zip(rows, labels, strict=True):
                    row["begin_label"] = str(label)
            write_table(raw / f"begin_{part}_{source}.tsv", rows, "\t")


@pytest.mark.papers
def test_begin(tmp_path, monkeypatch):
    """The development part's threshold finds copies; with shuffled labels, only chance is left."""
    rows_by_name = {}
    for name in ("planted", "shuffled"):
        monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / name / "prepared"))
        begin_files(tmp_path / name / "raw", name == "shuffled")
        prepare("begin/official", tmp_path / name / "raw")
        rows = figures("begin", tmp_path / name / "made")["rows"]
        rows_by_name[name] = {row["scorer"]: row for row in rows}
    assert set(rows_by_name["planted"]) == set(BEGIN.scorers)
    for scorer, row in rows_by_name["planted"].items():
        for column in ("P", "R", "F1", "Acc", "F1 cmu", "F1 tc", "F1 wow"):
            assert row[column] == pytest.approx(100), (scorer, column)
    for scorer, row in rows_by_name["shuffled"].items():
        # A third is attributable, which is what precision is of any choice; all rows have F1 50.
        assert row["P"] == pytest.approx(100 / 3, abs=10), scorer
        assert row["F1"] < 60, scorer


SIDES = ("pro", "con")


def npov_files(raw, is_right):
    """Writes topics with responses that tell their own arguments, or those of another topic."""
    texts = sentences(60)
    topics, responses = [], []
    for number in range(10):
        own_texts = {
            side: texts[6 * number + 3 * index : 6 * number + 3 * index + 3]
            for index, side in enumerate(SIDES)
        }
        sides = {side: [{"text": text} for text in own_texts[side]] for side in SIDES}
        fields = {"id": f"topic{number}", "title": f"Topic {number}"}
        about = {"question": f"Is number {number} good?", "split": "test"}
        topics.append(fields | about | sides)
    for split in ("train", "validation"):
        fields = {"id": split, "title": split, "question": f"Is {split} good?", "split": split}
        topics.append(fields | {side: topics[0][side] for side in SIDES})
    for topic in topics:
        position = topics.index(topic)
        whose = topic if is_right else topics[(position + 5) % 10]
        for number, indexes in enumerate(([0, 1], [1, 2], [0, 2])):
            pro, con = (" ".join(whose[side][i]["text"] for i in indexes) for side in SIDES)
            about = {"id": f"{topic['id']}-{number}", "topic": topic["id"]}
            response = f"Supporters say: {pro} Critics say: {con}"
            responses.append(about | {"pro": indexes, "con": indexes, "response": response})
    write_rows(raw / "topics.jsonl", topics)
    write_rows(raw / "responses.jsonl", responses)


def is_chance(cell):
    """Whether an AUC is undefined because all scores are equal, or its interval has 0.5."""
    if cell["auc"] is None:
        return cell["low"] is None and cell["high"] is None
    return abs(cell["auc"] - 0.5) <= 0.05 and cell["low"] <= 0.5 <= cell["high"]


@pytest.mark.papers
def test_npov_errors_and_their_words(tmp_path, monkeypatch):
    """ROUGE finds errors in responses that tell their own arguments, but not in the others."""
    errors, words = {}, {}
    for name in ("told", "others"):
        monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / name / "prepared"))
        npov_files(tmp_path / name / "raw", name == "told")
        prepare("npov_errors/full", tmp_path / name / "raw")
        errors[name] = figures("npov", tmp_path / name / "made")
        words[name] = figures("npov_words", tmp_path / name / "made")
    for error in ("hallucination", "coverage"):
        planted, gone = (
            errors[name][error][f"npov_rouge1_{error}"]["npov_errors/full"] for name in errors
        )
        assert planted["auc"] == 1
        assert is_chance(gone)
    planted, gone = (
        words[name]["coverage"]["npov_rouge1_coverage"]["npov_errors/full"] for name in words
    )
    assert planted["auc"] == 1
    assert is_chance(gone)
    assert "hallucination" not in words["told"]  # which words are, the data set does not say


def spoken(openings, count=30):
    """Returns (grounding, response, label), a row for each sentence and opening."""
    return [
        (text, f"{opening}{text}", number % 2)
        for number, text in enumerate(sentences(count))
        for opening in openings
    ]


@pytest.mark.papers
def test_pronouns(tmp_path, monkeypatch):
    """Overlap falls with "I think", but labels do not; with "They think" too, no effect is left."""
    rows_by_name = {}
    for name, openings in (
        ("planted", ("I think ", "")),
        ("removed", ("I think ", "They think ", "I do really think ", "They do really think ")),
    ):
        monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / name / "prepared"))
        write_corpus(tmp_path / name / "raw", "q2", spoken(openings))
        rows = figures("pronouns", tmp_path / name / "made")["rows"]
        rows_by_name[name] = {row.pop(""): row for row in rows}
    for scorer in PRONOUNS.scorers:
        assert rows_by_name["planted"][scorer]["q2"] == pytest.approx(-1), scorer
        assert rows_by_name["removed"][scorer]["q2"] == pytest.approx(0, abs=1e-6)
    for rows in rows_by_name.values():
        assert rows["label"]["q2"] == pytest.approx(0)
