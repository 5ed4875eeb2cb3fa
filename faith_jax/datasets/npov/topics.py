"""The raw NPOV format: topics with pro and con arguments, and responses that verbalise them.

A data set is a folder with `topics.jsonl` and, optionally, `responses.jsonl`; for their fields see
`docs/npov_formats.md`.
"""

import dataclasses
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from faith_jax.core.errors import InputError, did_you_mean, field_error, nearest_names, pluralize
from faith_jax.core.files.stores import path_of
from faith_jax.core.rows import BadRows, Row, read_jsonl
from faith_jax.core.schema import Text, read_as
from faith_jax.datasets.augmentation.draws import draw_order
from faith_jax.datasets.samples import SAMPLE, sample_folder

SPLITS = ("train", "validation", "test")
Split = Literal["train", "validation", "test"]
TOPICS_FILE = "topics.jsonl"
RESPONSES_FILE = "responses.jsonl"

# Words that do not help to identify the topic of a query.
_COMMON_WORDS = frozenset(
    ["a", "an", "and", "are", "be", "by", "can", "do", "does", "for", "from", "have", "in", "is"]
    + ["it", "of", "on", "or", "should", "that", "the", "their", "to", "what", "which", "with"]
)


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of one side of a topic, in full sentences.

    `paraphrases` are other wordings; `explanation` is a longer supporting text, or empty.
    """

    text: Text
    paraphrases: tuple[Text, ...] = ()
    explanation: str = ""


Arguments = Annotated[tuple[Argument, ...], msgspec.Meta(min_length=1)]


@dataclasses.dataclass(frozen=True)
class Topic:
    """A controversial topic; its pro side answers the leading question with yes."""

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
    """A response that verbalises some of a topic's arguments, equally many pro and con.

    `topic` is the topic's id; `pro` and `con` are 0-based indices of arguments in the order of the
    response; `source` is "written" (by a person) or "template".
    """

    id: Text
    topic: Text
    pro: Indices
    con: Indices
    response: Text
    source: str = "written"


def topics_folder(source: str | pathlib.Path) -> pathlib.Path:
    """Returns a data set's folder: `source`, or an embedded sample's by its name or "sample".

    Raises:
      InputError: `source` is neither a folder nor a sample.
    """
    folder, hint = path_of(source), ""
    if str(source) == SAMPLE:
        return sample_folder("procon_npov")
    if folder.is_dir():
        return folder
    problem = "expected a folder, got a file" if folder.exists() else "no such folder"
    if not folder.exists() and folder.name == str(source):
        try:
            return sample_folder(folder.name)
        except InputError as error:
            hint = f" {error}"
    expected = f"an NPOV data set is a folder with {TOPICS_FILE}"
    raise InputError(f"{folder}: {problem}; {expected}.{hint}")


def load_topics(source: str | pathlib.Path, bad_rows: BadRows | None = None) -> tuple[Topic, ...]:
    """Reads the topics of a data set from `topics.jsonl` in its `topics_folder`; at least one.

    Raises:
      InputError: a folder or file is missing, or a row is bad: a field is wrong, or the id or
        question occurs on an earlier line.
    """
    seen: dict[tuple[str, str], str] = {}

    def check(topic: Topic, place: str) -> Iterator[Topic]:
        _check_new(seen, "id", topic.id, topic.id, place)
        _check_new(seen, "question", _normalize_title(topic.question), topic.question, place)
        yield topic

    path, bad_rows = topics_folder(source) / TOPICS_FILE, bad_rows or BadRows()
    rows = (Row(place, _with_objects(row)) for place, row in read_jsonl(path, bad_rows))
    topics = tuple(read_as(Topic, rows, check, bad_rows))
    if not topics:
        raise InputError(f"{path}: holds no topics; each line must be one topic.")
    return topics


def load_responses(
    source: str | pathlib.Path, topics: Iterable[Topic], bad_rows: BadRows | None = None
) -> tuple[WrittenResponse, ...]:
    """Reads the responses of a data set, from its folder, which may have none, or from a file.

    Raises:
      InputError: a row is bad: a field is wrong, the topic or an index is unknown, or the id occurs
        on an earlier line.
    """
    path = path_of(source)
    if path.is_dir():
        path /= RESPONSES_FILE
        if not path.exists():
            return ()
    by_id = {topic.id: topic for topic in topics}
    seen: dict[tuple[str, str], str] = {}

    def check(response: WrittenResponse, place: str) -> Iterator[WrittenResponse]:
        topic = by_id.get(response.topic)
        if topic is None:
            hint = did_you_mean(response.topic, by_id)
            problem = f"{response.topic!r} is not in {TOPICS_FILE}.{hint}"
            raise InputError(f"{place}: field 'topic': {problem}")
        for side in ("pro", "con"):
            indices, count = getattr(response, side), len(getattr(topic, side))
            if len(set(indices)) < len(indices) or max(indices) >= count:
                raise field_error(place, side, f"distinct indices from 0 to {count - 1}", indices)
        if len(response.pro) != len(response.con):
            raise InputError(
                f"{place}: fields 'pro' and 'con': expected the same number of arguments on both "
                f"sides, got {len(response.pro)} pro and {len(response.con)} con."
            )
        _check_new(seen, "id", response.id, response.id, place)
        yield response

    bad_rows = bad_rows or BadRows()
    return tuple(read_as(WrittenResponse, read_jsonl(path, bad_rows), check, bad_rows))


def _check_new(
    seen: dict[tuple[str, str], str], field: str, key: str, value: str, place: str
) -> None:
    first = seen.setdefault((field, key), place)
    if first != place:
        expected = f"a value that line {first.rpartition(':')[2]} does not have"
        raise field_error(place, field, expected, value, "rename or drop one of the two")


def _with_objects(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a topic's row with arguments that are plain texts turned into objects."""
    sides = {
        side: [{"text": item} if isinstance(item, str) else item for item in row[side]]
        for side in ("pro", "con")
        if isinstance(row.get(side), list)
    }
    return {**row, **sides}


def generation_examples(
    topics: Iterable[Topic], responses: Iterable[WrittenResponse], split: str
) -> Iterator[dict[str, Any]]:
    """Yields the examples of the generation task: the responses on topics of one split.

    Yields:
      `id`, `topic` (its id), `query` (its leading question), `pro_arguments` and `con_arguments`
      (texts in the response's order) and `response`.
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

    A query is a leading question, title or id; case and punctuation do not matter.

    Raises:
      InputError: the query is empty, or matches no topic (names the nearest questions) or several.
    """
    topics = list(topics)
    if not query.strip():
        raise InputError("The query is empty: ask one of the topics' leading questions.")
    title = _normalize_title(query)
    for field in ("question", "title", "id"):
        matching = [t for t in topics if title and _normalize_title(getattr(t, field)) == title]
        if len(matching) > 1:
            ids = ", ".join(topic.id for topic in matching)
            raise InputError(f"The query {query!r} matches several topics ({ids}): ask by id.")
        if matching:
            return matching[0]
    words = set(title.split()) - _COMMON_WORDS

    def count_shared(topic: Topic) -> int:
        return len(words & set(_normalize_title(f"{topic.question} {topic.title}").split()))

    # The nearest questions by shared words, or by spelling if no words are shared.
    best = sorted((t for t in topics if count_shared(t)), key=count_shared, reverse=True)[:3]
    nearest = [t.question for t in best] or nearest_names(query, [t.question for t in topics])
    questions = " ".join(nearest or [t.question for t in topics[:3]])
    raise InputError(f"No topic matches the query {query!r}. Nearest questions: {questions}")


def _normalize_title(text: str) -> str:
    """Returns a question or title in lower case, without punctuation."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", text).split())


class Combination(NamedTuple):
    """Indices of arguments of a topic, in order and equally many pro and con."""

    pro: tuple[int, ...]
    con: tuple[int, ...]


def choose_indices(topic: Topic, count: int, seed: int = 0) -> Combination:
    """Draws `count` arguments of a topic on each side (Chang 2024, section 4.1).

    Draws depend only on the topic's id, the numbers of its arguments and the seed.

    Raises:
      InputError: a side has fewer than `count` arguments.
    """
    fewest, side = min((len(topic.pro), "pro"), (len(topic.con), "con"))
    if not 1 <= count <= fewest:
        raise InputError(
            f"topic {topic.id!r} has {pluralize(fewest, f'{side} argument')}: expected a count "
            f"from 1 to {fewest}, got {count}."
        )
    sides = (("pro", topic.pro), ("con", topic.con))
    drawn = (
        draw_order(len(arguments), seed, topic.id, count, name)[:count] for name, arguments in sides
    )
    return Combination(*map(tuple, drawn))


def choose_arguments(
    topic: Topic, count: int, seed: int = 0
) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """Returns the arguments that `choose_indices` draws, pro and con."""
    pro, con = choose_indices(topic, count, seed)
    return tuple(topic.pro[i] for i in pro), tuple(topic.con[i] for i in con)
