"""How each model family publishes its checkpoints: its config.json and its tensors' names."""
