"""The features of tasks and mixtures in SeqIO's documentation, in runs on tiny models."""

import dataclasses
import functools
import json
import math

import numpy as np
import pytest
import seqio
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from faith_jax.core.errors import ConfigError
from faith_jax.input.task_batches import DatasetConfig
from faith_jax.runs.data.tasks import task_rows
from faith_jax.runs.evaluate import DecodedEvaluation
from faith_jax.tokenizers.seqio_vocabulary import DefaultVocabulary
from tests.paths import REPOSITORY
from tests.runs.conftest import TINY
from tests.scoring import tiny_models

# The tests do not depend on trained parameters.
pytestmark = pytest.mark.usefixtures("own_seqio_tasks", "untrained")

SHORT = ("--gin.TASK_FEATURE_LENGTHS={'inputs': 12, 'targets': 8}", "--gin.TRAIN_STEPS=2",
         "--gin.WARMUP_STEPS=0", "--gin.DECODE_LENGTH=4")  # fmt: skip
GREEDY = "--gin_file=decoding/greedy.gin"
TOKENIZED = [seqio.preprocessors.tokenize, seqio.preprocessors.append_eos_after_trim]


def drinks(split, shuffle_files, seed=None):
    inputs = ["what grows on hills?", "what is brewed?"] * 3
    rows = {"inputs": inputs, "targets": ["tea", "coffee"] * 3}
    return tf.data.Dataset.from_tensor_slices(rows)


def register(name, rows=drinks, vocabulary=None, splits=("train", "validation"), **options):
    """Registers a task of a user's own, unless it is there, and returns its name."""
    if name not in seqio.TaskRegistry.names():
        feature = seqio.Feature(vocabulary=vocabulary or DefaultVocabulary(), add_eos=True)
        features = options.pop("features", ("inputs", "targets"))
        options = {"preprocessors": TOKENIZED, "metric_fns": []} | options
        source = options.pop("source", None) or seqio.FunctionDataSource(rows, splits=splits)
        outputs = dict.fromkeys(features, feature)
        seqio.TaskRegistry.add(name, source=source, output_features=outputs, **options)
    return name


def train(command, task, folder, *more):
    named = (f"--gin.MIXTURE_OR_TASK_NAME={task}", f"--gin.MODEL_DIR={folder}")
    return command(*TINY, *SHORT, *named, *more)


def lines(folder, part):
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if row["part"] == part]


def responses(command, task, folder, lengths):
    """The rows that `infer` writes for the validation split with a MODEL_DIR."""
    output = folder / "responses"
    status, _, err = command(
        "infer", "--gin_file=runs/infer.gin", f"--gin.CHECKPOINT_PATH={folder}", lengths,
        f"--gin.MIXTURE_OR_TASK_NAME={task}", f"--gin.INFER_OUTPUT_DIR={output}",
        "--gin.SPLIT=validation",
    )  # fmt: skip
    assert status == 0, err
    return [json.loads(line) for line in (output / "predictions.jsonl").read_text().splitlines()]


def length(targets, predictions):
    assert all(isinstance(text, str) for text in (*targets, *predictions))
    return {"targets": len(targets), "shown": seqio.metrics.Text(f"| {targets[0]} |")}


def likelihood(targets, scores):
    return {"likelihood": float(np.mean(scores)), "scores": seqio.metrics.Histogram(scores)}


def ranks(targets, predictions, aux_values):
    picture = seqio.metrics.Image(np.zeros((1, 2, 3, 1), np.float32))
    return {"best_rank": np.max(aux_values["scores"]), "picture": picture}


@pytest.mark.slow
def test_metrics_of_all_documented_kinds(command, tmp_path):
    """In training and in `eval`: the same values."""
    task = register("kinds_of_metrics", metric_fns=[length, likelihood, ranks])
    folder = tmp_path / "model"
    status, _, err = train(command, task, folder, GREEDY)
    assert status == 0, err
    (validation,), (decoded,) = lines(folder, "validation"), lines(folder, "validation_decoded")
    assert decoded["targets"] == 6
    assert decoded["shown"] == "| tea |"
    assert decoded["picture"] == {"shape": [1, 2, 3, 1]}
    assert decoded["best_rank"] < 0
    assert len(decoded["scores"]) == 6
    # The loss is a mean over tokens, a score a sum over those of a target.
    mean = -validation["negative_log_likelihood"] * validation["weight"] / 6
    assert decoded["likelihood"] == pytest.approx(mean, rel=1e-4)
    assert np.mean(decoded["scores"]) == pytest.approx(mean, rel=1e-4)
    events = EventAccumulator(str(folder / "tensorboard" / "validation_decoded")).Reload()
    assert {"targets", "shown", "likelihood"} <= set(events.Tags()["tensors"])

    output = tmp_path / "evaluation"
    status, _, err = command(
        "eval", "--gin_file=runs/eval.gin", f"--gin.CHECKPOINT_PATH={folder}", SHORT[0], SHORT[-1],
        f"--gin.MIXTURE_OR_TASK_NAME={task}", f"--gin.EVAL_OUTPUT_DIR={output}",
    )  # fmt: skip
    assert status == 0, err
    metrics = json.loads((output / "evaluation.json").read_text())["metrics"]
    for name, value in decoded.items():
        if name not in ("step", "part"):
            expected = value if name in ("shown", "picture") else pytest.approx(value, rel=1e-4)
            assert metrics[name] == expected


class Unstable:
    """A metric that fails from its second call on, as metrics may for other responses."""

    def __init__(self):
        self.calls, self.is_repaired = 0, False

    def __call__(self, targets, predictions):
        self.calls += 1
        if self.calls > 1 and not self.is_repaired:
            raise ZeroDivisionError("no response has a word")
        return {"unstable": 1.0}


@pytest.mark.slow
def test_a_metric_that_fails_costs_no_checkpoint(command, tmp_path):
    unstable = Unstable()

    def fails(targets, predictions):
        return unstable(targets, predictions)

    task = register("unstable_metric", metric_fns=[fails, length])
    options = (GREEDY, "--gin.DECODED_EVAL_PERIOD=1", "--gin.CHECKPOINT_PERIOD=1")
    status, _, err = train(command, task, tmp_path, *options)
    assert status == 1
    failure = f"{task}: its metric fails fails: ZeroDivisionError: no response has a word"
    assert err.splitlines()[-1] == f"faith-jax: Step 2, whose state is saved: {failure}."
    assert "Traceback" not in err
    assert (tmp_path / "checkpoints" / "2" / "params").is_dir()
    measured = lines(tmp_path, "validation_decoded")
    assert [(row["step"], row["targets"], row["failed"]) for row in measured] == [
        (step, 6.0, failure) for step in (1, 2)
    ]
    assert not any("unstable" in row for row in measured)

    # The same command measures what is missing, and trains nothing.
    unstable.is_repaired = True
    status, _, err = train(command, task, tmp_path, *options)
    assert status == 0, err
    assert lines(tmp_path, "validation_decoded")[-1]["unstable"] == 1.0
    assert len(lines(tmp_path, "train")) == 2
    count = unstable.calls
    assert train(command, task, tmp_path, *options)[0] == 0
    assert unstable.calls == count


@pytest.mark.faults
def test_a_run_that_is_killed_while_it_measures_resumes_there(command, tmp_path, monkeypatch):
    task = register("killed_at_metrics", metric_fns=[length])
    options = (GREEDY, "--gin.DECODED_EVAL_PERIOD=1", "--gin.CHECKPOINT_PERIOD=1")

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DecodedEvaluation, "evaluate", killed)
        status, _, err = train(command, task, tmp_path, *options)
    assert status == 130, err
    assert lines(tmp_path, "validation_decoded") == []
    status, _, err = train(command, task, tmp_path, *options)
    assert status == 0, err
    assert [row["step"] for row in lines(tmp_path, "validation_decoded")] == [1, 2]


def needs_six(targets, predictions):
    if len(targets) < 6:
        raise ValueError("too few for a correlation")
    return {"correlation": 0.5}


def of_aux(targets, predictions, aux):
    return {}


def broken(text, example=None, is_target=False):
    return text.split()[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric_fns": [lambda targets, predictions: {"words": "a" + 1}]}, "TypeError: can only"),
        ({"metric_fns": [lambda targets, scores: {"s": None}]}, "expected a number or a value of"),
        ({"metric_fns": [of_aux]}, "positional arguments matching either ('targets', 'scores')"),
        ({"metric_fns": [length, length]}, "another metric is called 'shown' too"),
    ],
)
def test_a_dry_run_tries_metrics_and_postprocessors(command, tmp_path, request, options, message):
    task = register(f"tried_{request.node.callspec.indices['options']}", **options)
    for more in ((GREEDY, "--dry_run"), (GREEDY,)):
        status, _, err = train(command, task, tmp_path / "model", *more)
        assert status == 2
        assert message in err.splitlines()[-1]
        assert err.splitlines()[-1].startswith(f"faith-jax: {task}: its metric")
        assert "Traceback" not in err
        assert list(tmp_path.iterdir()) == []


def columns(dataset):
    """Two columns of a TSV file."""
    names = ("inputs", "targets")
    parse = functools.partial(tf.io.decode_csv, record_defaults=["", ""], field_delim="\t")
    return dataset.map(lambda line: dict(zip(names, parse(line), strict=True)))


@seqio.map_over_dataset
def renamed(row):
    return {"inputs": row["question"], "targets": row["targets"]}


def lines_of(path):
    return seqio.TextLineDataSource({"train": str(path), "validation": str(path)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"source": "pairs.tsv", "preprocessors": [columns, *TOKENIZED]},
            "split 'train': its preprocessor columns fails after 2 examples: InvalidArgumentError: "
            "Expect 2 fields but have 1 in record 0.",
        ),
        (
            {"source": "nothing.tsv", "preprocessors": [columns, *TOKENIZED]},
            "split 'train': its source TextLineDataSource fails: NotFoundError: "
            "{folder}/nothing.tsv; No such file or directory.",
        ),
        (
            {"preprocessors": [renamed, *TOKENIZED]},
            "split 'train': its preprocessor renamed fails: KeyError: 'question'.",
        ),
        (
            {"preprocessors": []},
            "split 'train': its preprocessors (none): ValueError: Task dataset has incorrect type "
            "for feature 'inputs' after preprocessing: Got string, expected int32. Is "
            "seqio.preprocessors.tokenize missing?",
        ),
        (
            {"metric_fns": [length, likelihood], "postprocess_fn": functools.partial(broken)},
            "its postprocessor broken fails for \"tea\": IndexError: list index out of range (with "
            "the targets of split 'validation' as responses). Repair it, or set DECODING = None, "
            "which measures the loss alone.",
        ),
    ],
)  # fmt: skip
def test_a_step_of_a_task_that_fails_is_named(command, tmp_path, request, options, message):
    (tmp_path / "pairs.tsv").write_text("what grows?\ttea\nwhat is brewed?\tcoffee\nbroken\n")
    if "source" in options:
        options = options | {"source": lines_of(tmp_path / options["source"])}
    task = register(f"steps_{request.node.callspec.indices['options']}", **options)
    status, _, err = train(command, task, tmp_path / "model", GREEDY)
    assert status == 2
    comma = "," if message.startswith("split") else ":"
    text = message.replace("{folder}", str(tmp_path))
    assert err.splitlines()[-1] == f"faith-jax: {task}{comma} {text}"
    assert "Traceback" not in err
    assert not (tmp_path / "model").exists()


def test_training_without_validation(command, tmp_path):
    task = register("train_alone", splits=["train"])
    status, _, err = train(command, task, tmp_path)
    assert status == 2
    assert err.splitlines()[-1] == (
        "faith-jax: EVAL_SPLIT = 'validation': train_alone has no split 'validation'. "
        "EVAL_SPLIT=None trains without validation. Its splits: train."
    )
    periods = ("--gin.CHECKPOINT_PERIOD=1", "--gin.KEEP_LAST=1")
    status, _, err = train(command, task, tmp_path, GREEDY, "--gin.EVAL_SPLIT=None", *periods)
    assert status == 0, err
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["2"]
    assert lines(tmp_path, "validation") == []


def test_another_validation_split_is_proposed(command, tmp_path):
    task = register("splits_dev", splits=["train", "validation_matched", "test"])
    status, _, err = train(command, task, tmp_path, "--gin.EVAL_SPLIT=dev", "--dry_run")
    assert status == 2
    assert "EVAL_SPLIT = 'dev': " in err
    assert "Did you mean 'validation_matched' or 'test'" in err
    assert "'train'" not in err


def ready_ids(split, shuffle_files, seed=None):
    def rows():
        for number in range(6):
            yield {"inputs": [300, 310 + number], "targets": [400, 410 + number, 1]}

    spec = tf.TensorSpec([None], tf.int32)
    return tf.data.Dataset.from_generator(rows, output_signature={n: spec for n in FEATURES})


FEATURES = ("inputs", "targets")


def first_ids(targets, predictions):
    assert all(list(ids)[-1] == 1 for ids in targets)
    return {"first": float(np.mean([ids[0] for ids in targets]))}


@pytest.mark.slow
@pytest.mark.parametrize(("eos_id", "steps"), [(1, TOKENIZED[:1]), (None, [])])
def test_rows_of_ids_are_read_as_they_are(command, tmp_path, request, eos_id, steps):
    task = register(
        f"ready_ids_{eos_id}", ready_ids, seqio.PassThroughVocabulary(4196, eos_id),
        preprocessors=steps, metric_fns=[first_ids],
    )  # fmt: skip
    status, _, err = train(command, task, tmp_path, GREEDY)
    assert status == 0, err
    report = json.loads((tmp_path / "preflight.json").read_text())
    assert report["lengths"]["inputs"]["max"] == 2
    assert report["lengths"]["targets"]["max"] == 3
    ids = [int(example["id"]) for example in report["examples"]]
    assert [example["inputs"] for example in report["examples"]] == [f"300 {310 + i}" for i in ids]
    assert lines(tmp_path, "validation_decoded")[0]["first"] == 400.0
    # Where the checkpoint carries a vocabulary, its pieces are shown.
    more = ("--gin_file=models/from_checkpoint.gin", "--gin.INITIAL_CHECKPOINT_PATH=mini")
    status, out, err = command(
        "train", "--gin_file=runs/train.gin", *more, "--gin.BATCH_SIZE=4", "--dry_run", *SHORT[:2],
        f"--gin.MIXTURE_OR_TASK_NAME={task}", f"--gin.MODEL_DIR={tmp_path / 'more'}",
    )  # fmt: skip
    assert status == 0, err
    assert "inputs: 300" not in out


@pytest.mark.parametrize("of_ids", FEATURES)
def test_infer_says_that_it_reads_and_writes_texts(command, tmp_path, tiny_run, of_ids):
    task = f"ready_ids_of_{of_ids}"
    if task not in seqio.TaskRegistry.names():
        ids = seqio.Feature(seqio.PassThroughVocabulary(4196, 1), add_eos=False)
        features = dict.fromkeys(FEATURES, seqio.Feature(DefaultVocabulary())) | {of_ids: ids}
        source = seqio.FunctionDataSource(ready_ids, splits=["validation"])
        seqio.TaskRegistry.add(
            task, source=source, output_features=features, preprocessors=[], metric_fns=[]
        )
    status, _, err = command(
        "infer", "--gin_file=runs/infer.gin", f"--gin.CHECKPOINT_PATH={tiny_run}", SHORT[0],
        f"--gin.MIXTURE_OR_TASK_NAME={task}", f"--gin.INFER_OUTPUT_DIR={tmp_path / 'out'}",
        "--gin.SPLIT=validation",
    )  # fmt: skip
    assert status == 2
    assert "its rows are token ids, but infer reads and writes texts" in err


@pytest.mark.parametrize("steps", [[], TOKENIZED[:1]])
def test_rows_of_ids_and_other_features_are_shown(steps):
    name = f"shown_ids_{len(steps)}"
    if name not in seqio.TaskRegistry.names():
        ids = seqio.Feature(seqio.PassThroughVocabulary(4196, 1), add_eos=False)
        features = dict.fromkeys(FEATURES, ids) | {"note": dataclasses.replace(ids, required=False)}
        source = seqio.FunctionDataSource(ready_ids, splits=["validation"])
        seqio.TaskRegistry.add(
            name, source=source, output_features=features, preprocessors=steps, metric_fns=[]
        )
    rows = list(task_rows(name, None, 1, {"inputs": 8, "targets": 8}))
    assert rows[1:5] == ["  inputs (2 tokens)", "    [300, 310]",
                          "  targets (3 tokens)", "    [400, 410, 1]"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("copies", [True, False])
def test_bytes_are_a_vocabulary(command, tmp_path, copies, caplog):
    """Also for a task that keeps only ids and no texts."""
    caplog.set_level("INFO", logger="faith_jax")
    tokenize = functools.partial(seqio.preprocessors.tokenize, copy_pretokenized=copies)
    task = register(
        f"bytes_{copies}",
        vocabulary=seqio.ByteVocabulary(),
        metric_fns=[length],
        preprocessors=[tokenize, TOKENIZED[1]],
    )
    size = "--gin.config.TransformerConfig.vocab_size=384"
    lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 24, 'targets': 8}"
    options = () if copies else ("--gin.VOCABULARY=english_4096",)
    status, _, err = train(command, task, tmp_path, GREEDY, size, lengths, *options)
    assert status == 0, err
    named = f"VOCABULARY: seqio.vocabularies.ByteVocabulary, of the task {task}"
    if options:
        named += "; VOCABULARY = 'english_4096' has no effect, because this task sets another"
    assert [line for line in caplog.messages if "VOCABULARY" in line] == [named]
    report = json.loads((tmp_path / "preflight.json").read_text())
    assert report["lengths"]["targets"] == {"p50": 7, "p90": 7, "p99": 7, "max": 7}
    texts = {example["inputs"] for example in report["examples"]}
    assert texts <= {"what grows on hills?", "what is brewed?"}
    assert lines(tmp_path, "validation_decoded")[0]["targets"] == 6.0
    rows = responses(command, task, tmp_path, lengths)
    assert [row["target"] for row in rows] == ["tea", "coffee"] * 3
    assert {row["inputs"] for row in rows} == {"what grows on hills?", "what is brewed?"}


def proverbs(split, shuffle_files, seed=None):
    return tf.data.Dataset.from_tensor_slices({"targets": ["haste is waste", "less is more"] * 3})


@pytest.mark.slow
def test_targets_alone_train_a_decoder_only_model(command, tmp_path):
    task = register("proverbs", proverbs, features=["targets"], metric_fns=[length, likelihood])
    checkpoint = tiny_models.write_model(tmp_path / "gpt2", "gpt2", max_positions=64)
    folder = tmp_path / "model"
    options = ("--gin_file=runs/train.gin", "--gin_file=models/from_checkpoint.gin", GREEDY,
             f"--gin.INITIAL_CHECKPOINT_PATH={checkpoint}", "--gin.TRAIN_STEPS=2",
             "--gin.BATCH_SIZE=4", "--gin.TASK_FEATURE_LENGTHS={'targets': 32}",
             "--gin.DECODE_LENGTH=4", f"--gin.MIXTURE_OR_TASK_NAME={task}")  # fmt: skip
    status, _, err = command("train", *options, f"--gin.MODEL_DIR={folder}")
    assert status == 0, err
    (validation,), (decoded,) = lines(folder, "validation"), lines(folder, "validation_decoded")
    mean = -validation["negative_log_likelihood"] * validation["weight"] / 6
    assert decoded["likelihood"] == pytest.approx(mean, rel=1e-4)
    assert decoded["targets"] == 6.0
    rows = responses(command, task, folder, "--gin.TASK_FEATURE_LENGTHS={'targets': 32}")
    assert [row["target"] for row in rows] == ["haste is waste", "less is more"] * 3
    status, _, err = train(command, task, tmp_path / "t5", "--dry_run")
    assert status == 2
    assert "its rows have targets and no inputs, which an encoder needs" in err


def counted_rows(count):
    def rows(split, shuffle_files, seed=None):
        return drinks(split, shuffle_files).repeat().take(count)

    return rows


def tempered(task):
    return seqio.mixing_rate_num_examples(task, temperature=2.0)


@pytest.mark.slow
def test_a_tempered_mixture_takes_the_counts_of_its_rows(command, tmp_path):
    """A source without a number of examples gets the number of rows that were read."""
    tasks = [register(f"counted_{n}", counted_rows(n)) for n in (4, 36)]
    tasks.append(register("no_train_split", splits=["validation"]))
    seqio.MixtureRegistry.add("tempered", tasks, default_rate=tempered)
    steps = ("--gin.TRAIN_STEPS=8", "--dry_run")
    status, _, err = train(command, "tempered", tmp_path / "model", *steps)
    assert status == 0, err
    report = json.loads((tmp_path / "model.preflight.json").read_text())
    # The roots of 4 and 36 are 2 and 6; 8 steps of 4 rows.
    read = {member["name"]: member["read"] for member in report["members"]}
    assert read == {"counted_4": 8, "counted_36": 24}
    assert report["validation"]["rows"] == 4 + 36 + 6


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (lambda task: task.get_cached_stats("train")["examples"], "cannot be computed"),
        (lambda task: -1.0, "expected rates above 0, got counted_4 -1"),
    ],
)
def test_a_rate_that_cannot_be_computed_is_told_before_rows_are_read(
    command, tmp_path, request, rate, message
):
    name = f"rated_{request.node.callspec.indices['rate']}"
    members = [register("counted_4", counted_rows(4)), register("counted_5", counted_rows(5))]
    seqio.MixtureRegistry.add(name, members, default_rate=rate)
    status, _, err = train(command, name, tmp_path / "model")
    assert status == 2
    assert message in err.splitlines()[-1]
    assert "making the rows" not in err
    assert not (tmp_path / "model" / "rows").exists()


def twice_as_long(dataset, sequence_length):
    """A preprocessor that needs the lengths, like those of pre-training."""
    most = sequence_length["targets"]
    return dataset.map(lambda row: row | {"targets": tf.repeat(row["targets"], 2)[:most]})


def test_preprocessors_may_ask_for_the_lengths_and_metrics_need_more_than_two_rows(
    command, tmp_path
):
    steps = [*TOKENIZED, twice_as_long]
    task = register("asks_for_lengths", preprocessors=steps, metric_fns=[needs_six])
    lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 12, 'targets': 3}"
    status, _, err = train(command, task, tmp_path, GREEDY, "--dry_run", lengths)
    assert status == 0, err


def test_the_advice_about_the_cache_names_the_users_module(command, tmp_path):
    cached = [seqio.CacheDatasetPlaceholder(), *TOKENIZED]
    task = register("not_cached", preprocessors=cached)
    options = ("--gin.USE_CACHED_TASKS=True", f"--gin.MIXTURE_OR_TASK_MODULE='{__name__}'")
    status, _, err = train(command, task, tmp_path / "model", *options)
    assert status == 2
    cache_command = f"seqio_cache_tasks --module_import={__name__} --tasks=not_cached"
    assert f"Cache it: PYTHONPATH={REPOSITORY} {cache_command}" in err


def test_a_module_that_fails_is_one_line(command, tmp_path, monkeypatch):
    (tmp_path / "failing_tasks.py").write_text("import seqio\nseqio.no_such_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    options = ("--gin.MIXTURE_OR_TASK_MODULE='failing_tasks'", "--dry_run")
    status, _, err = train(command, "counted_4", tmp_path / "model", *options)
    assert status == 2
    message = "MIXTURE_OR_TASK_MODULE = 'failing_tasks' cannot be imported (AttributeError: module"
    assert message in err.splitlines()[-1]


def test_eval_writes_the_metrics_that_do_not_fail(command, tmp_path, tiny_run):
    unstable = Unstable()

    def fails(targets, predictions):
        return unstable(targets, predictions)

    def undefined(targets, predictions):
        return {"undefined": math.nan}

    task = register("unstable_in_eval", metric_fns=[fails, length, undefined])
    status, _, err = command(
        "eval", "--gin_file=runs/eval.gin", f"--gin.CHECKPOINT_PATH={tiny_run}", SHORT[0],
        SHORT[-1], f"--gin.MIXTURE_OR_TASK_NAME={task}", f"--gin.EVAL_OUTPUT_DIR={tmp_path}",
    )  # fmt: skip
    assert status == 1
    failure = f"{task}: its metric fails fails: ZeroDivisionError: no response has a word"
    assert err.splitlines()[-1] == f"faith-jax: {failure}"
    metrics = json.loads((tmp_path / "evaluation.json").read_text())["metrics"]
    assert metrics["failed"] == failure
    assert (metrics["targets"], metrics["undefined"]) == (6.0, None)  # JSON has no NaN


def test_infer_tries_the_postprocessor_before_it_responds(command, tmp_path, tiny_run):
    def of_responses(text, example=None, is_target=False):
        return text if is_target else text.split()[3]

    task = register("broken_for_responses", postprocess_fn=of_responses)
    status, _, err = command(
        "infer", "--gin_file=runs/infer.gin", f"--gin.CHECKPOINT_PATH={tiny_run}", SHORT[0],
        f"--gin.MIXTURE_OR_TASK_NAME={task}", f"--gin.INFER_OUTPUT_DIR={tmp_path / 'out'}",
        "--gin.SPLIT=validation",
    )  # fmt: skip
    assert status == 2
    fails = 'of_responses fails for "tea": IndexError: list index out of range.'
    message = f"{task}: its postprocessor {fails}"
    assert err.splitlines()[-1] == f"faith-jax: {message}"
    assert not (tmp_path / "out").exists()


TOKEN_IDS = seqio.PassThroughVocabulary(4196, 1)
VECTORS = seqio.ContinuousFeature(rank=2, dtype=tf.float32)


@pytest.mark.parametrize(
    ("name", "features", "message"),
    [
        ("vectors", {"inputs": VECTORS}, "as feature 'inputs', got values of float32 with rank 2."),
        (
            "numbers",
            {"targets": seqio.Feature(TOKEN_IDS, rank=0)},
            "as feature 'targets', got values of int32 with rank 0.",
        ),
        (
            "two_vocabularies",
            {"inputs": seqio.Feature(seqio.ByteVocabulary())},
            "english_4096.model; give both that of the model.",
        ),
    ],
)
def test_features_must_be_tokens_of_one_vocabulary(name, features, message):
    if name not in seqio.TaskRegistry.names():
        texts = dict.fromkeys(FEATURES, seqio.Feature(DefaultVocabulary()))
        source = seqio.FunctionDataSource(drinks, splits=["train"])
        seqio.TaskRegistry.add(name, source=source, output_features=texts | features)
    with pytest.raises(ConfigError) as error:
        DatasetConfig(name, {"inputs": 8, "targets": 8}).task()
    assert str(error.value).startswith(f"{name}: ")
    assert str(error.value).endswith(message)


def test_a_task_that_is_only_read_cached_says_so():
    steps = [seqio.CacheDatasetPlaceholder(required=True), *TOKENIZED]
    task = register("only_cached", preprocessors=steps)
    with pytest.raises(ConfigError) as error:
        DatasetConfig(task, {"inputs": 8, "targets": 8}).task()
    assert str(error.value) == "only_cached is only read cached; set USE_CACHED_TASKS = True."


def ignored_ids(split, shuffle_files, seed=None):
    rows = {"inputs": [[300, 310, 1]] * 4, "targets": [[-100, 410, 1]] * 4, "image": [[1]] * 4}
    return tf.data.Dataset.from_tensor_slices(rows)


def test_positions_to_ignore_are_no_tokens_and_other_features_are_told(command, tmp_path, caplog):
    caplog.set_level("INFO", logger="faith_jax")
    task = register(
        "ignored_ids", ignored_ids, TOKEN_IDS, preprocessors=[], features=(*FEATURES, "image")
    )
    status, _, err = train(command, task, tmp_path / "model")
    assert status == 2
    place = "ignored_ids, split 'train', example 0"
    message = f"faith-jax: {place}: -100 is no token id; leave ignored positions out of rows."
    assert err.splitlines()[-1] == message
    assert "ignored_ids: features that are not read: image" in caplog.messages


def test_other_features_are_named(command, tmp_path):
    task = register("other_features", lambda split, shuffle_files, seed=None: None,
                    features=["question", "answer"])  # fmt: skip
    status, _, err = train(command, task, tmp_path / "model")
    assert status == 2
    assert "its features are answer, question; expected 'targets'" in err
