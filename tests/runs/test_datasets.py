"""Batches with negatives; what all batches have in common is tested through runs and families."""

import numpy as np
import pytest

from faith_jax.data import vocabularies
from faith_jax.data.vocabularies import load_vocabulary
from faith_jax.errors import ConfigError
from faith_jax.language_model import load_model
from faith_jax.runs.datasets import DatasetConfig, SplitRows, evaluation_batches, training_batches
from tests.scoring import tiny_models

TASK = "faithdial_generate_infonce_sample"
LENGTHS = {"inputs": 160, "targets": 90}


def config(negatives=(8, 64), **changes):
    options = {"split": "train", "batch_size": 4, "shuffle": False} | changes
    task = options.pop("task", TASK)
    return DatasetConfig(task, LENGTHS | {"negatives": negatives}, **options)


def written_negatives(count):
    """The texts of the first examples' negatives."""
    examples = config().task().get_dataset(None, split="train", shuffle=False).take(count)
    return [[t.decode() for t in e["negatives_pretokenized"].numpy()] for e in examples]


def mini():
    return load_model("mini").config


def test_negatives_beside_the_features_of_a_t5():
    batch = next(evaluation_batches(config(), mini()))
    plain = DatasetConfig(TASK, LENGTHS, split="train", batch_size=4)
    expected = next(evaluation_batches(plain, mini()))
    read = expected["decoder_target_tokens"] > 0  # what is fed behind a target is never seen
    for name, array in expected.items():
        counts = read if name.startswith("decoder") else True
        np.testing.assert_array_equal(batch[name] * counts, array * counts)
    assert batch["negatives"].shape == (4, 8, 64)
    encode = load_vocabulary().encode
    written = written_negatives(4)
    assert any(written)
    for row, texts in zip(batch["negatives"], written, strict=True):
        for tokens, text in zip(row, texts, strict=False):
            assert tokens[tokens > 0].tolist() == [*encode(text), 1]
        assert not row[len(texts) :].any()


def test_a_negative_that_is_cut_keeps_its_end():
    whole = next(evaluation_batches(config((8, 64)), mini()))["negatives"]
    cut = next(evaluation_batches(config((2, 7)), mini()))["negatives"]
    assert cut.shape == (4, 2, 7)
    lengths = np.count_nonzero(whole[:, :2], axis=-1)
    assert (lengths > 7).any()
    for long, short, length in zip(
        whole[:, :2].reshape(-1, 64), cut.reshape(-1, 7), lengths.ravel(), strict=True
    ):
        expected = long[:7].tolist()
        if length > 7:
            expected[6] = 1
        assert short.tolist() == expected
    (rows,) = SplitRows(config((2, 7)), mini()).members
    counted = rows.column("negatives_cut").to_pylist()[:4]
    assert counted == np.count_nonzero(lengths > 7, axis=1).tolist()
    (rows,) = SplitRows(config((8, 64)), mini()).members
    assert not any(rows.column("negatives_cut").to_pylist())


def test_negatives_of_a_model_with_a_prefix_and_padding_of_its_own(tmp_path):
    folder = tiny_models.write_model(tmp_path / "bart", "bart", max_positions=256)
    vocabularies.set_default_vocabulary(folder)
    vocabulary, model = load_vocabulary(folder), load_model(folder).config
    batch = next(evaluation_batches(config((3, 80)), model))
    for row, texts in zip(batch["negatives"], written_negatives(4), strict=True):
        for tokens, text in zip(row, texts, strict=False):
            ids = [*vocabulary.prefix_ids, *vocabulary.encode(text), vocabulary.eos_id]
            assert tokens.tolist() == ids + [model.pad_id] * (80 - len(ids))
        assert (row[len(texts) :] == model.pad_id).all()


def test_training_batches_go_on_where_they_stopped():
    batches = training_batches(config(shuffle=True, seed=3), 0, mini())
    next(batches)
    second = next(batches)
    again = next(training_batches(config(shuffle=True, seed=3), 1, mini()))
    np.testing.assert_array_equal(second["negatives"], again["negatives"])


@pytest.mark.parametrize("negatives", [8, (8,), (0, 4), "8", (8, 4.0)])
def test_wrong_lengths(negatives):
    with pytest.raises(ConfigError, match=r"expected 'negatives': \(texts, tokens of each\)"):
        config(negatives)


def test_where_there_are_no_negatives():
    with pytest.raises(ConfigError, match=r"PACK = True: examples with negatives cannot be packed"):
        config(pack=True)
    with pytest.raises(
        ConfigError, match=r"faithdial_generate_sample: its examples have no feature"
    ):
        next(evaluation_batches(config(task="faithdial_generate_sample"), mini()))
