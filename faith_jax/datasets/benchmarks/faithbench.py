"""FaithBench (Bao 2025): summaries on which detectors disagreed, with spans and their labels.

Several annotators marked spans of a summary as unwanted, questionable or benign. The worst label of
a summary decides, as in the authors' scripts/binarize.py: one unwanted or questionable span makes
it unfaithful; a summary with only benign spans or none is faithful. Annotators who marked nothing
are not recorded, so the `best-label` of the authors' FaithBench.csv cannot be computed.
"""

import json
import pathlib
from typing import Literal

import msgspec

from faith_jax.core.errors import field_error
from faith_jax.core.rows import BadRows
from faith_jax.core.schema import Text, Whole, read_as
from faith_jax.datasets.json_items import read_array
from faith_jax.datasets.raw_dataset import Examples, each_file, load_card

# From best to worst; the last part of a label, such as ".Intrinsic", is ignored.
SEVERITIES = ("Consistent", "Benign", "Questionable", "Unwanted")
_UNFAITHFUL = SEVERITIES[2:]

_Label = Literal["Unwanted", "Unwanted.Intrinsic", "Unwanted.Extrinsic", "Questionable", "Benign"]


class _Annotation(msgspec.Struct):
    """A span of a summary, in characters from 0, that an annotator marked."""

    annotator_id: Text
    label: list[_Label]
    summary_start: Whole
    summary_end: Whole


class _Metadata(msgspec.Struct):
    """The model that wrote a summary."""

    summarizer: Text


class _Summary(msgspec.Struct):
    """A summary with its source and the spans that people marked."""

    sample_id: Whole
    source: Text
    summary: Text
    metadata: _Metadata
    annotations: list[_Annotation] = []


def _read_batch(path: pathlib.Path, bad_rows: BadRows) -> Examples:
    def make(row: _Summary, place: str) -> Examples:
        for number, annotation in enumerate(row.annotations):
            start, end = annotation.summary_start, annotation.summary_end
            if not 0 <= start <= end <= len(row.summary):
                expected = f"0 <= start <= end <= {len(row.summary)}, the length of the summary"
                field = f"annotations[{number}].summary_start and summary_end"
                raise field_error(place, field, expected, [start, end])
        kinds = ((label.partition(".")[0] for label in a.label) for a in row.annotations)
        labels = [max(names, key=SEVERITIES.index, default=SEVERITIES[0]) for names in kinds]
        worst = max(labels, key=SEVERITIES.index, default=SEVERITIES[0])
        unfaithful = [
            [annotation.summary_start, annotation.summary_end]
            for annotation, label in zip(row.annotations, labels, strict=True)
            if label in _UNFAITHFUL
        ]
        yield {
            "id": f"{path.stem}-{row.sample_id}",
            "corpus": "faithbench",
            "grounding": row.source,
            "generated_text": row.summary,
            "label": int(worst not in _UNFAITHFUL),
            "worst_label": worst,
            "annotators": [annotation.annotator_id for annotation in row.annotations],
            "annotations": labels,
            "hallucinated_spans": json.dumps(sorted(unfaithful)),
            "model": row.metadata.summarizer,
        }

    rows = read_array(path, "samples", bad_rows)
    return read_as(_Summary, rows, make, bad_rows, strip=False)


FAITHBENCH = load_card("faithbench", each_file(_read_batch))
