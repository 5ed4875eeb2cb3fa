"""Scorers of words alone, which need no model."""
