"""Wizard of Wikipedia (Dinan 2019): dialogues in which one side, the Wizard, reads Wikipedia.

An example is a turn of the Wizard, with the sentence that the Wizard used and all shown sentences.
"""

import functools
import pathlib
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec

from faith_jax.core.rows import BadRows
from faith_jax.core.schema import Text, Whole, read_as
from faith_jax.datasets.augmentation import control_tokens
from faith_jax.datasets.augmentation.control_tokens import ControlTokens
from faith_jax.datasets.json_items import item_number, read_array
from faith_jax.datasets.raw_dataset import Examples, each_file, load_card

_WIZARD, _APPRENTICE = "Wizard", "Apprentice"
_UNUSED = "no_passages_used"


class _Utterance(msgspec.Struct):
    """An utterance of a speaker; the number in `0_Wizard` and the like only tells who began.

    The passages that the speaker was shown map titles to sentences; some sentences are empty in the
    authors' files.
    """

    speaker: Annotated[
        str,
        msgspec.Meta(
            pattern=f"{_WIZARD}|{_APPRENTICE}",
            description=f"a text that holds {_WIZARD!r} or {_APPRENTICE!r}",
        ),
    ]
    text: Text
    retrieved_passages: list[dict[str, list[str]]] = []
    checked_sentence: dict[str, str] = {}
    checked_passage: dict[str, str] = {}
    control_tokens: ControlTokens | None = None


class _Dialogue(msgspec.Struct):
    """A dialogue about a topic."""

    chosen_topic: Text
    dialog: Annotated[list[_Utterance], msgspec.Meta(min_length=1)]
    chosen_topic_passage: list[str] = []
    persona: str = ""
    wizard_eval: Whole = 0


class _Passage(NamedTuple):
    """A sentence that the Wizard was shown, with the title of its article."""

    title: str
    sentence: str


def read_turns(path: pathlib.Path, bad_rows: BadRows) -> Examples:
    """Yields the Wizard's turns of a file, such as train.json or valid_random_split.json.

    The turns have the features of `WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS`; `control_tokens` is empty
    if the file has none.
    """
    make = functools.partial(_wizard_turns, split=path.stem.removesuffix(control_tokens.SUFFIX))
    return read_as(_Dialogue, read_array(path, bad_rows=bad_rows), make, bad_rows)


def _wizard_turns(dialogue: _Dialogue, place: str, split: str) -> Examples:
    number, topic = item_number(place), dialogue.chosen_topic
    topic_passages = [_Passage(topic, s) for s in dialogue.chosen_topic_passage if s]
    history: list[str] = []
    passages_of: dict[str, list[_Passage]] = {_WIZARD: [], _APPRENTICE: []}
    for turn, utterance in enumerate(dialogue.dialog):
        speaker = _WIZARD if _WIZARD in utterance.speaker else _APPRENTICE
        if speaker == _WIZARD:
            passages = [
                *dict.fromkeys([*topic_passages, *passages_of[_APPRENTICE], *passages_of[_WIZARD]])
            ]
            # The sentence that the Wizard ticked; empty if no sentence was used. `checked_passage`
            # names its article, sometimes together with `no_passages_used`. If that article was not
            # shown with this sentence, the first article that was counts instead.
            sentence, title = next(iter(_used_entries(utterance.checked_sentence)), ""), ""
            if sentence:
                titles = [passage.title for passage in passages if passage.sentence == sentence]
                named = _used_entries(utterance.checked_passage)
                both = [name for name in named if name in titles]
                title = next(iter([*both, *titles, *named]), "")
            yield {
                "id": f"{split}-{number}-{turn}",
                "dialogue": number,
                "turn": turn,
                "topic": topic,
                "persona": dialogue.persona,
                "wizard_eval": dialogue.wizard_eval,
                "history": list(history),
                "knowledge": sentence,
                "knowledge_title": title,
                "response": utterance.text,
                "passage_titles": [passage.title for passage in passages],
                "passage_sentences": [passage.sentence for passage in passages],
                "control_tokens": list(utterance.control_tokens or ()),
            }
        history.append(utterance.text)
        passages_of[speaker] = [
            _Passage(title, sentence)
            for article in utterance.retrieved_passages
            for title, sentences in article.items()
            for sentence in sentences
            if sentence
        ]


def _used_entries(entries: Mapping[str, str]) -> list[str]:
    return [value for key, value in entries.items() if value and _UNUSED not in (key, value)]


WIZARD_OF_WIKIPEDIA = load_card("wizard_of_wikipedia", each_file(read_turns))
WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS = load_card(
    "wizard_of_wikipedia",
    control_tokens.with_control_tokens(
        lambda path, bad_rows: (t for t in read_turns(path, bad_rows) if t["knowledge"])
    ),
    part="control_tokens",
)
