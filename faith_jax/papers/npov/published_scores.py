"""Chang 2024's tables of scorers, described by the .json file beside this module."""

from faith_jax.papers.tables import read_tables

_TABLES = read_tables(__name__)
NPOV, NPOV_WORDS = _TABLES["npov"], _TABLES["npov_words"]
