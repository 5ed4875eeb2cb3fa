"""Dziri 2022, FaithDial: the map of the paper.

Each part of the paper lists its modules first (a leading dot: in this package), then the recipe,
command or scorer that runs it.

2, the data and its labels
    `faith_jax.datasets.raw.faithdial`, `faith_jax.core.labels`
    `faith-jax prepare faithdial`
table 2, statistics of the data
    `faith_jax.statistics.dataset_statistics`
    `faith-jax describe faithdial`
5.1, the critic
    `faith_jax.scoring.pair_classifier`
    faith_critic_finetune.gin; scorer `faith_critic`
table 4, the critics' transfer
    `.critics`, `.critic_accuracy`
    `faith-jax reproduce faith_critic`
5.2, InfoNCE (equations 1 and 2)
    `faith_jax.training.infonce`
    faithdial_generate_infonce.gin
5.2, negatives: perturb and generate
    `.knowledge_perturbation`, `.negatives`
    `faith-jax negatives`
5.2, CTRL's control tokens
    `faith_jax.datasets.augmentation.control_tokens`, `.control_tokens`
    `faith-jax control-tokens`; faithdial_generate_ctrl.gin
5.2, loss truncation
    `faith_jax.training.loss_truncation`
    faithdial_generate_loss_truncation.gin
5.2, DoHA
    `faith_jax.checkpoints.doha`
    faithdial_generate_doha.gin
tables 5 and 8, generators and their transfer
    `.generators`
    `faith-jax reproduce faithdial`
table 7, and the judgements by people in table 8
    `faith_jax.annotation.ratings`
    `faith-jax annotate ratings`

The published figures are in `generators.json` and `critics.json`. docs/faithdial.md is the guide,
and docs/fidelity_faithdial.md lists the differences from the paper.
"""
