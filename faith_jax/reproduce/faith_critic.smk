# FaithDial's table 4 (Dziri 2022): train critics, score pairs by each, evaluate.
#
# `faith-jax reproduce faith_critic` runs this with the options of its command line; the critics and
# data sets are in faith_critic.py, the paper's figures in faith_critic.json.
import json
import shlex
import sys

from faith_jax.reproduce import faith_critic
from faith_jax.reproduce.workflow import flags

options = faith_critic.Options(**config["options"])
table = faith_critic.Table(options, config["rows"])
name = "faith_critic_sample" if options.sample else "faith_critic"
faith_jax = f"{shlex.quote(sys.executable)} -m faith_jax"


rule all:
    input:
        f"{name}.md",


include: "classifiers.smk"


rule evaluate:
    output:
        multiext(name, ".md", ".tex", ".csv", ".json"),
    input:
        [f"scores/{row}.jsonl" for row in table.scores],
    params:
        layout=json.dumps(table.layout()),
        numbers=f"--resamples={options.resamples} --seed={options.seed}",
    shell:
        "printf %s {params.layout:q} > table.json && "
        "{faith_jax} evaluate {input} --protocol=accuracy --table=table.json {params.numbers}"
        " --markdown={output[0]} --latex={output[1]} --csv={output[2]} --json={output[3]}"
