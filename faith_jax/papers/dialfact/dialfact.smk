# DialFact's tables: score claims, find evidence.
#
# `faith-jax reproduce dialfact` runs this, and makes the tables from its outputs.
rule dialfact:
    input:
        config["made"],


include: "../table.smk"


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


# Claims with the found evidence, in the form that verifiers read.
rule found:
    output:
        directory("found/{name}"),
    input:
        "evidence/{name}.jsonl",
    params:
        claims=told("evidence", "claims"),
        files=told("evidence", "files"),
    shell:
        "mkdir -p raw/{wildcards.name} && "
        "cp {params.claims:q} raw/{wildcards.name}/{params.files[0]} && "
        "cp {input:q} raw/{wildcards.name}/{params.files[1]} && "
        "{faith_jax} prepare dialfact/retrieved --raw=raw/{wildcards.name} --data-dir={output}"


rule verify:
    output:
        "verdicts/{name}.jsonl",
    input:
        told("verify", "inputs"),
    params:
        arguments=told("verify", "arguments"),
        state=told("verify", "state"),
    threads: workflow.cores
    shell:
        "FAITH_JAX_DATA_DIR={input[0]} {faith_jax} score {params.arguments} --output={output}"
