import collections

import gin
import pytest
import tensorflow_datasets as tfds

from faith_jax.core import templates
from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.dialogue_phrases import PHRASES, with_random_phrase
from faith_jax.datasets.raw.decode import DECODE
from faith_jax.datasets.raw_files import sample_files
from faith_jax.tasks import lookup, nli, sources
from tests.tasks.examples import examples as rows

read = rows.__wrapped__  # what a test binds or puts in the place of data is not kept


def inputs(row):
    return row["inputs_pretokenized"].decode()


def test_premise_and_hypothesis_in_label_out():
    rows_read = rows("nli_anli_sample")
    for row in rows_read:
        expected = templates.nli_inputs(row["premise"].decode(), row["hypothesis"].decode())
        assert inputs(row) == expected
        assert row["targets_pretokenized"] == row["label"]
    labels = collections.Counter(row["label"] for row in rows_read)
    assert labels == {b"entailment": 5, b"neutral": 5, b"contradiction": 5}
    assert [inputs(row) for row in rows("nli_mnli_sample")] == [inputs(row) for row in rows_read]


def test_every_instance_comes_twice_once_with_a_phrase():
    plain, both = rows("nli_anli_sample"), rows("nli_anli_augmented_sample")
    assert [inputs(row) for row in both[: len(plain)]] == [inputs(row) for row in plain]
    phrased = both[len(plain) :]
    assert len(phrased) == len(plain)
    for before, after in zip(plain, phrased, strict=True):
        hypothesis = with_random_phrase(before["hypothesis"].decode(), before["id"].decode(), 0)
        assert after["hypothesis"].decode() == hypothesis
        assert hypothesis.startswith(PHRASES)
        assert inputs(after) == templates.nli_inputs(after["premise"].decode(), hypothesis)
        assert after["label"] == before["label"]


def test_dialogue_nlis_pairs():
    for split, size in (("train", 12), ("test_verified", 6)):
        rows_read = rows("nli_dnli_sample", split)
        assert len(rows_read) == size
        for row in rows_read:
            expected = templates.nli_inputs(row["premise"].decode(), row["hypothesis"].decode())
            assert inputs(row) == expected
            assert row["targets_pretokenized"] == row["label"]
        labels = {row["label"] for row in rows_read}
        assert labels == {b"entailment", b"neutral", b"contradiction"}


def test_decodes_pairs_and_dialogues():
    dialogues = list(DECODE.examples(sample_files(DECODE), "train"))
    pairs, whole = [], []
    for dialogue in dialogues:
        history, response = dialogue["history"], dialogue["response"]
        last_turn = history[-2] if len(history) >= 3 else history[-1]
        for premise in dialogue["contradicted"] or [last_turn]:
            pairs.append((premise, response, dialogue["label"]))
        whole.append((" ".join(history), response, dialogue["label"]))
    for name, expected in (("nli_decode_sample", pairs), ("nli_decode_dialogue_sample", whole)):
        triples = [
            tuple(
                row[field].decode() for field in ("premise", "hypothesis", "targets_pretokenized")
            )
            for row in rows(name)
        ]
        assert triples == expected
        for row in rows(name):
            expected = templates.nli_inputs(row["premise"].decode(), row["hypothesis"].decode())
            assert inputs(row) == expected


@pytest.fixture
def bind():
    def bind(phrases):
        with gin.unlock_config():
            gin.bind_parameter("faith_jax.tasks.nli.augmentation.phrases", phrases)

    return bind


def test_gin_may_set_other_phrases(bind):
    plain, phrases = rows("nli_anli_sample"), ("I think", "By the way,")
    bind(phrases)
    both = read("nli_anli_augmented_sample", "train")
    assert [inputs(row) for row in both[: len(plain)]] == [inputs(row) for row in plain]
    for before, after in zip(plain, both[len(plain) :], strict=True):
        texts = before["hypothesis"].decode(), before["id"].decode()
        assert after["hypothesis"].decode() == with_random_phrase(*texts, 0, phrases)
        assert after["hypothesis"].decode().startswith(phrases)
        assert after["hypothesis"].decode() in inputs(after)


@pytest.mark.parametrize("phrases", [(), "I think", ("I think", ""), (1,)])
def test_phrases_must_be_texts(bind, phrases):
    bind(phrases)
    with pytest.raises(ConfigError, match=r"nli.augmentation.phrases: expected a list of texts"):
        nli.augmentation()


def test_tfdss_own_data_has_the_same_form(monkeypatch):
    # The mock knows no sizes.
    monkeypatch.setattr(sources._Part, "num_examples", 4)
    with tfds.testing.mock_data(num_examples=4):
        rows_read = read("nli_anli", "validation")
    assert len(rows_read) == 4 * 3
    named = [row["source"].decode() for row in rows_read]
    assert named == [
        n for n in lookup.get_task("nli_anli").source.dataset_name.split(", ") for _ in "1234"
    ]
    labels = {"entailment", "neutral", "contradiction"}
    for row in rows_read:
        assert row["targets_pretokenized"].decode() in labels
        expected = templates.nli_inputs(row["premise"].decode(), row["hypothesis"].decode())
        assert inputs(row) == expected


def test_labels_follow_tfdss_classes():
    names = {"anli/r1": ["e", "n", "c"], "multi_nli": ["entailment", "neutral", "contradiction"]}
    for name, expected in names.items():
        assert tfds.builder(name).info.features["label"].names == expected


def test_unknown_splits():
    with pytest.raises(ConfigError, match=r"anli/r1.*no split 'dev'"):
        lookup.get_task("nli_anli").source.get_dataset("dev")
