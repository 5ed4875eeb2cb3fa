"""The fixtures of runs serve tables too."""

from tests.runs.conftest import command, environment, offline_data_dir, start

__all__ = ["command", "environment", "offline_data_dir", "start"]
