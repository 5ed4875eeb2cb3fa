import re

import pytest

from faith_jax.core import templates
from faith_jax.core.cutting import Kind, parse
from faith_jax.core.rows import BadRows
from faith_jax.datasets.augmentation.control_tokens import extra_id_texts
from faith_jax.datasets.raw.cmu_dog import CMU_DOG
from faith_jax.datasets.raw.multidoc2dial import MULTIDOC2DIAL
from faith_jax.datasets.raw.topical_chat import PERSONAL, TOPICAL_CHAT_POST_BUILD
from faith_jax.datasets.raw.wizard_of_wikipedia import (
    WIZARD_OF_WIKIPEDIA,
    WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS,
)
from faith_jax.datasets.raw_files import sample_files
from faith_jax.tasks import lookup
from tests.quick import slow_except
from tests.tasks.examples import examples, texts


def has_knowledge(example):
    return bool(example["knowledge"])


def is_reply(example):
    is_impersonal = PERSONAL not in example["knowledge_sources"]
    return has_knowledge(example) and is_impersonal and bool(example["history"])


# The data set of each task, which of its turns it has, and how many utterances a model sees.
TASKS = {
    "wizard_of_wikipedia_generate_sample": (WIZARD_OF_WIKIPEDIA, has_knowledge, 3),
    "multidoc2dial_generate_sample": (MULTIDOC2DIAL, lambda example: True, 5),
    "multidoc2dial_generate_short_history_sample": (MULTIDOC2DIAL, lambda example: True, 3),
    "topical_chat_generate_sample": (TOPICAL_CHAT_POST_BUILD, is_reply, 3),
    "cmu_dog_generate_sample": (CMU_DOG, has_knowledge, 3),
}


def raw_examples(dataset, split):
    files = sample_files(dataset)
    paths = {name: files[name] for name in dataset.splits[split]}
    return list(dataset.examples(paths, split, BadRows()))


@pytest.mark.parametrize("name", slow_except(TASKS, list(TASKS)[:2]))
def test_the_turns_of_a_task_are_read_with_the_last_utterances(name):
    dataset, is_read, last = TASKS[name]
    task = lookup.get_task(name)
    assert set(task.splits) == set(dataset.splits)
    for split in (task.splits[0], task.splits[-1]):
        expected = [
            (templates.dialogue_inputs(e["knowledge"], e["history"][-last:], last), e["response"])
            for e in raw_examples(dataset, split)
            if is_read(e)
        ]
        pairs = list(zip(texts(name, split, "inputs"), texts(name, split), strict=True))
        assert pairs == expected != []


@pytest.mark.slow
def test_masked_words_of_responses_are_filled_in():
    plain = lookup.get_task("wizard_of_wikipedia_generate_sample")
    task = lookup.get_task("wizard_of_wikipedia_infill_sample")
    shares = []
    for split in task.splits:
        pairs = zip(
            *(each.get_dataset(None, split, shuffle=False).as_numpy_iterator()
              for each in (plain, task)),
            strict=True,
        )  # fmt: skip
        for whole, row in pairs:
            inputs = whole["inputs_pretokenized"].decode() + " "
            response = whole["targets_pretokenized"].decode()
            assert row["targets_pretokenized"].decode() == response
            assert row["inputs_pretokenized"].decode().startswith(inputs)
            masked = row["inputs_pretokenized"].decode().removeprefix(inputs)
            # What stands between the masks stands in the response, and each mask for some words.
            number, pattern = 0, re.escape(masked)
            while (mark := f"<extra_id_{number}>") in pattern:
                pattern, number = pattern.replace(mark, r"\S+(?: \S+)*", 1), number + 1
            assert number >= 1
            assert re.fullmatch(pattern, response)
            assert f"> <extra_id_{number - 1}>" not in masked  # neighbours share a mask
            kept = [word for word in masked.split() if not word.startswith("<extra_id_")]
            shares.append(1 - len(kept) / len(response.split()))
    assert 0.2 < sum(shares) / len(shares) < 0.45
    again = next(task.get_dataset(None, "train", shuffle=False).as_numpy_iterator())
    first = next(task.get_dataset(None, "train", shuffle=False).as_numpy_iterator())
    assert again["inputs_pretokenized"] == first["inputs_pretokenized"]


def test_turns_without_knowledge_and_opening_turns():
    """The differences between the two forms of MultiDoc2Dial and of Topical-Chat in the samples."""

    def inputs(name):
        return texts(name, "train", "inputs")

    passages = inputs("multidoc2dial_generate_sample")
    spans = inputs("multidoc2dial_generate_spans_sample")
    (without,) = [text for text in passages if not text.startswith("<knowledge> ")]
    assert without.startswith("<seeker> user: ")
    assert {part.kind for part in parse(without)} == {Kind.HISTORY}
    assert len(passages) == len(spans) + 1
    replies = inputs("topical_chat_generate_sample")
    everything = inputs("topical_chat_generate_with_openings_sample")
    openings = [text for text in everything if "<seeker>" not in text]
    assert openings
    assert replies == [text for text in everything if text not in openings]
    # Fun facts are there only after the build.
    assert any("left-handed violins" in text for text in replies)
    before = inputs("topical_chat_generate_pre_build_sample")
    assert not any("left-handed violins" in text or "t3_" in text for text in before)


def test_control_tokens_stand_before_the_inputs():
    """As in FaithDial's task, which has the same format."""
    name, dataset = "wizard_of_wikipedia_generate_ctrl_sample", WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS
    task = lookup.get_task(name)
    assert set(task.splits) == set(WIZARD_OF_WIKIPEDIA.splits)
    for split in (task.splits[0], task.splits[-1]):
        for row, example in zip(examples(name, split), raw_examples(dataset, split), strict=True):
            inputs = templates.controlled_dialogue_inputs(
                example["control_tokens"], example["knowledge"], example["history"]
            )
            for token, text in extra_id_texts(100).items():
                inputs = inputs.replace(token, text)
            assert row["inputs_pretokenized"].decode() == inputs
            assert row["targets_pretokenized"].decode() == example["response"]
    assert task.num_input_examples("train") == 7
    assert len(texts("wizard_of_wikipedia_generate_sample")) == 7
