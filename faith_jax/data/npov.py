"""The raw NPOV format: topics with pro and con arguments, and responses that verbalise them.

A data set is a folder of two JSON lines files (`docs/data_formats.md` has the fields):

- `topics.jsonl`: for each topic a leading question, its split, its pro and con arguments;
- `responses.jsonl` (optional): texts that retell chosen arguments of a topic, the same number
  on both sides.
"""

import dataclasses
import hashlib
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from faith_jax.data import fields
from faith_jax.data.jsonl import read_jsonl
from faith_jax.data.rows import BadRows, parsed
from faith_jax.errors import InputError, did_you_mean

SPLITS = ("train", "validation", "test")
TOPICS_FILE = "topics.jsonl"
RESPONSES_FILE = "responses.jsonl"

_SPLIT_SYNONYMS = {
    "training": "train", "dev": "validation", "valid": "validation", "val": "validation",
    "development": "validation", "testing": "test", "eval": "test",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of one side of a topic.

    Attributes:
      text: the argument, one or more full sentences.
      paraphrases: other wordings of it.
      explanation: a longer text that supports it; may be empty.
    """

    text: str
    paraphrases: tuple[str, ...] = ()
    explanation: str = ""


@dataclasses.dataclass(frozen=True)
class Topic:
    """A controversial topic with the arguments of both sides.

    Attributes:
      id: unique within the data set.
      title: a short name.
      question: the leading question, which serves as the query.
      split: "train", "validation" or "test".
      pro: the arguments for a yes to the question; at least one.
      con: the arguments against; at least one.
    """

    id: str
    title: str
    question: str
    split: str
    pro: tuple[Argument, ...]
    con: tuple[Argument, ...]


@dataclasses.dataclass(frozen=True)
class WrittenResponse:
    """A response that verbalises some of a topic's arguments.

    Attributes:
      id: unique within the data set.
      topic: the topic's id.
      pro: 0-based indices into the topic's pro arguments, in the order they are told.
      con: the same for con; as many as `pro`.
      response: the text.
      source: where the text comes from: "written" by a person, or "template".
    """

    id: str
    topic: str
    pro: tuple[int, ...]
    con: tuple[int, ...]
    response: str
    source: str = "written"


def load_topics(folder: str | pathlib.Path, bad_rows: BadRows | None = None) -> tuple[Topic, ...]:
    """Reads and checks the topics of a data set.

    Args:
      folder: the data set's folder, which holds `topics.jsonl`.
      bad_rows: what to do with a bad row; by default reading stops.

    Returns:
      The topics in the file's order, at least one.

    Raises:
      InputError: for a missing folder or file, and for the first bad row, naming its line: a
        missing or empty field, an unknown split, a side without arguments, an id or a question
        that an earlier line has.
    """
    path = _file_in(folder, TOPICS_FILE)
    ids: dict[str, str] = {}
    questions: dict[str, str] = {}

    def parse(row: Mapping[str, Any], place: str) -> Topic:
        topic = _topic(row, place)
        _check_new(ids, topic.id, place, "id", topic.id)
        _check_new(questions, normalised(topic.question), place, "question", topic.question)
        return topic

    bad_rows = bad_rows or BadRows()
    topics = tuple(parsed(read_jsonl(path, bad_rows), parse, bad_rows))
    if not topics:
        raise InputError(f"{path}: holds no topics; each line must be one topic.")
    return topics


def load_responses(
    folder: str | pathlib.Path, topics: Iterable[Topic], bad_rows: BadRows | None = None
) -> tuple[WrittenResponse, ...]:
    """Reads and checks the responses of a data set.

    Args:
      folder: the data set's folder; `responses.jsonl` may be missing.
      topics: the data set's topics, from `load_topics`.
      bad_rows: what to do with a bad row; by default reading stops.

    Returns:
      The responses in the file's order; none where there is no file.

    Raises:
      InputError: for the first bad row, naming its line: a missing or empty field, a topic
        that is not in `topics`, an index that the topic does not have, different numbers of
        arguments on both sides, an id that an earlier line has.
    """
    path = _file_in(folder, RESPONSES_FILE)
    return read_responses(path, topics, bad_rows) if path.exists() else ()


def read_responses(
    path: pathlib.Path, topics: Iterable[Topic], bad_rows: BadRows | None = None
) -> tuple[WrittenResponse, ...]:
    """Reads and checks one file of responses; see `load_responses`."""
    by_id = {topic.id: topic for topic in topics}
    ids: dict[str, str] = {}

    def parse(row: Mapping[str, Any], place: str) -> WrittenResponse:
        response = _response(row, place, by_id)
        _check_new(ids, response.id, place, "id", response.id)
        return response

    bad_rows = bad_rows or BadRows()
    return tuple(parsed(read_jsonl(path, bad_rows), parse, bad_rows))


def normalised(text: str) -> str:
    """Returns a question or title in one case, without punctuation: what makes it the same."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", text).split())


def _file_in(folder: str | pathlib.Path, name: str) -> pathlib.Path:
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        problem = "expected a folder, got a file" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {problem}; an NPOV data set is a folder with {TOPICS_FILE}.")
    return folder / name


def _check_new(seen: dict[str, str], key: str, place: str, field: str, value: str) -> None:
    if key in seen:
        raise fields.field_error(
            place, field, f"a value that line {seen[key]} does not have", value,
            "rename or drop one of the two",
        )  # fmt: skip
    seen[key] = place.rpartition(":")[2]


def _topic(row: Mapping[str, Any], place: str) -> Topic:
    return Topic(
        id=fields.text_field(row, "id", place),
        title=fields.text_field(row, "title", place),
        question=fields.text_field(row, "question", place),
        split=_split(row, place),
        pro=_arguments(row, "pro", place),
        con=_arguments(row, "con", place),
    )


def _split(row: Mapping[str, Any], place: str) -> str:
    split = fields.text_field(row, "split", place)
    if split not in SPLITS:
        meant = _SPLIT_SYNONYMS.get(split.lower(), split.lower())
        remedy = f"write '{meant}'" if meant in SPLITS else "choose one of them"
        expected = "'train', 'validation' or 'test'"
        raise fields.field_error(place, "split", expected, split, remedy)
    return split


def _arguments(row: Mapping[str, Any], side: str, place: str) -> tuple[Argument, ...]:
    items = fields.list_field(
        row, side, place, of="argument", remedy="add an argument or drop the topic"
    )
    return tuple(_argument(item, f"{side}[{i}]", place) for i, item in enumerate(items))


def _argument(item: Any, field: str, place: str) -> Argument:
    if isinstance(item, str):
        return Argument(text=fields.checked_text(item, field, place))
    if not isinstance(item, dict):
        raise fields.field_error(place, field, "a text, or an object with a 'text'", item)
    # Inner fields are checked under their full names, so that errors can name them.
    inner = {f"{field}.{name}": value for name, value in item.items()}
    paraphrases = fields.list_field(inner, f"{field}.paraphrases", place, of="text", minimum=0)
    return Argument(
        text=fields.text_field(inner, f"{field}.text", place),
        paraphrases=tuple(
            fields.checked_text(text, f"{field}.paraphrases[{i}]", place)
            for i, text in enumerate(paraphrases)
        ),
        explanation=fields.optional_text(inner, f"{field}.explanation", place),
    )


def _response(row: Mapping[str, Any], place: str, topics: dict[str, Topic]) -> WrittenResponse:
    topic_id = fields.text_field(row, "topic", place)
    if topic_id not in topics:
        hint = did_you_mean(topic_id, topics)
        raise InputError(f"{place}: field 'topic': {topic_id!r} is not in {TOPICS_FILE}.{hint}")
    topic = topics[topic_id]
    pro = fields.index_list_field(row, "pro", place, len(topic.pro))
    con = fields.index_list_field(row, "con", place, len(topic.con))
    if len(pro) != len(con):
        raise InputError(
            f"{place}: fields 'pro' and 'con': expected the same number of arguments on both "
            f"sides, got {len(pro)} pro and {len(con)} con."
        )
    return WrittenResponse(
        id=fields.text_field(row, "id", place),
        topic=topic_id,
        pro=pro,
        con=con,
        response=fields.text_field(row, "response", place),
        source=fields.text_field(row, "source", place, default="written"),
    )


def generation_examples(
    topics: Iterable[Topic], responses: Iterable[WrittenResponse], split: str
) -> Iterator[dict[str, Any]]:
    """Yields the examples of the generation task for one split.

    Args:
      topics: the data set's topics.
      responses: its responses; only those whose topic is in the split are taken.
      split: "train", "validation" or "test".

    Yields:
      For each response a dictionary of `id`, `topic` (its id), `query` (its leading question),
      `pro_arguments` and `con_arguments` (lists of texts in the response's order) and
      `response`.

    Raises:
      InputError: for an unknown split.
    """
    by_id = {topic.id: topic for topic in _in_split(topics, split)}
    for response in responses:
        topic = by_id.get(response.topic)
        if topic is not None:
            pro = [topic.pro[i] for i in response.pro]
            con = [topic.con[i] for i in response.con]
            yield _example(response.id, topic, pro, con, response.response)


def query_examples(
    topics: Iterable[Topic], split: str, counts: Iterable[int] = (1, 2, 3), seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yields the inputs of the generation task for one split, with arguments chosen for them.

    For inference where there are no responses: rows as in `generation_examples`, with an empty
    `response` and the id `<topic>-<count>-of-each`. A count that a topic lacks is passed over.
    """
    counts = tuple(counts)
    for topic in _in_split(topics, split):
        for count in counts:
            if count <= min(len(topic.pro), len(topic.con)):
                pro, con = choose_arguments(topic, count, seed)
                yield _example(f"{topic.id}-{count}-of-each", topic, pro, con, "")


def _in_split(topics: Iterable[Topic], split: str) -> list[Topic]:
    if split not in SPLITS:
        raise InputError(f"Unknown split {split!r}: expected one of {', '.join(SPLITS)}.")
    return [topic for topic in topics if topic.split == split]


def _example(
    example_id: str, topic: Topic, pro: Iterable[Argument], con: Iterable[Argument], response: str
) -> dict[str, Any]:
    return {
        "id": example_id,
        "topic": topic.id,
        "query": topic.question,
        "pro_arguments": [argument.text for argument in pro],
        "con_arguments": [argument.text for argument in con],
        "response": response,
    }


def choose_indices(
    topic: Topic, count: int, seed: int = 0
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Chooses arguments of a topic, the same number on both sides.

    The choice depends on nothing but the topic's id, the number of its arguments, `count` and
    `seed`: it is the same on every machine and in every Python.

    Args:
      topic: the topic.
      count: how many arguments on each side, at least 1.
      seed: another seed is another draw.

    Returns:
      `count` distinct indices into `topic.pro` and `count` into `topic.con`, in drawn order.

    Raises:
      InputError: where a side has fewer than `count` arguments.
    """
    fewest, side = min((len(topic.pro), "pro"), (len(topic.con), "con"))
    if not 1 <= count <= fewest:
        raise InputError(
            f"topic {topic.id!r} has {fewest} {side} argument{'s' * (fewest != 1)}: expected a "
            f"count from 1 to {fewest}, got {count}."
        )

    def drawn(side: str, size: int) -> tuple[int, ...]:
        def rank(i: int) -> bytes:
            return hashlib.sha256(f"{seed}\n{topic.id}\n{count}\n{side}\n{i}".encode()).digest()

        return tuple(sorted(range(size), key=rank)[:count])

    return drawn("pro", len(topic.pro)), drawn("con", len(topic.con))


def choose_arguments(
    topic: Topic, count: int, seed: int = 0
) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """Returns the arguments that `choose_indices` chooses, pro and con."""
    pro, con = choose_indices(topic, count, seed)
    return tuple(topic.pro[i] for i in pro), tuple(topic.con[i] for i in con)
