"""A run on our tasks with the tokenizer of a published folder."""

import json
import pathlib
import re
import shutil

import pytest

from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.runs.conftest import TINY, settings
from tests.runs.test_bad_input import assert_mistake
from tests.scoring import tiny_models
from tests.tokenizers import published_tokenizers

LENGTHS = "--gin.TASK_FEATURE_LENGTHS={'inputs': 1024, 'targets': 512}"


@pytest.fixture
def bart(tmp_path):
    folder = tmp_path / "bart"
    folder.mkdir()
    published_tokenizers.bart(folder)
    return folder


# Settings of a T5 for BART's tokenizer.
SPECIAL = ("--gin.config.TransformerConfig.eos_ids=(2,)", "--gin.config.TransformerConfig.pad_id=1")


@pytest.mark.slow
def test_a_run_trains_with_a_published_tokenizer_and_keeps_it(command, bart, tmp_path, caplog):
    model, rows, output = tmp_path / "model", tmp_path / "rows.jsonl", tmp_path / "out"
    run = (f"--gin.MODEL_DIR={model}", "--gin.TRAIN_STEPS=1", "--gin.WARMUP_STEPS=0", LENGTHS)
    train = (*TINY, *run, "--gin.VOCAB_SIZE=448", *SPECIAL)
    command.succeeds(*train, f"--gin.VOCABULARY={bart}")
    loss = float(re.search(r"step 1/1  loss (\S+)", caplog.text)[1])
    assert loss == pytest.approx(6.1, abs=1.5)  # about log 448, untrained
    assert load_vocabulary(model).fingerprint() == load_vocabulary(bart).fingerprint()
    shutil.rmtree(bart)
    # Now the run is self-contained, under each way to name it.
    rows.write_text('{"id": "a", "inputs": "The tea wasn\'t better than coffee."}\n')
    infer = ("infer", "--gin_file=runs/infer_file.gin", f"--gin.INPUT_FILE={rows}")
    infer = (*infer, f"--gin.INFER_OUTPUT_DIR={output}", "--gin.DECODE_LENGTH=4")
    step = f"--gin.CHECKPOINT_PATH={model / 'checkpoints' / '1'}"
    command.succeeds(*infer, step)
    assert f"VOCABULARY: {model / 'tokenizer.json'}, which the checkpoint carries" in caplog.text
    (written,) = output.glob("*.jsonl")
    assert len(written.read_text(encoding="utf-8").splitlines()) == 1
    assert_mistake(
        command(*infer, step, "--gin.VOCABULARY=english_4096"),
        "'english_4096' is not what CHECKPOINT_PATH",
        str(model / "tokenizer.json"),
    )
    # Nor does a run go on with another one.
    roberta = tmp_path / "roberta_old"
    roberta.mkdir()
    published_tokenizers.roberta_old(roberta)
    result = command(*train, f"--gin.VOCABULARY={roberta}")
    assert_mistake(result, "began with another vocabulary", str(model), str(roberta))


def infer(checkpoint, tmp_path, *more, text="Is tea better than coffee?"):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"id": "7", "inputs": text}) + "\n")
    return (
        "infer",
        "--gin_file=runs/infer_file.gin",
        *settings(INPUT_FILE=rows, CHECKPOINT_PATH=checkpoint, INFER_OUTPUT_DIR=tmp_path / "out"),
        *settings(DECODE_LENGTH=4, MAX_INPUT_LENGTH=32, FORMATS="('jsonl',)"),
        *more,
    )


def test_another_models_tokenizer_is_refused(command, tmp_path):
    model, tokenizer = "bart", "bloom"
    parts = ["padding is id 3", "bloom/tokenizer.json", "the model's is id 1"]
    folder = pathlib.Path(tiny_models.write_model(tmp_path / "m" / model, model, vocab_size=448))
    tokenizer_dir = tmp_path / tokenizer
    tokenizer_dir.mkdir()
    published_tokenizers.FAMILIES[tokenizer](tokenizer_dir)
    option = f"--gin.VOCABULARY={tokenizer_dir}"
    # With the model's own tokenizer, this is a different one; without, its special tokens differ.
    result = command(*infer(folder, tmp_path, option))
    assert_mistake(result, f"'{tokenizer_dir}' is not what CHECKPOINT_PATH", str(folder))
    for name in ("tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    assert_mistake(command(*infer(folder, tmp_path, option)), *parts)
    for file in tokenizer_dir.iterdir():
        if file.name != "config.json":
            shutil.copyfile(file, folder / file.name)
    # At another path: a tokenizer is read once in a process.
    copied = shutil.copytree(folder, tmp_path / "copied")
    # The model's config.json may say which of its tokens is which, as in Transformers.
    assert_mistake(command(*infer(copied, tmp_path)), parts[-1], "do not belong together")


@pytest.mark.usefixtures("undecoded")
def test_a_tokenizer_of_more_ids_than_the_model_has_embeddings(command, tmp_path, caplog):
    """BART-large-CNN's has one more, <mask>."""
    config = {"vocab_size": 420}
    folder = tiny_models.write_model(tmp_path / "cnn", "bart", **config)
    assert load_vocabulary(folder).vocab_size == 421
    command.succeeds(*infer(folder, tmp_path))
    assert "has 1 ids that the model has no embedding for, from 420 on" in caplog.text
    shutil.rmtree(tmp_path / "out")
    result = command(*infer(folder, tmp_path, text="Is <mask> better?"))
    assert_mistake(result, "Row 7: the tokenizer makes token 420", "420 only")
    assert not (tmp_path / "out").exists()
    lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 64}"
    evaluated = ("eval", "--gin_file=runs/eval.gin", f"--gin.CHECKPOINT_PATH={folder}", lengths)
    for task, mask in (("plain", "mask"), ("masked", "<mask>")):
        module = tmp_path / f"{task}_tokens.py"
        module.write_text(TASK.format(name=f"more_ids_{task}", text=f"a {mask} b"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        task = ("--gin.MIXTURE_OR_TASK_NAME=more_ids_masked", "--gin.DECODING=None")
        module = "--gin.MIXTURE_OR_TASK_MODULE=masked_tokens"
        result = command(*evaluated, *task, module)
    assert_mistake(result, "more_ids_masked", "the tokenizer makes token 420")
    # Given by hand to a model that carries none, it is another's.
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "cnn" / "tokenizer.json").rename(tmp_path / "tokenizer" / "tokenizer.json")
    result = command(*infer(folder, tmp_path, f"--gin.VOCABULARY={tmp_path / 'tokenizer'}"))
    assert_mistake(result, "421 ids", "the model 420")
    assert_mistake(command(*infer(folder, tmp_path)), "english_4096", "carries none", "420")


TASK = """
import functools, seqio, tensorflow as tf
from faith_jax.tokenizers.seqio_vocabulary import DefaultVocabulary
feature = seqio.Feature(DefaultVocabulary(), add_eos=True)
seqio.TaskRegistry.add(
    "{name}",
    source=seqio.FunctionDataSource(
        lambda split, shuffle_files, seed=None: tf.data.Dataset.from_tensors(
            {{"inputs": "{text}", "targets": "b"}}
        ),
        splits=["validation"],
    ),
    preprocessors=[seqio.preprocessors.tokenize, seqio.preprocessors.append_eos],
    output_features={{"inputs": feature, "targets": feature}},
)
"""
