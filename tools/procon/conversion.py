"""Makes a folder in the raw NPOV format from scraped ProCon.org topic pages.

The folder appears only once complete.
"""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from faith_jax.core.errors import InputError
from faith_jax.core.files import atomic_folder, write_jsonl
from faith_jax.core.rows import read_value
from faith_jax.core.schema import Text, convert_row
from faith_jax.datasets.npov.topics import (
    RESPONSES_FILE,
    SPLITS,
    TOPICS_FILE,
    Argument,
    Split,
    Topic,
    WrittenResponse,
    load_responses,
    load_topics,
)

from . import topics as procon_topics
from .pages import Page, read_page
from .template_responses import template_responses
from .text import Repairs

DEFAULT_RESPONSES_PER_TOPIC = 12


class Conversion(NamedTuple):
    """The result of a conversion.

    Attributes:
      pages: the converted pages in order, without duplicates.
      topics: the topics in the order of the written file: by split, then by page.
      responses: the responses written.
      split_reason: the chosen kind of splits, and the reason.
      notes: pages left out because another page has the same content.
    """

    pages: tuple[Page, ...]
    topics: tuple[Topic, ...]
    responses: tuple[WrittenResponse, ...]
    split_reason: str
    notes: tuple[str, ...]

    def repairs(self) -> Repairs:
        """Returns how often each kind of repair was made, in all pages."""
        return sum((page.repairs for page in self.pages), collections.Counter())


def convert(
    sources: Sequence[str | pathlib.Path],
    output: str | pathlib.Path,
    *,
    questions: Mapping[str, str] | None = None,
    corrections: Mapping[str, str] | None = None,
    split: str = "auto",
    responses: str = "template",
    responses_per_topic: int = DEFAULT_RESPONSES_PER_TOPIC,
    seed: int = 0,
    overwrite: bool = False,
) -> Conversion:
    """Converts pages and writes `topics.jsonl` and `responses.jsonl`.

    Args:
      sources: page files, and folders with page files (`*.json`).
      output: the folder to make.
      questions: leading questions by title; they take precedence over the built-in ones.
      corrections: see `read_page`.
      split: the mode of `topics.assign_splits`.
      responses: "template", "none", or a file of responses in the raw format.
      responses_per_topic: how many template responses each topic gets.
      seed: the seed of the proportional split and the templates.
      overwrite: replace an earlier conversion in the output folder.

    Raises:
      InputError: a page, another file or the output folder cannot be used; the output is left
        unchanged.
    """
    output = pathlib.Path(os.path.abspath(pathlib.Path(output).expanduser()))
    _check_output(output, overwrite)
    pages, notes = _read_pages(_page_files(sources), corrections or {})
    titles = {name: page.title for name, page in pages.items()}
    splits, reason = procon_topics.assign_splits(titles, split, seed)
    topics = []
    for name, page in pages.items():
        question = procon_topics.leading_question(page.title, questions, page.question)
        own_split = cast(Split, splits[name])
        topics.append(Topic(name, page.title, question, own_split, page.pro, page.con))
    topics.sort(key=lambda topic: SPLITS.index(topic.split))
    _check_questions(topics, pages)
    written_responses: Sequence[WrittenResponse] = ()
    if responses == "template":
        written_responses = [
            r for t in topics for r in template_responses(t, responses_per_topic, seed)
        ]
    elif responses != "none":
        if not pathlib.Path(responses).is_file():
            expected = "expected responses 'template', 'none' or a file"
            raise InputError(f"{responses}: no such file; {expected}.")
        written_responses = load_responses(responses, topics)  # errors name the user's file
    try:
        with atomic_folder(output, "topics", replaces=True) as staged:
            staged.mkdir()
            write_jsonl(staged / TOPICS_FILE, map(_topic_row, topics))
            if responses != "none":
                write_jsonl(staged / RESPONSES_FILE, map(dataclasses.asdict, written_responses))
            # The parser must accept the written files.
            checked = load_topics(staged)
            written = load_responses(staged, checked)
    except OSError as error:
        raise InputError(f"{output}: cannot be written ({error.strerror}).") from None
    return Conversion(tuple(pages.values()), checked, written, reason, tuple(notes))


def _page_files(sources: Sequence[str | pathlib.Path]) -> list[pathlib.Path]:
    """Returns the page files in files and folders, each once; those of a folder by name."""
    files: dict[pathlib.Path, None] = {}
    for source in map(pathlib.Path, sources):
        page_files = sorted(source.glob("*.json")) if source.is_dir() else [source]
        if not page_files:
            raise InputError(f"{source}: the folder holds no .json pages.")
        files.update(dict.fromkeys(page_files))
    if not files:
        raise InputError("No pages given: name page files or folders of them.")
    return list(files)


def _read_pages(
    files: Sequence[pathlib.Path], corrections: Mapping[str, str]
) -> tuple[dict[str, Page], list[str]]:
    """Returns the pages by topic id, and notes on duplicate pages."""
    pages: dict[str, Page] = {}
    notes = []
    for file in files:
        page = read_page(file, corrections)
        earlier = pages.setdefault(page.topic_id, page)
        if (earlier.pro, earlier.con) != (page.pro, page.con):
            raise InputError(
                f"{file}: its topic {page.title!r} is also that of {earlier.file}, with other "
                "arguments: leave one of the pages out."
            )
        if earlier is not page:
            notes.append(f"{file}: the same page as {earlier.file}")
    return pages, notes


def _check_questions(topics: Sequence[Topic], pages: Mapping[str, Page]) -> None:
    """Raises an error if two pages with different titles ask the same question."""
    seen: dict[str, Topic] = {}
    for topic in topics:
        first_topic = seen.setdefault(topic.question.casefold(), topic)
        if first_topic is not topic:
            raise InputError(
                f"{pages[topic.id].file}: asks the same question as {pages[first_topic.id].file} "
                f"({topic.question!r}): leave one of the pages out, or tell their questions apart "
                "with --questions."
            )


def _check_output(output: pathlib.Path, overwrite: bool) -> None:
    if not output.exists():
        return
    if not output.is_dir():
        raise InputError(f"{output}: expected a folder to make, got a file.")
    names = {path.name for path in output.iterdir()}
    if strangers := sorted(names - {TOPICS_FILE, RESPONSES_FILE}):
        raise InputError(f"{output}: holds other files ({strangers[0]}): name a new folder.")
    if names and not overwrite:
        raise InputError(f"{output}: holds data already: name a new folder or use --overwrite.")


def _topic_row(topic: Topic) -> dict[str, Any]:
    def arguments(side: Iterable[Argument]) -> list[dict[str, str]]:
        pairs = ({"text": a.text, "explanation": a.explanation} for a in side)
        return [{name: text for name, text in pair.items() if text} for pair in pairs]

    sides = {"pro": arguments(topic.pro), "con": arguments(topic.con)}
    return dataclasses.asdict(topic) | sides


def read_texts_by_name(path: str | pathlib.Path) -> dict[str, str]:
    """Reads a JSON object of texts: questions by title, or corrections by remaining text.

    Raises:
      InputError: the file is missing or is not such an object.
    """
    texts = convert_row(read_value(path), str(path), dict[str, Text])
    return {name: " ".join(text.split()) for name, text in texts.items()}
