"""The audit behind FaithDial (Dziri 2022, "On the Origin of Hallucinations …").

Experts labelled responses of three data sets' people (`gold`) and of three models trained on these
with BEGIN's classes and with verbal response modes (VRM). The authors' twelve files name their
columns and spell their labels differently; here they are alike.
"""

import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.errors import field_error
from faith_jax.core.labels import Faithfulness, WizardLabel, critic_label
from faith_jax.core.rows import BadRows, Row, parsed
from faith_jax.datasets.delimited import read_csv
from faith_jax.datasets.raw_dataset import (
    RawDataset,
    RawFile,
    files_by_name,
    integers,
    text_lists,
    texts,
)

_COMMIT = "25671c6e3aa7d667943b7744a2b91507e7187f83"
_REPOSITORY = "https://github.com/McGill-NLP/FaithDial"
_URL = f"https://raw.githubusercontent.com/McGill-NLP/FaithDial/{_COMMIT}/data-audit"
# The name of each file here: its path in the repository, and the Git id of its content.
_SOURCES = {
    "gold_wow": ("gold/wow", "5459f9b8066029fcd252f8679f4cfbaf138a5206"),
    "gold_cmu": ("gold/cmu", "1051a671583278c0ed81bd74e0d2565a0d5aedee"),
    "gold_topicalchat": ("gold/topical", "77ee6fb6daf21882038778b30f9d58a9340fd2bd"),
    "gpt2_wow": ("GPT2/gpt2_processed_wow", "f083c19997c3905e0f9af1969f5fa6ccc35c6662"),
    "gpt2_cmu": ("GPT2/gpt2_processed_cmu", "2bb984ef9a6798b86b1f9eacc390a41634103850"),
    "gpt2_topicalchat": (
        "GPT2/gpt2_processed_topical",
        "99cbc6a34a666e9bd33506c38ea62e4ab1e56c3b",
    ),
    "ctrl_wow": ("CTRL/ctrl_processed_wow", "a06c94824e0a385e3b48c0706fe519c86c41f1db"),
    "ctrl_cmu": ("CTRL/ctrl_processed_cmu", "ca108c471fa2962b40c09af8f0449368a99b6020"),
    "ctrl_topicalchat": (
        "CTRL/ctrl_processed_topicalchat",
        "75e7533efc91cab6b69b51234cbfed03546ed2ff",
    ),
    "doha_wow": ("DoHA/doha_processed_wow", "61133b21b55ee8b2c0cd67a4fce791b020a209b4"),
    "doha_cmu": ("DoHA/doha_processed_cmu", "ae826e7c887a4ca03802f31aec13f708133b32b8"),
    "doha_topicalchat": (
        "DoHA/doha_processed_topical",
        "a2785b952aa2a432802d54c089f16d5920503d24",
    ),
}
_PARTIAL = "partial hallucination"
# How the files spell their labels, in small letters.
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
    "": "entailment",  # of BEGIN, in the wrong column
}
_MODES = {word: mode for mode, words in _MODE_SPELLINGS.items() for word in words.split()}


def read_audit(path: pathlib.Path, bad_rows: BadRows) -> Iterator[dict[str, Any]]:
    """Yields the labelled rows of a file; see `FAITHDIAL_AUDIT.features`.

    Rows without a BEGIN label are passed over: the authors' files end in hundreds of empty ones.

    Args:
      path: gold_wow.csv, gpt2_wow.csv, …: who spoke, and in which data set.
      bad_rows: what to do with a bad row.
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
    rows = (
        Row(row.place, {ours: row.fields[theirs] for ours, theirs in names.items()} | about)
        for row in read_csv(path, tuple(names.values()), bad_rows)
        for about in [{"speaker": speaker, "source": source}]
        if row.fields[names["begin"]].strip()
    )
    return parsed(rows, _example, bad_rows)


def _example(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    begin = _begin_labels(row["begin"], place)
    label = critic_label(begin)
    line = place.rpartition(":")[2]
    return {
        "id": f"{row['speaker']}_{row['source']}-{line}",
        "speaker": row["speaker"],
        "source": row["source"],
        # A few are empty in the authors' files, histories written as an empty list.
        "history": "" if row["history"].strip() == "[]" else row["history"].strip(),
        "knowledge": row["knowledge"].strip(),
        "response": row["response"].strip(),
        "begin_labels": begin,
        "vrm_labels": _labels(row["vrm"], _MODES, "VRM", place),
        "label": int(Faithfulness.UNFAITHFUL if label is None else label),
    }


def _begin_labels(text: str, place: str) -> list[str]:
    if text.strip().lower() == _PARTIAL:
        return [WizardLabel.ENTAILMENT.value, WizardLabel.HALLUCINATION.value]
    return _labels(text, _BEGIN, "BEGIN", place)


def _labels(text: str, known: Mapping[str, str], field: str, place: str) -> list[str]:
    """Returns the labels of a cell, each once; whatever is no letter may part them.

    In two of the authors' cells the letters of a label stand apart.
    """
    words = re.findall("[a-z]+", text.lower())
    if words and all(len(word) == 1 for word in words):
        words = ["".join(words)]
    for word in words:
        if word not in known:
            labels = ", ".join(dict.fromkeys(label for label in known.values() if label))
            raise field_error(place, field, f"labels among {labels}", text)
    return [label for label in dict.fromkeys(known[word] for word in words) if label]


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        yield from read_audit(path, bad_rows)


FAITHDIAL_AUDIT = RawDataset(
    name="faithdial_audit",
    splits={name: (f"{name}.csv",) for name in _SOURCES},
    files=files_by_name(
        *(
            RawFile(f"{name}.csv", f"{_URL}/{path}.csv", f"git-blob:{blob}")
            for name, (path, blob) in _SOURCES.items()
        )
    ),
    features=texts("id", "speaker", "source", "history", "knowledge", "response")
    | text_lists("begin_labels", "vrm_labels")
    | integers("label"),
    read=_read,
    description=(
        "Responses of people (gold) and of GPT-2, CTRL and DoHA on Wizard of Wikipedia, CMU-DoG "
        "and Topical-Chat, labelled by experts; a split for each pair. Label 1 = entailed, and no "
        "part of it hallucinated."
    ),
    homepage=_REPOSITORY,
    licence="MIT",
    citation="""
@inproceedings{dziri2022origin,
  title = {On the Origin of Hallucinations in Conversational Models: Is it the Datasets or the
           Models?},
  author = {Dziri, Nouha and Milton, Sivan and Yu, Mo and Zaiane, Osmar and Reddy, Siva},
  booktitle = {Proceedings of the 2022 Conference of the North American Chapter of the Association
               for Computational Linguistics},
  year = {2022},
}
""",
)
