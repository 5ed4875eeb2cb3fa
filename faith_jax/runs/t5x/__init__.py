"""Gin files that were written for T5X."""
