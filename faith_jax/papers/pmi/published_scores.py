"""Nandwani 2023's table of scorers, described by the .json file beside this module."""

import dataclasses

from faith_jax.papers.options import PAPERS_OPTIONS
from faith_jax.papers.tables import read_tables

BEGIN = dataclasses.replace(read_tables(__name__)["begin"], defaults=PAPERS_OPTIONS)
