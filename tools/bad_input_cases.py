"""The commands that `bad_inputs.py` tries, each with a good input to spoil."""

import csv
import dataclasses
import hashlib
import io
import json
import pathlib
import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from column_kinds import spoil_column, write_arrow
from spoiled_files import UNIQUE, Change, copied, spoil_bytes

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Case:
    """A command with a good input.

    Attributes:
      name: the name of the case.
      arguments: the arguments of `faith-jax`, or of `t5x` if the first is "t5x"; {IN} stands for
        the input, {OUT} for the output.
      good: the input, a file or a folder.
      read: glob patterns of the input files that the command reads whole; if one of them is
        unreadable, the command must refuse the input.
      required: keys and columns that these files must have; see `spoiled_files`.
      options: options or macros ("--gin.NAME") that some trials spoil, with the smallest value of
        a number, and None for other types.
      share: the relative number of trials.
      spoil: a function that spoils the input in place of `spoil_file`.
      run: a function to call in place of the command; it raises the errors of a command.
      resumes: the input is also the output, so its contents may change.
      is_data: the input is a folder of raw data, where a missing file only means a missing split.
      finds_encoding: the input is a table that may have an encoding other than UTF-8.
    """

    name: str
    arguments: Sequence[str] = ()
    good: pathlib.Path | None = None
    read: Sequence[str] = ("**/*",)
    required: Collection[str] = ()
    options: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    share: int = 10
    spoil: Callable[[random.Random, pathlib.Path], Change] | None = None
    run: Callable[[pathlib.Path, pathlib.Path], Any] | None = None
    resumes: bool = False
    is_data: bool = False
    finds_encoding: bool = False


_ROWS = [
    ("Bees make honey in summer.", "Bees make honey.", 1),
    ("The river froze in January.", "The river froze in July.", 0),
    ("Tea is warm, and so is soup.", "Soup is warm.", 1),
    ("The old mill burned down.", "The old mill was sold.", 0),
    ("Bread needs flour and water.", "Bread needs flour.", 1),
]
_SAID = [
    {"id": str(i), "grounding": text, "generated_text": said, "label": label, "system": "one"}
    for i, (text, said, label) in enumerate(_ROWS)
]
_TEXT = ("grounding", "generated_text")
# The keys that a builder's raw files must have, at any depth.
_RAW = {
    "begin": "knowledge response begin_label data_source model_name",
    "begin_2021": "evidence response|gold label|full label set",
    "cmu_dog": "conversation_id wikiDocumentIdx history uid docIdx whoSawDoc",
    "colloquial_claims": "fever_id fever_label colloquial_claims evidences title evidence",
    "decode": "record_id turns turn_id is_contradiction",
    "dialfact": "id context_id response response_label type_label data_type",
    "dialogue_nli": "id sentence1 sentence2 label",
    "faith_critic": "utterances knowledge response",
    "faithdial": "utterances knowledge response",
    "faithdial_audit": "",  # rows without a label are empty in the authors' files
    "faithbench": "sample_id source summary metadata summarizer",
    "fever": "claim label evidence",
    "halueval": "knowledge document",
    "llm_aggrefact": "dataset doc claim label",
    "multidoc2dial": "dial_id turns role turn_id utterance doc_text",
    "nli": "id premise hypothesis label",
    "npov_errors": "id topic query response has_hallucination has_coverage_error error paraphrased",
    "procon_npov": "id title question split pro con topic response",
    "ragtruth": "id source_id task_type source_info model labels split response",
    "summedits": "id doc summary label",
    "text_to_text": "id inputs targets",
    "tofueval": "doc_id summ_sent sent_label source",
    "topical_chat": "message agent content",
    "vitaminc": "unique_id claim evidence label",
    "wice": "claim evidence label meta",
    "wizard_of_wikipedia": "chosen_topic dialog speaker",
}
_FAMILIES = (
    *("bart_plain", "bloom_3_heads", "gemma2_softcaps", "gpt2_inner_relu", "llama_rope_llama3"),
    *("mistral_window", "deberta_long", "xlm_roberta"),
)
_BATCH = {"--batch-size": 1}
_DRAWS = {"--resamples": 1, "--confidence": 0, "--seed": 0}
_TRAIN = (
    *("train", f"--gin_search_paths={REPOSITORY}/tests/testdata/gin", "--gin_file=tiny.gin"),
    *("--gin.TRAIN_STEPS=2", "--gin.WARMUP_STEPS=0", "--gin.CHECKPOINT_PERIOD=1"),
)
_TRAIN_MACROS = {
    f"--gin.{name}": low
    for name, low in {
        "BATCH_SIZE": 1, "TRAIN_STEPS": 1, "LEARNING_RATE": 0, "DROPOUT_RATE": 0, "Z_LOSS": 0,
        "WARMUP_STEPS": 0, "CHECKPOINT_PERIOD": 1, "EVAL_PERIOD": 1, "LOG_PERIOD": 1,
        "KEEP_LAST": 1, "NUM_PARTITIONS": 1, "NUM_MICROBATCHES": 1, "LABEL_SMOOTHING": 0,
        "RANDOM_SEED": None, "VOCABULARY": None, "OPTIMIZER": None, "OBJECTIVE": None,
        "MIXTURE_OR_TASK_NAME": None, "MIXTURE_OR_TASK_MODULE": None, "MODEL_DIR": None,
        "TASK_FEATURE_LENGTHS": None, "TRAINABLE": None, "INITIAL_CHECKPOINT_PATH": None,
        "PACK": None, "CUT_POLICY": None, "USE_CACHED_TASKS": None, "KEEP_BEST": None,
        "PATIENCE": 1,
        "LEARNING_RATE_SCHEDULE": None, "config.TransformerConfig.emb_dim": 1,
        "config.TransformerConfig.num_heads": 1, "config.TransformerConfig.mlp_activations": None,
    }.items()
}  # fmt: skip
_INFER = (
    *("infer", "--gin_file=runs/infer_file.gin", "--gin.INFER_OUTPUT_DIR={OUT}"),
    *("--gin.DECODE_LENGTH=4", "--gin.MAX_INPUT_LENGTH=24", "--gin.BATCH_SIZE=4"),
    "--gin.FORMATS=('jsonl',)",
)
_INFER_MACROS = {
    f"--gin.{name}": low
    for name, low in {
        "DECODE_LENGTH": 1, "MAX_INPUT_LENGTH": 1, "BATCH_SIZE": 1, "TEMPERATURE": 0, "LIMIT": 0,
        "FORMATS": None, "KNOWLEDGE": None, "SYSTEM": None, "VOCABULARY": None, "CUT_POLICY": None,
        "RANDOM_SEED": None, "NUM_PARTITIONS": 1, "CHECKPOINT_PATH": None, "INPUT_FILE": None,
        "MODEL": None, "INPUT_CONTROL_TOKENS": None, "ARGUMENTS_PER_SIDE": 1, "TOP_P": 0,
    }.items()
}  # fmt: skip


def write_rows(path: pathlib.Path, rows: Sequence[Mapping[str, Any]]) -> pathlib.Path:
    """Writes rows as JSONL, JSON, CSV, TSV, Parquet or Arrow, depending on the path's suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".parquet", ".arrow"):
        import pyarrow

        return write_arrow(pyarrow.Table.from_pylist(list(rows)), path)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
        return path
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    with open(path, "w", newline="") as file:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def done(*arguments: Any) -> None:
    """Runs a command that must succeed."""
    from faith_jax import cli

    if status := cli.main([str(argument) for argument in arguments]):
        raise SystemExit(f"{arguments}: exit status {status}")


def _scoring(good: pathlib.Path) -> Iterator[Case]:
    options = {"--scorers": None, "--format": None, "--corpus": None, "--system": None, **_BATCH}
    options |= {"--label-column": None, "--label-values": None, "--id-column": None}
    options |= {"--grounding-column": None, "--response-column": None, "--history-column": None}
    for form in ("jsonl", "csv", "tsv", "parquet"):
        rows = write_rows(good / f"rows.{form}", _SAID)
        arguments = ("score", "--scorers=token_f1,bleu", "--input={IN}", "--output={OUT}.jsonl")
        required = (*_TEXT, UNIQUE)
        yield Case(f"score {form}", arguments, rows, (), required, options, 30, finds_encoding=True)
    tasks = ("score", "--scorers=token_f1", "--tfds=npov_errors/sample", "--split=test[:5]")
    choices = {"--tfds": None, "--split": None, "--label-column": None}
    yield Case("score tfds", (*tasks, "--output={OUT}"), options=choices, share=6)
    task = ("score", "--scorers=token_f1", "--task=faithdial_generate_sample", "--split=test")
    yield Case("score task", (*task, "--output={OUT}.jsonl"), options=choices, share=3)


def _scored(good: pathlib.Path) -> Iterator[Case]:
    from faith_jax.datasets.samples import sample_folder

    rows = write_rows(good / "scored/rows.jsonl", _SAID)
    score = ("score", "--scorers=token_f1,bleu", f"--input={rows}")
    npov = (
        *("score", "--scorers=npov_rouge1_hallucination,npov_rouge1_coverage"),
        *("--tfds=npov_errors/sample", "--split=test[:24]", "--label-column=has_hallucination"),
        "--labels-are-errors",
    )
    begin = ("score", "--scorers=token_f1", "--tfds=begin/sample", "--split=test")
    pronouns = ("score", "--scorers=token_f1", "--tfds=true_benchmark/q2_sample", "--split=test")
    protocols = {"auc": score, "accuracy": score, "systems": score, "npov": npov}
    protocols |= {"npov_words": npov, "begin": begin, "pronouns": pronouns}
    draws = {"--scorers": None, "--baseline": None, "--cluster-field": None, **_DRAWS}
    more_of = {"begin": [f"--development={good}/scored/begin.jsonl"]}
    more_of["accuracy"] = ["--scorers=token_f1"]
    for protocol, scored_files in protocols.items():
        file = good / f"scored/{protocol}.jsonl"
        done(*scored_files, f"--output={file}")
        more = more_of.get(protocol, [])
        arguments = ("evaluate", "{IN}", f"--protocol={protocol}", "--json={OUT}", *more)
        required = ("id", "scores", UNIQUE)
        yield Case(f"evaluate {protocol}", arguments, file, (), required, draws, 12)
    layout = {"title": "T", "published": {"rows": {"c": {"A": 9}}}}
    column = {"scorer": "token_f1", "low": 0, "high": 0.01, "digits": 1}
    (good / "table.json").write_text(json.dumps({**layout, "columns": {"A": column}}))
    systems = ("evaluate", f"{good}/scored/systems.jsonl", "--protocol=systems")
    laid_out = (*systems, "--table={IN}", "--latex={OUT}")
    yield Case("evaluate table", laid_out, good / "table.json")
    sample = (sample_folder("dialfact") / "test_split.jsonl").read_text().splitlines()
    claims = [{"id": json.loads(line)["id"], "prediction": "SUPPORTS"} for line in sample]
    claims[0]["prediction"], claims[1]["prediction"] = "REFUTES", "x"
    dialfact = ("evaluate", "{IN}", "--protocol=dialfact", "--dataset=dialfact/sample")
    rows = write_rows(good / "predictions.jsonl", claims)
    choices = {"--split": None, "--dataset": None}
    yield Case("evaluate dialfact", dialfact, rows, (), ("id", "prediction", UNIQUE), choices)
    for form, suffix in {"jsonl": ".jsonl", "parquet": ".parquet", "tfds": ""}.items():
        file = good / f"scored/auc{suffix}"
        if form != "jsonl":
            done(*score, f"--output={file}", f"--format={form}")
            arguments = ("evaluate", "{IN}", "--markdown={OUT}")
            yield Case(f"evaluate {form}", arguments, file, required=("id", "scores"), share=15)
        more = {"--most-examples": 1, "--title": None, **draws}
        arguments = ("report", "{IN}", "--output={OUT}.html")
        yield Case(f"report {form}", arguments, file, (), ("id", "scores"), more, 12)


def _acceptance(good: pathlib.Path) -> Iterator[Case]:
    """Yields cases of labelled scores, the calibration made from them, and new scores."""
    scored = [
        {"id": str(i), "corpus": "c", "label": i % 2, "scores": {"token_f1": i % 2 * 0.5 + i / 500}}
        for i in range(200)
    ]
    rows = write_rows(good / "acceptance/rows.jsonl", scored)
    required = ("id", "scores", UNIQUE)
    calibrate = ("calibrate", "{IN}", "--target=0.1", "--output={OUT}.json")
    ends = {"--target": 0, "--reject-target": 0, "--confidence": 0, "--seed": 0}
    choices = {"--scorer": None, "--guarantee": None, "--cluster-field": None, **ends}
    yield Case("calibrate", calibrate, rows, (), required, choices, 20)
    calibration = good / "acceptance/calibration.json"
    done("calibrate", rows, "--target=0.1", f"--output={calibration}")
    accept = ("accept", "{IN}", f"--calibration={calibration}", "--output={OUT}.jsonl")
    choices = {"--alarm": 0, "--seed": 0, "--corpus": None, "--cluster-field": None}
    yield Case("accept", accept, rows, (), required, choices, 20)
    decide = ("accept", f"{rows}", "--calibration={IN}", "--output={OUT}.jsonl")
    needed = ("format", "scorer", "guarantee", "target", "corpora", "sample", "probabilities")
    yield Case("accept by a calibration", decide, calibration, ("*",), needed, share=20)


def _responses(good: pathlib.Path) -> Iterator[Case]:
    """Yields cases of annotators' sheets, NPOV inputs and data sets, and control tokens."""
    from faith_jax.datasets.samples import sample_folder

    responses = [
        {"id": f"r{i}", "query": f"Is tea {word}?", "pro_arguments": [f"Tea is {word}."],
         "con_arguments": ["Coffee is stronger."],
         "response": f"Some say that tea is {word}. Others say that coffee is stronger."}
        for i, word in enumerate(("calm", "cheap", "old"))
    ]  # fmt: skip
    file = write_rows(good / "responses.jsonl", responses)
    needed = ("pro_arguments", "con_arguments", "response", UNIQUE)
    options = {"--sample": 1, "--seed": 0, "--annotators": None}
    write = ("annotate", "write", "--input={IN}", "--output={OUT}.csv")
    yield Case("annotate write", write, file, (), needed, options, 15, finds_encoding=True)
    marks = ("hallucination", "coverage", "partial_hallucination", "partial_coverage")
    for form in ("csv", "jsonl"):
        sheet = good / f"sheet.{form}"
        done("annotate", "write", f"--input={file}", f"--output={sheet}", "--annotators=ada,ben")
        if form == "jsonl":
            rows = [json.loads(line) for line in sheet.read_text().splitlines()]
        else:
            rows = list(csv.DictReader(io.StringIO(sheet.read_text("utf-8-sig"), newline="")))
        for row in rows:
            row |= dict.fromkeys((*marks, "repetition", "perspective_confusion"), "no")
        write_rows(sheet, rows)
        needed = ("id", "response", "arguments", "annotator", UNIQUE)
        output = ("--output={OUT}.jsonl", "--labels={OUT}-labels.jsonl")
        read = ("annotate", "read", "{IN}", *output)
        yield Case(f"annotate read {form}", read, sheet, (), needed, share=15)
        agreement = ("annotate", "agreement", "{IN}", "--json={OUT}")
        yield Case(f"annotate agreement {form}", agreement, sheet, (), needed, _DRAWS)
    topics = shutil.copytree(sample_folder("procon_npov"), good / "topics")
    inputs = ("npov", "inputs", "--knowledge={IN}", "--output={OUT}")
    needed = ("id", "title", "question", "split", "pro", "con", UNIQUE)
    options = {"--combinations": 1, "--seed": 0, "--splits": None, "--knowledge": None}
    (topics / "responses.jsonl").unlink()
    yield Case("npov inputs", inputs, topics, ("*",), needed, options, 15)
    done("npov", "inputs", f"--output={good}/inputs", "--combinations=3")
    rows = [json.loads(line) for line in (good / "inputs/t0.0.jsonl").read_text().splitlines()]
    for row in rows:
        argument_text = " ".join([*row["pro_arguments"], *row["con_arguments"]])
        row["prediction"] = f"{row['query']} {argument_text}"
    file = write_rows(good / "told.jsonl", rows)
    sets = ("npov", "sets", "--input={IN}", "--output={OUT}")
    options = {"--least-recall": 0, "--least-precision": 0, "--errors-per-response": 0}
    needed = ("id", "query", "prediction", UNIQUE)
    yield Case("npov sets", sets, file, (), needed, options, 15)
    faithdial = good / "faithdial"
    for name in ("train.json", "valid.json"):
        faithdial.mkdir(exist_ok=True)
        shutil.copy(sample_folder("faithdial") / name, faithdial)
    pairs = ("control-tokens", "{IN}", "--pairs={OUT}.jsonl")
    needed = ("utterances", "knowledge", "response")
    options = {"--max-length": 1, "--labels": None, "--nli": None}
    yield Case("control-tokens", pairs, faithdial, ("*",), needed, options)
    labelled = shutil.copytree(faithdial, good / "labelled")
    done("control-tokens", labelled, f"--pairs={good}/pairs.jsonl")
    rows = [json.loads(line) for line in (good / "pairs.jsonl").read_text().splitlines()]
    nli = [{"id": row["id"], "label": "entailment"} for row in rows]
    write_rows(labelled / "nli.jsonl", nli)
    added = ("control-tokens", "{IN}", "--nli={IN}/nli.jsonl")
    yield Case("control-tokens nli", added, labelled, ("*",), (*needed, "id", "label"))
    negatives = ("negatives", "{IN}", "--output={OUT}", "--model=mini", "--tagger=rules")
    (good / "turns").mkdir()
    for name in ("train", "valid", "test"):
        dialogues = json.loads((sample_folder("faithdial") / f"{name}.json").read_text())[:1]
        (good / f"turns/{name}.json").write_text(json.dumps(dialogues))
    few = ("--perturbations=1", "--max-length=4")
    options = {"--perturbations": 1, "--top-p": 0, "--tagger": None, "--model": None}
    yield Case("negatives", (*negatives, *few), good / "turns", ("*",), needed, options, 8)


def _raw_data(good: pathlib.Path) -> Iterator[Case]:
    from faith_jax.datasets.builders.catalogue import BUILDERS
    from faith_jax.datasets.raw_files import sample_files

    for name, builder in BUILDERS.items():
        for config in builder.builder_configs.values():
            files = sample_files(config.dataset)
            if config.sample or not files:
                continue
            folder = good / f"{name}-{config.name}"
            for file, path in files.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                copied(path, folder / file)
            required = [n for part in _RAW.get(name, "").split("|") for n in part.split()]
            required = [*required, "gold label", "full label set"] if "|" in name else required
            arguments = (f"{name}/{config.name}", "--raw={IN}", "--data-dir={OUT}")
            command = "describe" if name in ("begin", "decode", "nli") else "prepare"
            title = f"{command} {name}/{config.name}"
            yield Case(
                title, (command, *arguments), folder, ("*",), required, share=14, is_data=True
            )


def _models(good: pathlib.Path) -> Iterator[Case]:
    """Yields cases of commands that open checkpoints: ours, Transformers', T5X's and PEFT's."""
    import numpy as np

    from faith_jax.checkpoints.checkpoint import Checkpoint
    from faith_jax.checkpoints.native import write_native
    from tests.checkpoints import family_folders, synthetic
    from tests.checkpoints.test_native import prompt_run
    from tests.checkpoints.test_peft import VECTORS, write_peft
    from tests.models.tiny import TINY
    from tests.scoring import tiny_models

    opened = ("import-checkpoint", "{IN}", "{OUT}")
    weights = ("model*.safetensors", "config.json", "*.index.json")
    named = ("model_type",)
    for case in _FAMILIES:
        family_folders.write_case(good / case, case)
        yield Case(f"import {case}", opened, good / case, weights, named, share=14)
    family_folders.write_case(good / "t5", "t5_v1_1")
    yield Case("import t5", opened, good / "t5", weights, named, share=14)
    shapes = synthetic.tensor_shapes()
    synthetic.write_folder(good / "shards", family_folders.draw(shapes), shards=2)
    yield Case("import t5 in shards", opened, good / "shards", weights, named, share=14)
    synthetic.write_t5x(good / "t5x/checkpoint_7", synthetic.tiny_params(TINY))
    (good / "t5x/config.gin").write_text(_t5x_config())
    yield Case("import t5x", opened, good / "t5x", ("checkpoint_7/**/*",), share=20)
    write_native(Checkpoint(TINY, synthetic.tiny_params(TINY)), good / "native")
    export = ("export-checkpoint", "{IN}", "{OUT}")
    yield Case("export native", export, good / "native", ("model.json",), ("config",), share=20)
    done("import-checkpoint", good / "t5", good / "imported")
    imported = good / "imported"
    yield Case("export imported", export, imported, ("model.json",), ("config",), share=14)
    prompt_run(good / "prompted", good / "native", synthetic.tiny_params(TINY))
    out = ("export-prompt", "{IN}", "{OUT}.npy")
    yield Case("export-prompt", out, good / "prompted", ("model.json",), ("config",))
    yield Case("prompt-report", ("prompt-report", "{IN}", "--json={OUT}"), good / "prompted", ())
    base = f"--base={good}/native"
    write_peft(good / "peft")
    command = ("import-prompt", "{IN}", "{OUT}", base)
    needed = ("peft_type", "num_virtual_tokens", "token_dim")
    yield Case("import-prompt peft", command, good / "peft", ("adapter*",), needed, share=14)
    np.save(good / "prompt.npy", VECTORS)
    yield Case("import-prompt npy", command, good / "prompt.npy", (), share=14)
    rows = write_rows(good / "few.jsonl", _SAID[:2])
    nli = ("entailment", "neutral", "contradiction")
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "gpt2": ("pmi_faith_mean", {}),
        "roberta": ("faith_critic", {"label_names": ("Faithful", "Hallucination")}),
        "deberta_nli": ("nli_e_minus_c", {"label_names": nli}),
    }
    for name, (scorer, changes) in models.items():
        tiny_models.write_model(good / name, name, **changes)
        score = ("score", f"--scorers={scorer}", f"--scorer-option={scorer}.model={{IN}}")
        arguments = (*score, f"--input={rows}", "--output={OUT}.jsonl")
        yield Case(f"score {name}", arguments, good / name, weights, named, share=12)
    explain = ("explain", f"--model={good}/gpt2", "--input={IN}", "--json={OUT}")
    options = {"--threshold": 0, "--max-length": 1, "--max-bytes": 1, "--method": None}
    yield Case("explain", explain, rows, (), _TEXT, options, finds_encoding=True)
    yield from _runs(good)


def _t5x_config() -> str:
    """Returns the gin config that T5X writes for the tiny model."""
    fields = {
        "vocab_size": 50, "emb_dim": 8, "num_heads": 2, "num_encoder_layers": 2,
        "num_decoder_layers": 2, "head_dim": 4, "mlp_dim": 16,
        "mlp_activations": ("gelu", "linear"), "dropout_rate": 0.1, "logits_via_embedding": False,
    }  # fmt: skip
    lines = [f"    network.T5Config.{name} = {value!r}\n" for name, value in fields.items()]
    return "from t5x.examples.t5 import network\n" + "".join(line.strip() + "\n" for line in lines)


def _runs(good: pathlib.Path) -> Iterator[Case]:
    """Yields cases of train, eval and infer: settings, gin files, prompts, models and rows."""
    import numpy as np

    done(*_TRAIN, f"--gin.MODEL_DIR={good}/run")
    model = f"--gin.CHECKPOINT_PATH={good}/run"
    train = (*_TRAIN, "--gin.MODEL_DIR={OUT}")
    bounded = {name: low for name, low in _TRAIN_MACROS.items() if name != "--gin.TRAIN_STEPS"}
    yield Case("train settings", train, options=bounded, share=12)
    dry = ("t5x", *train, "--dry_run")
    yield Case("train settings, dry", dry, options=_TRAIN_MACROS, share=20)
    (good / "tiny.gin").write_text((REPOSITORY / "tests/testdata/gin/tiny.gin").read_text())
    file = (*_TRAIN[:1], "--gin_file={IN}", *_TRAIN[3:], "--gin.MODEL_DIR={OUT}", "--dry_run")
    yield Case("train gin file", ("t5x", *file), good / "tiny.gin", share=20, spoil=spoil_gin)
    start = (*train, "--gin.INITIAL_CHECKPOINT_PATH={IN}", "--dry_run")
    yield Case("train from a run", start, good / "run", (), share=10)
    longer = (*_TRAIN, "--gin.TRAIN_STEPS=3", "--gin.MODEL_DIR={IN}")
    yield Case("train resumed", longer, good / "run", (), share=6, resumes=True)
    np.save(good / "start.npy", np.ones((3, 16), np.float32))
    prompt = (
        *("--gin_file=prompts/from_npy.gin", "--gin.PROMPT_FILE={IN}", "--gin.PROMPT_LENGTH=3"),
        f"--gin.INITIAL_CHECKPOINT_PATH={good}/run",
    )
    yield Case("train prompt", (*train, *prompt), good / "start.npy", share=6)
    queries = write_rows(good / "queries.jsonl", [{"id": str(i), "inputs": "x"} for i in range(3)])
    infer = (*_INFER, model, "--gin.INPUT_FILE={IN}")
    yield Case("infer rows", infer, queries, (), ("inputs", UNIQUE), _INFER_MACROS, 20)
    command = (*_INFER, "--gin.CHECKPOINT_PATH={IN}", f"--gin.INPUT_FILE={queries}")
    yield Case("infer model", command, good / "run", ("model.json",), share=12)
    evaluate = ("t5x", "eval", "--gin_file=runs/eval.gin", model, "--gin.EVAL_OUTPUT_DIR={OUT}")
    task = ("--gin.MIXTURE_OR_TASK_NAME=npov_generate_sample", "--gin.SPLIT=validation")
    macros = {f"--gin.{n}": 1 for n in ("BATCH_SIZE", "NUM_PARTITIONS")}
    macros |= {f"--gin.{n}": None for n in ("SPLIT", "VOCABULARY", "DECODING", "CUT_POLICY")}
    macros |= {"--gin.TASK_FEATURE_LENGTHS": None, "--gin.MIXTURE_OR_TASK_NAME": None}
    yield Case("eval settings", (*evaluate, *task), options=macros, share=8)


def spoil_gin(rng: random.Random, path: pathlib.Path) -> Change:
    """Adds a line to a gin file, or breaks it."""
    lines, wrong = path.read_text().splitlines(), (
        "BATCH_SIZE = = 3", "syntax error", "BATCH_SIZE = [1, 2", "MODEL = '''x", "import os",
        "from os import system", "include 'nowhere.gin'", "from nowhere import nothing",
        "undefined.thing.x = 1", "BATCH_SIZE = @os.system()", "include '/etc/passwd'", "import sys",
        f"include '{path}'", "X = %Y\nBATCH_SIZE = %X", "BATCH_SIZE = 'x'", "\x00", "a" * 10_000,
        "TRIAN_STEPS = 3", "BATCH_SIZE = " + "[" * 3000, "import subprocess",
        "config.TransformerConfig.nothing = 1", "config.TransformerConfig.emb_dim = None",
    )  # fmt: skip
    if rng.random() < 0.7:
        line = rng.choice(wrong)
        path.write_text("\n".join([*lines, line]) + "\n")
        return Change(f"the line {line[:40]!r}", True)
    return spoil_bytes(rng, path, path.with_name("canary"))


def _columns(good: pathlib.Path) -> Iterator[Case]:
    """Yields cases of commands that read tables, with columns of all types."""
    folder = good / "columns"
    commands = {
        "score": ("score", "--scorers=token_f1", "--input={IN}", "--output={OUT}.jsonl"),
        "check": ("check", "--input={IN}", "--output={OUT}.jsonl"),
        "annotate": ("annotate", "write", "--input={IN}", "--output={OUT}.csv"),
    }
    for name, arguments in commands.items():
        rows = _SAID
        if name == "check":  # `check` finds the grounding column itself
            rows = [{"id": row["id"], "generated_text": row["generated_text"]} for row in _SAID]
        for form in ("parquet", "arrow", "jsonl", "json", "csv", "tsv"):
            path = write_rows(folder / f"{name}.{form}", rows)
            share = 12 if name == "score" else 5
            title = f"columns of {name} {form}"
            yield Case(title, arguments, path, share=share, spoil=spoil_column)
    scored = [{"id": r["id"], "label": r["label"], "scores": {"a": 0.5}} for r in _SAID]
    for form in ("jsonl", "parquet"):
        path = write_rows(folder / f"scored.{form}", scored)
        for name, option in {"evaluate": "--json={OUT}", "report": "--output={OUT}.html"}.items():
            arguments = (name, "{IN}", option)
            title = f"columns of {name} {form}"
            yield Case(title, arguments, path, share=8, spoil=spoil_column)
    queries = [{"id": r["id"], "inputs": r["grounding"]} for r in _SAID]
    path = write_rows(folder / "queries.jsonl", queries)
    infer = (*_INFER, "--gin.CHECKPOINT_PATH=mini", "--gin.INPUT_FILE={IN}")
    yield Case("columns of infer", infer, path, share=5, spoil=spoil_column)
    raw = write_rows(folder / "raw/train.jsonl", [{"inputs": "a", "targets": "b", "id": "1"}])
    prepare = ("prepare", "text_to_text/full", "--raw={IN}", "--data-dir={OUT}")
    yield Case("columns of prepare", prepare, raw.parent, share=5, spoil=_spoil_raw_column)


def _spoil_raw_column(rng: random.Random, folder: pathlib.Path) -> Change:
    return spoil_column(rng, folder / "train.jsonl")


def _options(good: pathlib.Path) -> Iterator[Case]:
    """Yields cases of commands of which only the options are spoiled."""
    tasks = {"--rows": 1, "--inputs-length": 1, "--targets-length": 1, "--split": None}
    yield Case("tasks", ("tasks", "npov_generate_sample"), options=tasks, share=6)
    begin = ("reproduce", "begin", "--sample", "--scorers=bleu", "--output={OUT}")
    options = {"--scorers": None, "--scorer-option": None}
    yield Case("reproduce begin", begin, options=options, share=4)
    models = {
        "pmi_decode": "--model=mini", "npov_detection": "--model=mini",
        "faithdial": "--models=t5=mini", "faith_critic": f"--critics=MNLI={good}/deberta_nli",
        "nli": f"--model={good}/deberta_nli", "nli_phrases": f"--model={good}/deberta_nli",
    }  # fmt: skip
    counted = {"--seed": 0, "--cores": 0, "--resamples": 100, "--batch-size": 1}
    tables: dict[str, dict[str, float | None]] = {
        "pmi_decode": {"--alpha": 0, "--p": 0, "--beams": 1, "--corpus": None, "--model": None},
        "npov_detection": {"--marks": None, "--classifiers": None, "--combinations": 1},
        "faithdial": {"--models": None, "--methods": None, "--seeds": None, "--trained": None,
                      "--train-steps": 1, "--learning-rate": 0},
        "faith_critic": {"--critics": None, "--sets": None, "--model": None, "--train-steps": 0},
        "nli": {"--corpora": None, "--methods": None, "--model": None, "--dropout-passes": 1},
        "nli_phrases": {"--draws": 1, "--phrases": 1, "--train-task": None, "--learning-rate": 0},
    }  # fmt: skip
    for name, spoiled_options in tables.items():
        command = ("reproduce", name, "--sample", "--dry-run", "--output={OUT}", models[name])
        few = {} if name.startswith("nli") else counted
        yield Case(f"reproduce {name}", command, options={**spoiled_options, **few}, share=2)


_CONTENT = b"id\ttext\n1\tA.\n"


_ARCHIVES = (
    *("whole", "escapes", "absolute", "link", "hard link", "a folder", "missing", "cut", "bits"),
    *("device", "bomb"),
)


def _write_archive(kind: str, flaw: str, rng: random.Random, path: pathlib.Path) -> None:
    """Writes an archive with a flaw; the member `a/data.tsv` is the one to extract."""
    buffer, member = io.BytesIO(), "a/data.tsv"
    names = {"escapes": "../escaped.tsv", "absolute": "/tmp/escaped.tsv", "missing": "b.tsv"}
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            info = zipfile.ZipInfo(f"{member}/" if flaw == "a folder" else names.get(flaw, member))
            if flaw == "link":
                info.external_attr = 0o120777 << 16
            body = b"" if flaw == "a folder" else _CONTENT * (10**6 if flaw == "bomb" else 5)
            archive.writestr(info, b"/etc/passwd" if flaw == "link" else body)
    else:
        with tarfile.open(fileobj=buffer, mode=f"w:{rng.choice(('gz', ''))}") as archive:
            entry = tarfile.TarInfo(names.get(flaw, member))
            types = {"link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE,
                     "a folder": tarfile.DIRTYPE, "device": tarfile.CHRTYPE}  # fmt: skip
            entry.type = types.get(flaw, tarfile.REGTYPE)
            entry.linkname = "/etc/passwd" if "link" in flaw else ""
            entry.size = 0 if entry.type != tarfile.REGTYPE else len(_CONTENT)
            archive.addfile(entry, io.BytesIO(_CONTENT))
    content = bytearray(buffer.getvalue())
    if flaw == "cut":
        content = content[: rng.randrange(len(content) // 4)]
    if flaw == "bits":
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(content))


def _spoil_archive(kind: str, rng: random.Random, path: pathlib.Path) -> Change:
    flaw = rng.choice(_ARCHIVES)
    _write_archive(kind, flaw, rng, path)
    never = ("escapes", "absolute", "a folder", "missing", "cut")
    links = ("link", "hard link", "device") if kind == "tar" else ()
    return Change(f"{kind}: {flaw}", flaw in (*never, *links))


def spoil_zip(rng: random.Random, path: pathlib.Path) -> Change:
    """Writes a bad zip archive."""
    return _spoil_archive("zip", rng, path)


def spoil_tar(rng: random.Random, path: pathlib.Path) -> Change:
    """Writes a bad tar archive."""
    return _spoil_archive("tar", rng, path)


def spoil_word_net(rng: random.Random, path: pathlib.Path) -> Change:
    """Writes an archive that is not a valid WordNet."""
    return Change(spoil_zip(rng, path).what, True)


def take_from_archive(archive_file: pathlib.Path, output: pathlib.Path) -> int:
    """Extracts a data set's file from an archive that is already downloaded."""
    from faith_jax.datasets import raw_files
    from faith_jax.datasets.raw_dataset import RawDataset, RawFile

    content = archive_file.read_bytes()
    output.mkdir()
    shutil.copyfile(archive_file, output / "archive")
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    file = RawFile("data.tsv", "http://127.0.0.1:9/archive", digest, "a/data.tsv")
    dataset = RawDataset(
        "demo", "official", {"test": ("data.tsv",)}, {"id": "text"}, lambda *_: iter(()), "", "",
        "", "", {"data.tsv": file},
    )  # fmt: skip
    try:
        raw_files.official_files(dataset, ["data.tsv"], [output / "none"], output)
    finally:
        (output / "archive").unlink()
        if not any(output.iterdir()):
            output.rmdir()
    return 0


def load_word_net(zip_file: pathlib.Path, output: pathlib.Path) -> int:
    """Looks up antonyms in NLTK's WordNet, a zip archive."""
    import nltk

    from faith_jax.papers.dialfact.antonyms import load_antonyms

    folder = zip_file.with_name("in.nltk") / "corpora"
    folder.mkdir(parents=True)
    shutil.copyfile(zip_file, folder / "wordnet.zip")
    former_path, nltk.data.path[:] = list(nltk.data.path), [str(folder.parent)]
    try:
        load_antonyms()("cold")
    finally:
        nltk.data.path[:] = former_path
        shutil.rmtree(folder.parent)
    return 0


def _archives(good: pathlib.Path) -> Iterator[Case]:
    for kind, spoil in {"zip": spoil_zip, "tar": spoil_tar}.items():
        _write_archive(kind, "whole", random.Random(0), good / kind)
        yield Case(f"archive {kind}", good=good / kind, spoil=spoil, run=take_from_archive)
    yield Case("WordNet", good=good / "zip", spoil=spoil_word_net, run=load_word_net, share=3)


def all_cases(good: pathlib.Path, only: Collection[str] = ()) -> list[Case]:
    """Writes the good inputs into a folder and returns all cases or the named ones.

    Args:
      good: a new folder.
      only: names of cases, or prefixes of names.
    """
    good.mkdir(parents=True)
    makers = (_scoring, _scored, _acceptance, _responses, _raw_data)
    makers += (_columns, _models, _options, _archives)
    cases: list[Case] = []
    for make in makers:
        cases += make(good)
    return [case for case in cases if not only or case.name.startswith(tuple(only))]
