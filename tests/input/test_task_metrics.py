import numpy as np
import pytest
import seqio
import tensorflow as tf

from faith_jax.core.errors import ConfigError, MetricError
from faith_jax.input.task_metrics import ModelOutputs, needed_outputs, task_metrics
from faith_jax.tokenizers.seqio_vocabulary import TokenizerVocabulary
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.scoring import tiny_models

OUTPUTS = ModelOutputs([[5, 6, 7], [8, 9]], [-1.5, -0.25], [-3.0, -4.0])


def no_rows(split, shuffle_files, seed=None):
    return tf.data.Dataset.from_tensor_slices({"targets": [""]})


def task_of(*metrics, vocabulary=None, objects=(), **options):
    vocabulary = vocabulary or seqio.PassThroughVocabulary(100)
    feature = seqio.Feature(vocabulary=vocabulary, add_eos=False)
    return seqio.Task(
        "unregistered",
        source=seqio.FunctionDataSource(no_rows, splits=["validation"]),
        output_features={"targets": feature},
        preprocessors=[],
        metric_fns=list(metrics),
        metric_objs=list(objects),
        **options,
    )


ROWS = [{"targets": np.array([5, 6])}, {"targets": np.array([8])}]


def predicted(targets, predictions):
    return {"predictions": len(predictions)}


def scored(targets, scores):
    return {"mean": np.mean(scores), "all": scores, "text": b"caf\xc3\xa9", "n": np.int64(2)}


def ranked(targets, predictions, aux_values):
    return {"last": list(predictions[-1]), "rank": aux_values["scores"][-1]}


def test_what_each_kind_of_metric_needs():
    assert needed_outputs(task_of()) == set()
    assert needed_outputs(task_of(predicted)) == {"predictions"}
    assert needed_outputs(task_of(scored)) == {"scores"}
    assert needed_outputs(task_of(ranked, scored)) == {"predictions", "scores"}


def test_values_are_plain():
    values = task_metrics(task_of(predicted, scored, ranked), ROWS, OUTPUTS)
    assert values == {
        "predictions": 2.0,
        "mean": -0.875,
        "all": [-1.5, -0.25],
        "text": "café",
        "n": 2.0,
        "last": [8.0, 9.0, 0.0],  # of SeqIO's padding
        "rank": -4.0,
    }


def test_an_object_is_measured_anew_each_time():
    """SeqIO's LegacyMetric keeps the targets that it has seen."""
    metric = seqio.metrics.LegacyMetric.empty(lambda targets, scores: {"n": len(targets)}, None)
    task = task_of(objects=[metric])
    assert task_metrics(task, ROWS, OUTPUTS) == {"n": 2.0}
    assert task_metrics(task, ROWS[:1], ModelOutputs(scores=[-1.0])) == {"n": 1.0}


def test_other_metrics_are_kept_when_one_fails():
    def fails(targets, predictions):
        raise KeyError("no such word")

    with pytest.raises(MetricError, match="its metric fails fails: KeyError") as caught:
        task_metrics(task_of(fails, scored), ROWS, OUTPUTS)
    assert caught.value.metrics["n"] == 2.0


def test_metrics_of_intermediate_states_are_named():
    class Intermediates(seqio.metrics.Metric):
        model_output_type = seqio.metrics.ModelOutputType.SCORE_WITH_INTERMEDIATES

    message = "unregistered: its metric Intermediates needs the model's intermediate states"
    with pytest.raises(ConfigError, match=message):
        needed_outputs(task_of(objects=[Intermediates]))


def test_responses_of_several_lengths_get_no_text_behind_their_ends(tmp_path):
    """The token 0 of GPT-2 is a text."""
    ours = load_vocabulary(tiny_models.write_model(tmp_path / "model", "gpt2"))
    texts = ["a long response of words", "short"]

    def same(targets, predictions):
        return {"same": float(list(predictions) == texts)}

    task = task_of(same, vocabulary=TokenizerVocabulary(ours))
    rows = [{"targets_pretokenized": text} for text in texts]
    outputs = ModelOutputs([ours.encode(text) for text in texts])
    assert task_metrics(task, rows, outputs) == {"same": 1.0}
