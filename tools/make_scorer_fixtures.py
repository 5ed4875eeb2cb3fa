"""Writes tests/testdata/scorers.json: scores of the reference implementations with tiny models.

The models and texts are those of tests/scoring/reference.py. Transformers computes the classifiers'
probabilities, and the package bert-score computes BERTScore. Needs the extra `parity`.

    python tools/make_scorer_fixtures.py
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.scoring import reference  # noqa: E402


def probabilities(folder: str, pairs: list[tuple[str, str]]) -> list[list[float]]:
    """Returns Transformers' class probabilities of each pair."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows_of_probabilities = []
    for first, second in pairs:
        with torch.no_grad():
            logits = model(**tokenizer(first, second, return_tensors="pt")).logits
        rows_of_probabilities.append(torch.softmax(logits, -1)[0].tolist())
    return rows_of_probabilities


def bertscore(folder: str, idf: bool) -> dict[str, list[float]]:
    """Returns bert-score's precision, recall and F1 of the responses."""
    import bert_score

    precision_recall_f1 = bert_score.score(
        list(reference.RESPONSES),
        list(reference.DOCUMENTS),
        model_type=folder,
        num_layers=reference.LAYER,
        idf=idf,
        device="cpu",
        nthreads=0,
    )
    return dict(
        zip(("precision", "recall", "f1"), (x.tolist() for x in precision_recall_f1), strict=True)
    )


def main() -> None:
    """Writes the file."""
    pairs = list(zip(reference.DOCUMENTS, reference.RESPONSES, strict=True))
    sentences = [(p, h) for ds, rs in reference.SENTENCES for h in rs for p in ds]
    with tempfile.TemporaryDirectory() as folder:
        models = reference.write_models(pathlib.Path(folder))
        fixtures = {
            "nli": probabilities(models["nli"], pairs),
            "nli_sentences": probabilities(models["nli"], sentences),
            "critic": probabilities(models["critic"], pairs),
            "bertscore": bertscore(models["encoder"], False),
            "bertscore_idf": bertscore(models["encoder"], True),
        }
    rounded = json.loads(json.dumps(fixtures), parse_float=lambda x: float(np.float32(x)))
    path = REPOSITORY / "tests" / "testdata" / "scorers.json"
    path.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
