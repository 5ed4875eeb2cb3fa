# FaithDial's tables 5 and 8 (Dziri 2022): train, respond, score, evaluate.
#
# `faith-jax reproduce faithdial` runs this with the options of its command line; the systems and
# settings are in faithdial.py, the paper's figures in faithdial.json.
import json
import pathlib
import shlex
import sys

from faith_jax.reproduce import faithdial
from faith_jax.reproduce.workflow import flags, scorer_flags

options = faithdial.Options(**config["options"])
table = faithdial.Table(options, config["rows"])
published = json.loads(pathlib.Path(workflow.basedir, "faithdial.json").read_text("utf-8"))
name = "faithdial_sample" if options.sample else "faithdial"
faith_jax = f"{shlex.quote(sys.executable)} -m faith_jax"


def score_files():
    return [
        f"scores/{corpus}/{against}.jsonl"
        for corpus in dict(table.responses())
        for against in table.scorers_of(corpus)
    ]


rule all:
    input:
        f"{name}.md",


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


rule score:
    output:
        "scores/{corpus}/{against}.jsonl",
    input:
        lambda w: [
            f"responses/{corpus}/{kind}/predictions.jsonl"
            for corpus, kind in table.responses()
            if corpus == w.corpus
        ],
    params:
        scorers=lambda w: ",".join(table.scorers_of(w.corpus)[w.against]),
        options=lambda w: scorer_flags(table.scorers, table.scorers_of(w.corpus)[w.against]),
    threads: workflow.cores
    shell:
        "{faith_jax} score $(printf -- '--input=%s ' {input}) --corpus={wildcards.corpus}"
        " --grounding-column={wildcards.against} --scorers={params.scorers} {params.options}"
        " --output={output}"


rule evaluate:
    output:
        multiext(name, ".md", ".tex", ".csv", ".json"),
    input:
        scores=score_files(),
    params:
        layout=lambda w: json.dumps(table.layout(published)),
        compare=" ".join(f"--compare={a}:{b}" for a, b in table.comparisons()),
        numbers=f"--resamples={options.resamples} --seed={options.seed}",
    shell:
        "printf %s {params.layout:q} > table.json && "
        "{faith_jax} evaluate {input.scores} --protocol=systems --table=table.json"
        " {params.compare} {params.numbers}"
        " --markdown={output[0]} --latex={output[1]} --csv={output[2]} --json={output[3]}"
