# Nandwani 2023's table 3: respond by several decodings, score, evaluate.
#
# `faith-jax reproduce pmi_decode` runs this with the options of its command line; the settings are
# in pmi_decode.py, the paper's figures in pmi_decode.json.
import json
import shlex
import sys

from faith_jax.reproduce import pmi_decode
from faith_jax.reproduce.workflow import flags, scorer_flags

options = pmi_decode.Options(**config["options"])
table = pmi_decode.Table(options, config["rows"])
name = "pmi_decode_sample" if options.sample else "pmi_decode"
faith_jax = f"{shlex.quote(sys.executable)} -m faith_jax"


rule all:
    input:
        f"{name}.md",


rule infer:
    output:
        "responses/{corpus}/{decoding}/predictions.jsonl",
    params:
        search=lambda w: "decoding" if w.decoding == pmi_decode.BASELINE else "pmi",
        flags=lambda w: flags(table.decoding_bindings(w.corpus, w.decoding)),
    threads: workflow.cores
    shell:
        # Snakemake makes the output's folder, which infer wants to make itself.
        "rmdir responses/{wildcards.corpus}/{wildcards.decoding} && "
        "{faith_jax} infer --gin_file=runs/infer.gin --gin_file=decoding/{params.search}.gin"
        " {params.flags} --gin.INFER_OUTPUT_DIR=responses/{wildcards.corpus}/{wildcards.decoding}"


include: "judge.smk"
