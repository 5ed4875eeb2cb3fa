"""Gupta 2022, DialFact: the map of the paper.

Each part of the paper lists its modules first (a leading dot: in this package), then the recipe,
command or scorer that runs it.

the data and its labels
    `faith_jax.datasets.raw.dialfact`, `faith_jax.core.labels`
    `faith-jax prepare dialfact`
table 2, statistics, LMI
    `faith_jax.statistics.dataset_statistics`
    `faith-jax describe dialfact`
training claims (Aug-WoW)
    `.mutated_claims`, `.claim_mutation`
    `faith-jax mutate-claims`
negation, antonyms, senses
    `.negation_rules`, `.antonyms`, `.senses`
    `faith-jax mutate-claims --senses=…`
filters of claims
    `.mutated_claims`, `faith_jax.scoring.fluency`
    `faith-jax mutate-claims --verifiers=…`
table 3, verifiable claims
    `.verifiable`
    `faith-jax evaluate --protocol=verifiable`
tables 4 and 5, evidence
    `faith_jax.runs.data.find_evidence`, `faith_jax.retrieval.documents`,
      `faith_jax.retrieval.dense`, `faith_jax.retrieval.sentence_ranking`
    `faith-jax evidence`; dialfact_dense_finetune.gin, dialfact_evidence_finetune.gin
5.3, verification of claims
    `faith_jax.scoring.claims`
    dialfact_verify_finetune.gin, dialfact_verify_generate_finetune.gin; `faith-jax check`
tables 6 to 8, 10 to 12, figure 2
    `.tables`, `.verification`
    `faith-jax reproduce dialfact`; `faith-jax evaluate --protocol=dialfact`

The published figures are in `tables.json`; `dialfact.smk` has the workflow's own rules.
docs/dialfact.md is the guide, and docs/fidelity_dialfact.md lists the differences from the paper.
"""
