"""SummaC-Conv's histograms against a plain loop, and invalid histograms."""

import math
import pathlib
import re

import numpy as np
import pytest
import safetensors.numpy

from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.runs.judges.reference_models import write_histogram
from faith_jax.scoring.judges.card import read_card
from faith_jax.scoring.judges.scorer import _read_histogram
from faith_jax.scoring.registry import load_scorer

NAME = "summac_conv_vitaminc"
GROUNDING = "Tea is a leaf. It grows in the hills. The lake freezes in winter. It is dry and hot."
RESPONSE = "A leaf grows in the hills. It is a lake in winter. The tea is hot and dry."


def plain_score(support, edges, stored):
    """The score of the sentences [sentences, chunks], in loops."""
    features = []
    for of_sentence in support:
        counts = [0] * (len(edges) - 1)
        for probability in of_sentence:
            number = sum(probability >= edge for edge in edges[1:-1])
            counts[number] += 1
        weights = stored["mlp.weight"][0]
        total = sum(count * weight for count, weight in zip(counts, weights, strict=True))
        features.append(total + stored["mlp.bias"][0])
    mean = sum(features) / len(features)
    bias = stored["layer_final.bias"]
    logits = [sum(row) * mean + bias[n] for n, row in enumerate(stored["layer_final.weight"])]
    return math.exp(logits[1]) / (math.exp(logits[0]) + math.exp(logits[1]))


def test_the_score_reads_the_support_of_each_sentence_by_all_chunks(models):
    folder = pathlib.Path(models[NAME])
    scorer = load_scorer(NAME, model=str(folder))
    example = GroundedExample("1", Grounding((GROUNDING,)), (), RESPONSE)
    row = scorer.read(example)
    assert [len(part) for part in row.rows] == [4, 4, 4]
    support = [np.stack(scorer.judge.support(part))[:, 0] for part in row.rows]
    stored = safetensors.numpy.load_file(folder / "summac_conv.safetensors")
    edges = read_card(NAME).histogram.edges
    (score,) = scorer.score([GROUNDING], [RESPONSE])
    assert score.value == pytest.approx(plain_score(support, edges, stored), abs=1e-6)
    # A word has the score that its sentence alone would have; its evidence is the best chunk.
    words = score.words[0], score.words[6], score.words[-1]
    sentences = zip(row.sentences, words, score.evidence, support, strict=True)
    for sentence, word, evidence, of_chunks in sentences:
        alone = plain_score([of_chunks], edges, stored)
        assert word.score == pytest.approx(alone, abs=1e-6)
        assert word.word in sentence.text
        assert evidence.word == row.rows[0][int(np.argmax(of_chunks))].chunk.text
    (whole,) = load_scorer(NAME, model=str(folder), sentences="whole").score([GROUNDING], ["Tea."])
    assert 0 <= whole.value <= 1


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (None, "there is no such file, from which the card reads the weights of its histogram"),
        ({"mlp.bias": None}, "mlp.bias: expected a tensor [1], of 23 bins, got none."),
        ({"mlp.weight": np.zeros((1, 50))}, "expected a tensor [1, 23], of 23 bins, got [1, 50]."),
        ({"layer_final.weight": np.zeros((2, 2))}, "expected a tensor [2, 3]"),
        ({"mlp.bias": np.zeros(1, np.int32)}, "expected float32, bfloat16 or float16, got int32"),
    ],
)
def test_other_weights_are_one_error(tmp_path, tensors, message):
    path = tmp_path / "summac_conv.safetensors"
    if tensors is not None:
        write_histogram(path, 23)
        stored = safetensors.numpy.load_file(path) | tensors
        kept = {name: array for name, array in stored.items() if array is not None}
        safetensors.numpy.save_file(
            {n: a if a.dtype == np.int32 else a.astype(np.float32) for n, a in kept.items()}, path
        )
    with pytest.raises((ConfigError, CheckpointError), match=re.escape(message)) as error:
        _read_histogram(read_card(NAME).histogram, tmp_path)
    assert str(error.value).startswith(str(path))


def test_a_model_without_the_weights_is_one_error(models):
    model = models["summac_zs_vitaminc"]
    with pytest.raises(ConfigError, match=r"summac_conv\.safetensors: there is no such file"):
        load_scorer(NAME, model=model)
