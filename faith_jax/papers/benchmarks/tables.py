"""Tables of AggreFact, FaithBench, RAGTruth and SummEdits, described by the .json file beside this.

TRUE's table is in `papers.push.published_scores`.
"""

from faith_jax.papers.tables import read_tables

_TABLES = read_tables(__name__)
AGGREFACT, FAITHBENCH = _TABLES["aggrefact"], _TABLES["faithbench"]
RAGTRUTH, SUMMEDITS = _TABLES["ragtruth"], _TABLES["summedits"]
