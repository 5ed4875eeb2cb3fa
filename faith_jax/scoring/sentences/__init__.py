"""Scorers that compare single sentences by natural language inference."""
