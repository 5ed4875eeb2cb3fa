"""Gin files: our own, in T5X's dialect, and those that were written for T5X."""
