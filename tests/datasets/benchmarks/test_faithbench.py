import json

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.benchmarks.faithbench import FAITHBENCH

SUMMARY = "Tea is green, and it is warm."


def mark(labels, start=0, end=3):
    return {"annotator_id": "a", "label": labels, "summary_start": start, "summary_end": end}


def examples(folder, *annotations, **changes):
    samples = [
        {
            "sample_id": number,
            "source": "Tea is black.",
            "summary": SUMMARY,
            "annotations": marks,
            "metadata": {"summarizer": "m", "gpt_4o": 1, "true_nli": None},
            **changes,
        }
        for number, marks in enumerate(annotations)
    ]
    path = folder / "batch_1.json"
    path.write_text(json.dumps({"samples": samples}), encoding="utf-8")
    return list(FAITHBENCH.read({"batch_1.json": path}, "test", BadRows()))


def test_the_worst_label_decides(tmp_path):
    rows = examples(
        tmp_path,
        [],
        [mark(["Benign"])],
        [mark([])],
        [mark(["Benign"]), mark(["Questionable"], 7, 12)],
        [mark(["Benign"]), mark(["Unwanted", "Unwanted.Extrinsic"], 20, 28), mark(["Benign"])],
        [mark(["Unwanted.Intrinsic"], 4, 6), mark(["Questionable"], 0, 3)],
    )
    found = [(row["worst_label"], row["label"], row["hallucinated_spans"]) for row in rows]
    assert found == [
        ("Consistent", 1, "[]"),
        ("Benign", 1, "[]"),
        ("Consistent", 1, "[]"),
        ("Questionable", 0, "[[7, 12]]"),
        ("Unwanted", 0, "[[20, 28]]"),
        ("Unwanted", 0, "[[0, 3], [4, 6]]"),
    ]
    assert rows[4]["annotations"] == ["Benign", "Unwanted", "Benign"]
    assert [row["id"] for row in rows[:2]] == ["batch_1-0", "batch_1-1"]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (
            mark(["Benign"], 0, 30),
            r"annotations\[0\]\.summary_start and summary_end': .*<= 29, the",
        ),
        (mark(["Bad"]), r"annotations\[0\]\.label\[0\]': expected one of Unwanted, .*got \"Bad\""),
    ],
)
def test_a_bad_annotation(tmp_path, annotation, message):
    with pytest.raises(InputError, match=rf"batch_1\.json: samples\[1\]: field '{message}"):
        examples(tmp_path, [], [annotation])


def test_a_summary_that_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"samples\[0\]: field 'summary': expected a text that is"):
        examples(tmp_path, [], summary=" ")
