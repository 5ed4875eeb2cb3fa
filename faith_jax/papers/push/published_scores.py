"""Steen 2023's tables of scorers, described by the .json file beside this module."""

from faith_jax.papers.tables import read_tables

_TABLES = read_tables(__name__)
TRUE, PRONOUNS = _TABLES["true"], _TABLES["pronouns"]
