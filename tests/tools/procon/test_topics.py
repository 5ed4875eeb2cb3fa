from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.paths import SHARED, needs_shared
from tools.procon import topics as procon_topics


@needs_shared
def test_the_splits_are_table_4_of_the_paper():
    paper = (SHARED / "papers" / "npov.txt").read_text(encoding="utf-8")
    table = paper[paper.index("ProCon Dataset Details") : paper.index("Table 4:")]
    rows = [line for line in table.splitlines() if ";" in line]
    for row, split in zip(rows, ("train", "validation", "test"), strict=True):
        names = [name.strip() for name in row.split(";")]
        assert names == [t.name for t in procon_topics.KNOWN_TOPICS if t.split == split]
        assert {procon_topics.chang2024_split(name) for name in names} == {split}


@pytest.mark.parametrize(
    ("title", "split"),
    [
        ("GMOs", "train"),
        ("E-cigarettes", "train"),
        ("tablets versus textbooks", "validation"),
        ("Social Networking", "test"),
        ("SCHOOL UNIFORM", "test"),
        ("The Right to Health Care", "test"),
        ("College", "validation"),
        ("Free College", "train"),
        ("Death Penalty", None),
        ("", None),
    ],
)
def test_titles_are_matched_tolerantly(title, split):
    assert procon_topics.chang2024_split(title) == split


def test_no_two_topics_share_a_name():
    topics = procon_topics.KNOWN_TOPICS
    keys = {}
    for topic in topics:
        for name in (topic.name, *topic.other_names):
            assert keys.setdefault(procon_topics._key(name), topic) is topic, name
    assert len({topic.question for topic in topics}) == len(topics)


def test_questions_are_given_on_the_page_built_in_or_made_of_the_title():
    question = procon_topics.leading_question
    assert question("Drones", {"DRONE": "Drones?"}, on_page="Yes?") == "Drones?"
    assert question("Drones", {"Zoos": "Zoos?"}, on_page="Yes?") == "Yes?"
    assert question("Social Networking") == question("Social Media")
    assert question("Teapots") == "What are the arguments for and against Teapots?"


@given(st.integers(3, 80), st.integers(0, 5))
def test_a_proportional_split_leaves_none_empty(count, seed):
    ids = [f"topic-{i}" for i in range(count)]
    splits = procon_topics.proportional_splits(ids, seed)
    sizes = Counter(splits.values())
    fifth = max(1, round(count / 5))
    assert sizes == {"train": count - 2 * fifth, "validation": fifth, "test": fifth}
    assert procon_topics.proportional_splits(ids[::-1], seed) == splits


def test_auto_takes_the_papers_split_where_it_can():
    titles = {"a": "Obesity", "b": "Golf", "c": "Zoos", "d": "Fracking"}
    splits, reason = procon_topics.assign_splits(titles)
    assert splits == {"a": "train", "b": "validation", "c": "validation", "d": "test"}
    assert reason == "chang2024 (table 4 of the paper)"
    without_train = {"b": "Golf", "c": "Zoos", "d": "Fracking"}
    splits, reason = procon_topics.assign_splits(without_train)
    assert sorted(splits.values()) == ["test", "train", "validation"]
    assert reason == "proportional (seed 0), since Chang 2024's split would leave train empty"
    _, reason = procon_topics.assign_splits(titles | {"e": "Teapots"}, seed=3)
    assert reason == (
        "proportional (seed 3), since Chang 2024 does not have 1 of the topics (Teapots ...)"
    )
