"""Wizard of Wikipedia (Dinan 2019): dialogues in which one side, the Wizard, reads Wikipedia.

One example for each turn of the Wizard, with the sentence that it says it used and all sentences
that it was shown.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import InputError
from faith_jax.core.fields import (
    checked_text,
    field_error,
    integer_field,
    is_blank,
    list_field,
    object_field,
    optional_text,
    text_field,
)
from faith_jax.core.json_items import read_array
from faith_jax.core.rows import BadRows, Row, parsed
from faith_jax.datasets.raw import control_tokens
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, TEXTS, RawDataset, RawFile, files_by_name

_ARCHIVE = "https://parl.ai/downloads/wizard_of_wikipedia/wizard_of_wikipedia.tgz"
_SHA256 = "sha256:2a549627a83fea745efa2076a41d1c0078ad002ab2b54eae6a4e3d3d66ae24b7"
_WIZARD, _APPRENTICE = "Wizard", "Apprentice"
_UNUSED = "no_passages_used"


class Passage(NamedTuple):
    """A sentence that the Wizard was shown, with the title of its article."""

    title: str
    sentence: str


def read_turns(path: pathlib.Path, bad_rows: BadRows) -> Iterator[dict[str, Any]]:
    """Yields the Wizard's turns of a file; see `WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS.features`.

    `control_tokens` is empty where the file has none.

    Args:
      path: train.json, valid_random_split.json, …: one array of dialogues.
      bad_rows: what to do with a bad dialogue or turn.
    """
    for dialogue in read_array(path, bad_rows=bad_rows):
        try:
            turns = _wizard_turns(dialogue, path.stem.removesuffix(control_tokens.SUFFIX))
        except InputError as error:
            bad_rows.add(error)
            continue
        yield from parsed(turns, _turn, bad_rows)


def _wizard_turns(dialogue: Row, split: str) -> list[Row]:
    """Returns a row for each of the Wizard's turns, which knows what it needs of the dialogue."""
    place, fields = dialogue
    number = int(place.rpartition("[")[2].rstrip("]"))
    topic = text_field(fields, "chosen_topic", place)
    sentences = _sentences(fields, "chosen_topic_passage", place)
    about = {
        "dialogue": number,
        "topic": topic,
        "persona": optional_text(fields, "persona", place),
        "wizard_eval": integer_field(fields, "wizard_eval", place, default=0),
    }
    rows: list[Row] = []
    history: list[str] = []
    shown: dict[str, list[Passage]] = {_WIZARD: [], _APPRENTICE: []}
    for turn, utterance in enumerate(list_field(fields, "dialog", place, of="utterance")):
        where = f"{place}.dialog[{turn}]"
        if not isinstance(utterance, dict):
            raise field_error(place, f"dialog[{turn}]", "an object", utterance)
        speaker = _speaker(utterance, where)
        if speaker == _WIZARD:
            passages = [Passage(topic, sentence) for sentence in sentences]
            passages += shown[_APPRENTICE] + shown[_WIZARD]
            example = about | {"id": f"{split}-{number}-{turn}", "turn": turn}
            example |= {"history": list(history), "passages": list(dict.fromkeys(passages))}
            rows.append(Row(where, utterance | {"_example": example}))
        history.append(text_field(utterance, "text", where))
        shown[speaker] = _retrieved(utterance, where)
    return rows


def _speaker(utterance: Mapping[str, Any], place: str) -> str:
    """Returns the role in texts such as `0_Wizard`; the number says only who began."""
    value = text_field(utterance, "speaker", place)
    for role in (_WIZARD, _APPRENTICE):
        if role in value:
            return role
    raise field_error(place, "speaker", f"a {_WIZARD} or an {_APPRENTICE}", value)


def _retrieved(utterance: Mapping[str, Any], place: str) -> list[Passage]:
    passages = []
    for number, item in enumerate(list_field(utterance, "retrieved_passages", place, minimum=0)):
        field = f"retrieved_passages[{number}]"
        if not isinstance(item, dict):
            raise field_error(place, field, "an object of one title and its sentences", item)
        for title in item:
            passages += [Passage(title, s) for s in _sentences(item, title, f"{place}.{field}")]
    return passages


def _sentences(row: Mapping[str, Any], field: str, place: str) -> list[str]:
    """Returns the sentences of an article; the authors' files have some empty ones."""
    items = list_field(row, field, place, of="sentence", minimum=0)
    return [
        checked_text(item, f"{field}[{i}]", place)
        for i, item in enumerate(items)
        if not is_blank(item)
    ]


def _turn(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    example = dict(row["_example"])
    passages = example.pop("passages")
    chosen = _chosen(row, place, passages)
    return example | {
        "knowledge": chosen.sentence,
        "knowledge_title": chosen.title,
        "response": text_field(row, "text", place),
        "passage_titles": [passage.title for passage in passages],
        "passage_sentences": [passage.sentence for passage in passages],
        "control_tokens": control_tokens.control_tokens_field(row, place),
    }


def _chosen(row: Mapping[str, Any], place: str, passages: Sequence[Passage]) -> Passage:
    """Returns the sentence that the Wizard ticked, empty where it used none.

    `checked_passage` names its article, sometimes beside `no_passages_used`; where that title was
    not shown with this sentence, the first article that was shown with it counts.
    """
    sentence = next(iter(_checked(row, "checked_sentence", place)), "")
    if not sentence:
        return Passage("", "")
    titles = [p.title for p in passages if p.sentence == sentence]
    named = _checked(row, "checked_passage", place)
    both = [title for title in named if title in titles]
    return Passage(next(iter([*both, *titles, *named]), ""), sentence)


def _checked(row: Mapping[str, Any], field: str, place: str) -> list[str]:
    entries = object_field(row, field, place, optional=True)
    return [
        checked_text(value, f"{field}.{key}", place)
        for key, value in entries.items()
        if _UNUSED not in (key, value)
    ]


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        for turn in read_turns(path, bad_rows):
            del turn["control_tokens"]
            yield turn


def _read_with_control_tokens(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        turns = (turn for turn in read_turns(path, bad_rows) if turn["knowledge"])
        yield from control_tokens.with_control_tokens(turns, path, split, bad_rows)


_SPLITS = {
    "train": ("train.json",),
    "validation_seen": ("valid_random_split.json",),
    "validation_unseen": ("valid_topic_split.json",),
    "test_seen": ("test_random_split.json",),
    "test_unseen": ("test_topic_split.json",),
}

_FILES = files_by_name(
    *(RawFile(name, _ARCHIVE, _SHA256, member=name) for (name,) in _SPLITS.values())
)
_BY_HAND = f"Get {_ARCHIVE} and unpack it."

WIZARD_OF_WIKIPEDIA = RawDataset(
    name="wizard_of_wikipedia",
    splits=_SPLITS,
    files=_FILES,
    features={
        "id": TEXT,
        "dialogue": INTEGER,
        "turn": INTEGER,
        "topic": TEXT,
        "persona": TEXT,
        "wizard_eval": INTEGER,
        "history": TEXTS,
        "knowledge": TEXT,
        "knowledge_title": TEXT,
        "response": TEXT,
        "passage_titles": TEXTS,
        "passage_sentences": TEXTS,
    },
    read=_read,
    description=(
        "Dialogues with a Wizard who reads Wikipedia; one example a turn of the Wizard. "
        "`knowledge` is the sentence that it ticked, empty where it used none, and the passages "
        "are all sentences that it was shown: the topic's, and what was retrieved for the "
        "Apprentice's last turn and its own. Seen and unseen are the topics."
    ),
    homepage="https://parl.ai/projects/wizard_of_wikipedia/",
    licence="CC BY 4.0",
    citation="""
@inproceedings{dinan2019wizard,
  title = {{Wizard of Wikipedia}: Knowledge-Powered Conversational Agents},
  author = {Dinan, Emily and Roller, Stephen and Shuster, Kurt and Fan, Angela and Auli, Michael
            and Weston, Jason},
  booktitle = {International Conference on Learning Representations},
  year = {2019},
}
""",
    by_hand=_BY_HAND,
)

_WITH_TOKENS = {
    split: name if split.startswith("test") else control_tokens.name_with_tokens(name)
    for split, (name,) in _SPLITS.items()
}

WIZARD_OF_WIKIPEDIA_CONTROL_TOKENS = dataclasses.replace(
    WIZARD_OF_WIKIPEDIA,
    splits={split: (name,) for split, name in _WITH_TOKENS.items()},
    files={name: _FILES.get(name, RawFile(name)) for name in _WITH_TOKENS.values()},
    features={**WIZARD_OF_WIKIPEDIA.features, "control_tokens": TEXTS},
    read=_read_with_control_tokens,
    description=(
        f"{WIZARD_OF_WIKIPEDIA.description} Each turn with knowledge, with the control tokens of "
        "CTRL (Rashkin 2021)."
    ),
    by_hand=f"{_BY_HAND} Training and validation need control tokens: {control_tokens.ADD_TOKENS}.",
)
