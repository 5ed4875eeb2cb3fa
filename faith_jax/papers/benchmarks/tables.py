"""The tables of benchmarks; the .json file beside this describes them."""

from faith_jax.papers.tables import read_tables

_TABLES = read_tables(__name__)
AGGREFACT, FAITHBENCH = _TABLES["aggrefact"], _TABLES["faithbench"]
RAGTRUTH, SUMMEDITS = _TABLES["ragtruth"], _TABLES["summedits"]
