"""Runs: gin-configurable functions that wire the rooms below together, one file per run."""
