"""ProCon's topics: their leading questions in our words, and the splits of Chang 2024.

The scraped pages have no question; topics.tsv has one for each topic, worded so that the pro
side answers yes. Titles match regardless of case, punctuation, plural s and small words, and also
by other names that ProCon has used. The splits and their names come from Chang 2024, table 4 (72
topics of October 2022); topics without a split were retired or added by ProCon.
"""

import itertools
import pathlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faith_jax.core.errors import InputError
from faith_jax.datasets.augmentation.draws import rank
from faith_jax.datasets.delimited import read_tsv
from faith_jax.datasets.npov.topics import SPLITS

_SMALL_WORDS = frozenset(
    ["a", "an", "and", "in", "of", "the", "vs", "versus", "us", "united", "states"]
)


def _key(title: str) -> frozenset[str]:
    """Returns the key by which titles match: their words in singular, without small words."""
    text = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", text)
    content = [word for word in words if word not in _SMALL_WORDS] or words
    return frozenset(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in content
    )


class KnownTopic(NamedTuple):
    """A topic of ProCon; `split` is "" if Chang 2024 does not have the topic."""

    name: str
    question: str
    split: str
    other_names: tuple[str, ...]


def _read_topics() -> tuple[KnownTopic, ...]:
    columns = ("name", "question", "split", "other names")
    rows = read_tsv(pathlib.Path(__file__).with_suffix(".tsv"), columns)
    cells = ([row.fields[name] for name in columns] for row in rows)
    return tuple(
        KnownTopic(name, question, split, tuple(filter(None, extra_cells.split("; "))))
        for name, question, split, extra_cells in cells
    )


KNOWN_TOPICS = _read_topics()
_BY_KEY = {_key(name): t for t in KNOWN_TOPICS for name in (t.name, *t.other_names)}


def chang2024_split(title: str) -> str | None:
    """Returns the split of a page's topic in Chang 2024, or None if it has none."""
    topic = _BY_KEY.get(_key(title))
    return topic.split or None if topic else None


def leading_question(
    title: str, questions: Mapping[str, str] | None = None, on_page: str = ""
) -> str:
    """Returns the leading question of the topic with this page title.

    Takes the first that exists: from `questions` (by title), from the page, the built-in question,
    or a neutral question made from the title.
    """
    question_by_key = {_key(name): question for name, question in (questions or {}).items()}
    if _key(title) in question_by_key:
        return question_by_key[_key(title)]
    if on_page:
        return on_page
    topic = _BY_KEY.get(_key(title))
    return topic.question if topic else f"What are the arguments for and against {title}?"


def proportional_splits(ids: Sequence[str], seed: int = 0) -> dict[str, str]:
    """Draws a split for each topic id: a fifth validation, a fifth test, the rest train.

    The order of the ids does not matter. Each split gets at least one topic.

    Raises:
      InputError: fewer than three topics.
    """
    if len(ids) < len(SPLITS):
        raise InputError(
            f"Expected at least {len(SPLITS)} topics, one for each of {', '.join(SPLITS)}, got "
            f"{len(ids)}: add pages."
        )
    drawn = sorted(ids, key=lambda name: rank(seed, name))
    fifth = max(1, round(len(ids) / 5))
    splits = ["validation"] * fifth + ["test"] * fifth
    return dict(itertools.zip_longest(drawn, splits, fillvalue="train"))


def assign_splits(
    titles: Mapping[str, str], mode: str = "auto", seed: int = 0
) -> tuple[dict[str, str], str]:
    """Returns each topic's split, and the chosen kind of assignment with its reason.

    Args:
      titles: titles by topic id.
      mode: "chang2024", "proportional", or "auto": the paper's splits if they have all topics and
        leave no split empty, else proportional.
      seed: the seed of the proportional draw.

    Raises:
      InputError: "chang2024" with unknown topics, or a proportional split of fewer than three.
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
        leaves = f", which leaves {empty} empty" if empty else ""
        splits = {topic_id: split for topic_id, split in paper.items() if split}
        return splits, f"chang2024 (table 4 of the paper){leaves}"
    reason = ""
    if mode == "auto" and unknown:
        reason = f", since Chang 2024 does not have {len(unknown)} of the topics ({unknown[0]} ...)"
    elif mode == "auto":
        reason = f", since Chang 2024's split would leave {empty} empty"
    return proportional_splits(list(titles), seed), f"proportional (seed {seed}){reason}"
