"""Template responses: arguments, word for word, between an opening and link phrases.

They stand in for written responses in data sets without them (ProCon's pages). From them a model
learns the task's format, but not to paraphrase: it copies. Arguments follow a colon or are
sentences of their own, so any argument fits any frame.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from faith_jax.datasets.npov.topics import Topic, WrittenResponse, choose_indices

SOURCE = "template"
COUNTS = (1, 2, 3)

_Choice = TypeVar("_Choice")


class _Frame(NamedTuple):
    """The phrases before the first and each further argument of one side."""

    first: str
    further: tuple[str, str]


_OPENINGS = (
    "{question} Opinions differ.",
    "{question} People give very different answers.",
    "{question} This is a matter of debate.",
    "{question} There are arguments on both sides.",
    'The question "{question}" has no answer that everyone accepts.',
    'On the question "{question}" people disagree.',
    'People who ask "{question}" hear conflicting views.',
    'Supporters and critics answer the question "{question}" in different ways.',
)
_PRO_FRAMES = (
    _Frame("Supporters say:", ("They add:", "They also say:")),
    _Frame("Those in favour make this point:", ("A further point of theirs:", "And finally:")),
    _Frame("On the one hand:", ("Supporters also say:", "Another point in favour:")),
    _Frame("Advocates put it like this.", ("In addition, they say:", "Moreover:")),
    _Frame("One argument in favour:", ("A second one:", "A third one:")),
    _Frame("People on the supporting side argue as follows.", ("Besides:", "They also hold:")),
)
_CON_FRAMES = (
    _Frame("Critics say:", ("They add:", "They also say:")),
    _Frame("Those against make this point:", ("A further point of theirs:", "And finally:")),
    _Frame("On the other hand:", ("Critics also say:", "Another point against:")),
    _Frame("Opponents see it differently.", ("In addition, they say:", "Moreover:")),
    _Frame("One argument against:", ("A second one:", "A third one:")),
    _Frame("People on the opposing side argue as follows.", ("Besides:", "They also hold:")),
)


def template_responses(
    topic: Topic, responses_per_topic: int, seed: int = 0
) -> list[WrittenResponse]:
    """Returns different responses with 1, 2 and 3 arguments a side in turn, as far as possible.

    A topic with few arguments may get fewer responses than `responses_per_topic`. Their source is
    "template", and their ids are `<topic>-template-<n>` from 1.
    """
    counts = [count for count in COUNTS if count <= min(len(topic.pro), len(topic.con))]
    responses: dict[str, WrittenResponse] = {}
    for attempt in range(responses_per_topic * 10):
        if len(responses) == responses_per_topic:
            break
        # Indexes by the responses kept, so that a rejected duplicate does not disturb the turns.
        count = counts[len(responses) % len(counts)]
        pro, con = choose_indices(topic, count, seed * 1_000_003 + attempt)
        text = verbalise(
            topic.question,
            [topic.pro[i].text for i in pro],
            [topic.con[i].text for i in con],
            key=f"{seed} {topic.id} {attempt}",
        )
        response_id = f"{topic.id}-template-{len(responses) + 1}"
        responses.setdefault(
            text, WrittenResponse(response_id, topic.id, pro, con, text, source=SOURCE)
        )
    return list(responses.values())


def verbalise(question: str, pro: Sequence[str], con: Sequence[str], key: str) -> str:
    """Returns a template response with these arguments; `key` seeds the choice of phrases."""
    opening = _pick(_OPENINGS, f"{key} opening").format(question=question)
    pro_side = _side(_pick(_PRO_FRAMES, f"{key} pro"), pro)
    return " ".join([opening, *pro_side, *_side(_pick(_CON_FRAMES, f"{key} con"), con)])


def _side(frame: _Frame, arguments: Sequence[str]) -> list[str]:
    parts = [frame.first, arguments[0]]
    for phrase, argument in zip(frame.further, arguments[1:], strict=False):
        parts += [phrase, argument]
    return parts


def _pick(choices: Sequence[_Choice], key: str) -> _Choice:
    digest = hashlib.sha256(key.encode()).digest()
    return choices[int.from_bytes(digest[:8], "big") % len(choices)]
