"""Scorers that compare words and need no model."""
