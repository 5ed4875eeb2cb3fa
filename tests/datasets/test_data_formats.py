"""The examples of docs/data_formats.md and npov_formats.md are read by the documented code."""

import json
import re

import pytest

from faith_jax.core.rows import BadRows
from faith_jax.datasets import npov
from faith_jax.datasets.grounded_rows import Columns, file_examples
from tests.paths import REPOSITORY
from tools.procon.pages import read_page


def blocks(page, start):
    """Returns the contents of a page's blocks whose first line matches `start`."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{start}\n(.*?)```", text, re.DOTALL)


TABLES = dict(blocks("data_formats.md", r'\w+ title="([\w.]+)"'))


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_other_programs_need_no_option(tmp_path, name):
    path = tmp_path / name
    path.write_text(TABLES[name], encoding="utf-8")
    (row,) = file_examples(path, "", Columns(), "c", BadRows())
    assert row.example.history == ("When does the mill open?",)
    assert row.example.grounding.texts[0] == "The mill opens at ten."
    assert row.example.response == "At ten."


def test_the_documents_examples_are_valid(tmp_path):
    topic, response, page = map(json.loads, blocks("npov_formats.md", "json"))
    (tmp_path / "topics.jsonl").write_text(json.dumps(topic), encoding="utf-8")
    (tmp_path / "responses.jsonl").write_text(json.dumps(response), encoding="utf-8")
    topics = npov.load_topics(tmp_path)
    (row,) = npov.generation_examples(topics, npov.load_responses(tmp_path, topics), "train")
    assert row["pro_arguments"] == ["Tea costs less than coffee."]
    assert npov.retrieve(topics, "Should offices serve tea instead of coffee?") == topics[0]
    (tmp_path / "tea.json").write_text(json.dumps(page), encoding="utf-8")
    assert read_page(tmp_path / "tea.json").pro[0].text == "Tea is easy on the stomach."
