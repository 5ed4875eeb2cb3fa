"""Hugging Face folders of each model family, read and written."""
