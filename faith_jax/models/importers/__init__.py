"""Readers and writers of checkpoints: Hugging Face folders, T5X checkpoints and our own."""
