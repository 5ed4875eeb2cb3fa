"""Attention: one layer for all model families, its implementations, and its masks."""
