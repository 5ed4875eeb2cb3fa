"""Benchmarks of judges of faithfulness, and the map of their tables.

They belong to none of the five papers. Each benchmark lists its modules first (a leading dot: in
this package), then the command. `tables.json` has the settings of each table, and the published
figures with their sources.

LLM-AggreFact (Tang 2024)
    `faith_jax.datasets.benchmarks.described_rows`
    `.tables`, `faith_jax.runs.scores.balanced_accuracy`, `faith_jax.statistics.detection`
    `faith-jax reproduce aggrefact`
RAGTruth (Niu 2024)
    `faith_jax.datasets.benchmarks.ragtruth`, `faith_jax.runs.scores.hallucinations`
    `faith-jax reproduce ragtruth`
FaithBench (Bao 2025)
    `faith_jax.datasets.benchmarks.faithbench`
    `faith-jax reproduce faithbench`
SummEdits (Laban 2023)
    `faith_jax.datasets.benchmarks.described_rows`
    `faith-jax reproduce summedits`
WiCE, HaluEval and TofuEval, without tables
    `faith-jax evaluate` with balanced_accuracy

docs/benchmarks.md is the guide.
"""
