"""Gin files: our own, in T5X's dialect, and files written for T5X."""
