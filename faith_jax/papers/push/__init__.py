"""Steen 2023, With a Little Push: the map of the paper.

Under each part of the paper are first the modules (a leading dot: in this package), then the
recipe, command or scorer that runs it.

2.1, ANLI with phrases of dialogue
    `faith_jax.datasets.augmentation.dialogue_phrases`
    nli_anli_augmented_finetune.gin
2.2, Monte-Carlo dropout
    `faith_jax.inference.class_probabilities`
    `faith-jax score --scorer-option=nli_e_minus_c.dropout_passes=15`
2, entailment minus contradiction (e-c)
    `faith_jax.scoring.nli`
    scorer `nli_e_minus_c`
3, TRUE
    `faith_jax.datasets.raw.true_benchmark` (`AVERAGED`: the corpora of the average)
    `faith-jax prepare true_benchmark`; mixture `true_all`
tables 1, 2 and 4, figure 1
    `.tables_1_2_4`, `.table_forms`
    `faith-jax reproduce nli`
table 1's scorers without a model
    `.published_scores`
    `faith-jax reproduce true`
table 3, first-person pronouns
    `.table3_pronouns`
    `faith-jax reproduce pronouns`; `faith-jax evaluate --protocol=pronouns`
table 5 (5.4), draws of phrases
    `.table5_phrase_draws`, `.table_forms`
    `faith-jax reproduce nli_phrases`
SummaC and Q², with which the paper compares
    `faith_jax.scoring.sentences.summac`, `faith_jax.scoring.q2`
    scorers `summac_zs`, `q2_nli`

The published figures are in `tables_1_2_4.json` and `published_scores.json`. docs/nli.md is the
guide, and lists the differences from the paper.
"""
