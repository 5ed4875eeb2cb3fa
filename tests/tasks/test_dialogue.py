import pytest

from faith_jax import templates
from faith_jax.data.control_tokens import extra_id_texts
from faith_jax.data.raw.cmu_dog import CMU_DOG
from faith_jax.data.raw.multidoc2dial import MULTIDOC2DIAL
from faith_jax.data.raw.topical_chat import PERSONAL, TOPICAL_CHAT, TOPICAL_CHAT_POST_BUILD
from faith_jax.data.raw.wizard_of_wikipedia import (
    WIZARD_OF_WIKIPEDIA,
    WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS,
)
from faith_jax.data.raw_files import sample_files
from faith_jax.data.rows import BadRows
from faith_jax.tasks import lookup

DATASETS = {
    "wizard_of_wikipedia_generate_sample": WIZARD_OF_WIKIPEDIA,
    "multidoc2dial_generate_sample": MULTIDOC2DIAL,
    "topical_chat_generate_sample": TOPICAL_CHAT_POST_BUILD,
    "topical_chat_generate_pre_build_sample": TOPICAL_CHAT,
    "cmu_dog_generate_sample": CMU_DOG,
}


def raw_examples(dataset, split):
    files = sample_files(dataset)
    paths = {name: files[name] for name in dataset.splits[split]}
    return list(dataset.examples(paths, split, BadRows()))


@pytest.mark.parametrize("name", list(DATASETS))
def test_turns_with_knowledge_are_read_with_the_last_three_utterances(name):
    task = lookup.get_task(name)
    assert set(task.splits) == set(DATASETS[name].splits)
    for split in task.splits:
        expected = [
            (templates.dialogue_inputs(e["knowledge"], e["history"][-3:]), e["response"])
            for e in raw_examples(DATASETS[name], split)
            if e["knowledge"] and PERSONAL not in e.get("knowledge_sources", ())
        ]
        dataset = task.get_dataset(None, split, shuffle=False).as_numpy_iterator()
        found = [
            (row["inputs_pretokenized"].decode(), row["targets_pretokenized"].decode())
            for row in dataset
        ]
        assert found == expected != []


def test_control_tokens_stand_before_the_inputs():
    """As in FaithDial's task, whose form is the same."""
    name, dataset = "wizard_of_wikipedia_generate_ctrl_sample", WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS
    task = lookup.get_task(name)
    assert set(task.splits) == set(WIZARD_OF_WIKIPEDIA.splits)
    for split in task.splits:
        found = list(task.get_dataset(None, split, shuffle=False).as_numpy_iterator())
        examples = raw_examples(dataset, split)
        for row, example in zip(found, examples, strict=True):
            inputs = templates.controlled_dialogue_inputs(
                example["control_tokens"], example["knowledge"], example["history"]
            )
            for token, text in extra_id_texts(100).items():
                inputs = inputs.replace(token, text)
            assert row["inputs_pretokenized"].decode() == inputs
            assert row["targets_pretokenized"].decode() == example["response"]
    plain = lookup.get_task("wizard_of_wikipedia_generate_sample")
    assert task.num_input_examples("train") == 7
    assert len(list(plain.get_dataset(None, "train", shuffle=False))) == 7


def test_topical_chat_has_its_fun_facts_only_after_the_build():
    def inputs(name):
        dataset = lookup.get_task(name).get_dataset(None, "train", shuffle=False)
        return [row["inputs_pretokenized"] for row in dataset.as_numpy_iterator()]

    assert any(b"left-handed violins" in text for text in inputs("topical_chat_generate_sample"))
    before = inputs("topical_chat_generate_pre_build_sample")
    assert not any(b"left-handed violins" in text or b"t3_" in text for text in before)
