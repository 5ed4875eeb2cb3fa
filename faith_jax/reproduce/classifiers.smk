# Trains classifiers, and scores data sets by each. Included by workflows that define `table` and
# `faith_jax`.
include: "train.smk"


rule score:
    output:
        "scores/{name}.jsonl",
    input:
        lambda w: [f"models/{t}.trained" for t in [table.scores[w.name].after] if t],
    params:
        arguments=lambda w: shlex.join(table.scores[w.name].arguments),
        models=lambda w: table.scores[w.name].models,
    threads: workflow.cores
    shell:
        "{faith_jax} score {params.arguments} --output={output}"
