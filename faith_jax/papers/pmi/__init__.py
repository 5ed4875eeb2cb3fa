"""Nandwani 2023, PMI-Faith and PMI-Decode: the map of the paper.

Each part of the paper lists its modules first (a leading dot: in this package), then the recipe,
command or scorer that runs it.

4.1, PMI-Faith
    `faith_jax.scoring.pmi_faith`
    scorers `pmi_faith_mean`, `pmi_faith_sum`
4.2, PMI-Decode: the score and its mask
    `faith_jax.decoding.pmi`
    decoding/pmi_beam.gin, decoding/pmi_greedy.gin, decoding/pmi_nucleus.gin
table 1, BEGIN
    `.begin`, `.published_scores`
    `faith-jax reproduce begin`; `faith-jax evaluate --protocol=begin`
table 2, the data of table 3
    `faith_jax.datasets.raw.multidoc2dial`, `faith_jax.datasets.raw.topical_chat`
    `faith-jax prepare multidoc2dial`
5.2, training of generators
    `faith_jax.runs.train`
    multidoc2dial_generate_finetune.gin, topical_chat_generate_finetune.gin,
      faithdial_generate_finetune.gin
table 3, PMI-Decode
    `.decoding_table`
    `faith-jax reproduce pmi_decode`; multidoc2dial_pmi_decode.gin, topical_chat_pmi_decode.gin,
      faithdial_pmi_decode.gin

The published figures are in `decoding_table.json` and `published_scores.json`. docs/pmi.md is the
guide, and says what differs.
"""
