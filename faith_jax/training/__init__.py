"""Training: objectives, optimizers, train state, trainer, checkpoints and partitioning."""
