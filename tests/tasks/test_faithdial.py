import json

import pytest

from faith_jax import templates
from faith_jax.data.samples import sample_folder
from faith_jax.tasks import lookup

FILES = {"train": "train.json", "validation": "valid.json", "test": "test.json"}


def turns(split):
    text = (sample_folder("faithdial") / FILES[split]).read_text(encoding="utf-8")
    return [turn for dialogue in json.loads(text) for turn in dialogue["utterances"]]


def texts(name, split, feature="targets"):
    dataset = lookup.get_task(name).get_dataset(None, split, shuffle=False)
    return [row[f"{feature}_pretokenized"].decode() for row in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("split", list(FILES))
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


def test_the_critic_learns_edits_as_faithful_and_hallucinations_as_not():
    pairs = list(
        zip(
            texts("faith_critic_sample", "test", "inputs"),
            texts("faith_critic_sample", "test"),
            strict=True,
        )
    )
    expected = []
    for turn in turns("test"):
        knowledge, original = turn["knowledge"], turn["original_response"]
        wow = templates.knowledge_response_inputs(knowledge, original or turn["response"])
        if "Hallucination" in turn["BEGIN"]:
            expected.append((wow, "unfaithful"))
        elif "Entailment" in turn["BEGIN"]:
            expected.append((wow, "faithful"))
        if original:
            edited = templates.knowledge_response_inputs(knowledge, turn["response"])
            expected.append((edited, "faithful"))
    assert pairs == expected


def test_metrics_of_perfect_predictions_are_one():
    task = lookup.get_task("faithdial_generate_sample")
    examples = list(task.get_dataset(None, "test", shuffle=False).as_numpy_iterator())
    targets = [
        task.postprocess_fn(e["targets_pretokenized"].decode(), example=e, is_target=True)
        for e in examples
    ]
    predictions = [target["response"] for target in targets]
    scores = {}
    for metric in task.metric_fns:
        scores |= metric(targets, predictions)
    assert scores["token_f1"] == scores["rougeL"] == 1.0
    assert 0 < scores["knowledge_f1"] < 1
