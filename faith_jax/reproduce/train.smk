# Trains models. Included by workflows that define `table` and `faith_jax`.


rule train:
    output:
        touch("models/{training}.trained"),
    input:
        lambda w: [f"models/{t}.trained" for t in [table.trainings[w.training].after] if t],
    params:
        recipe=lambda w: table.trainings[w.training].recipe,
        flags=lambda w: flags(table.trainings[w.training].bindings),
    threads: workflow.cores
    shell:
        "{faith_jax} train --gin_file={params.recipe} {params.flags}"
        " --gin.MODEL_DIR=models/{wildcards.training}"
