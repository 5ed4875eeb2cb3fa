# A table: train, respond, score, evaluate.
#
# `faith-jax reproduce TABLE` runs this. The table's module writes the steps, by the names of their
# outputs, to options.json.
import shlex
import sys

faith_jax = f"{shlex.quote(sys.executable)} -m faith_jax"


def told(rule, what):
    """Returns a function that looks up a setting of a rule's step."""
    return lambda wildcards: config[rule][wildcards.name][what]


rule all:
    input:
        config["made"],


rule train:
    output:
        touch("models/{name}.trained"),
    input:
        told("train", "inputs"),
    params:
        arguments=told("train", "arguments"),
        state=told("train", "state"),
    threads: workflow.cores
    shell:
        "{faith_jax} train {params.arguments} --gin.MODEL_DIR=models/{wildcards.name}"


rule infer:
    output:
        "responses/{name}/predictions.jsonl",
    input:
        told("infer", "inputs"),
    params:
        arguments=told("infer", "arguments"),
        state=told("infer", "state"),
    threads: workflow.cores
    shell:
        # Snakemake makes the output's folder, which infer wants to make itself.
        "(rmdir responses/{wildcards.name} 2>/dev/null || true) && "
        "{faith_jax} infer {params.arguments} --gin.INFER_OUTPUT_DIR=responses/{wildcards.name}"


rule score:
    output:
        "scores/{name}.jsonl",
    input:
        told("score", "inputs"),
    params:
        arguments=told("score", "arguments"),
        state=told("score", "state"),
    threads: workflow.cores
    shell:
        "{faith_jax} score {params.arguments} --output={output}"


rule evaluate:
    output:
        multiext("{name}", ".md", ".tex", ".csv", ".json"),
    wildcard_constraints:
        name="[^/]+",
    input:
        told("evaluate", "inputs"),
    params:
        arguments=told("evaluate", "arguments"),
        layout=told("evaluate", "layout"),
    shell:
        "printf %s {params.layout:q} > table.json && "
        "{faith_jax} evaluate {input} --table=table.json {params.arguments}"
        " --markdown={output[0]} --latex={output[1]} --csv={output[2]} --json={output[3]}"
