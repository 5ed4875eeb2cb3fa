"""BEGIN (Dziri 2021): responses of dialogue models, labelled for attribution to their knowledge.

Two data sets that must not be mixed up: `begin` is the second release (Nandwani 2023 evaluates
on it), `begin_2021` the first one (TRUE, and with it Steen 2023, evaluates on it). Both are
tab-separated without quoting: a quote mark is text.
"""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.fields import choice_field, text_field
from faith_jax.core.labels import Begin2021Label, BeginLabel
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.delimited import read_tsv
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, RawDataset, RawFile, files_by_name

_HOMEPAGE = "https://github.com/google/BEGIN-dataset"
_RAW = "https://raw.githubusercontent.com/google/BEGIN-dataset"
_SECOND = f"{_RAW}/6e65f0d5a1ed1b9574643a7640ff1678d4e979b5"
_FIRST = f"{_RAW}/5fa0cb0dde0e653d2016724a52a5ca27fe8b6a3f"
_CITATION = """
@article{dziri2021evaluating,
  title = {Evaluating Groundedness in Dialogue Systems: The {BEGIN} Benchmark},
  author = {Dziri, Nouha and Rashkin, Hannah and Linzen, Tal and Reitter, David},
  journal = {arXiv preprint arXiv:2105.00071},
  year = {2021},
}
"""
_BLOBS = {
    "wow/begin_dev_wow.tsv": "67fd5c53a3bdce5135471f3b2f456676341ba463",
    "wow/begin_test_wow.tsv": "a2cd2de90fc8c27b70ddec203e75aad94ae4a5bf",
    "cmu-dog/begin_dev_cmu.tsv": "0c474c16ff31536136c888c5e129f0ca78a63ed0",
    "cmu-dog/begin_test_cmu.tsv": "296585c83d514ad01f2ea77e09fd7aa438744854",
    "topicalchat/begin_dev_tc.tsv": "55fe659d77f211a010bc4b0b5c023400bc704d49",
    "topicalchat/begin_test_tc.tsv": "e1ee758e23d2ef10be799bdc1df621beea92ea29",
}
SOURCES = ("wow", "cmu", "tc")
_PARTS = {"validation": "dev", "test": "test"}


def _read(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    columns = ("model_name", "data_source", "knowledge", "message", "response", "begin_label")
    for path in paths.values():
        yield from parsed(read_tsv(path, columns, bad_rows), _example, bad_rows)


def _example(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    label = BeginLabel(choice_field(row, "begin_label", place, list(BeginLabel)))
    return {
        "id": row_id(place),
        "source": choice_field(row, "data_source", place, SOURCES),
        "model": text_field(row, "model_name", place),
        "knowledge": text_field(row, "knowledge", place),
        "message": row["message"].strip(),  # empty where the response opens a dialogue
        "response": text_field(row, "response", place),
        "begin_label": label.value,
        "label": int(label.faithfulness),
    }


def _read_2021(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    columns = ("evidence", "previous turn", "response", "gold label", "full label set")
    for path in paths.values():
        yield from parsed(read_tsv(path, columns, bad_rows), _example_2021, bad_rows)


def _example_2021(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    label = Begin2021Label(choice_field(row, "gold label", place, list(Begin2021Label)))
    return {
        "id": row_id(place),
        "knowledge": text_field(row, "evidence", place),
        "message": row["previous turn"].strip(),
        "response": text_field(row, "response", place),
        "begin_label": label.value,
        "annotations": text_field(row, "full label set", place),
        "label": int(label.faithfulness),
    }


def row_id(place: str) -> str:
    """Returns a row's id from where it stands: the file's name and the line.

    >>> row_id("raw/begin_dev_wow.tsv:2")
    'begin_dev_wow-2'
    """
    path, _, line = place.rpartition(":")
    return f"{pathlib.PurePath(path).stem}-{line}"


def _second_release(sources: tuple[str, ...]) -> RawDataset:
    files = [
        RawFile(pathlib.PurePath(path).name, f"{_SECOND}/{path}", f"git-blob:{blob}")
        for path, blob in _BLOBS.items()
    ]
    return RawDataset(
        name="begin",
        splits={
            split: tuple(f"begin_{part}_{source}.tsv" for source in sources)
            for split, part in _PARTS.items()
        },
        files=files_by_name(*files),
        features={
            "id": TEXT,
            "source": TEXT,
            "model": TEXT,
            "knowledge": TEXT,
            "message": TEXT,
            "response": TEXT,
            "begin_label": TEXT,
            "label": INTEGER,
        },
        read=_read,
        description=(
            "Responses of four models to Wizard of Wikipedia (wow), CMU-DoG (cmu) and TopicalChat "
            "(tc), labelled Fully attributable, Not fully attributable or Generic. Label 1 = fully "
            "attributable. The second release, 2022."
        ),
        homepage=_HOMEPAGE,
        licence="CC BY 4.0 (wow, cmu), CDLA-Sharing 1.0 (tc)",
        citation=_CITATION,
    )


BEGIN = _second_release(SOURCES)
BEGIN_BY_SOURCE = {source: _second_release((source,)) for source in SOURCES}

BEGIN_2021 = RawDataset(
    name="begin_2021",
    splits={"validation": ("dev_05_24_21.tsv",), "test": ("test_05_24_21.tsv",)},
    files=files_by_name(
        RawFile(
            "dev_05_24_21.tsv",
            f"{_FIRST}/dev_05_24_21.tsv",
            "git-blob:0c56bd818f474ea232faae1fe261ec23cbe9a0f6",
        ),
        RawFile(
            "test_05_24_21.tsv",
            f"{_FIRST}/test_05_24_21.tsv",
            "git-blob:676c6554794272e74eea36fab84362f7f3b8c446",
        ),
    ),
    features={
        "id": TEXT,
        "knowledge": TEXT,
        "message": TEXT,
        "response": TEXT,
        "begin_label": TEXT,
        "annotations": TEXT,
        "label": INTEGER,
    },
    read=_read_2021,
    description=(
        "Responses of GPT-2 and T5 to Wizard of Wikipedia with five labels; label 1 = entailment. "
        "The first release, 2021, which TRUE uses."
    ),
    homepage=_HOMEPAGE,
    licence="CC BY 4.0",
    citation=_CITATION,
)
