"""Topical-Chat (Gopalakrishnan 2019): two people talk about topics that both have read about.

An example is a turn. Its knowledge is the text of the sections of the reading set that the speaker
ticked: FS1 to FS3 (an entity's Wikipedia section and fun facts) and AS1 to AS4 (sections of a news
article). A text that ends without punctuation gets a full stop, as in the code of Nandwani 2023.
The repository ships reading sets without the fun facts and articles ("pre-build"); its script,
which downloads from Reddit and a newspaper, makes complete ones ("post-build").

As in Nandwani 2023, the tasks leave out turns without knowledge, turns that draw on personal
knowledge, and opening turns (131,555, 8,183 and 8,301 turns of train, valid_rare and test_rare
remain, table 2). Counted by ticked sections, test_rare has 8,301 turns and valid_rare 8,217; the
ticked sections of 34 turns have no text. The authors' code also writes characters outside ASCII as
escapes (in 9 responses of test_rare); here they stay.
"""

import functools
import pathlib
import re
import string
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from faith_jax.core.errors import InputError, field_error
from faith_jax.core.rows import BadRows, Row
from faith_jax.core.schema import Text, Whole, convert_row, read_as
from faith_jax.datasets.json_items import read_object
from faith_jax.datasets.raw_dataset import Examples, Paths, load_card

PERSONAL = "Personal Knowledge"
_REDDIT_ID = re.compile(r"t3_[0-9a-z]+")

# The texts of Wikipedia sections, by kind and id.
Leads = Mapping[str, Mapping[int, str]]


class _Turn(msgspec.Struct):
    """A turn, with the sections that the speaker ticked."""

    message: Text
    agent: Literal["agent_1", "agent_2"]
    knowledge_source: list[
        Literal["FS1", "FS2", "FS3", "AS1", "AS2", "AS3", "AS4", "Personal Knowledge"]
    ] = []
    sentiment: str = ""
    turn_rating: str = ""


class _Conversation(msgspec.Struct):
    """A conversation."""

    config: Literal["A", "B", "C", "D"]
    content: Annotated[list[_Turn], msgspec.Meta(min_length=1)]


class _Facts(msgspec.Struct):
    """An entity's Wikipedia section, as a text or as its id in wiki.json, and fun facts."""

    shortened_wiki_lead_section: str | int = ""
    summarized_wiki_lead_section: str | int = ""
    fun_facts: list[Text] = []


class _Sections(msgspec.Struct):
    """The facts of up to three entities that one agent reads."""

    FS1: _Facts | None = None
    FS2: _Facts | None = None
    FS3: _Facts | None = None


class _Article(msgspec.Struct):
    """The sections of a news article, which both agents read."""

    AS1: str = ""
    AS2: str = ""
    AS3: str = ""
    AS4: str = ""


class _ReadingSet(msgspec.Struct):
    """The texts that the two agents read."""

    agent_1: _Sections
    agent_2: _Sections
    article: _Article | None = None


def _read_leads(path: pathlib.Path) -> dict[str, dict[int, str]]:
    """Returns the Wikipedia sections in wiki.json by id; the file itself maps texts to ids."""
    leads: dict[str, dict[int, str]] = {}
    for kind, row in read_object(path):
        ids = convert_row(row.fields, row.place, dict[str, Whole])
        leads[kind] = {number: text.strip() for text, number in ids.items()}
    return leads


def read_turns(
    conversations: pathlib.Path, reading_sets: pathlib.Path, leads: Leads, bad_rows: BadRows
) -> Examples:
    """Yields the turns of a file of conversations.

    `reading_sets` is the file with the reading sets of these conversations; before the authors'
    build it refers to `leads`, from `_read_leads`.
    """
    reading = read_object(reading_sets, bad_rows=bad_rows)
    read: dict[str, Row] = {}  # reading sets that come before their conversation
    for name, conversation in read_object(conversations, bad_rows=bad_rows):
        while name not in read:
            row_name, row = next(reading, ("", None))
            if row is None:
                break
            read[row_name] = row
        if name not in read:
            message = f"{conversation.place}: {reading_sets} has no reading set of it."
            bad_rows.add(InputError(message))
            continue
        make = functools.partial(_build_turns, name=name, reading_set=read.pop(name), leads=leads)
        yield from read_as(_Conversation, [conversation], make, bad_rows)
    for _ in reading:
        pass  # checks the reading sets that no conversation uses


def _build_turns(
    conversation: _Conversation, place: str, name: str, reading_set: Row, leads: Leads
) -> Examples:
    reading = convert_row(reading_set.fields, reading_set.place, _ReadingSet)
    history: list[str] = []
    for number, turn in enumerate(conversation.content):
        knowledge: list[str] = []
        incomplete = []
        for source in dict.fromkeys(turn.knowledge_source):
            if source == PERSONAL:
                continue
            section_texts, whole = _read_section(
                reading, turn.agent, source, leads, reading_set.place
            )
            knowledge += section_texts
            if not whole:
                incomplete.append(source)
        yield {
            "id": f"{name}-{number}",
            "dialogue": name,
            "turn": number,
            "config": conversation.config,
            "history": list(history),
            "agent": turn.agent,
            "knowledge": " ".join(
                text if text.endswith(tuple(string.punctuation)) else f"{text}."
                for text in knowledge
            ),
            "knowledge_sources": list(turn.knowledge_source),
            "incomplete_sources": incomplete,
            "sentiment": turn.sentiment,
            "turn_rating": turn.turn_rating,
            "response": turn.message,
        }
        history.append(turn.message)


def _read_section(
    reading: _ReadingSet, agent: str, source: str, leads: Leads, place: str
) -> tuple[list[str], bool]:
    """Returns the texts of a section in an agent's reading set, and whether they are complete."""
    if source.startswith("AS"):
        text = getattr(reading.article, source, "")
        return [text] if text else [], bool(text)
    facts = getattr(getattr(reading, agent), source)
    if facts is None:
        return [], False
    kind = "shortened_wiki_lead_section"
    if facts.shortened_wiki_lead_section == "":
        kind = "summarized_wiki_lead_section"
    lead = getattr(facts, kind)
    if not isinstance(lead, str):
        if lead not in leads.get(kind, {}):
            expected = "the id of a section in wiki.json"
            raise field_error(f"{place}.{agent}.{source}", kind, expected, lead)
        lead = leads[kind][lead]
    if not lead:
        return [], False
    fun_facts = [fact for fact in facts.fun_facts if not _REDDIT_ID.fullmatch(fact)]
    return [lead, *fun_facts], len(fun_facts) == len(facts.fun_facts)


def _read_examples(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
    conversations, reading_sets, *wiki = paths.values()
    leads = _read_leads(wiki[0]) if wiki else {}
    return read_turns(conversations, reading_sets, leads, bad_rows)


TOPICAL_CHAT = load_card("topical_chat", _read_examples)
TOPICAL_CHAT_POST_BUILD = load_card("topical_chat", _read_examples, part="post_build")
