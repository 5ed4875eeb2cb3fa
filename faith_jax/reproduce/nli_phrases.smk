# NLI models by phrases (Steen 2023, table 5): train on each draw of phrases, score all corpora.
#
# `faith-jax reproduce nli_phrases` runs this with the options of its command line, and makes the table of
# the scores; the draws are in nli_phrases.py, the paper's figures in nli.json.
import shlex
import sys

from faith_jax.reproduce import nli_phrases
from faith_jax.reproduce.workflow import flags

table = nli_phrases.Table(nli_phrases.Options(**config["options"]), config["rows"])
faith_jax = f"{shlex.quote(sys.executable)} -m faith_jax"


rule all:
    input:
        [f"scores/{name}.jsonl" for name in table.scores],


include: "classifiers.smk"
