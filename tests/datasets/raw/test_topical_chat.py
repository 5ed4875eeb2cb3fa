import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw.topical_chat import PERSONAL, TOPICAL_CHAT, TOPICAL_CHAT_POST_BUILD
from tests.datasets.raw import files
from tests.paths import REAL, needs_shared

WIKI = {"shortened_wiki_lead_section": {"A violin sings. ": 7}, "summarized_wiki_lead_section": {}}
LEAD = "shortened_wiki_lead_section"
BEFORE = {"entity": "Violin", LEAD: 7, "fun_facts": ["t3_a1", "t3_b2"]}
AFTER = {"entity": "Violin", LEAD: "A violin sings.", "fun_facts": ["It has four strings."]}
ARTICLE = {"url": "u", "AS1": "A concert.", "AS2": ""}


def turn(message, *sources, agent="agent_1"):
    fields = {"message": message, "agent": agent, "knowledge_source": sources}
    return fields | {"sentiment": "Happy", "turn_rating": "Good"}


def reading_set(facts, article=ARTICLE):
    return {"config": "A", "agent_1": {"FS1": facts}, "agent_2": {}, "article": article}


def read(tmp_path, *turns, facts=AFTER, dataset=TOPICAL_CHAT_POST_BUILD, bad_rows=None, **reading):
    conversation = {"config": "A", "content": list(turns)}
    reading = reading or {"t_1": reading_set(facts), "t_2": reading_set(facts)}
    contents = [{"t_1": conversation, "t_2": conversation}, reading]
    contents += [WIKI] if dataset is TOPICAL_CHAT else []
    return files.read(dataset, "train", tmp_path, *contents, bad_rows=bad_rows)


def test_fields_of_a_turn(tmp_path):
    rows = read(tmp_path, turn(" Hi. ", "FS1"), turn("Oh?", "Personal Knowledge", agent="agent_2"))
    assert rows[0] == {
        "id": "t_1-0",
        "dialogue": "t_1",
        "turn": 0,
        "config": "A",
        "history": [],
        "agent": "agent_1",
        "knowledge": "A violin sings. It has four strings.",
        "knowledge_sources": ["FS1"],
        "incomplete_sources": [],
        "sentiment": "Happy",
        "turn_rating": "Good",
        "response": "Hi.",
    }
    assert rows[0].keys() == TOPICAL_CHAT.features.keys()
    assert (rows[1]["history"], rows[1]["knowledge"]) == (["Hi."], "")
    assert [row["id"] for row in rows] == ["t_1-0", "t_1-1", "t_2-0", "t_2-1"]


def test_before_the_build_there_are_wikipedias_sections_alone(tmp_path):
    row, _ = read(tmp_path, turn("Hi.", "FS1", "AS1"), facts=BEFORE, dataset=TOPICAL_CHAT)
    assert row["knowledge"] == "A violin sings. A concert."
    assert row["incomplete_sources"] == ["FS1"]


def test_sources_without_a_text_are_incomplete(tmp_path):
    row, _ = read(tmp_path, turn("Hi.", "AS1", "AS2", "FS3", "AS1"))
    assert row["knowledge"] == "A concert."
    assert row["incomplete_sources"] == ["AS2", "FS3"]


def test_reading_sets_may_stand_in_another_order(tmp_path):
    reading = {"t_2": reading_set(AFTER | {"fun_facts": ["Two."]}), "t_1": reading_set(AFTER)}
    rows = read(tmp_path, turn("Hi.", "FS1"), **reading)
    assert [row["knowledge"].split(". ")[1] for row in rows] == ["It has four strings.", "Two."]


def test_conversations_without_a_reading_set(tmp_path):
    reading = {"t_2": reading_set(AFTER)}
    with pytest.raises(InputError, match=r't_1"\]: .*train\.json has no reading set of it'):
        read(tmp_path, turn("Hi."), **reading)
    bad_rows = BadRows(skip=True)
    rows = read(tmp_path, turn("Hi."), bad_rows=bad_rows, **reading)
    assert ([row["id"] for row in rows], bad_rows.count) == (["t_2-0"], 1)


def test_reading_sets_that_nothing_needs_are_whole_too(tmp_path):
    reading = {name: reading_set(AFTER) for name in ("t_1", "t_2", "t_3")}
    assert len(read(tmp_path, turn("Hi."), **reading)) == 2
    with pytest.raises(
        InputError, match=r'train\.json: \["t_3"\]: expected a JSON object, got "x"'
    ):
        read(tmp_path, turn("Hi."), **reading | {"t_3": "x"})


def test_an_id_that_wiki_json_lacks(tmp_path):
    facts = BEFORE | {LEAD: 8}
    with pytest.raises(InputError, match=r"agent_1\.FS1: field 'shortened_wiki_lead_section'"):
        read(tmp_path, turn("Hi.", "FS1"), facts=facts, dataset=TOPICAL_CHAT)


def test_a_text_without_punctuation_at_its_end_gets_a_full_stop(tmp_path):
    facts = AFTER | {"fun_facts": ["it has four strings", "Some are red!", "so (they say)"]}
    row, _ = read(tmp_path, turn("Hi.", "FS1", "AS1"), facts=facts)
    assert row["knowledge"] == (
        "A violin sings. it has four strings. Some are red! so (they say) A concert."
    )


@needs_shared
def test_the_real_sample():
    folder = REAL / "topical_chat"
    names = ("valid_rare_20.json", "reading_sets_valid_rare_20.json", "wiki.json")
    files = TOPICAL_CHAT.splits["validation_rare"]
    paths = {file: folder / name for file, name in zip(files, names, strict=True)}
    rows = list(TOPICAL_CHAT.examples(paths, "validation_rare", BadRows()))
    assert (len(rows), len({row["dialogue"] for row in rows})) == (435, 20)
    assert sum(bool(row["knowledge"]) for row in rows) == 346
    # What Nandwani 2023 keeps: a text is ticked, personal knowledge is not, nor is it an opening.
    kept = [r for r in rows if r["knowledge_sources"] and PERSONAL not in r["knowledge_sources"]]
    assert len(kept) == 312
    assert sum(bool(row["history"]) for row in kept) == 301
