"""The command `index`."""

import bz2
import os
import shutil

import pytest
import tensorflow_datasets as tfds

from faith_jax.retrieval.knowledge_base import KnowledgeBase
from faith_jax.runs.data import knowledge
from tests.retrieval.encyclopedia import titles
from tests.scoring import tiny_models

DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">
<page><title>Tea</title><ns>0</ns><revision><text>'''Tea''' is a leaf.</text></revision></page>
<page><title>Chai</title><ns>0</ns><redirect title="Tea" /></page></mediawiki>"""


def test_a_dump_becomes_a_knowledge_base(command, tmp_path):
    (tmp_path / "dump.xml.bz2").write_bytes(bz2.compress(DUMP.encode()))
    base = tmp_path / "new" / "base"
    out = command.succeeds("index", str(tmp_path / "dump.xml.bz2"), str(base))
    assert out.startswith(f"{base}: 1 article, 2 names, ")
    assert KnowledgeBase.open(base).find_by_name("chai") == [1]
    status, _, err = command("index", str(tmp_path / "dump.xml.bz2"), str(base))
    assert (status, "exists already" in err) == (2, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (DUMP[:150], "the dump ends in the middle or is damaged"),
        ("title\n", "expected a MediaWiki XML dump, or JSON lines or a table with title and text"),
    ],
)
def test_a_bad_source_is_one_line_and_leaves_nothing(command, tmp_path, content, message):
    (tmp_path / "source").write_text(content)
    status, _, err = command("index", str(tmp_path / "source"), str(tmp_path / "new" / "base"))
    assert (status, err.count("\n")) == (2, 1)
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_tfds_folder_is_read_split_by_split(tmp_path):
    features = tfds.features.FeaturesDict(
        {"title": tfds.features.Text(), "text": tfds.features.Text()}
    )
    rows = {
        "test": [{"title": "Oslo", "text": "Oslo is a city.\n\nIt is old."}],
        "train": [{"title": f"Tea {n}", "text": "Tea."} for n in range(3)],
    }
    tfds.dataset_builders.store_as_tfds_dataset(
        name="wikipedia",
        version="1.0.0",
        data_dir=tmp_path,
        features=features,
        split_datasets={name: enumerate(listed) for name, listed in rows.items()},
    )
    source = next(tmp_path.rglob("dataset_info.json")).parent
    out = knowledge.index(str(source), str(tmp_path / "base"))
    assert out[0].startswith(f"{tmp_path / 'base'}: 4 articles, 4 names")
    base = KnowledgeBase.open(tmp_path / "base")
    assert set(titles(base, range(1, 5))) == {"Oslo", "Tea 0", "Tea 1", "Tea 2"}
    assert base.article(base.find_by_name("oslo")[0]).paragraphs == (
        "Oslo is a city.",
        "It is old.",
    )


def test_the_sample_is_indexed_once(new_user_cache, monkeypatch):
    kept = new_user_cache / "encyclopedia"
    for number in range(5):
        (kept / f"old{number}").mkdir(parents=True)
        os.utime(kept / f"old{number}", (number, number))
    folder = knowledge.open_base("sample").folder
    assert {path.name for path in kept.iterdir()} == {"old3", "old4", folder.name}
    with monkeypatch.context() as patched:
        patched.setattr(knowledge.knowledge_index, "build", lambda *_: pytest.fail("indexed again"))
        knowledge._sample_base.cache_clear()
        assert knowledge.open_base("sample").folder == folder
    (folder / "articles.sqlite").write_bytes(b"cut")  # a damaged one is made anew
    for place in (None, folder):
        knowledge._sample_base.cache_clear()
        base = knowledge.open_base("sample")
        assert len(base) == 188
        assert place is None or base.folder == place
    kept.parent.joinpath("file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept.parent / "file"))  # no folder can be made there
    knowledge._sample_base.cache_clear()
    assert len(knowledge.open_base("sample")) == 188


@pytest.mark.slow
def test_evidence_in_the_sample_needs_no_index(command, new_user_cache, tmp_path):
    outputs = []
    assert command("index", "sample", tmp_path / "base")[0] == 0
    for number, base in enumerate(("sample", tmp_path / "base")):
        outputs.append(tmp_path / f"{number}.jsonl")
        command.succeeds("evidence", "sample", base, f"--output={outputs[-1]}")
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


@pytest.mark.slow
def test_vectors_of_the_sample_are_those_of_the_sample_made_anew(command, new_user_cache, tmp_path):
    model, vectors = tiny_models.write_model(tmp_path / "model", "bert"), tmp_path / "vectors"
    command.succeeds("embed", "sample", vectors, f"--model={model}")
    shutil.rmtree(new_user_cache)
    knowledge._sample_base.cache_clear()
    output = tmp_path / "evidence.jsonl"
    arguments = ("--retrievers=dense", f"--vectors={vectors}", f"--output={output}")
    command.succeeds("evidence", "sample", "sample", *arguments)
    assert len(output.read_text().splitlines()) == 104
