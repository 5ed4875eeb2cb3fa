"""FaithDial (Dziri 2022): dialogues whose hallucinated Wizard of Wikipedia responses were edited.

`faithdial` has one example for each turn of the Wizard, optionally with control tokens.
`faith_critic` has FaithCritic's training pairs of knowledge and response, from the same files.
"""

import functools
import pathlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from faith_jax.core.errors import field_error
from faith_jax.core.labels import Faithfulness, WizardLabel, critic_label
from faith_jax.core.rows import BadRows
from faith_jax.core.schema import Text, Whole, read_as
from faith_jax.core.templates import one_space
from faith_jax.datasets.augmentation import control_tokens
from faith_jax.datasets.augmentation.control_tokens import ControlTokens
from faith_jax.datasets.json_items import item_number, read_array
from faith_jax.datasets.raw_dataset import Examples, Paths, each_file, load_card

WIZARD = "Wizard"


class _Utterance(msgspec.Struct):
    """A turn; BEGIN and VRM are labels of its response before any edit."""

    knowledge: Text
    response: Text
    speaker: Literal["Wizard", "Seeker"] = "Wizard"
    original_response: str = ""
    history: list[Text] = []
    BEGIN: list[WizardLabel] = []
    VRM: list[Text] = []
    negative_samples: list[Text] = []
    control_tokens: ControlTokens | None = None


class _Dialogue(msgspec.Struct):
    """A dialogue, with the number that the file gives it."""

    utterances: Annotated[list[_Utterance], msgspec.Meta(min_length=1)]
    dialog_idx: Whole | None = None


def read_turns(path: pathlib.Path, bad_rows: BadRows) -> Examples:
    """Yields the turns of train.json, valid.json or test.json.

    In addition to the features of `FAITHDIAL` they have `speaker`, and `control_tokens` (empty if
    the file has none). `dialogue` is the dialogue's number in the file, `turn` counts from 0,
    `original_response` is empty if the response was not edited, and the labels are for the response
    before any edit.
    """
    split = path.stem.removesuffix(control_tokens.SUFFIX)
    make = functools.partial(_build_turns, split=split, places={})
    return read_as(_Dialogue, read_array(path, bad_rows=bad_rows), make, bad_rows)


def _build_turns(dialogue: _Dialogue, place: str, split: str, places: dict[int, str]) -> Examples:
    """Yields the turns of a dialogue; `places` has the place of each earlier dialogue's number."""
    number = item_number(place) if dialogue.dialog_idx is None else dialogue.dialog_idx
    if before := places.get(number):
        expected = f"a number of its own (that of {before} is the same)"
        remedy = "number the dialogues of the file anew, or leave the field out of all of them"
        raise field_error(place, "dialog_idx", expected, dialogue.dialog_idx, remedy)
    places[number] = place
    for position, utterance in enumerate(dialogue.utterances):
        turn = {
            "id": f"{split}-{number}-{position}",
            "dialogue": number,
            "turn": position,
            "speaker": utterance.speaker,
            "history": utterance.history,
            "knowledge": utterance.knowledge,
            "response": utterance.response,
            "original_response": utterance.original_response,
            "begin_labels": [label.value for label in utterance.BEGIN],
            "vrm_labels": utterance.VRM,
            "control_tokens": list(utterance.control_tokens or ()),
        }
        yield turn | {"negatives": negative_responses(turn, utterance.negative_samples)}


def negative_responses(turn: Mapping[str, Any], samples: Iterable[str] = ()) -> list[str]:
    """Returns the responses that InfoNCE contrasts with a turn's (Dziri 2022, section 5.2.1).

    First comes Wizard of Wikipedia's response, if annotators found a hallucination in it, then the
    samples of a model with perturbed knowledge; repeats and the turn's own response are removed.
    """
    hallucinated = WizardLabel.HALLUCINATION in turn["begin_labels"]
    texts = [wow_response(turn), *samples] if hallucinated else samples
    negatives = dict.fromkeys(map(one_space, texts))
    negatives.pop(one_space(turn["response"]), None)
    return list(negatives)


def wow_response(turn: Mapping[str, Any]) -> str:
    """Returns the Wizard's response in Wizard of Wikipedia, before any edit."""
    return turn["original_response"] or turn["response"]


def _wizard_turns(path: pathlib.Path, bad_rows: BadRows) -> Examples:
    return (turn for turn in read_turns(path, bad_rows) if turn["speaker"] == WIZARD)


def _read_critic(paths: Paths, split: str, bad_rows: BadRows, all_edits: bool) -> Examples:
    """Yields the critic's examples of the Wizard's turns.

    Wizard of Wikipedia's response is faithful if its label is Entailment, and unfaithful if it is
    Hallucination. As in the authors' code (critic_data.py), turns with neither label are left out,
    and in the training split only, FaithDial's response is added as a second, faithful example,
    edited or not, so that an unedited response counts twice (34,000 training pairs). With
    `all_edits`, only edited responses are added, but in each split and for any label, so that no
    response counts twice (Dziri 2022, section 5.1, which does not mention splits).
    """
    for path in paths.values():
        for turn in _wizard_turns(path, bad_rows):
            original = critic_label(turn["begin_labels"])
            is_edited = bool(turn["original_response"])
            has_second = is_edited if all_edits else original is not None and split == "train"
            second = "edited" if is_edited else "kept"
            for source, response, label in (
                ("wow", wow_response(turn), original),
                (second, turn["response"], Faithfulness.FAITHFUL if has_second else None),
            ):
                if label is not None:
                    yield {
                        "id": f"{turn['id']}-{source}",
                        "dialogue": turn["dialogue"],
                        "turn": turn["turn"],
                        "knowledge": turn["knowledge"],
                        "response": response,
                        "source": source,
                        "label": int(label),
                    }


FAITHDIAL = load_card("faithdial", each_file(_wizard_turns))
FAITHDIAL_CONTROL_TOKENS = load_card(
    "faithdial", control_tokens.with_control_tokens(_wizard_turns), part="control_tokens"
)
FAITH_CRITIC = load_card("faith_critic", functools.partial(_read_critic, all_edits=False))
FAITH_CRITIC_ALL_EDITS = load_card(
    "faith_critic", functools.partial(_read_critic, all_edits=True), part="all_edits"
)
