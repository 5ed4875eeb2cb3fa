# Chang 2024's study: respond, put errors into responses, score.
#
# `faith-jax reproduce npov_detection` runs this with the options of its command line, and makes
# tables 1, 2, 3, 5 and 6 of the scores. The settings are in npov_detection.py, the tables' forms
# and the paper's figures in npov_detection.json.
import shlex
import sys

from faith_jax.datasets.npov.choices import TEMPERATURES
from faith_jax.reproduce import npov_detection
from faith_jax.reproduce.workflow import flags, scorer_flags

study = npov_detection.Study(npov_detection.Options(**config["options"]))
faith_jax = f"{shlex.quote(sys.executable)} -m faith_jax"


rule all:
    input:
        expand("scored/{detector}.jsonl", detector=study.detectors),


rule inputs:
    output:
        expand("inputs/t{temperature:.1f}.jsonl", temperature=TEMPERATURES),
    input:
        study.topics,
    params:
        flags=study.input_flags,
    shell:
        "{faith_jax} npov inputs --output=inputs {params.flags}"


rule infer:
    output:
        "t{temperature}/predictions.jsonl",
    input:
        "inputs/t{temperature}.jsonl",
    params:
        flags=lambda w: flags(study.decoding_bindings(w.temperature)),
        state=study.state(study.options.model),
    threads: workflow.cores
    shell:
        # Snakemake makes the output's folder, which infer wants to make itself.
        "rmdir t{wildcards.temperature} && "
        "{faith_jax} infer --gin_file=runs/infer_file.gin --gin_file=decoding/temperature.gin"
        " {params.flags} --gin.INPUT_FILE={input} --gin.INFER_OUTPUT_DIR=t{wildcards.temperature}"


rule responses:
    output:
        "responses.jsonl",
    input:
        expand("t{temperature:.1f}/predictions.jsonl", temperature=TEMPERATURES),
    shell:
        "cat {input} > {output}"


rule sets:
    output:
        "data/sets.json",
        "data/test.jsonl",
    input:
        "responses.jsonl",
        study.topics,
        study.marks,
    params:
        flags=study.set_flags,
    shell:
        "{faith_jax} npov sets --input=responses.jsonl --output=data {params.flags}"


rule score:
    output:
        "scored/{detector}.jsonl",
    input:
        "data/test.jsonl",
    params:
        scorers=lambda w: ",".join(study.detectors[w.detector]),
        flags=lambda w: scorer_flags(study.detectors[w.detector], study.detectors[w.detector]),
        states=lambda w: study.states(w.detector),
    threads: workflow.cores
    shell:
        "{faith_jax} score --input={input} --output={output} --scorers={params.scorers}"
        " --batch-size=32 {params.flags}"
