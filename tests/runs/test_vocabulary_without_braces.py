"""Each recipe end to end with a vocabulary that lacks braces, like T5's published one."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from flax.serialization import msgpack_serialize

from faith_jax.checkpoints.checkpoint import Checkpoint, flatten, unflatten
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.core import templates
from faith_jax.core.templates import PUBLISHED, Notation
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.input_rows import input_row
from faith_jax.inference.texts.row_tokens import RowTokens
from faith_jax.inference.texts.text_reader import TextReader
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer, parameter_shapes
from faith_jax.scoring.npov_error_classifier import _label_tokens
from faith_jax.scoring.pmi_faith import Prompter
from faith_jax.scoring.salience.inputs import SalienceEncoder
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.paths import REAL, needs_shared
from tests.quick import slow_except
from tests.runs.conftest import seqio_task, settings
from tests.tokenizers import without_braces

SQUARE = Notation("[]", "[]")
# One for each way to write rows.
RECIPES = (
    "dialfact_verify_generate_finetune",
    "faithdial_generate_ctrl",
    "faithdial_generate_infonce",
    "multidoc2dial_generate_finetune",
    "npov_coverage_prompt_tune",
    "npov_generate_finetune",
    "topical_chat_generate_finetune",
)
# One for each way to be scored.
WHOLE = ("npov_generate_prompt_tune", "npov_hallucination_finetune")
LENGTHS = {"inputs": 192, "targets": 192}


def tiny_t5(**changes):
    """A tiny random T5 1.1: its config and parameters."""
    config = TransformerConfig(**without_braces.T5 | changes)
    shapes = flatten(parameter_shapes(Transformer(config))["params"])
    rng = np.random.default_rng(0)
    params = {n: 0.1 * rng.normal(size=s.shape).astype("f") for n, s in sorted(shapes.items())}
    return Checkpoint(config, unflatten(params))


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """A Hugging Face folder of a tiny random T5 with such a vocabulary."""
    folder = tmp_path_factory.mktemp("published") / "t5"
    write_huggingface(tiny_t5(), folder)
    without_braces.write(folder)
    return folder


def train(recipe, t5, model_dir, *more):
    """The arguments of a training of two steps."""
    lengths = LENGTHS | ({"negatives": (2, 192)} if "infonce" in recipe else {})
    return (
        "train",
        f"--gin_file={recipe}.gin",
        *settings(INITIAL_CHECKPOINT_PATH=t5, MODEL_DIR=model_dir),
        *settings(MIXTURE_OR_TASK_NAME=task(recipe), TASK_FEATURE_LENGTHS=lengths, TRAIN_STEPS=2),
        *settings(WARMUP_STEPS=0, BATCH_SIZE=2, NUM_MICROBATCHES=1, DECODING=None),
        *more,
    )


def task(recipe):
    """The task of a recipe over the embedded sample."""
    name = recipe.removesuffix("_finetune").removesuffix("_prompt_tune")
    return name.replace("dialfact_verify_generate", "fact_verify") + "_sample"


@pytest.mark.slow
@pytest.mark.usefixtures("own_seqio_tasks", "uncosted")
def test_tasks_of_the_users_own_have_no_delimiters(t5, command, tmp_path, caplog):
    def drinks(split, shuffle_files, seed=None):
        rows = {"inputs": ["what grows on hills?"], "targets": ["tea"]}
        return tf.data.Dataset.from_tensor_slices(rows)

    task = seqio_task("without_formats", drinks)
    lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 24, 'targets': 16}"
    model = tmp_path / "model"
    named = f"--gin.MIXTURE_OR_TASK_NAME={task}"
    command.succeeds(*train(RECIPES[0], t5, model), named, lengths, "--dry_run")
    assert f"VOCABULARY: {t5 / 'spiece.model'}, which the checkpoint carries" in caplog.text
    assert "Delimiters" not in caplog.text


@pytest.mark.usefixtures("uncosted")
@pytest.mark.parametrize("recipe", slow_except(RECIPES, ["npov_coverage_prompt_tune"]))
def test_each_recipe_writes_its_rows_with_other_delimiters(recipe, t5, command, tmp_path, caplog):
    command.succeeds(*train(recipe, t5, tmp_path / "model"), "--dry_run")
    for published in ("{}", "<>"):
        assert f"Delimiters: [] in place of {published}" in caplog.text
    report = json.loads((tmp_path / "model.preflight.json").read_text())
    assert report["examples"]
    for example in report["examples"]:
        inputs = re.sub("^(<extra_id_[0-9]+> )*", "", example["inputs"])
        assert inputs[0] == "[", example
        assert not set("{}<⁇") & set(inputs + example["targets"]), example


@pytest.mark.slow
@pytest.mark.parametrize("recipe", WHOLE)
def test_a_recipe_trains_responds_and_is_scored(recipe, t5, command, tmp_path):
    model = tmp_path / "model"
    command.succeeds(*train(recipe, t5, model))
    assert load_vocabulary(model).notation == SQUARE
    predictions = responds(recipe, model, command, tmp_path)
    is_scored(recipe, model, predictions, command, tmp_path / "scored.jsonl")


def responds(recipe, model, command, tmp_path):
    """Responds to the recipe's rows, and finds neither delimiters nor other tags in any text."""
    output = tmp_path / "out"
    command.succeeds(
        "infer",
        "--gin_file=runs/infer.gin",
        *settings(CHECKPOINT_PATH=model, MIXTURE_OR_TASK_NAME=task(recipe), SPLIT="'train'"),
        *settings(TASK_FEATURE_LENGTHS=LENGTHS, INFER_OUTPUT_DIR=output, DECODE_LENGTH=4),
        *settings(BATCH_SIZE=8, FORMATS="('jsonl',)"),
    )
    (written,) = output.glob("*.jsonl")
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    assert rows
    for row in rows:
        inputs = re.sub("^(<extra_id_[0-9]+> )*", "", row["inputs"])
        assert inputs[0] in "{<", row  # as published, for other programs
        assert "[" not in inputs, row
        assert not set("{}[]<⁇") & set(row["target"]), row
    return written


def is_scored(recipe, model, predictions, command, output):
    """Scores the targets of the responses by words, or the task's rows by the classifier."""
    if recipe.startswith(("npov_hallucination", "npov_coverage")):
        scorer = recipe.removesuffix("_finetune").removesuffix("_prompt_tune")
        source = (f"--task={task(recipe)}", "--split=validation")
        options = (f"--scorer-option={scorer}.model={model}",)
    else:
        scorer, source = "token_f1", (f"--input={predictions}", "--skip-bad-rows")
        options = ("--response-column=target",)
    command.succeeds("score", *source, f"--scorers={scorer}", *options, f"--output={output}")
    scores = [json.loads(line)["scores"][scorer] for line in output.read_text().splitlines()]
    assert len(scores) > 2
    assert all(0 <= score <= 1 for score in scores)


def test_a_model_that_writes_the_format_is_read(t5):
    """The outputs of a perfect model are read without delimiters: responses and labels."""
    tokenizer = load_vocabulary(t5)
    assert tokenizer.notation == SQUARE
    for targets, read, value in (
        (templates.npov_generate_targets, templates.npov_response, "Tea [green] {hot} is good."),
        (templates.npov_classifier_targets, templates.npov_label, "YES"),
    ):
        ids = tokenizer.encode(tokenizer.notation.to_model_notation(targets(value)))
        assert tokenizer.unk_id not in ids
        assert read(tokenizer.decode(ids)) == value.translate(str.maketrans("[]{}", "()()"))


def test_scorers_and_both_branches_of_pmi_use_the_delimiters(t5):
    tokenizer, config = load_vocabulary(t5), TransformerConfig(**without_braces.T5)
    labels = _label_tokens(tokenizer, "YES", "NO")
    assert [tokenizer.decode(ids) for ids in labels] == ["[label:", "YES", "NO"]
    row = input_row({"knowledge": "Tea [1] is hot.", "history": ["Hi!"]}, "here", "a")
    read = RowTokens.of(config, tokenizer, 64, "max_length", "knowledge", pmi=True)(row)
    assert tokenizer.decode(read.ids) == "[knowledge] Tea (1) is hot. [seeker] Hi!"
    assert tokenizer.decode(read.second) == "[seeker] Hi!"
    reader = TextReader(tokenizer, config.vocab_size, 64, causal=False)
    example = GroundedExample("a", Grounding(("Tea is hot.",)), ("Hi!",), "It is.")
    scored = Prompter(reader, None)(example)
    assert tokenizer.decode(scored.with_document.inputs) == ("[knowledge] Tea is hot. [seeker] Hi!")
    assert tokenizer.decode(scored.without_document.inputs) == "[seeker] Hi!"


def test_salience_finds_the_same_words(t5):
    """The delimiters have other ids and the same places."""
    grounding = Grounding(("Green tea calms.", "Tea {black} stains."), ("pro", "con"))
    example = GroundedExample("a", grounding, ("Is tea good?",), "Some say tea calms.")
    config = TransformerConfig(**without_braces.T5)
    mine, published = (
        SalienceEncoder(TextReader(tokenizer, config.vocab_size, 96, causal=False))(example)
        for tokenizer in (load_vocabulary(t5), load_vocabulary())
    )
    assert mine.argument_words == published.argument_words
    assert mine.response_words == published.response_words
    assert {word.word.text for word in mine.argument_words} >= {"Green", "black", "stains"}
    tokenizer = load_vocabulary(t5)
    assert tokenizer.decode(mine.row.inputs) == (
        "[query: Is tea good?] [pro: Green tea calms.] [con: Tea (black) stains.]"
    )
    assert tokenizer.decode(mine.row.targets) == "[response: Some say tea calms.]"


@pytest.mark.usefixtures("undecoded")
def test_unknown_tokens_are_reported(t5, command, tmp_path, caplog):
    rows = tmp_path / "rows.jsonl"
    row = {"query": "Is ~tea~ good?", "pro": "It is `hot`.", "con": "It stains."}
    rows.write_text(json.dumps(row) + "\n")
    infer = (
        "infer",
        "--gin_file=runs/infer_file.gin",
        *settings(INPUT_FILE=rows, CHECKPOINT_PATH=t5, INFER_OUTPUT_DIR=tmp_path / "out"),
        *settings(DECODE_LENGTH=4),
    )
    command.succeeds(*infer)
    assert caplog.text.count("of the tokens of knowledge are unknown") == 1
    (written,) = (tmp_path / "out").glob("*.jsonl")
    # As published, for other programs.
    assert json.loads(written.read_text())["inputs"] == (
        "{query: Is ~tea~ good?} {pro: It is `hot`.} {con: It stains.}"
    )
    out = command.succeeds(*infer, "--dry_run")
    assert re.search(r"unknown tokens of history: 2 of \d+ \(\S+%\), from ~ `", out)
    assert re.search(r"warning: \S+% of the tokens of knowledge are unknown", out)
    assert "[query: Is  ⁇ tea ⁇  good?]".replace("  ", " ") in re.sub(" +", " ", out)


@pytest.mark.slow
def test_a_run_of_a_former_version_reads_as_it_was_trained(t5, command, tmp_path, caplog):
    """The run trained with braces as unknown tokens, and its folder names no delimiters."""
    model = tmp_path / "model"
    command.succeeds(*train("npov_generate_finetune", t5, model))
    config = json.loads((model / "tokenizer_config.json").read_text())
    assert config.pop("faith_jax_notation") == {"braces": "[]", "tags": "[]"}
    former = tmp_path / "former"
    shutil.copytree(model, former)
    (former / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = load_vocabulary(former)
    assert tokenizer.notation == PUBLISHED
    assert "this model was trained with the delimiters {} <>" in caplog.text
    written = tokenizer.decode(tokenizer.encode(templates.npov_generate_targets("Tea is good.")))
    assert written.strip().startswith("⁇")
    assert templates.npov_response(written) == "Tea is good."


@pytest.mark.slow
@needs_shared
def test_t5s_published_vocabulary(command, tmp_path):
    """32,128 embeddings for 32,100 ids, as published T5s have."""
    folder, run = tmp_path / "checkpoint_1000000", tmp_path / "run"
    folder.mkdir()
    state = {"step": np.int32(1_000_000), "param_states": {}}
    target = tiny_t5(vocab_size=32128).params
    content = {"version": 3, "optimizer": {"target": target, "state": state}}
    (folder / "checkpoint").write_bytes(msgpack_serialize(content))
    more = (f"--gin.VOCABULARY={REAL / 't5_vocabulary'}",)
    command.succeeds(*train("npov_generate_finetune", folder, run, *more))
    assert load_vocabulary(run).notation == SQUARE
    report = json.loads((run / "preflight.json").read_text())
    assert report["examples"][0]["inputs"].startswith("[query: ")
    assert report["examples"][0]["targets"].startswith("[response: ")
    assert not report["unknown"]
    responds("npov_generate", run, command, tmp_path)


def test_without_any_delimiter_is_one_line(t5, command, tmp_path):
    folder = tmp_path / "t5"
    shutil.copytree(t5, folder)
    without_braces.write(folder, "{}[]()<>")
    (folder / "manifest.json").unlink(missing_ok=True)
    line = command.refuses(*train("npov_generate_finetune", folder, tmp_path / "model"))
    assert "can write none of the delimiters" in line
    assert "{} [] () <>" in line
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("NO]", ("npov.error_labels.error = 'NO]'", "contains ]")),
        ("~NO", ("~NO", "does not know ~")),
    ],
)
def test_a_label_that_is_not_read_back_is_one_line(label, parts, t5, command, tmp_path):
    labels = tmp_path / "labels.gin"
    labels.write_text(
        "from __gin__ import dynamic_registration\nfrom faith_jax.tasks import npov\n"
        f"npov.error_labels.error = {label!r}\n"
    )
    line = command.refuses(
        *train("npov_hallucination_finetune", t5, tmp_path / "model"), f"--gin_file={labels}"
    )
    assert all(part in line for part in parts)
