import numpy as np
import pytest
import seqio

from faith_jax.core.errors import ConfigError
from faith_jax.decoding.config import DecodingConfig
from faith_jax.inference.batch_decoder import BatchDecoder, DecodedRow
from faith_jax.input.task_batches import DatasetConfig, SplitRows
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.runs.evaluate import DecodedEvaluation
from tests.models import families, tiny


@pytest.mark.parametrize("config", [tiny.TINY, families.GPT2])
def test_tokens_outside_the_vocabulary_are_refused_before_a_run_begins(config):
    decoding = DecodingConfig(max_length=4, eos_id=(1, 50))
    with pytest.raises(ConfigError, match=r"eos_id: .* size of 50, got \(1, 50\)"):
        BatchDecoder(Transformer(config), None, decoding, batch_size=2)


def test_rows_are_decoded_together_and_told_of(monkeypatch, caplog):
    """If the decoded texts are the written responses, the metrics are at their best."""
    dataset = DatasetConfig(
        "npov_generate_sample",
        {"inputs": 224, "targets": 224},
        split="validation",
        batch_size=7,
        shuffle=False,
    )
    module = Transformer(tiny.TINY.replace(vocab_size=4196))
    evaluation = DecodedEvaluation(
        module,
        make_partitioner(module.config),
        SplitRows(dataset, module.config),
        DecodingConfig(max_length=224),
    )
    rows = list(dataset.task().get_dataset(None, "validation", shuffle=False).as_numpy_iterator())
    pieces = []

    def decode(params, inputs, numbers, second, on_done):
        pieces.append((list(numbers), len(inputs)))
        on_done(len(inputs))
        return [[DecodedRow(rows[n]["targets"], 0.0, 0.0, True)] for n in numbers]

    monkeypatch.setattr(evaluation, "_decoder", decode)
    with caplog.at_level("INFO", logger="faith_jax"):
        metrics = evaluation.evaluate({})
    assert len(rows) == 18
    assert pieces == [(list(range(18)), 18)]
    assert "Decoding 18 responses, for the task's metrics" in caplog.text
    assert metrics["rouge1"] == metrics["token_f1"] == 1.0
    assert np.isfinite(metrics["argument_recall"])


@pytest.mark.slow
@pytest.mark.usefixtures("own_seqio_tasks")
def test_metrics_of_a_mixture_have_their_task_in_front(monkeypatch, caplog):
    """As SeqIO does, also if only one task has the split; the other task is reported."""
    seqio.TaskRegistry.add(
        "only_trained",
        source=seqio.FunctionDataSource(lambda split, shuffle_files: None, splits=["train"]),
        preprocessors=[],
        output_features=seqio.get_mixture_or_task("npov_generate_sample").output_features,
        metric_fns=[],
    )
    seqio.MixtureRegistry.add("npov_and_more", ["npov_generate_sample", "only_trained"], 1)
    lengths = {"inputs": 224, "targets": 224}
    dataset = DatasetConfig("npov_and_more", lengths, "validation", batch_size=7, shuffle=False)
    module = Transformer(tiny.TINY.replace(vocab_size=4196))
    rows = SplitRows(dataset, module.config)
    partitioner = make_partitioner(module.config)
    evaluation = DecodedEvaluation(module, partitioner, rows, DecodingConfig(max_length=224))

    def decode(params, inputs, numbers, second, on_done):
        return [[DecodedRow(np.array([1]), 0.0, 0.0, True)] for _ in numbers]

    monkeypatch.setattr(evaluation, "_decoder", decode)
    metrics = evaluation.evaluate({})
    assert metrics
    assert {name.partition("/")[0] for name in metrics} == {"npov_generate_sample"}
    assert "npov_and_more: only_trained has no split 'validation': left out" in caplog.text
