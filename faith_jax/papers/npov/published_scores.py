"""The tables of scorers of Chang 2024; the .json file beside this describes them."""

from faith_jax.papers.tables import read_tables

_TABLES = read_tables(__name__)
NPOV, NPOV_WORDS = _TABLES["npov"], _TABLES["npov_words"]
