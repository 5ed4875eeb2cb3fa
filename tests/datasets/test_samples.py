import re
from collections import Counter

import pytest

from faith_jax.core.errors import InputError
from faith_jax.datasets import npov, samples

SENTENCE = re.compile(r"[A-Z][ !#-z~]*[.?]")  # printable ASCII without braces and double quotes


@pytest.fixture(scope="module")
def sample():
    folder = samples.sample_folder("procon_npov")
    topics = npov.load_topics(folder)
    return topics, npov.load_responses(folder, topics)


def test_an_unknown_sample_names_the_known():
    with pytest.raises(InputError, match=r"No embedded sample is named 'procon'\. Did you mean"):
        samples.sample_folder("procon")
    assert samples.sample_folder("procon_npov").is_dir()


def test_the_sample_meets_its_plan(sample):
    topics, responses = sample
    assert Counter(topic.split for topic in topics) == {"train": 18, "validation": 6, "test": 12}
    by_topic = {topic.id: [] for topic in topics}
    for response in responses:
        by_topic[response.topic].append(len(response.pro))
    for topic in topics:
        assert len(topic.pro) == len(topic.con) == 5
        expected = [1, 1, 2, 2, 3, 3] if topic.split == "train" else [1, 2, 3]
        assert sorted(by_topic[topic.id]) == expected


def test_texts_are_clean_and_no_argument_occurs_twice(sample):
    topics, responses = sample
    arguments = [a for topic in topics for a in topic.pro + topic.con]
    texts = [text for a in arguments for text in (a.text, *a.paraphrases)]
    assert [len(a.paraphrases) for a in arguments] == [1] * 360
    assert len({text.casefold() for text in texts}) == 720
    texts += [response.response for response in responses]
    assert [text for text in texts if not SENTENCE.fullmatch(text)] == []
    assert [text for text in texts if "  " in text] == []
