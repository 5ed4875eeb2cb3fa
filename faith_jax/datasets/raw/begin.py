"""BEGIN (Dziri 2021): responses of dialogue models, labelled for attribution to their knowledge.

Two data sets that must not be mixed up: `begin` is the second release (Nandwani 2023 evaluates
on it), `begin_2021` the first one (TRUE, and with it Steen 2023, evaluates on it). Both are
tab-separated without quoting: a quote mark is text.
"""

import functools
import pathlib
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from faith_jax.core.labels import Begin2021Label, BeginLabel
from faith_jax.core.schema import Text, columns_of
from faith_jax.datasets.delimited import read_tsv
from faith_jax.datasets.raw_dataset import (
    RawDataset,
    RawFile,
    each_row,
    files_by_name,
    integers,
    texts,
)

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


class Response(msgspec.Struct):
    """A row of the second release."""

    model_name: Text
    data_source: Literal["wow", "cmu", "tc"]
    knowledge: Text
    message: str  # empty where the response opens a dialogue
    response: Text
    begin_label: BeginLabel


class Response2021(msgspec.Struct):
    """A row of the first release."""

    evidence: Text
    message: str = msgspec.field(name="previous turn")
    response: Text
    label: Begin2021Label = msgspec.field(name="gold label")
    labels: Text = msgspec.field(name="full label set")


def _example(row: Response, place: str) -> Iterator[dict[str, Any]]:
    yield {
        "id": row_id(place),
        "source": row.data_source,
        "model": row.model_name,
        "knowledge": row.knowledge,
        "message": row.message,
        "response": row.response,
        "begin_label": row.begin_label.value,
        "label": int(row.begin_label.faithfulness),
    }


def _example_2021(row: Response2021, place: str) -> Iterator[dict[str, Any]]:
    yield {
        "id": row_id(place),
        "knowledge": row.evidence,
        "message": row.message,
        "response": row.response,
        "begin_label": row.label.value,
        "annotations": row.labels,
        "label": int(row.label.faithfulness),
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
        features=texts("id", "source", "model", "knowledge", "message", "response", "begin_label")
        | integers("label"),
        read=each_row(
            functools.partial(read_tsv, columns=columns_of(Response)), Response, _example
        ),
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
    features=texts("id", "knowledge", "message", "response", "begin_label", "annotations")
    | integers("label"),
    read=each_row(
        functools.partial(read_tsv, columns=columns_of(Response2021)), Response2021, _example_2021
    ),
    description=(
        "Responses of GPT-2 and T5 to Wizard of Wikipedia with five labels; label 1 = entailment. "
        "The first release, 2021, which TRUE uses."
    ),
    homepage=_HOMEPAGE,
    licence="CC BY 4.0",
    citation=_CITATION,
)
