"""Checkpoints: read in every known form, written as Hugging Face folders and in native form."""
