"""What all corpora of TRUE have in common: the schema, and TRUE's own CSV form."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from faith_jax.core.fields import choice_field, text_field
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.delimited import read_csv
from faith_jax.datasets.raw_dataset import INTEGER, TEXT, RawDataset, RawFile, Reader, files_by_name

SPLIT = "test"
FEATURES = {
    "id": TEXT,
    "corpus": TEXT,
    "source_id": TEXT,
    "grounding": TEXT,
    "generated_text": TEXT,
    "label": INTEGER,
}
HOMEPAGE = "https://github.com/google-research/true"
_CITATION = """
@inproceedings{honovich2022true,
  title = {{TRUE}: Re-evaluating Factual Consistency Evaluation},
  author = {Honovich, Or and Aharoni, Roee and Herzig, Jonathan and Taitelbaum, Hagai and
            Kukliansy, Doron and Cohen, Vered and Scialom, Thomas and Szpektor, Idan and
            Hassidim, Avinatan and Matias, Yossi},
  booktitle = {Proceedings of the 2022 Conference of the North American Chapter of the
               Association for Computational Linguistics},
  year = {2022},
}
"""


def row(
    corpus: str, number: int | str, source_id: str, grounding: str, generated_text: str, label: int
) -> dict[str, Any]:
    """Returns an example of the schema.

    Args:
      corpus: its name.
      number: what makes the id, `<corpus>-<number>`.
      source_id: shared by the rows that stem from one document or dialogue.
      grounding: what the text may say.
      generated_text: the text to judge.
      label: 1 = consistent.
    """
    return {
        "id": f"{corpus}-{number}",
        "corpus": corpus,
        "source_id": source_id,
        "grounding": grounding,
        "generated_text": generated_text,
        "label": int(label),
    }


def all_pass(votes: Iterable[Iterable[bool]]) -> int:
    """Returns 1 where in each group of votes the rounded mean is 1, as TRUE has it.

    A tie rounds to the even number, so half of two votes is 0.
    """
    for group in votes:
        counted = [int(vote) for vote in group]
        if not counted or round(sum(counted) / len(counted)) == 0:
            return 0
    return 1


def corpus(
    name: str, files: Iterable[RawFile], read: Reader, description: str, licence: str, by_hand: str
) -> RawDataset:
    """Returns a corpus; a file `true_<name>.csv` in TRUE's own form is read instead if at hand."""
    instead = RawFile(f"true_{name}.csv")
    named = files_by_name(*files)

    def read_either(
        paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
    ) -> Iterator[dict[str, Any]]:
        if instead.name in paths:
            return _read_csv(paths[instead.name], name, bad_rows)
        return read(paths, split, bad_rows)

    return RawDataset(
        name="true_benchmark",
        splits={SPLIT: tuple(named)},
        files=named | {instead.name: instead},
        features=FEATURES,
        read=read_either,
        description=f"{description} Label 1 = consistent, as TRUE derives it.",
        homepage=HOMEPAGE,
        licence=licence,
        citation=_CITATION,
        by_hand=f"{by_hand} Or put TRUE's own CSV file there as {instead.name}.",
        instead=instead.name,
    )


def _read_csv(path: pathlib.Path, name: str, bad_rows: BadRows) -> Iterator[dict[str, Any]]:
    """Reads TRUE's own form: the columns grounding, generated_text and label, in its order."""

    def example(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
        # An unnamed first column is TRUE's row number.
        number = fields.get("") or place.rpartition(":")[2]
        grounding = text_field(fields, "grounding", place)
        return row(
            name,
            number,
            fields.get("id") or str(number),
            grounding,
            text_field(fields, "generated_text", place),
            int(choice_field(fields, "label", place, ("0", "1"))),
        )

    columns = ("grounding", "generated_text", "label")
    return parsed(read_csv(path, columns, bad_rows), example, bad_rows)
