# NLI models on TRUE (Steen 2023, tables 1, 2 and 4): score all corpora by each model's methods.
#
# `faith-jax reproduce nli` runs this with the options of its command line, and makes the tables of
# the scores; methods are in nli.py, the paper's figures in nli.json.
import shlex
import sys

from faith_jax.reproduce import nli
from faith_jax.reproduce.workflow import flags

table = nli.Table(nli.Options(**config["options"]), config["rows"])
faith_jax = f"{shlex.quote(sys.executable)} -m faith_jax"


rule all:
    input:
        [f"scores/{name}.jsonl" for name in table.scores],


include: "classifiers.smk"
