"""TRUE's dialogue corpora: BEGIN (its first release), Q2 and DialFact."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from faith_jax.core.fields import choice_field, text_field
from faith_jax.core.labels import DialFactType
from faith_jax.core.rows import BadRows, parsed
from faith_jax.datasets.delimited import read_csv
from faith_jax.datasets.raw import begin, dialfact
from faith_jax.datasets.raw.true.schema import corpus, row
from faith_jax.datasets.raw_dataset import RawFile

_Q2_URL = (
    "https://raw.githubusercontent.com/orhonovich/q-squared/"
    "cab6027dc9a50cf73d80caf0858da05c2323c433/third_party/data/cross_annotation.csv"
)
_Q2_FILE = RawFile(
    "cross_annotation.csv", _Q2_URL, "git-blob:969f9e1f8fd2e61c3878449d2daa04c9921854a8"
)
_Q2_MODELS = ("dodeca", "memnet")
_BEGIN_FILE = begin.BEGIN_2021.files["dev_05_24_21.tsv"]
_DIALFACT_FILE = dialfact.DIALFACT.files["valid_split.jsonl"]


def _read_begin(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    examples = begin.BEGIN_2021.examples(paths, "validation", bad_rows)
    for example in examples:
        knowledge = example["knowledge"]
        yield row(
            "begin",
            example["id"].rpartition("-")[2],
            knowledge,
            knowledge,
            example["response"],
            example["label"],
        )


def _read_q2(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    models = [f"{model}_{what}" for model in _Q2_MODELS for what in ("response", "label")]
    columns = ("episode_idx", "round", "knowledge", *models)
    for path in paths.values():
        for pair in parsed(read_csv(path, columns, bad_rows), _q2_pair, bad_rows):
            yield from pair


def _q2_pair(fields: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Returns both models' responses; in the file, label 1 = inconsistent."""
    turn = f"{fields['episode_idx']}-{fields['round']}"
    knowledge = text_field(fields, "knowledge", place)
    return [
        row(
            "q2",
            f"{turn}-{model}",
            turn,
            knowledge,
            text_field(fields, f"{model}_response", place),
            1 - int(choice_field(fields, f"{model}_label", place, ("0", "1"))),
        )
        for model in _Q2_MODELS
    ]


def _read_dialfact(
    paths: Mapping[str, pathlib.Path], split: str, bad_rows: BadRows
) -> Iterator[dict[str, Any]]:
    for path in paths.values():
        for claim in dialfact.read_claims(path, bad_rows):
            grounding = " ".join(claim["evidence"])
            if claim["type_label"] == DialFactType.FACTUAL and grounding:
                yield row(
                    "dialfact",
                    claim["id"],
                    claim["context_id"],
                    grounding,
                    claim["response"],
                    claim["label"],
                )


BEGIN = corpus(
    "begin",
    [_BEGIN_FILE],
    _read_begin,
    "Responses of GPT-2 and T5 to Wizard of Wikipedia: BEGIN's first release, its development "
    "part; consistent = entailment.",
    "CC BY 4.0",
    "Get dev_05_24_21.tsv of the first release from https://github.com/google/BEGIN-dataset.",
)
Q2 = corpus(
    "q2",
    [_Q2_FILE],
    _read_q2,
    "Responses of two models to Wizard of Wikipedia, annotated for Q2 (Honovich 2021).",
    "MIT",
    "Get third_party/data/cross_annotation.csv from https://github.com/orhonovich/q-squared.",
)
DIALFACT = corpus(
    "dialfact",
    [_DIALFACT_FILE],
    _read_dialfact,
    "DialFact's validation claims that are factual and have evidence; consistent = SUPPORTS.",
    "BSD-3-Clause",
    "Get data/valid_split.jsonl from https://github.com/salesforce/DialFact.",
)
