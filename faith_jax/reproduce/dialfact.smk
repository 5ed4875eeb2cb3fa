# DialFact's tables: score claims, find evidence.
#
# `faith-jax reproduce dialfact` runs this, and makes the tables of what it leaves.
rule dialfact:
    input:
        config["made"],


include: "table.smk"


rule index:
    output:
        directory("knowledge"),
    shell:
        "{faith_jax} index sample {output}"


rule evidence:
    output:
        multiext("evidence/{name}", ".jsonl", ".json"),
    input:
        told("evidence", "inputs"),
    params:
        arguments=told("evidence", "arguments"),
        state=told("evidence", "state"),
    threads: workflow.cores
    shell:
        "{faith_jax} evidence {params.arguments} --output={output[0]} --json={output[1]}"
