# FaithDial's tables 5 and 8 (Dziri 2022): train, respond, score, evaluate.
#
# `faith-jax reproduce faithdial` runs this with the options of its command line; the systems and
# settings are in faithdial.py, the paper's figures in faithdial.json.
import json
import shlex
import sys

from faith_jax.reproduce import faithdial
from faith_jax.reproduce.workflow import flags, scorer_flags

options = faithdial.Options(**config["options"])
table = faithdial.Table(options, config["rows"])
name = "faithdial_sample" if options.sample else "faithdial"
faith_jax = f"{shlex.quote(sys.executable)} -m faith_jax"


rule all:
    input:
        f"{name}.md",


include: "train.smk"


rule infer:
    output:
        "responses/{corpus}/{kind}/predictions.jsonl",
    input:
        lambda w: [f"models/{t}.trained" for t in table.trainings_of(w.corpus, w.kind)],
    params:
        flags=lambda w: flags(table.decoding_bindings(w.corpus, w.kind)),
    threads: workflow.cores
    shell:
        "{faith_jax} infer --gin_file=runs/infer.gin --gin_file=decoding/nucleus.gin"
        " {params.flags} --gin.INFER_OUTPUT_DIR=responses/{wildcards.corpus}/{wildcards.kind}"


include: "judge.smk"
