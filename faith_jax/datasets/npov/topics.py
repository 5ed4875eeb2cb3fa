"""The raw NPOV format: topics with pro and con arguments, and responses that verbalise them.

A data set is a folder of two JSON lines files (`docs/data_formats.md` has the fields):

- `topics.jsonl`: for each topic a leading question, its split, its pro and con arguments;
- `responses.jsonl` (optional): texts that retell chosen arguments of a topic, the same number
  on both sides.
"""

import dataclasses
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from faith_jax.core.errors import InputError, did_you_mean, field_error, nearest_names
from faith_jax.core.rows import BadRows, Row, read_jsonl
from faith_jax.core.schema import Text, read_as

SPLITS = ("train", "validation", "test")
Split = Literal["train", "validation", "test"]
TOPICS_FILE = "topics.jsonl"
RESPONSES_FILE = "responses.jsonl"

# Words that say nothing about which topic a query asks about.
_COMMON_WORDS = frozenset(
    ["a", "an", "and", "are", "be", "by", "can", "do", "does", "for", "from", "have", "in", "is"]
    + ["it", "of", "on", "or", "should", "that", "the", "their", "to", "what", "which", "with"]
)


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of one side of a topic.

    Attributes:
      text: the argument, one or more full sentences.
      paraphrases: other wordings of it.
      explanation: a longer text that supports it; may be empty.
    """

    text: Text
    paraphrases: tuple[Text, ...] = ()
    explanation: str = ""


Arguments = Annotated[tuple[Argument, ...], msgspec.Meta(min_length=1)]


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

    id: Text
    title: Text
    question: Text
    split: Split
    pro: Arguments
    con: Arguments


Index = Annotated[int, msgspec.Meta(ge=0)]
Indices = Annotated[tuple[Index, ...], msgspec.Meta(min_length=1)]


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

    id: Text
    topic: Text
    pro: Indices
    con: Indices
    response: Text
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
    seen: dict[tuple[str, str], str] = {}

    def check(topic: Topic, place: str) -> Iterator[Topic]:
        _check_new(seen, topic.id, place, "id", topic.id)
        _check_new(seen, normalised(topic.question), place, "question", topic.question)
        yield topic

    bad_rows = bad_rows or BadRows()
    rows = (Row(place, _with_objects(row)) for place, row in read_jsonl(path, bad_rows))
    topics = tuple(read_as(Topic, rows, check, bad_rows))
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
    seen: dict[tuple[str, str], str] = {}

    def check(response: WrittenResponse, place: str) -> Iterator[WrittenResponse]:
        _check_response(response, place, by_id)
        _check_new(seen, response.id, place, "id", response.id)
        yield response

    bad_rows = bad_rows or BadRows()
    return tuple(read_as(WrittenResponse, read_jsonl(path, bad_rows), check, bad_rows))


def _file_in(folder: str | pathlib.Path, name: str) -> pathlib.Path:
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        problem = "expected a folder, got a file" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {problem}; an NPOV data set is a folder with {TOPICS_FILE}.")
    return folder / name


def _check_new(
    seen: dict[tuple[str, str], str], key: str, place: str, field: str, value: str
) -> None:
    first = seen.setdefault((field, key), place)
    if first != place:
        expected = f"a value that line {first.rpartition(':')[2]} does not have"
        raise field_error(place, field, expected, value, "rename or drop one of the two")


def _with_objects(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a topic's row whose arguments are objects; those that are texts become one each."""
    sides = {
        side: [{"text": item} if isinstance(item, str) else item for item in row[side]]
        for side in ("pro", "con")
        if isinstance(row.get(side), list)
    }
    return {**row, **sides}


def _check_response(response: WrittenResponse, place: str, topics: Mapping[str, Topic]) -> None:
    if response.topic not in topics:
        hint = did_you_mean(response.topic, topics)
        problem = f"{response.topic!r} is not in {TOPICS_FILE}.{hint}"
        raise InputError(f"{place}: field 'topic': {problem}")
    topic = topics[response.topic]
    for side, chosen, there_are in (
        ("pro", response.pro, len(topic.pro)),
        ("con", response.con, len(topic.con)),
    ):
        if len(set(chosen)) < len(chosen) or max(chosen) >= there_are:
            expected = f"distinct indices from 0 to {there_are - 1}"
            raise field_error(place, side, expected, chosen)
    if len(response.pro) != len(response.con):
        raise InputError(
            f"{place}: fields 'pro' and 'con': expected the same number of arguments on both "
            f"sides, got {len(response.pro)} pro and {len(response.con)} con."
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
    """
    by_id = {topic.id: topic for topic in topics if topic.split == split}
    for response in responses:
        topic = by_id.get(response.topic)
        if topic is not None:
            yield {
                "id": response.id,
                "topic": topic.id,
                "query": topic.question,
                "pro_arguments": [topic.pro[i].text for i in response.pro],
                "con_arguments": [topic.con[i].text for i in response.con],
                "response": response.response,
            }


def retrieve(topics: Iterable[Topic], query: str) -> Topic:
    """Returns the topic that a query asks about (Chang 2024, section 2.1).

    Args:
      topics: where to look.
      query: a leading question; else a question, title or id in other case or punctuation.

    Raises:
      InputError: for an empty query; for one that matches no topic, naming the nearest
        questions; for one that matches several topics.
    """
    topics = list(topics)
    if not query.strip():
        raise InputError("The query is empty: ask one of the topics' leading questions.")
    for topic in topics:
        if topic.question == query:
            return topic
    wanted = normalised(query)
    for field in ("question", "title", "id"):
        found = [t for t in topics if wanted and normalised(getattr(t, field)) == wanted]
        if len(found) > 1:
            ids = ", ".join(topic.id for topic in found)
            raise InputError(f"The query {query!r} matches several topics ({ids}): ask by id.")
        if found:
            return found[0]
    raise InputError(f"No topic matches the query {query!r}.{_nearest_questions(topics, query)}")


def normalised(text: str) -> str:
    """Returns a question or title in one case, without punctuation: what makes it the same."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", text).split())


def _nearest_questions(topics: list[Topic], query: str) -> str:
    """Returns the questions nearest to a query by shared words, then by spelling."""
    words = set(normalised(query).split()) - _COMMON_WORDS

    def shared(topic: Topic) -> int:
        return len(words & set(normalised(f"{topic.question} {topic.title}").split()))

    best = sorted((t for t in topics if shared(t)), key=shared, reverse=True)[:3]
    questions = [t.question for t in best] or nearest_names(query, [t.question for t in topics])
    questions = questions or [t.question for t in topics[:3]]
    return " Nearest questions: " + " ".join(questions) if questions else ""
