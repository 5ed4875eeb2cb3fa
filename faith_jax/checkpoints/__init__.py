"""Checkpoints: read in every known form, written as Hugging Face folders and in our own form."""
