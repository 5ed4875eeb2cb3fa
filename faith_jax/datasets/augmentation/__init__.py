"""Text-to-text augmentation: pure functions that take a seed."""
