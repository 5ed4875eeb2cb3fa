"""One value of a sample is spoilt: an error names its place, or the row is skipped and counted.

Each data set has a case for its own rules; tests/core/test_schema.py tests the types of fields.
"""

import functools
import json
import operator
import re

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from tests.datasets.raw.files import SAMPLES, copy_sample, json_lines

DIALOGUES = "multidoc2dial_dial_train.json"
FILM_TALK = "Conversations/test/9b4bf5cdb7381fe38284a05d44d0631cf253c095.json"
TURNS = ("dial_data", "library", 0, "turns")
TOPICAL = "t_00000000-0000-4000-8000-000000000001"
# A sample, a split and a file of it, the keys of a value, another value, and the message.
CASES = [
    ("dialfact/sample", "validation", "valid_split.jsonl", [1, "response_label"], "SUPPORTED",
     ":2: field 'response_label': .* Did you mean 'SUPPORTS'"),
    ("vitaminc/sample", "train", "train.jsonl", [0, "label"], "SUPPORTED",
     ":1: field 'label': expected one of SUPPORTS"),
    ("fever/sample", "train", "train.jsonl", [0, "evidence", 0], [1, 2],
     r":1: field 'evidence\[0\]': expected a list of 3 items"),
    ("colloquial_claims/sample", "train", "colloquial_claims_train.jsonl", [0, "evidences"],
     [{"title": "M"}], r":1: field 'evidences\[0\].evidence' is missing"),
    ("decode/sample", "train", "train.jsonl", [1, "aggregated_contradiction_indices"], [1, 99],
     r":2: field 'aggregated_contradiction_indices': expected turn_ids of turns \(0, 1"),
    ("decode/sample", "train", "train.jsonl", [1, "aggregated_contradiction_indices"], [],
     "expected turn_ids of turns"),
    ("dialogue_nli/sample", "train", "dialogue_nli_train.jsonl", [1, "label"], "entailment",
     r": \[1\]: field 'label': expected one of positive, neutral, negative"),
    ("faithdial/sample", "train", "train.json", [0, "utterances", 1, "BEGIN"], ["Halucination"],
     r": \[0\]: field 'utterances\[1\].BEGIN\[0\]': .* Did you mean 'Hallucination'"),
    ("faithdial/sample", "train", "train.json", [0, "utterances", 1, "control_tokens"],
     ["<entailed>"] * 3, r"control_tokens\[0\]': expected one of <no-first-person>"),
    ("wizard_of_wikipedia/sample", "train", "train.json", [0, "dialog", 1, "speaker"], "Seeker",
     r": \[0\]: .* expected a text that holds 'Wizard' or 'Apprentice'"),
    ("multidoc2dial/sample", "train", DIALOGUES, [*TURNS, 1, "references", 0, "doc_id"], "Card#1",
     r"turns\[1\]: field 'references\[0\].doc_id': expected the id of a"),
    ("multidoc2dial/sample", "train", DIALOGUES, [*TURNS, 1, "references", 0, "id_sp"], "99",
     "expected the id of a span of "),
    ("topical_chat/sample", "train", "conversations/train.json",
     [TOPICAL, "content", 0, "agent"], "agent_3",
     r"content\[0\].agent': expected one of agent_1, agent_2"),
    ("cmu_dog/sample", "test", FILM_TALK, ["wikiDocumentIdx"], 999,
     ": field 'wikiDocumentIdx': expected the number of a"),
    ("cmu_dog/sample", "test", FILM_TALK, ["history", 0, "docIdx"], 4,
     r"history\[0\].docIdx': expected a whole number from 0 to 3"),
    ("npov_detection/synth_sample", "train", "train_synth.jsonl", [0, "error"], "halucination",
     ":1: field 'error': expected one of .* Did you mean 'hallucination'"),
    ("true_benchmark/qags_x_sample", "test", "mturk_xsum.jsonl",
     [0, "summary_sentences", 0, "responses", 0, "response"], "maybe",
     r"summary_sentences\[0\].responses\[0\].response': expected one of yes, no"),
    ("ragtruth/sample", "train", "response.jsonl", [0, "source_id"], "4",
     r":1: field 'source_id': source_info\.jsonl has no source '4'"),
    ("ragtruth/sample", "train", "response.jsonl", [0, "labels"],
     [{"start": 8, "end": 999, "label_type": "Subtle Conflict"}],
     r":1: field 'labels\[0\].start and end': expected 0 <= start <= end <= 73, the"),
    ("faithbench/sample", "test", "batch_1.json", ["samples", 0, "annotations"],
     [{"annotator_id": "a", "label": ["Benign"], "summary_start": 5, "summary_end": 4}],
     r": samples\[0\]: field 'annotations\[0\].summary_start and summary_end': expected 0 <="),
    ("llm_aggrefact/sample", "test", "test.jsonl", [1, "label"], 2,
     ":2: field 'label': expected one of 1, 0, got 2"),
    ("llm_aggrefact/sample", "test", "test.jsonl", [1, "dataset"], "Wise",
     ":2: field 'dataset': .*\"Wise\". Did you mean 'Wice'"),
    ("llm_aggrefact/sample", "test", "test.jsonl", [1, "doc"], [],
     r":2: field 'doc': expected a text that is not empty, got \[\]"),
    ("wice/claims_sample", "test", "claim/test.jsonl", [1, "label"], "refuted",
     ":2: field 'label': expected one of supported, partially_supported, not_supported"),
    ("wice/claims_sample", "test", "claim/test.jsonl", [1, "meta"], {},
     r":2: field 'meta\.id' is missing"),
]  # fmt: skip


def spoil(path, keys, value):
    text = path.read_text(encoding="utf-8")
    is_lines = text.startswith("{") and "\n{" in text
    content = [json.loads(line) for line in text.splitlines()] if is_lines else json.loads(text)
    functools.reduce(operator.getitem, keys[:-1], content)[keys[-1]] = value
    path.write_text(json_lines(content) if is_lines else json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(("name", "split", "file", "keys", "value", "message"), CASES)
def test_a_spoilt_value(tmp_path, name, split, file, keys, value, message):
    dataset = SAMPLES[name]
    paths = copy_sample(dataset, split, tmp_path)
    whole = list(dataset.examples(paths, split))
    spoil(tmp_path / file, keys, value)
    with pytest.raises(InputError, match=f"{re.escape(file)}.*{message}"):
        list(dataset.examples(paths, split))
    bad_rows = BadRows(skip=True)
    examples = list(dataset.examples(paths, split, bad_rows))
    assert len(examples) < len(whole)
    assert all(row in whole for row in examples)
    assert bad_rows.count == 1
