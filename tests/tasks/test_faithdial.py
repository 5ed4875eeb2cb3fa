import json

import pytest
import seqio
import tensorflow as tf

from faith_jax.core import templates
from faith_jax.datasets.augmentation.control_tokens import FAITHFUL_TOKENS, extra_id_texts
from faith_jax.datasets.samples import sample_folder
from faith_jax.tasks import faithdial, lookup
from tests.tasks.examples import examples, texts

FILES = {"train": "train.json", "validation": "valid.json", "test": "test.json"}


def turns(split):
    text = (sample_folder("faithdial") / FILES[split]).read_text(encoding="utf-8")
    return [turn for dialogue in json.loads(text) for turn in dialogue["utterances"]]


@pytest.mark.parametrize("split", ["train", "test"])
def test_generation_reads_knowledge_and_the_last_three_utterances(split):
    expected = [templates.dialogue_inputs(t["knowledge"], t["history"][-3:]) for t in turns(split)]
    assert texts("faithdial_generate_sample", split, "inputs") == expected
    responses = [turn["response"] for turn in turns(split)]
    assert texts("faithdial_generate_sample", split) == responses


def test_responses_before_the_edit():
    expected = [turn["original_response"] or turn["response"] for turn in turns("train")]
    assert texts("faithdial_generate_wow_sample", "train") == expected
    assert expected != [turn["response"] for turn in turns("train")]


def test_wow_comes_before_faithdial():
    both = texts("faithdial_generate_wow_then_faithdial_sample", "train")
    first = texts("faithdial_generate_wow_sample", "train")
    assert both == first + texts("faithdial_generate_sample", "train")


INFONCE = "faithdial_generate_infonce_sample"


def test_infonce_has_the_tokens_of_each_negative():
    task, rows = lookup.get_task(INFONCE), examples(INFONCE)
    encode = task.output_features["negatives"].vocabulary.encode
    assert texts(INFONCE) == texts("faithdial_generate_sample")
    counts = [len(example["negatives"]) for example in rows]
    assert (counts[:2], max(counts), min(counts)) == ([4, 3], 4, 0)
    for example in rows:
        pretokenized = example["negatives_pretokenized"]
        for tokens, text in zip(example["negatives"], pretokenized, strict=True):
            expected = [*encode(text.decode()), 1]
            assert tokens[: len(expected)].tolist() == expected
            assert not tokens[len(expected) :].any()
            assert text != example["targets_pretokenized"]


def test_negatives_are_cut_to_lengths_and_keep_eos():
    lengths = {"inputs": 512, "targets": 64, "negatives": (2, 6)}
    cut = lookup.get_task(INFONCE).get_dataset(lengths, "train", shuffle=False)
    for example, shorter in zip(examples(INFONCE), cut.as_numpy_iterator(), strict=True):
        assert len(shorter["negatives"]) == min(2, len(example["negatives"]))
        for tokens, fewer in zip(example["negatives"], shorter["negatives"], strict=False):
            assert (fewer[:5].tolist(), fewer[5]) == (tokens[:5].tolist(), 1)


def test_negatives_are_eight_at_most():
    example = {"knowledge": "k", "history": ["h"], "response": "r"}
    columns = {name: tf.constant([value]) for name, value in example.items()}
    columns["negatives"] = tf.constant([[f"n{i}" for i in range(11)]])
    (row,) = faithdial.generate_infonce(tf.data.Dataset.from_tensor_slices(columns))
    assert row["negatives_pretokenized"].numpy().tolist() == [f"n{i}".encode() for i in range(8)]


def test_infonce_trains_on_cross_entropy_too():
    lookup.get_task(INFONCE)
    converter = seqio.EncDecFeatureConverter(pack=False)
    lengths = {"inputs": 64, "targets": 32}
    row = next(
        seqio.get_dataset(
            mixture_or_task_name=INFONCE,
            task_feature_lengths=lengths,
            dataset_split="train",
            shuffle=False,
            feature_converter=converter,
        ).as_numpy_iterator()
    )
    assert row["encoder_input_tokens"].shape == (64,)


def test_control_tokens_stand_before_the_inputs():
    plain = texts("faithdial_generate_sample", "test", "inputs")
    controlled = texts("faithdial_generate_ctrl_sample", "test", "inputs")
    pairs = zip(controlled, plain, strict=True)
    meanings = {text: token for token, text in extra_id_texts(100).items()}
    tokens = [[meanings[t] for t in text.removesuffix(x).split()] for text, x in pairs]
    assert all(len(row_tokens) == 3 for row_tokens in tokens)
    assert all(row_tokens == list(FAITHFUL_TOKENS) for row_tokens in tokens)
    assert texts("faithdial_generate_ctrl_sample", "test") == texts(
        "faithdial_generate_sample", "test"
    )


def test_the_critic_learns_edits_as_faithful_and_hallucinations_as_not():
    def pairs(task):
        return list(zip(texts(task, "train", "inputs"), texts(task, "train"), strict=True))

    as_published, with_all_edits = [], []
    for turn in turns("train"):
        knowledge, original = turn["knowledge"], turn["original_response"]
        wow = templates.knowledge_response_inputs(knowledge, original or turn["response"])
        inputs = templates.knowledge_response_inputs(knowledge, turn["response"])
        label = {"Hallucination": "unfaithful", "Entailment": "faithful"}
        targets = [label[name] for name in label if name in turn["BEGIN"]][:1]
        for target in targets:
            as_published.append((wow, target))
            with_all_edits.append((wow, target))
            as_published.append((inputs, "faithful"))
        if original:
            with_all_edits.append((inputs, "faithful"))
    assert pairs("faith_critic_sample") == as_published
    assert pairs("faith_critic_all_edits_sample") == with_all_edits != as_published


def test_metrics_of_perfect_predictions_are_one():
    task = lookup.get_task("faithdial_generate_sample")
    targets = [
        task.postprocess_fn(e["targets_pretokenized"].decode(), example=e, is_target=True)
        for e in examples("faithdial_generate_sample", "test")
    ]
    predictions = [target["response"] for target in targets]
    scores = {}
    for metric in task.metric_fns:
        scores |= metric(targets, predictions)
    assert scores["token_f1"] == scores["rougeL"] == 1.0
    assert 0 < scores["knowledge_f1"] < 1
