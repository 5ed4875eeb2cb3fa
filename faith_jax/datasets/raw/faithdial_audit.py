"""The audit behind FaithDial (Dziri 2022, "On the Origin of Hallucinations …").

Experts labelled responses with BEGIN's classes and with verbal response modes (VRM): responses by
the people of three data sets (`gold`), and by three models trained on these sets. The authors'
twelve files differ in the names of columns and the spelling of labels, which are unified here.
"""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

from faith_jax.core.errors import field_error
from faith_jax.core.labels import Faithfulness, WizardLabel, critic_label
from faith_jax.core.rows import BadRows, Row, parse_rows
from faith_jax.datasets.delimited import read_csv
from faith_jax.datasets.raw_dataset import Examples, each_file, load_card

_PARTIAL = {
    "partial hallucination": [WizardLabel.ENTAILMENT.value, WizardLabel.HALLUCINATION.value]
}
# The files' spellings of labels, in lower case.
_BEGIN = {label.lower(): label.value for label in WizardLabel} | {
    "entailmentt": WizardLabel.ENTAILMENT.value,
    "hallucinated": WizardLabel.HALLUCINATION.value,
}
_MODE_SPELLINGS = {
    "Disclosure": "disclosure disclsoure dicslosure dislcosure",
    "Edification": "edification edificaiton edifcation edifiction edifictation edfification",
    "Ack.": (
        "ack acknowledgment acknowledgement acnowledgment acknowledment aknowledgment "
        "acknowldgment ackowledgment acknowlegment acknowedgment acknwledgment"
    ),
    "Confirmation": "confirmation",
    "Question": "question questioon",
    "Advisement": "advisement advice",
    "": "entailment",  # a BEGIN label in the wrong column
}
_MODES = {word: mode for mode, words in _MODE_SPELLINGS.items() for word in words.split()}


def read_audit(path: pathlib.Path, bad_rows: BadRows) -> Examples:
    """Yields the labelled rows of gold_wow.csv, gpt2_wow.csv, …, named SPEAKER_DATASET.csv.

    Rows without a BEGIN label are ignored, since the authors' files end in hundreds of empty rows.
    """
    speaker, _, source = path.stem.partition("_")
    gold = speaker == "gold"
    names = {
        "knowledge": "evidence" if gold else "knowledge",
        "history": "history",
        "response": "response" if gold else speaker,
        "begin": "BEGIN" if gold else "begin_label",
        "vrm": "VRM" if gold else "vrm_label",
    }
    about = {"speaker": speaker, "source": source}
    rows = (
        Row(
            row.place,
            {ours: row.fields[raw_name].strip() for ours, raw_name in names.items()} | about,
        )
        for row in read_csv(path, tuple(names.values()), bad_rows)
    )
    labelled = (row for row in rows if row.fields["begin"])
    return parse_rows(labelled, _build_example, bad_rows)


def _build_example(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    begin = _PARTIAL.get(row["begin"].lower()) or _parse_labels(
        row["begin"], _BEGIN, "BEGIN", place
    )
    label = critic_label(begin)
    line = place.rpartition(":")[2]
    return {
        "id": f"{row['speaker']}_{row['source']}-{line}",
        "speaker": row["speaker"],
        "source": row["source"],
        # A few histories are written as an empty list in the authors' files.
        "history": "" if row["history"] == "[]" else row["history"],
        "knowledge": row["knowledge"],
        "response": row["response"],
        "begin_labels": begin,
        "vrm_labels": _parse_labels(row["vrm"], _MODES, "VRM", place),
        "label": int(Faithfulness.UNFAITHFUL if label is None else label),
    }


def _parse_labels(
    text: str, labels_by_word: Mapping[str, str], field: str, place: str
) -> list[str]:
    """Returns the distinct labels of a cell, which anything but letters may separate."""
    words = re.findall("[a-z]+", text.lower())
    if words and all(len(word) == 1 for word in words):  # "w o r d" in two of the authors' cells
        words = ["".join(words)]
    for word in words:
        if word not in labels_by_word:
            labels = ", ".join(dict.fromkeys(label for label in labels_by_word.values() if label))
            raise field_error(place, field, f"labels among {labels}", text)
    return [label for label in dict.fromkeys(labels_by_word[word] for word in words) if label]


FAITHDIAL_AUDIT = load_card("faithdial_audit", each_file(read_audit))
