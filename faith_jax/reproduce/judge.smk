# Scores responses and makes the table of systems. Included by workflows that define `table`, `name`
# and `faith_jax`.


rule score:
    output:
        "scores/{corpus}/{against}.jsonl",
    input:
        lambda w: [f"responses/{path}/predictions.jsonl" for path in table.responses_to(w.corpus)],
    params:
        inputs=lambda w, input: " ".join(f"--input={path}" for path in input),
        scorers=lambda w: ",".join(table.scorers_of(w.corpus)[w.against]),
        options=lambda w: scorer_flags(table.scorers, table.scorers_of(w.corpus)[w.against]),
    threads: workflow.cores
    shell:
        "{faith_jax} score {params.inputs} --corpus={wildcards.corpus} --output={output}"
        " --grounding-column={wildcards.against} --scorers={params.scorers} {params.options}"


rule evaluate:
    output:
        multiext(name, ".md", ".tex", ".csv", ".json"),
    input:
        [f"scores/{corpus}/{against}.jsonl" for corpus in table.corpora for against in table.scorers_of(corpus)],
    params:
        layout=json.dumps(table.layout()),
        compare=" ".join(f"--compare={system}:{base}" for system, base in table.comparisons()),
        numbers=f"--resamples={options.resamples} --seed={options.seed}",
    shell:
        "printf %s {params.layout:q} > table.json && "
        "{faith_jax} evaluate {input} --protocol=systems --table=table.json"
        " {params.compare} {params.numbers}"
        " --markdown={output[0]} --latex={output[1]} --csv={output[2]} --json={output[3]}"
