"""Planted errors in responses through the NPOV detection study: salience, and classifiers.

The detectors by ROUGE are in `test_planted_scorers.py`.
"""

import pathlib
import re

import numpy as np
import pytest

from faith_jax.papers.npov.combinations import response_rows
from faith_jax.papers.npov.error_sets import read_topics
from faith_jax.papers.npov.options import NpovDetection
from faith_jax.scoring import npov_error_classifier
from tests.papers.npov.npov_study import run_study, write_marks, write_responses
from tests.papers.planted import INVENTED, KNOWLEDGE, sentences, write_rows
from tests.scoring.tiny_models import write_t5

pytestmark = pytest.mark.usefixtures("offline_data_dir")

ERRORS = ("hallucination", "coverage")
ORGANIC, SYNTHETIC = "full organic", "unparaphrased synthetic"


def write_topics(folder, names, texts):
    """Writes test topics, and divides the texts among them."""
    each = len(texts) // (2 * len(names))
    parts = [
        [{"text": text} for text in texts[start : start + each]]
        for start in range(0, len(texts), each)
    ]
    topics = []
    for name, pro, con in zip(names, parts[::2], parts[1::2], strict=True):
        about = {"id": name, "title": name, "question": f"Is {name} good?", "split": "test"}
        topics.append(about | {"pro": pro, "con": con})
    write_rows(folder / "topics.jsonl", topics)


def options_of(model, knowledge, **changes):
    settings = {"splits": ("test",), "combinations": 1, "resamples": 200}
    return NpovDetection(output="", model=model, knowledge=str(knowledge), **settings, **changes)


def figures(folder, options):
    """Returns the cells of the study's tables by test set, table, error and method."""
    rows = [row for row in run_study(folder, options) if row["rows"]]
    return {(r["test set"], r["table"], r["error"], r["method"]): r for r in rows}


def told(row):
    """Returns a response that consists of its arguments."""
    return " ".join([*row["pro_arguments"], *row["con_arguments"]])


@pytest.mark.papers
def test_salience(tmp_path):
    """`mini` copies, so its gradients show which words of a response are from its arguments.

    Each response occurs twice. If the responses that tell another topic's arguments are marked,
    salience finds all of them, and most synthetic errors in the others. If one of the two copies of
    each response is marked, it finds nothing.
    """
    names = ("coffee", "honey", "mint", "sage")  # of which one argument a side is drawn
    write_topics(tmp_path / "knowledge", names, [*KNOWLEDGE, *INVENTED])
    knowledge, wrong_sides = tmp_path / "knowledge", {}
    for topic in read_topics(str(knowledge), ("test",)):
        row, _ = response_rows(topic, 1)
        wrong_sides[topic.id] = told(row)
    wrong_sides["mint"], wrong_sides["sage"] = wrong_sides["sage"], wrong_sides["mint"]
    tables = {}
    for name in ("right", "exchanged"):
        (tmp_path / name).mkdir()
        rows = write_responses(
            tmp_path / name / "responses.jsonl",
            knowledge,
            lambda row: wrong_sides[row["topic"]],
            splits=("test",),
            most=1,
        )

        def marks(row, name=name):
            if name == "right":
                is_marked = row["topic"] in ("mint", "sage")
            elif row["topic"] in ("honey", "sage"):
                return None  # one topic whose responses tell its arguments, and one other, will do
            else:
                is_marked = row["temperature"] > 0
            if not is_marked:
                return {}
            where = {"unsupported_spans": [[0, len(row["response"])]]}
            where |= {"missing_arguments": ["pro 1", "con 1"]}
            return dict.fromkeys(ERRORS, True) | where

        write_marks(tmp_path / f"{name}.jsonl", rows, marks)
        options = options_of("mini", knowledge, marks=f"{tmp_path / name}.jsonl")
        tables[name] = figures(tmp_path / name, options)
    # Also of errors that the study itself puts into the responses that tell their arguments.
    slices = {
        ("right", ORGANIC): (1, "8", "4"),
        ("right", SYNTHETIC): (1, "12", "8"),
        ("exchanged", ORGANIC): (0.5, "4", "2"),
    }
    methods = {"salience": "1", "max": "6", "sum": "6", "negative entropy": "6"}
    for (name, test_set), (area, *counts) in slices.items():
        for error in ERRORS:
            for method, table in methods.items():
                cell = tables[name][test_set, table, error, method]
                assert [cell["rows"], cell["errors"]] == counts
                where = (name, test_set, error, method)
                if area == 1 and (test_set, method) != (ORGANIC, "salience"):
                    assert float(cell["auc"]) >= 0.75, where  # most, by `mini`'s gradients
                else:
                    assert float(cell["auc"]) == pytest.approx(area), where
                if cell["low"]:  # equal areas in all resamples have no interval
                    assert float(cell["low"]) <= float(cell["auc"]) <= float(cell["high"])
            words = tables[name][test_set, "3", error, "salience"]
            # Of words "right" finds most, and "exchanged" none.
            if area == 1:
                assert float(words["auc"]) > 0.75, (name, test_set, error)
            else:
                assert float(words["auc"]) == pytest.approx(area, abs=0.01), (test_set, error)


class Judge:
    """A stand-in for a classifier: it compares the sentences of the arguments and the response.

    Args:
      path: the classifier's folder, named after the error that it finds.
      wrong: it predicts the other label for topics whose number is a multiple of this.
    """

    num_compilations = 0

    def __init__(self, path, wrong, decode):
        self.error, self.wrong, self.decode = pathlib.Path(path).name, wrong, decode

    def engine(self, labels, **_):
        self.labels = labels
        return self

    def choose_shapes(self, *_):
        """It computes nothing in batches."""

    def warn_of_rare_labels(self, *_):
        """It writes nothing but its labels."""

    def probabilities(self, rows):
        labels = self.labels
        means_error = ["NO" in self.decode([*labels.prefix, *label]) for label in labels.tokens]
        errors = np.array([self.has_error(self.decode(ids)) for ids in rows])
        return np.where(errors[:, None] == np.array(means_error), 0.8, 0.2)

    def has_error(self, text):
        form = r"\{query: Is topic (\d+) good\?\} \{response: (.*)\} \{pro: (.*)\} \{con: (.*)\}"
        number, response, *sides = re.fullmatch(form, text).groups()
        parts = set(re.findall(r"[^. ][^.]*\.", response))
        sources = set(re.findall(r"[^. ][^.]*\.", " ".join(sides)))
        has_it = bool(parts - sources if self.error == "hallucination" else sources - parts)
        return has_it != (int(number) % self.wrong == 0)


@pytest.mark.papers
@pytest.mark.parametrize(("wrong", "area"), [(10, 0.9), (2, 0.5)])
def test_classifiers(tmp_path, monkeypatch, wrong, area):
    """With two probability values, the AUC is the share of rows that have the right one."""
    texts = [f"{' '.join(text.split()[:3])}." for text in sentences(80)]
    write_topics(tmp_path / "knowledge", [f"topic {n}" for n in range(10)], texts)
    really = npov_error_classifier.open_text_reader

    def judge(path, options):
        _, reader = really(path, options)
        return Judge(path, wrong, reader.tokenizer.decode), reader

    monkeypatch.setattr(npov_error_classifier, "open_text_reader", judge)
    monkeypatch.setattr(npov_error_classifier, "ClassificationEngine", Judge.engine)
    reader, *classifiers = (write_t5(tmp_path / name) for name in ("reader", *ERRORS))
    # Empty responses are none that the study takes for error-free.
    write_responses(
        tmp_path / "responses.jsonl",
        tmp_path / "knowledge",
        lambda row: "" if row["temperature"] else told(row),
        splits=("test",),
        most=1,
    )
    options = options_of(reader, tmp_path / "knowledge", classifiers={"dev": classifiers})
    cells = figures(tmp_path, options)
    for error in ERRORS:
        for table, method in (("1", "classifier"), ("2", "+Dev")):
            cell = cells[SYNTHETIC, table, error, method]
            assert (cell["rows"], cell["errors"]) == ("30", "20")
            assert float(cell["auc"]) == pytest.approx(area)
            assert float(cell["low"]) < area < float(cell["high"])
