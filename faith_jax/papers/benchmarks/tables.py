"""The tables of benchmarks: each is a description in `tables.json`."""

import importlib.resources
import json

from faith_jax.papers.tables import ScorerTable

_DESCRIBED = json.loads(
    importlib.resources.files(__package__).joinpath("tables.json").read_text(encoding="utf-8")
)

AGGREFACT = ScorerTable(**_DESCRIBED["aggrefact"])
FAITHBENCH = ScorerTable(**_DESCRIBED["faithbench"])
RAGTRUTH = ScorerTable(**_DESCRIBED["ragtruth"])
SUMMEDITS = ScorerTable(**_DESCRIBED["summedits"])
