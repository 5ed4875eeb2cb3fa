"""Chang 2024, errors in NPOV responses: the map of the paper.

Each part of the paper lists its modules first (a leading dot: in this package), then the recipe,
command or scorer that runs it.

2, topics, arguments and responses
    `faith_jax.datasets.npov.topics`, `faith_jax.core.templates`
    `faith-jax prepare procon_npov`; npov_generate_prompt_tune.gin, npov_generate_finetune.gin
3.1, ROUGE
    `faith_jax.scoring.words.lexical`
    scorers `npov_rouge1_hallucination`, `npov_rouge1_coverage`
3.2 and appendix C, salience
    `faith_jax.scoring.salience.scorers`, `faith_jax.statistics.texts.salience_scores`
    scorers `salience_hallucination`, `salience_coverage`; `faith-jax explain`
3.3, YES/NO classifiers
    `faith_jax.scoring.npov_error_classifier`
    npov_hallucination_prompt_tune.gin, npov_coverage_prompt_tune.gin; scorers `npov_hallucination`,
      `npov_coverage`
4.1, responses to combinations of arguments
    `.combinations`
    `faith-jax npov inputs`
4.1, annotation of responses
    `faith_jax.annotation.marks`, `faith_jax.annotation.labels`; `.word_rule` instead of people
    `faith-jax annotate`
4.2, synthetic errors
    `faith_jax.datasets.npov.synthetic_errors`
    `faith-jax npov sets`
5.2, training sets
    `.error_sets`
    `faith-jax npov sets`
tables 1 and 3, of scored files
    `.detection`, `.protocols`, `.published_scores`
    `faith-jax evaluate --protocol=npov`; `faith-jax reproduce npov`
tables 1, 2, 3, 5 and 6, the whole study with its responses
    `.detection_tables`
    `faith-jax reproduce npov_detection`

The published figures are in `detection_tables.json`; `npov_detection.smk` has the workflow's own
rules. docs/detection.md is the guide, and lists the differences from the paper.
"""
