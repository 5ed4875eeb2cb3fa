"""The tables of scorers of Chang 2024, with the published figures."""

from faith_jax.papers.tables import ScorerTable

NPOV = ScorerTable(
    title="Chang 2024, table 1: NPOV errors",
    data="npov_errors",
    corpora=("full",),
    scorers=("npov_rouge1_hallucination", "npov_rouge1_coverage"),
    options={"protocol": "npov"},
    note=(
        "Published: Chang 2024, table 1, of another model (64 billion parameters; its "
        "classifiers 62) on the paper's test sets, which are not public; ours are errors in "
        "other texts."
    ),
    columns=(
        "full organic",
        "unparaphrased synthetic",
        "paraphrased synthetic",
        "ambiguous organic",
    ),
    published=(
        ("hallucination", "npov_rouge1_hallucination", 84.0, 77.2, 68.0, 81.4),
        ("hallucination", "salience_hallucination", 80.8, 73.6, 70.8, 77.2),
        ("hallucination", "npov_hallucination", 95.3, 99.8, 97.7, 85.1),
        ("coverage", "npov_rouge1_coverage", 79.5, 89.0, 74.6, 83.4),
        ("coverage", "salience_coverage", 85.2, 87.5, 83.1, 75.5),
        ("coverage", "npov_coverage", 90.5, 98.6, 99.3, 75.6),
    ),
)

NPOV_WORDS = ScorerTable(
    title="Chang 2024, table 3: words of NPOV errors",
    data="npov_errors",
    corpora=("full",),
    scorers=("npov_rouge1_hallucination", "npov_rouge1_coverage"),
    options={"protocol": "npov_words"},
    note=(
        "Published: Chang 2024, table 3, of another model (64 billion parameters; its "
        "classifiers 62) on the paper's test sets, which are not public; ours are errors in "
        "other texts."
    ),
    columns=(
        "full organic",
        "unparaphrased synthetic",
        "paraphrased synthetic",
        "ambiguous organic",
    ),
    published=(
        ("hallucination", "npov_rouge1_hallucination", 67.3, 69.7, 61.4, 54.2),
        ("hallucination", "salience_hallucination", 72.4, 71.0, 67.3, 54.2),
        ("coverage", "npov_rouge1_coverage", 66.9, 69.3, 58.2, 73.8),
        ("coverage", "salience_coverage", 79.9, 80.8, 74.2, 74.0),
    ),
)
