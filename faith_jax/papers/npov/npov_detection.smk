# Chang 2024's study: respond, put errors into the responses, score.
#
# `faith-jax reproduce npov_detection` runs this, and makes tables 1, 2, 3, 5 and 6 from the scores.
# The steps' arguments are in detection_tables.py, the tables' forms and the paper's figures in
# detection_tables.json.
rule study:
    input:
        config["made"],


include: "../table.smk"


rule inputs:
    output:
        [f"inputs/{name}.jsonl" for name in config["infer"]],
    input:
        config["topics"],
    params:
        arguments=config["inputs"],
    shell:
        "{faith_jax} npov inputs --output=inputs {params.arguments}"


rule responses:
    output:
        "responses.jsonl",
    input:
        [f"responses/{name}/predictions.jsonl" for name in config["infer"]],
    shell:
        "cat {input} > {output}"


rule sets:
    output:
        "data/sets.json",
        "data/test.jsonl",
    input:
        "responses.jsonl",
        config["topics"],
        config["marks"],
    params:
        arguments=config["sets"],
    shell:
        "{faith_jax} npov sets --input=responses.jsonl --output=data {params.arguments}"
