"""The examples of docs/data_formats.md are read by the code that they document."""

import json
import re

from faith_jax.datasets import npov
from tests.paths import REPOSITORY
from tools.procon.pages import read_page


def test_the_documents_examples_are_valid(tmp_path):
    document = (REPOSITORY / "docs" / "data_formats.md").read_text(encoding="utf-8")
    topic, response, page = map(json.loads, re.findall(r"```json\n(.*?)```", document, re.DOTALL))
    (tmp_path / "topics.jsonl").write_text(json.dumps(topic), encoding="utf-8")
    (tmp_path / "responses.jsonl").write_text(json.dumps(response), encoding="utf-8")
    topics = npov.load_topics(tmp_path)
    (row,) = npov.generation_examples(topics, npov.load_responses(tmp_path, topics), "train")
    assert row["pro_arguments"] == ["Tea costs less than coffee."]
    assert npov.retrieve(topics, "Should offices serve tea instead of coffee?") == topics[0]
    (tmp_path / "tea.json").write_text(json.dumps(page), encoding="utf-8")
    assert read_page(tmp_path / "tea.json").pro[0].text == "Tea is easy on the stomach."
