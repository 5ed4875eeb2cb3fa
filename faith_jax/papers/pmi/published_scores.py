"""The tables of scorers of Nandwani 2023, with the published figures."""

from faith_jax.papers.options import PAPERS_OPTIONS
from faith_jax.papers.tables import ScorerTable

BEGIN = ScorerTable(
    title="Nandwani 2023, table 1: BEGIN",
    data="begin",
    corpora=("official",),
    splits=("validation", "test"),
    scorers=(
        "token_f1",
        "rouge1_precision",
        "rougeL_f1",
        "coverage",
        "lexical_overlap",
        "bleu",
        "q2_baseline_token_f1",
        "q2_baseline_bleu",
        "rougeL_f1_stemmed",
    ),
    options={"protocol": "begin"},
    note=(
        "Published: Nandwani 2023, table 1, F1-U, BLEU, RougeL, BERT (deberta-xlarge-mnli), "
        "faithc. (FaithDial's roberta-large), Q² (which form is not said; q2_nli is its "
        "authors' first) and PMI-Faith (BLOOM-560m)."
    ),
    columns=("P", "R", "F1", "Acc", "F1 cmu", "F1 tc", "F1 wow"),
    published=(
        ("q2_baseline_token_f1", 40.1, 78.5, 53.1, 67.7, 46.2, 42.9, 58.7),
        ("q2_baseline_bleu", 47.8, 47.9, 47.9, 75.7, 2.7, None, 62.0),
        ("rougeL_f1_stemmed", 48.7, 55.2, 51.8, 76.0, 14.0, 5.0, 64.7),
        ("bertscore", 45.9, 67.3, 54.6, 73.9, 29.4, 43.2, 61.2),
        ("faith_critic_call", 68.4, 49.2, 57.3, 82.9, 15.6, 3.9, 79.4),
        ("q2_nli", 51.7, 74.4, 61.0, 77.9, 54.3, 48.7, 70.5),
        ("pmi_faith_mean", 60.7, 81.8, 69.7, 83.4, 66.3, 58.4, 77.1),
    ),
    defaults=PAPERS_OPTIONS,
)
