"""Attention: one layer for all families, its forms, and what may look where."""
