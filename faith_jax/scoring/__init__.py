"""Scorers that judge whether responses say only what their groundings support."""
