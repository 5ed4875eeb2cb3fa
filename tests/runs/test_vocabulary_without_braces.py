"""The whole way of each recipe with a vocabulary that lacks braces, as T5's published one does."""

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
from faith_jax.inference.texts.input_rows import RowTokens, input_row
from faith_jax.inference.texts.text_reader import TextReader
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer, parameter_shapes
from faith_jax.scoring.npov_error_classifier import _label_tokens
from faith_jax.scoring.pmi_faith import Prompter
from faith_jax.scoring.salience.inputs import SalienceEncoder
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.paths import REAL, needs_shared
from tests.quick import slow_except
from tests.runs.conftest import seqio_task
from tests.runs.test_bad_input import assert_mistake
from tests.tokenizers import without_braces

SQUARE = Notation("[]", "[]")
RECIPES = (
    "dialfact_verify_generate_finetune",
    "dialogue_generate_finetune",
    "faithdial_generate_ctrl",
    "faithdial_generate_finetune",
    "faithdial_generate_infonce",
    "faithdial_generate_loss_truncation",
    "multidoc2dial_generate_finetune",
    "npov_coverage_finetune",
    "npov_coverage_prompt_tune",
    "npov_generate_finetune",
    "npov_generate_prompt_tune",
    "npov_hallucination_finetune",
    "npov_hallucination_prompt_tune",
    "topical_chat_generate_finetune",
    "wizard_of_wikipedia_generate_ctrl",
)
# One for each way to write rows, to train and to be scored.
WHOLE = (
    "dialfact_verify_generate_finetune",
    "faithdial_generate_infonce",
    "npov_generate_prompt_tune",
    "npov_hallucination_finetune",
    "wizard_of_wikipedia_generate_ctrl",
)
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
        f"--gin.INITIAL_CHECKPOINT_PATH={t5}",
        f"--gin.MODEL_DIR={model_dir}",
        f"--gin.MIXTURE_OR_TASK_NAME={task(recipe)}",
        f"--gin.TASK_FEATURE_LENGTHS={lengths}",
        "--gin.TRAIN_STEPS=2",
        "--gin.WARMUP_STEPS=0",
        "--gin.BATCH_SIZE=2",
        "--gin.NUM_MICROBATCHES=1",
        "--gin.DECODING=None",
        *more,
    )


def task(recipe):
    """The task of a recipe over the embedded sample."""
    name = recipe.removesuffix("_finetune").removesuffix("_prompt_tune")
    others = {
        "dialfact_verify_generate": "fact_verify",
        "dialogue_generate": "faithdial_generate",
        "faithdial_generate_loss_truncation": "faithdial_generate",
    }
    return others.get(name, name) + "_sample"


@pytest.mark.usefixtures("own_seqio_tasks", "uncosted")
def test_tasks_of_the_users_own_have_no_delimiters(t5, command, tmp_path, caplog):
    def drinks(split, shuffle_files, seed=None):
        rows = {"inputs": ["what grows on hills?"], "targets": ["tea"]}
        return tf.data.Dataset.from_tensor_slices(rows)

    task = seqio_task("without_formats", drinks)
    lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 24, 'targets': 16}"
    model = tmp_path / "model"
    named = f"--gin.MIXTURE_OR_TASK_NAME={task}"
    status, _, err = command(*train(RECIPES[0], t5, model), named, lengths, "--dry_run")
    assert status == 0, err
    assert f"VOCABULARY: {t5 / 'spiece.model'}, which the checkpoint carries" in caplog.text
    assert "Delimiters" not in caplog.text


@pytest.mark.usefixtures("uncosted")
@pytest.mark.parametrize(
    "recipe",
    slow_except(RECIPES, [RECIPES[0], "npov_coverage_prompt_tune"]),
)
def test_each_recipe_writes_its_rows_with_other_delimiters(recipe, t5, command, tmp_path, caplog):
    status, _, err = command(*train(recipe, t5, tmp_path / "model"), "--dry_run")
    assert status == 0, err
    for published in ("{}", "<>"):
        assert f"Delimiters: [] in place of {published}" in caplog.text
    report = json.loads((tmp_path / "model.preflight.json").read_text())
    assert report["examples"]
    for example in report["examples"]:
        inputs = re.sub("^(<extra_id_[0-9]+> )*", "", example["inputs"])
        assert inputs[0] == "[", example
        assert not set("{}<⁇") & set(inputs + example["targets"]), example


@pytest.mark.parametrize("recipe", slow_except(WHOLE, ["npov_hallucination_finetune"]))
def test_a_recipe_trains_responds_and_is_scored(recipe, t5, command, tmp_path):
    model = tmp_path / "model"
    status, _, err = command(*train(recipe, t5, model))
    assert status == 0, err
    assert load_vocabulary(model).notation == SQUARE
    predictions = responds(recipe, model, command, tmp_path)
    is_scored(recipe, model, predictions, command, tmp_path / "scored.jsonl")


def responds(recipe, model, command, tmp_path):
    """Responds to the recipe's rows, and finds neither delimiters nor other tags in any text."""
    output = tmp_path / "out"
    status, _, err = command(
        "infer",
        "--gin_file=runs/infer.gin",
        f"--gin.CHECKPOINT_PATH={model}",
        f"--gin.MIXTURE_OR_TASK_NAME={task(recipe)}",
        "--gin.SPLIT='train'",
        f"--gin.TASK_FEATURE_LENGTHS={LENGTHS}",
        f"--gin.INFER_OUTPUT_DIR={output}",
        "--gin.DECODE_LENGTH=4",
        "--gin.BATCH_SIZE=8",
        "--gin.FORMATS=('jsonl',)",
    )
    assert status == 0, err
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
    status, _, err = command(
        "score", *source, f"--scorers={scorer}", *options, f"--output={output}"
    )
    assert status == 0, err
    scores = [json.loads(line)["scores"][scorer] for line in output.read_text().splitlines()]
    assert len(scores) > 2
    assert all(0 <= score <= 1 for score in scores)


def test_a_model_that_writes_the_format_is_read(t5):
    """What a perfect model writes comes back without delimiters: responses and labels."""
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


def test_without_any_delimiter_is_one_line(t5, command, tmp_path):
    folder = tmp_path / "t5"
    shutil.copytree(t5, folder)
    without_braces.write(folder, "{}[]()<>")
    (folder / "manifest.json").unlink(missing_ok=True)
    result = command(*train("npov_generate_finetune", folder, tmp_path / "model"))
    assert_mistake(result, "can write none of the delimiters", "{} [] () <>")
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
    result = command(
        *train("npov_hallucination_finetune", t5, tmp_path / "model"), f"--gin_file={labels}"
    )
    assert_mistake(result, *parts)


def test_unknown_tokens_are_reported(t5, command, tmp_path, caplog):
    rows = tmp_path / "rows.jsonl"
    row = {"query": "Is ~tea~ good?", "pro": "It is `hot`.", "con": "It stains."}
    rows.write_text(json.dumps(row) + "\n")
    infer = (
        "infer",
        "--gin_file=runs/infer_file.gin",
        f"--gin.INPUT_FILE={rows}",
        f"--gin.CHECKPOINT_PATH={t5}",
        f"--gin.INFER_OUTPUT_DIR={tmp_path / 'out'}",
        "--gin.DECODE_LENGTH=4",
    )
    status, out, err = command(*infer)
    assert status == 0, err
    assert caplog.text.count("of the tokens of knowledge are unknown") == 1
    status, out, err = command(*infer, "--dry_run")
    assert status == 0, err
    assert re.search(r"unknown tokens of history: 2 of \d+ \(\S+%\), from ~ `", out)
    assert re.search(r"warning: \S+% of the tokens of knowledge are unknown", out)
    assert "[query: Is  ⁇ tea ⁇  good?]".replace("  ", " ") in re.sub(" +", " ", out)


@pytest.mark.slow
def test_a_run_of_a_former_version_reads_as_it_was_trained(t5, command, tmp_path, caplog):
    """It had trained with unknown braces, and named no delimiters in its folder."""
    model = tmp_path / "model"
    status, _, err = command(*train("npov_generate_finetune", t5, model))
    assert status == 0, err
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
@pytest.mark.parametrize("form", ["hugging_face", "t5x"])
def test_t5s_published_vocabulary(form, command, tmp_path):
    """32,128 embeddings for 32,100 ids, as published T5s have."""
    vocabulary, folder, more = REAL / "t5_vocabulary", tmp_path / "t5", ()
    model = tiny_t5(vocab_size=32128)
    if form == "hugging_face":
        write_huggingface(model, folder)
        for file in vocabulary.iterdir():
            shutil.copyfile(file, folder / file.name)
    else:
        folder = tmp_path / "checkpoint_1000000"
        folder.mkdir()
        state = {"step": np.int32(1_000_000), "param_states": {}}
        content = {"version": 3, "optimizer": {"target": model.params, "state": state}}
        (folder / "checkpoint").write_bytes(msgpack_serialize(content))
        more = (f"--gin.VOCABULARY={vocabulary}",)
    run = tmp_path / "run"
    status, _, err = command(*train("npov_generate_finetune", folder, run, *more))
    assert status == 0, err
    assert load_vocabulary(run).notation == SQUARE
    report = json.loads((run / "preflight.json").read_text())
    assert report["examples"][0]["inputs"].startswith("[query: ")
    assert report["examples"][0]["targets"].startswith("[response: ")
    assert not report["unknown"]
    responds("npov_generate", run, command, tmp_path)
