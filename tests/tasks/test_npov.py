import json
import math
import shutil
import threading
import time

import gin
import numpy as np
import pytest
import seqio

from faith_jax.core import templates
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.datasets import npov
from faith_jax.datasets.samples import sample_folder
from faith_jax.tasks import lookup, metrics, sources
from faith_jax.tasks import npov as tasks_npov
from faith_jax.tokenizers import vocabularies
from tests.tasks.examples import examples, strings

TASK = "npov_generate_sample"
LENGTHS = {"inputs": 256, "targets": 256}


@pytest.fixture
def vocabulary():
    return vocabularies.load_vocabulary()


# --- Examples ---


def sample_rows(split):
    folder = sample_folder("procon_npov")
    topics = npov.load_topics(folder)
    responses = npov.load_responses(folder, topics)
    return list(npov.generation_examples(topics, responses, split))


@pytest.mark.parametrize("split", ["train", "test"])
def test_examples_are_the_samples_rows_in_order(split, vocabulary):
    task_rows, rows = examples(TASK, split), sample_rows(split)
    assert lookup.get_task(TASK).num_input_examples(split) == len(task_rows) == len(rows) > 0
    for example, row in zip(task_rows, rows, strict=True):
        inputs = templates.npov_generate_inputs(
            row["query"], row["pro_arguments"], row["con_arguments"]
        )
        targets = templates.npov_generate_targets(row["response"])
        assert example["id"].decode() == row["id"]
        assert example["inputs_pretokenized"].decode() == inputs
        assert example["targets_pretokenized"].decode() == targets
        assert example["inputs"].tolist() == [*vocabulary.encode(inputs), 1]
        assert example["targets"].tolist() == [*vocabulary.encode(targets), 1]
        assert strings(example["pro_arguments"]) == row["pro_arguments"]


def test_cut_features_keep_their_end(vocabulary):
    task = lookup.get_task(TASK)
    whole = examples(TASK, "test")[0]
    lengths = {"inputs": 20, "targets": 30}
    cut = next(task.get_dataset(lengths, "test", shuffle=False).as_numpy_iterator())
    for name, length in lengths.items():
        assert cut[name].tolist() == [*whole[name][: length - 1], 1]
        text = whole[f"{name}_pretokenized"].decode()
        assert len(vocabulary.encode(text)) + 1 == len(whole[name]) > length


def converted(seed, split="train"):
    dataset = seqio.get_dataset(
        mixture_or_task_name=TASK,
        task_feature_lengths=LENGTHS,
        dataset_split=split,
        shuffle=True,
        seed=seed,
        feature_converter=seqio.EncDecFeatureConverter(pack=False),
    )
    return list(dataset.as_numpy_iterator())


def test_hosts_share_out_the_examples():
    task = lookup.get_task(TASK)
    ids = [
        example["id"]
        for index in range(2)
        for example in task.get_dataset(
            None, "train", shuffle=False, shard_info=seqio.ShardInfo(index, 2)
        ).as_numpy_iterator()
    ]
    assert sorted(ids) == sorted(row["id"].encode() for row in sample_rows("train"))
    assert len(set(ids)) == len(ids)


def test_the_default_vocabulary_can_be_another(tmp_path):
    shutil.copy(vocabularies.load_vocabulary().model_file, tmp_path / "spiece.model")
    task = lookup.get_task(TASK)
    with vocabularies.tasks_use(vocabularies.load_vocabulary(tmp_path, extra_ids=0)):
        assert task.output_features["inputs"].vocabulary.vocab_size == 4096
        assert len(list(task.get_dataset(None, "test", shuffle=False))) == len(sample_rows("test"))


# --- Evaluation ---


def evaluate(predict_text):
    """Runs SeqIO's Evaluator on the test split with a model that is a function of the row."""
    evaluator = seqio.Evaluator(
        TASK, seqio.EncDecFeatureConverter(pack=False), eval_split="test", sequence_length=LENGTHS
    )
    rows = sample_rows("test")
    vocabulary = vocabularies.load_vocabulary()

    def predict(dataset):
        # SeqIO stacks the predictions, so they are padded to one length; any order will do.
        predictions = []
        for index, _ in reversed(list(dataset.as_numpy_iterator())):
            ids = [*vocabulary.encode(predict_text(rows[index])), 1]
            predictions.append((int(index), [*ids, *[0] * (256 - len(ids))]))
        return predictions

    result, _ = evaluator.evaluate(compute_metrics=True, predict_fn=predict)
    return result.result()[TASK]


def test_the_evaluator_gives_gold_responses_full_marks():
    result = evaluate(lambda row: templates.npov_generate_targets(row["response"]))
    assert {k: result[k] for k in ("token_f1", "rouge1", "rouge2", "rougeL")} == {
        "token_f1": 1.0,
        "rouge1": 1.0,
        "rouge2": 1.0,
        "rougeL": 1.0,
    }
    assert result["empty_responses"] == 0.0
    assert 0.5 < result["argument_recall"] < 1.0
    assert 0.4 < result["argument_precision"] < 1.0


def test_postprocessing_by_hand():
    example = {"id": b"tea-1", "pro_arguments": np.array([b"Caf\xc3\xa9."]), "con_arguments": []}
    assert metrics.npov_postprocess("{response: Views differ.}", example=example) == "Views differ."
    target = metrics.npov_postprocess("{response: Yes.}", example=example, is_target=True)
    assert target == {"id": "tea-1", "response": "Yes.", "pro": ["Café."], "con": []}
    json.dumps(target)  # SeqIO's loggers write targets as JSON


def test_metrics_by_hand():
    targets = [
        {"id": "a", "response": "Tea calms.", "pro": ["Tea calms."], "con": ["Tea stains."]},
        {"id": "b", "response": "", "pro": ["Tea calms."], "con": ["Tea stains."]},
    ]
    predictions = ["Tea stains.", ""]
    # Only the first row has a gold response: 1 of 2 words agree.
    assert metrics.token_f1(targets, predictions) == {"token_f1": 1 / 2}
    assert metrics.rouge(targets, predictions)["rouge1"] == pytest.approx(1 / 2)
    figures = metrics.arguments(targets, predictions)
    # Row a: precision 1, recall min(1/2, 1). Row b: precision undefined, recall 0.
    assert figures == {
        "argument_precision": 1.0,
        "argument_recall": (1 / 2 + 0) / 2,
        "empty_responses": 1 / 2,
    }
    assert math.isnan(metrics.token_f1([], [])["token_f1"])


# --- Names, splits and missing data ---


def test_lookup_finds_tasks_and_names_the_nearest():
    assert {"npov_generate", TASK} <= set(lookup.task_names())
    assert lookup.get_task(TASK).name == TASK
    with pytest.raises(ConfigError, match=r"no task or mixture 'npov_generat_sample'.*" + TASK):
        lookup.get_task("npov_generat_sample")
    with pytest.raises(ConfigError, match=r"'zzz'\. There are: .*npov_generate"):
        lookup.get_task("zzz")


def test_lookup_checks_splits():
    task = lookup.get_task(TASK)
    lookup.check_split(task, "validation")
    with pytest.raises(ConfigError, match=r"no split 'valid'\. Did you mean 'validation'"):
        lookup.check_split(task, "valid")
    with pytest.raises(ConfigError, match=r"no split 'valid'\. Did you mean 'validation'"):
        task.get_dataset(None, "valid")


def test_absent_manual_data_is_one_clear_line(data_dir):
    task = lookup.get_task("npov_generate")  # registering and finding it needs no data
    for ask in (
        lambda: lookup.check_split(task, "train"),
        lambda: task.get_dataset(None, "train"),
        lambda: task.num_input_examples("train"),
    ):
        with pytest.raises(InputError, match=r"topics\.jsonl.*prepare_procon\.py") as error:
            ask()
        assert str(data_dir) in str(error.value)
        assert "\n" not in str(error.value)


def test_the_users_own_data_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path))
    folder = tmp_path / "downloads" / "manual" / "procon_npov"
    folder.mkdir(parents=True)
    topic = {"id": "tea", "title": "Tea", "question": "Is tea good?", "split": "train"}
    arguments = {"pro": ["It calms."], "con": ["It stains {teeth}."]}
    response = {"id": "tea-1", "topic": "tea", "pro": [0], "con": [0], "response": "It depends."}
    (folder / "topics.jsonl").write_text(json.dumps(topic | arguments) + "\n")
    (folder / "responses.jsonl").write_text(json.dumps(response) + "\n")
    task = lookup.get_task("npov_generate")
    assert task.splits == ("train",)
    (example,) = task.get_dataset(LENGTHS, "train").as_numpy_iterator()
    expected = "{query: Is tea good?} {pro: It calms.} {con: It stains (teeth).}"
    assert example["inputs_pretokenized"].decode() == expected
    with pytest.raises(ConfigError, match="no split 'test'"):
        lookup.check_split(task, "test")


def test_processes_that_start_together_prepare_in_turn(tmp_path, monkeypatch):
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "new"))
    inside, most, calls = [], [], []

    def prepare(config, data_dir):
        inside.append(config)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        calls.append(data_dir)

    # Each lock opens the file again, so threads exclude each other like processes.
    source = sources.PreparedTfdsSource(prepare, name="tea", config="sample")
    threads = [threading.Thread(target=source.builder) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [str(tmp_path / "new")] * 4
    assert max(most) == 1


def test_a_folder_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "file" / "data"))
    with pytest.raises(ConfigError, match="cannot be written") as error:
        lookup.check_split(lookup.get_task(TASK), "train")
    assert "\n" not in str(error.value)


# --- Error classifiers ---


@pytest.mark.parametrize(
    ("name", "split", "field", "count"),
    [
        ("npov_hallucination", "test", "has_hallucination", None),
        ("npov_hallucination_synth", "train", "has_hallucination", 8),
        ("npov_coverage_para", "train", "has_coverage_error", 16),
        ("npov_coverage_org", "train", "has_coverage_error", 35),
    ],
)
def test_classifiers_see_the_response_and_answer_yes_or_no(name, split, field, count):
    assert name in lookup.task_names()
    rows = examples(f"{name}_sample", split)
    for row in rows:
        texts = {k: row[k].decode() for k in ("query", "response")}
        sides = {k: strings(row[k]) for k in ("pro_arguments", "con_arguments")}
        expected = templates.npov_classifier_inputs(**texts, **sides)
        assert row["inputs_pretokenized"].decode() == expected
        label = "NO" if row[field] else "YES"
        assert row["targets_pretokenized"].decode() == templates.npov_classifier_targets(label)
        assert metrics.npov_label_postprocess(f"{{label: {label}}}") == label
    if count is None:
        assert np.mean([row[field] for row in rows]) == 0.5
    else:
        assert len(rows) == count


def test_the_mixture_of_both_classifiers():
    mixture = lookup.get_task("npov_errors_sample")
    names = {task.name for task in mixture.tasks}
    assert names == {"npov_hallucination_sample", "npov_coverage_sample"}
    assert mixture.num_input_examples("test") == 2 * 4 * len(sample_rows("test"))


@pytest.fixture
def label_bindings():
    def bind(**labels):
        with gin.unlock_config():  # a run before, in this process, may have locked it
            for name, text in labels.items():
                gin.bind_parameter(f"faith_jax.tasks.npov.error_labels.{name}", text)

    return bind


def test_labels_may_be_flipped_and_renamed(label_bindings):
    def labels():
        task = lookup.get_task("npov_coverage_sample")
        rows = task.get_dataset(None, "test", shuffle=False).as_numpy_iterator()
        return {
            (int(row["has_coverage_error"]), row["targets_pretokenized"].decode()) for row in rows
        }

    label_bindings(no_error="complete", error="incomplete")
    assert labels() == {(0, "{label: complete}"), (1, "{label: incomplete}")}


def test_only_classifiers_of_errors_have_their_labels(label_bindings):
    label_bindings(no_error="NO", error="YES")
    for name in ("npov_coverage_sample", "npov_hallucination_dev_sample", "npov_errors_sample"):
        labels = lookup.error_labels(lookup.get_task(name))
        assert labels == {"no_error": "NO", "error": "YES"}
    for name in (TASK, "faith_critic_sample"):
        assert lookup.error_labels(lookup.get_task(name)) is None


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"error": "YES"}, r"expected two different texts, got 'YES' twice"),
        ({"no_error": 1}, r"npov.error_labels.no_error: expected a text, got 1"),
    ],
)
def test_labels_that_are_none(label_bindings, labels, message):
    label_bindings(**labels)
    with pytest.raises(ConfigError, match=message):
        lookup.get_task("npov_coverage_sample").get_dataset(None, "test")


def test_a_gin_file_binds_the_labels(tmp_path):
    """As in a run: parsed, locked, and then the tasks are used."""
    assert tasks_npov.error_labels() == {0: "YES", 1: "NO"}
    file = tmp_path / "flipped.gin"
    file.write_text(
        "from __gin__ import dynamic_registration\n"
        "from faith_jax.tasks import npov\n"
        "npov.error_labels.no_error = 'NO'\n"
        "npov.error_labels.error = 'YES'\n"
    )
    gin.clear_config()  # also unlocks it
    gin.parse_config_file(str(file))
    gin.finalize()
    assert gin.config_is_locked()
    assert tasks_npov.error_labels() == {0: "NO", 1: "YES"}
