"""ProCon's topics: their leading questions in our words, and the splits of Chang 2024.

The pages as scraped hold no question. `leading_question` finds one by the page's title; titles
are matched with case, punctuation, plural s and small words set aside, and by other names that
ProCon has used. A question is put so that the pro side answers yes, where ProCon's has not
changed sides over the years. The topics stand in procon_topics.tsv; those without a split have been
retired or added by ProCon, and are there for their questions alone.

Reference: Chang 2024, table 4 (72 topics of October 2022), for the splits and their names.
"""

import hashlib
import pathlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faith_jax.core.errors import InputError
from faith_jax.datasets.delimited import read_tsv
from faith_jax.datasets.npov.topics import SPLITS

_SMALL_WORDS = frozenset(
    ["a", "an", "and", "in", "of", "the", "vs", "versus", "us", "united", "states"]
)


def _key(title: str) -> frozenset[str]:
    """Returns what two titles must share to be the same: their words without small ones."""
    text = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", text)
    content = [word for word in words if word not in _SMALL_WORDS] or words
    return frozenset(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in content
    )


class KnownTopic(NamedTuple):
    """A topic of ProCon.

    Attributes:
      name: the name that Chang 2024 has, or ProCon.
      question: its leading question, in our words.
      split: "train", "validation", "test", or "" where Chang 2024 does not have it.
      other_names: that it has had.
    """

    name: str
    question: str
    split: str
    other_names: tuple[str, ...]


def _read_topics() -> tuple[KnownTopic, ...]:
    columns = ("name", "question", "split", "other names")
    cells = (
        [row.fields[name] for name in columns]
        for row in read_tsv(pathlib.Path(__file__).with_suffix(".tsv"), columns)
    )
    return tuple(
        KnownTopic(name, question, split, tuple(filter(None, others.split("; "))))
        for name, question, split, others in cells
    )


KNOWN_TOPICS = _read_topics()
_BY_KEY = {_key(name): t for t in KNOWN_TOPICS for name in (t.name, *t.other_names)}


def chang2024_split(title: str) -> str | None:
    """Returns the split that Chang 2024 puts a topic in, by a page's title, or None."""
    topic = _BY_KEY.get(_key(title))
    return topic.split or None if topic else None


def leading_question(
    title: str, questions: Mapping[str, str] | None = None, on_page: str = ""
) -> str:
    """Returns a topic's leading question.

    Args:
      title: the page's title.
      questions: questions by title, which go before all others.
      on_page: the question that the page holds; empty where it holds none.

    Returns:
      The given question, else the page's, else the built-in one, else a neutral one made from
      the title.
    """
    given = {_key(name): question for name, question in (questions or {}).items()}
    if _key(title) in given:
        return given[_key(title)]
    if on_page:
        return on_page
    topic = _BY_KEY.get(_key(title))
    return topic.question if topic else f"What are the arguments for and against {title}?"


def proportional_splits(ids: Sequence[str], seed: int = 0) -> dict[str, str]:
    """Returns a split for each topic id: a fifth validation, a fifth test, the rest train.

    The draw depends on the ids and the seed alone, not on their order. Each split gets at least
    one topic.

    Raises:
      InputError: for fewer than three topics.
    """
    if len(ids) < len(SPLITS):
        raise InputError(
            f"Expected at least {len(SPLITS)} topics, one for each of {', '.join(SPLITS)}, got "
            f"{len(ids)}: add pages."
        )
    drawn = sorted(ids, key=lambda i: hashlib.sha256(f"{seed}\n{i}".encode()).digest())
    fifth = max(1, round(len(ids) / 5))
    return {
        topic_id: "validation" if rank < fifth else "test" if rank < 2 * fifth else "train"
        for rank, topic_id in enumerate(drawn)
    }


def assign_splits(
    titles: Mapping[str, str], mode: str = "auto", seed: int = 0
) -> tuple[dict[str, str], str]:
    """Returns each topic's split, and which assignment was taken and why.

    Args:
      titles: title by topic id.
      mode: "chang2024" (all topics must be among that paper's), "proportional", or "auto":
        the paper's where it knows all topics and leaves no split empty, else proportional.
      seed: of the proportional draw.

    Raises:
      InputError: for "chang2024" with topics that the paper does not have; for a proportional
        split of fewer than three topics.
    """
    paper = {topic_id: chang2024_split(title) for topic_id, title in titles.items()}
    unknown = [titles[topic_id] for topic_id, split in paper.items() if split is None]
    empty = " and ".join(split for split in SPLITS if split not in paper.values())
    if mode == "chang2024" and unknown:
        raise InputError(
            f"Chang 2024 (table 4) has no topic {' and none '.join(map(repr, unknown[:5]))}: "
            "use --split proportional."
        )
    if mode == "chang2024" or (mode == "auto" and not unknown and not empty):
        why = "chang2024 (table 4 of the paper)" + (
            f", which leaves {empty} empty" if empty else ""
        )
        return {topic_id: split for topic_id, split in paper.items() if split}, why
    reason = ""
    if mode == "auto" and unknown:
        reason = f", since Chang 2024 does not have {len(unknown)} of the topics ({unknown[0]} ...)"
    elif mode == "auto":
        reason = f", since Chang 2024's split would leave {empty} empty"
    return proportional_splits(list(titles), seed), f"proportional (seed {seed}){reason}"
