import json

from faith_jax.core.rows import BadRows
from faith_jax.datasets.benchmarks.faithbench import FAITHBENCH

SUMMARY = "Tea is green, and it is warm."


def mark(labels, start=0, end=3):
    return {"annotator_id": "a", "label": labels, "summary_start": start, "summary_end": end}


def examples(folder, *annotations):
    of_all = {"source": "Tea is black.", "summary": SUMMARY}
    of_all["metadata"] = {"summarizer": "m", "gpt_4o": 1, "true_nli": None}
    samples = [of_all | {"sample_id": n, "annotations": note} for n, note in enumerate(annotations)]
    path = folder / "batch_1.json"
    path.write_text(json.dumps({"samples": samples}), encoding="utf-8")
    return list(FAITHBENCH.read({path.name: path}, "test", BadRows()))


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
    labels = [(row["worst_label"], row["label"], row["hallucinated_spans"]) for row in rows]
    assert labels == [
        ("Consistent", 1, "[]"),
        ("Benign", 1, "[]"),
        ("Consistent", 1, "[]"),
        ("Questionable", 0, "[[7, 12]]"),
        ("Unwanted", 0, "[[20, 28]]"),
        ("Unwanted", 0, "[[0, 3], [4, 6]]"),
    ]
    assert rows[4]["annotations"] == ["Benign", "Unwanted", "Benign"]
    assert [row["id"] for row in rows[:2]] == ["batch_1-0", "batch_1-1"]
