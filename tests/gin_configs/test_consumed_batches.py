"""The contents of each training recipe's batches, as the trainer gets them."""

import collections
import functools
import re

import numpy as np
import pytest

from faith_jax.core.cutting import Kind, parse
from faith_jax.datasets.augmentation.dialogue_phrases import PHRASES
from faith_jax.gin_files import config as gin_config
from faith_jax.input.numpy_examples import numpy_examples
from faith_jax.input.rows import PAIRS
from faith_jax.retrieval.dense import Passage, text_row
from faith_jax.runs import train
from faith_jax.tasks import lookup
from faith_jax.tokenizers.vocabularies import load_vocabulary
from faith_jax.training.checkpoints import TrainCheckpoints
from faith_jax.training.trainer import Trainer
from tests.paths import REPOSITORY
from tests.quick import slow_except
from tests.scoring import tiny_models
from tests.tokenizers.special_tokens import encode_row

FOLDER = REPOSITORY / "gin_configs"
BASES = {"dialogue_generate_finetune.gin"}  # no recipes of their own
NLI_LABELS = ("entailment", "neutral", "contradiction")
AUGMENTED = "nli_anli_augmented_finetune.gin"
EPOCHS = 2


def text_of(name):
    """The text of a gin file, after the texts of the files that it includes."""
    text = (FOLDER / name).read_text()
    included = re.findall(r"^include '([^']+)'", text, re.M)
    return "".join(map(text_of, included)) + text


def validation_split(recipe):
    pattern = r"^EVAL_SPLIT = '(.+)'$"
    splits = re.findall(pattern, TEXTS[recipe], re.M)
    return splits[-1] if splits else "validation"


def last_value(text, macro):
    values = re.findall(rf"^{macro} = (.+?)(?:  #.*)?$", text, re.M)
    return values[-1].strip("'") if values else ""


TEXTS = {file.name: text_of(file.name) for file in sorted(FOLDER.glob("*.gin"))}
ALL = [n for n, text in TEXTS.items() if "train.train:" in text and n not in BASES]
# One for each kind of row, which take long together; the second has inputs and targets, too.
KINDS = (
    "dialfact_dense_finetune.gin",
    "faithdial_generate_infonce.gin",
    AUGMENTED,
)


def kind_of_rows(recipe):
    """The settings that determine a recipe's rows; one recipe of each such kind is tested."""
    text = TEXTS[recipe]
    task = last_value(text, "MIXTURE_OR_TASK_NAME").removesuffix("_sample")
    return task, "LABEL_NAMES = (" in text, "doha" in recipe


RECIPES = list({kind_of_rows(recipe): recipe for recipe in (*ALL, *KINDS)}.values())


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Tiny models by what a recipe trains."""
    folder = tmp_path_factory.mktemp("checkpoints")
    deberta = tiny_models.write_model(folder / "deberta", "deberta_nli", label_names=NLI_LABELS)
    return {
        "t5": tiny_models.write_t5(folder / "t5"),
        "doha": tiny_models.write_model(folder / "bart", "bart", max_positions=1024),
        "encoder": tiny_models.write_model(folder / "roberta", "roberta", max_positions=514),
        "nli": deberta,
    }


def read(task, split):
    return list(numpy_examples(task.get_dataset(None, split, shuffle=False)))


@functools.cache
def texts_of(name, split):
    """The examples of a task, for their texts, which no recipe's tokenizer changes."""
    return read(lookup.get_task(name), split)


def consumed(recipe, checkpoints, folder, monkeypatch):
    """Runs a recipe for two epochs of its sample; returns the task and the trainer's batches."""
    text, batches = TEXTS[recipe], []
    task = last_value(text, "MIXTURE_OR_TASK_NAME")
    task = lookup.get_task(task if task.endswith("_sample") else f"{task}_sample")
    kind = next((k for k in ("doha", "nli") if k in recipe and "mini" not in recipe), "t5")
    if kind == "t5" and ("LABEL_NAMES = (" in text or "InBatchNegatives" in text):
        kind = "encoder"
    size = int(last_value(text, "BATCH_SIZE"))
    count = len(texts_of(task.name, "train"))
    bindings = {
        "MODEL_DIR": folder,
        "MIXTURE_OR_TASK_NAME": task.name,
        "TRAIN_STEPS": -(-EPOCHS * count // size),
        "WARMUP_STEPS": 0,
        "DECODING": None,
        "PROMPT_MOST_FREQUENT": 1000,
        "INITIAL_CHECKPOINT_PATH": checkpoints[kind],
    }
    if recipe.startswith("mini_"):  # the sample is of longer texts than their own corpora
        bindings["TASK_FEATURE_LENGTHS"] = {"inputs": 320, "targets": 256}
    if "INITIAL_CHECKPOINT_PATH = %gin.REQUIRED" not in text and "'mini'" not in text:
        del bindings["INITIAL_CHECKPOINT_PATH"]
    if "PROMPT_MOST_FREQUENT" not in text:
        del bindings["PROMPT_MOST_FREQUENT"]

    def record(trainer, state, frozen, batch):
        batches.append({name: np.asarray(array) for name, array in batch.items()})
        metrics = {"loss": 1.0, "weight": 1.0, "gradient_norm": 1.0}
        return state._replace(step=state.step + 1), metrics

    monkeypatch.setattr(Trainer, "train_step", record)
    cost = {"step_operations": 0.0, "step_bytes": 0.0}
    monkeypatch.setattr(Trainer, "step_cost", lambda *_: cost)
    monkeypatch.setattr(train, "dataset_loss", lambda *_: {"loss": 1.0})
    monkeypatch.setattr(TrainCheckpoints, "save", lambda *_: None)
    gin_config.parse([recipe], [f"{name}={value}" for name, value in bindings.items()])
    gin_config.run(train.train)
    return task, batches


def token_rows(batches, name, pad, segments=None):
    """The rows of a feature without padding; packed rows are split into examples."""
    rows = []
    for batch in batches:
        for number, row in enumerate(batch[name]):
            if segments in batch:
                of = batch[segments][number]
                rows.extend(tuple(row[of == n].tolist()) for n in range(1, of.max() + 1))
            else:
                kept = np.flatnonzero(row != pad)
                rows.append(tuple(row[: kept[-1] + 1 if kept.size else 0].tolist()))
    return rows


def written(example, name):
    return example[name].decode("utf-8")


def knowledge_in(example, pair):
    if pair:
        return written(example, pair[0])
    text = written(example, "inputs_pretokenized")
    parts = [p for p in parse(text) if p.kind == Kind.KNOWLEDGE]
    return "|".join(text[p.text_start : p.text_end] for p in parts)


def passage_of(example):
    return Passage(written(example, "title"), written(example, "targets_pretokenized"))


@pytest.mark.parametrize("recipe", slow_except(RECIPES, KINDS))
def test_all_rows_come_whole_and_equally_often(recipe, checkpoints, tmp_path, monkeypatch):
    task, batches = consumed(recipe, checkpoints, tmp_path / "model", monkeypatch)
    tokenizer = load_vocabulary(tmp_path / "model")
    if recipe == AUGMENTED:  # its phrases are the recipe's
        examples = read(task, "train")
    else:
        examples = texts_of(task.name, "train")
    pad = tokenizer.pad_id or 0
    is_pair, is_dense = "labels" in batches[0], "passage_tokens" in batches[0]
    pair = next(p for p in PAIRS if set(p) <= set(examples[0])) if is_pair else None
    if is_dense:
        pair = ("targets_pretokenized",)
    if is_pair:
        drawn = token_rows(batches, "encoder_input_tokens", pad)
        expected = [
            tuple(encode_row(tokenizer, *(written(e, name) for name in pair))) for e in examples
        ]
    elif is_dense:
        names = ("encoder_input_tokens", "passage_tokens")
        drawn = list(zip(*(token_rows(batches, name, pad) for name in names), strict=True))
        expected = [
            (
                tuple(text_row(tokenizer, written(e, "inputs_pretokenized"), 128)),
                tuple(text_row(tokenizer, passage_of(e), 128)),
            )
            for e in examples
        ]
    else:
        segments = ("encoder_segment_ids", "decoder_segment_ids")
        # DoHA's first input is the dialogue alone, its second the whole.
        whole = next(
            n for n in ("knowledge_input_tokens", "encoder_input_tokens") if n in batches[0]
        )
        inputs = token_rows(batches, whole, pad, segments[0])
        targets = token_rows(batches, "decoder_target_tokens", pad, segments[1])
        drawn = list(zip(inputs, targets, strict=True))
        names = ("inputs_pretokenized", "targets_pretokenized")
        texts = [[written(e, name) for name in names] for e in examples]
        expected = [tuple(tuple(encode_row(tokenizer, text)) for text in both) for both in texts]
    # Every row at least twice, none more than three times: two epochs, and the last batch.
    # Packed rows hold several examples each, so that more epochs go by.
    counts, expected_counts = collections.Counter(drawn), collections.Counter(expected)
    assert set(counts) == set(expected_counts)
    epochs = len(drawn) // len(examples)
    assert epochs >= EPOCHS
    for row, times in expected_counts.items():
        assert epochs * times <= counts[row] <= (epochs + 1) * times
    # Read in another order than the file's, and in another one in the second epoch.
    first, second = drawn[: len(examples)], drawn[len(examples) : 2 * len(examples)]
    assert collections.Counter(first) == expected_counts
    assert first != expected
    assert first != second
    judged = texts_of(task.name, validation_split(recipe))
    held_out = {knowledge_in(example, pair) for example in judged} - {""}
    trained = {knowledge_in(example, pair) for example in examples}
    assert held_out or task.name == "text_to_text_sample"  # plain texts, without knowledge
    # +Dev trains on the development topics by its definition (Chang 2024, section 5.2).
    assert (held_out <= trained) if "_dev_" in task.name else not held_out & trained
    if "negatives" in batches[0]:
        _check_negatives(batches, examples, drawn, expected, tokenizer)
    if recipe == AUGMENTED:
        _check_phrases(examples, first, expected)


def _check_negatives(batches, examples, drawn, expected, tokenizer):
    texts = {
        row: [text.decode("utf-8") for text in example["negatives_pretokenized"]]
        for row, example in zip(expected, examples, strict=True)
    }
    assert any(texts.values())
    consumed_negatives = [row for batch in batches for row in batch["negatives"]]
    for row, negatives in zip(drawn, consumed_negatives, strict=True):
        negative_ids = [ids[ids > 0].tolist() for ids in negatives if ids.any()]
        assert negative_ids == [[*tokenizer.encode(text), 1] for text in texts[row]]


def _check_phrases(examples, first, expected):
    augmented = {row for row, e in zip(expected, examples, strict=True) if e["augmented"]}
    assert len(augmented) == len(examples) / 2
    early = first[: len(first) // 2]
    share = sum(row in augmented for row in early) / len(early)
    assert 0.25 < share < 0.75
    starts = {
        phrase
        for phrase in PHRASES
        for e in examples
        if e["augmented"] and written(e, "hypothesis").startswith(phrase)
    }
    # A phrase of ten that is drawn for each row is missing from all with (9/10)^rows.
    assert len(starts) >= 6
