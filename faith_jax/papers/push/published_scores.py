"""The tables of scorers of Steen 2023; the .json file beside this describes them."""

from faith_jax.papers.tables import read_tables

_TABLES = read_tables(__name__)
TRUE, PRONOUNS = _TABLES["true"], _TABLES["pronouns"]
