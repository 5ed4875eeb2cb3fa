"""Training: objectives, optimizers, train state, trainer and checkpoints."""
