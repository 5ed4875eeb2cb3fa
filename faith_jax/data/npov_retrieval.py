"""Finding the topic that a query asks about.

Retrieval is deterministic (Chang 2024, section 2.1): a query leads to one topic or to an error.
"""

from collections.abc import Iterable

from faith_jax.data.npov import Topic, normalised
from faith_jax.errors import InputError, nearest_names

# Words that say nothing about which topic a query asks about.
_COMMON_WORDS = frozenset(
    ["a", "an", "and", "are", "be", "by", "can", "do", "does", "for", "from", "have", "in", "is"]
    + ["it", "of", "on", "or", "should", "that", "the", "their", "to", "what", "which", "with"]
)


def retrieve(topics: Iterable[Topic], query: str) -> Topic:
    """Returns the topic that a query asks about.

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
    for name_of in (lambda t: t.question, lambda t: t.title, lambda t: t.id):
        found = [topic for topic in topics if wanted and normalised(name_of(topic)) == wanted]
        if len(found) > 1:
            ids = ", ".join(topic.id for topic in found)
            raise InputError(f"The query {query!r} matches several topics ({ids}): ask by id.")
        if found:
            return found[0]
    raise InputError(f"No topic matches the query {query!r}.{_nearest_questions(topics, query)}")


def _nearest_questions(topics: list[Topic], query: str) -> str:
    """Returns the questions nearest to a query by shared words, then by spelling."""
    words = set(normalised(query).split()) - _COMMON_WORDS

    def shared(topic: Topic) -> int:
        return len(words & set(normalised(f"{topic.question} {topic.title}").split()))

    best = sorted((t for t in topics if shared(t)), key=shared, reverse=True)[:3]
    questions = [t.question for t in best] or nearest_names(query, [t.question for t in topics])
    questions = questions or [t.question for t in topics[:3]]
    return " Nearest questions: " + " ".join(questions) if questions else ""
