import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.datasets.augmentation.tagging import Entity, TaggedText, TaggedToken, load_tagger
from faith_jax.papers.faithdial.knowledge_perturbation import (
    collect_entities,
    collect_verbs,
    substitute_entities,
    substitute_verbs,
)

RULES = load_tagger("rules")
KNOWLEDGE = [
    "The club met in Oslo in 1931 and built 20 boats.",
    "Later the club moved to Bergen, where it sold them in 1950.",
    "In Oslo, OSLO and Turku they painted seven of the boats.",
]
TAGGED = RULES.tag(KNOWLEDGE)


def entity_text(*parts):
    """A text of (word, type) pairs; words without a type are no entities."""
    text, entities = "", []
    for word, kind in parts:
        if kind:
            entities.append(Entity(word, len(text), len(text) + len(word), kind))
        text += f"{word} "
    return TaggedText(text, (), tuple(entities))


def verb_text(*parts):
    """A text of (word, Penn tag, lemma); words without a tag are no verbs."""
    text, tokens = "", []
    for word, tag, lemma in parts:
        part = "VERB" if tag else "NOUN"
        tokens.append(TaggedToken(word, len(text), len(text) + len(word), part, tag, lemma))
        text += f"{word} "
    return TaggedText(text, tuple(tokens), ())


def test_entities_are_collected_by_type_once_in_order():
    assert collect_entities(TAGGED) == {
        "MISC": ("Oslo", "Bergen", "Turku"),
        "DATE": ("1931", "1950"),
        "CARDINAL": ("20", "seven"),
    }


def test_verbs_are_collected_by_form():
    verbs = collect_verbs(TAGGED)
    assert verbs == {"VBD": ("met", "built", "moved", "sold", "painted")}
    auxiliaries = verb_text(("has", "VBZ", "have"), ("is", "VBZ", "be"), ("Runs", "VBZ", "run"))
    assert collect_verbs([auxiliaries]) == {"VBZ": ("runs",)}
    # A verb in a name is part of the name.
    (tagged,) = RULES.tag(["They sold Sun Records."])
    assert collect_verbs([tagged]) == {"VBD": ("sold",)}


def test_with_one_other_of_each_type_there_is_one_outcome():
    text = entity_text(("Oslo", "GPE"), ("has", ""), ("20", "CARDINAL"), ("boats", ""))
    substitutes = {"GPE": ("Oslo", "Turku"), "CARDINAL": ("20", "7"), "DATE": ("1931",)}
    perturbed = substitute_entities(text, substitutes, "id")
    assert perturbed.text == "Turku has 7 boats "
    assert [(r.old, r.new) for r in perturbed.replacements] == [("Oslo", "Turku"), ("20", "7")]


def test_the_same_entity_gets_the_same_substitute():
    text = entity_text(("Oslo", "GPE"), ("and", ""), ("oslo", "GPE"), ("Bonn", "GPE"))
    substitutes = {"GPE": tuple("ABCDEFGHIJ")}
    seen = set()
    for seed in range(30):
        first, _, second, third = substitute_entities(text, substitutes, "id", seed).text.split()
        assert first == second
        seen.add(first == third)
    assert seen == {False, True}  # draws of different entities have nothing to do with each other


def test_an_entity_without_another_of_its_type_stays():
    text = entity_text(("Oslo", "GPE"), ("1931", "DATE"))
    perturbed = substitute_entities(text, {"GPE": ("OSLO",), "DATE": ("1950",)}, "id")
    assert perturbed.text == "Oslo 1950 "
    assert substitute_entities(text, {"GPE": ("OSLO",)}, "id") is None
    assert substitute_entities(text, {}, "id") is None


def test_verbs_keep_their_form_and_a_capital():
    text = verb_text(("Built", "VBD", "build"), ("was", "VBD", "be"), ("runs", "VBZ", "run"))
    substitutes = {"VBD": ("built", "sold"), "VBZ": ("runs", "swims")}
    perturbed = substitute_verbs(text, substitutes, "id")
    assert perturbed.text == "Sold was swims "
    assert substitute_verbs(text, {"VBD": ("built",)}, "id") is None


@pytest.mark.parametrize("perturb", [substitute_entities, substitute_verbs])
def test_draws_depend_on_id_seed_and_number_alone(perturb):
    substitutes = collect_entities(TAGGED) | collect_verbs(TAGGED)
    first = perturb(TAGGED[0], substitutes, "id", 1, 2)
    assert perturb(TAGGED[0], substitutes, "id", 1, 2) == first
    draw_keys = [("other", 1, 2), *(("id", seed, 2) for seed in range(2, 9))]
    draw_keys += [("id", 1, number) for number in range(3, 9)]
    assert any(perturb(TAGGED[0], substitutes, *draw_key) != first for draw_key in draw_keys)


def test_every_substitute_is_equally_likely():
    text = entity_text(("Oslo", "GPE"))
    substitutes = {"GPE": ("Oslo", "A", "B", "C")}
    counts = collections.Counter(
        substitute_entities(text, substitutes, "id", seed).text.strip() for seed in range(600)
    )
    assert set(counts) == set("ABC")
    assert all(abs(count - 200) < 4 * (600 * 2 / 9) ** 0.5 for count in counts.values())


WORD = st.sampled_from(["Oslo", "oslo", "Turku", "1931", "boat", "an", "x"])
KIND = st.sampled_from(["GPE", "DATE", ""])


@given(st.lists(st.tuples(WORD, KIND), max_size=6), st.integers(0, 5))
def test_types_and_the_rest_of_the_text_are_kept(parts, seed):
    text = entity_text(*parts)
    substitutes = {"GPE": ("Oslo", "Bonn"), "DATE": ("1950", "1931", "1900")}
    perturbed = substitute_entities(text, substitutes, "id", seed)
    words = perturbed.text.split() if perturbed else text.text.split()
    assert len(words) == len(parts)
    for word, (old, kind) in zip(words, parts, strict=True):
        if kind:
            assert word in substitutes[kind]
            assert word.casefold() != old.casefold()
        else:
            assert word == old or old == "an"  # an article agrees with what follows
