import pytest

from faith_jax.datasets.augmentation.tagging import Entity, TaggedText, TaggedToken, load_tagger
from faith_jax.papers.dialfact.antonyms import load_antonyms
from faith_jax.papers.dialfact.claim_mutation import (
    Mutation,
    content_spans,
    fill_masks,
    mask_spans,
    negate,
    similar,
    stated_spans,
    substitute_adjective,
    substitute_entity,
    substitute_sense,
    without,
)
from faith_jax.papers.dialfact.senses import load_senses

RULES = load_tagger("rules")
LISTED = load_antonyms("list")
EVIDENCE = ("The club met in Oslo in 1931.",)


def tag(text):
    return RULES.tag([text])[0]


def with_entities(text, **types):
    """A tagged text in which the given words are entities of the given types."""
    entities = [
        Entity(word, text.index(word), text.index(word) + len(word), kind)
        for word, kind in types.items()
    ]
    return TaggedText(text, (), tuple(sorted(entities, key=lambda entity: entity.start)))


def test_negations_are_refuted():
    negated = list(negate("Oslo is a town."))
    assert negated[0] == Mutation("negation", "Oslo is not a town.", "is_a_not")
    assert list(negate("What a town!")) == []


def test_an_entity_of_the_evidence_is_replaced_within_its_type():
    claim = with_entities("It met in Oslo, said Ann.", Oslo="GPE", Ann="PERSON")
    sources = [with_entities("Bob left Turku for Oslo.", Bob="PERSON", Turku="GPE", Oslo="GPE")]
    for seed in range(10):  # Ann does not stand in the evidence, so Oslo it is
        assert substitute_entity(claim, EVIDENCE, sources, "id", seed) == Mutation(
            "entity", "It met in Turku, said Ann.", "Oslo → Turku"
        )


@pytest.mark.parametrize(
    ("claim", "sources"),
    [
        (with_entities("It met in Turku.", Turku="GPE"), [with_entities("Bonn", Bonn="GPE")]),
        (with_entities("It met in Oslo.", Oslo="GPE"), [with_entities("Ann", Ann="PERSON")]),
        (with_entities("It met in Oslo.", Oslo="GPE"), []),
        # Oslo stands in the evidence, "Osl" only inside it.
        (with_entities("It met in Osl.", Osl="GPE"), [with_entities("Bonn", Bonn="GPE")]),
    ],
)
def test_where_no_entity_can_be_replaced(claim, sources):
    assert substitute_entity(claim, EVIDENCE, sources, "id") is None


def test_a_part_of_an_entity_is_no_substitute_for_it():
    evidence = ("It opened in May 1931.",)
    claim = TaggedText("It opened in May 1931.", (), (Entity("May 1931", 13, 21, "DATE"),))
    sources = [with_entities("in 1931", **{"1931": "DATE"})]
    assert substitute_entity(claim, evidence, sources, "i") is None


def test_entities_that_the_rules_find():
    mutation = substitute_entity(
        tag("They met in Oslo in 1931."), EVIDENCE, RULES.tag(["Then 1950 came."]), "id"
    )
    assert mutation.claim == "They met in Oslo in 1950."


def test_adjectives_get_antonyms():
    substituted = substitute_adjective(tag("The largest boat was late."), LISTED, "id", 0)
    expected = {
        "The smallest boat was late.": "largest → smallest",
        "The largest boat was early.": "late → early",
    }
    assert expected[substituted.claim] == substituted.detail
    assert substituted.kind == "antonym"
    claims = {
        substitute_adjective(tag("The largest boat was late."), LISTED, "id", seed).claim
        for seed in range(20)
    }
    assert claims == set(expected)


def test_a_capital_stays_and_articles_agree():
    assert substitute_adjective(tag("Old boats sink."), LISTED, "i").claim == "New boats sink."
    changed = substitute_adjective(tag("It is a late boat."), LISTED, "i").claim
    assert changed == "It is an early boat."


@pytest.mark.parametrize("claim", ["The boat was blue.", "They sail.", ""])
def test_claims_without_an_antonym(claim):
    assert substitute_adjective(tag(claim), LISTED, "id") is None


def test_feelings_are_left_alone():
    def substitute(word, antonym):
        token = TaggedToken(word, 0, len(word), "ADJ", "JJ", word.lower())
        claim = TaggedText(f"{word} boats", (token,), ())
        return substitute_adjective(claim, lambda _: (antonym,), "id")

    assert substitute("Happy", "sad") is None
    assert substitute("Huge", "tiny").claim == "Tiny boats"


def test_masks_are_filled_in_their_order():
    claim = tag("The largest club met in Oslo in 1931.")
    text = mask_spans(claim.text, stated_spans(claim, EVIDENCE))
    assert text == "The largest club <extra_id_0> in <extra_id_1> in <extra_id_2>."
    answer = "<extra_id_0> sang <extra_id_1> Turku <extra_id_2> 1950 <extra_id_3>"
    assert fill_masks(text, answer) == "The largest club sang in Turku in 1950."
    assert stated_spans(tag("It was blue."), EVIDENCE) == []


@pytest.mark.parametrize("answer", ["", "sang", "<extra_id_0> sang", "<extra_id_1> a <extra_id_0>"])
def test_answers_that_lack_a_mask(answer):
    assert fill_masks("It <extra_id_0> in <extra_id_1>.", answer) is None


def test_a_whole_claim_has_most_of_the_other_words():
    text = "The <extra_id_0> met in <extra_id_1> twice."
    whole = "The old club met in Turku twice."
    assert fill_masks(text, f" {whole} ") == whole
    assert fill_masks(text, "The old club sang in Turku.") is None  # 2 of 4
    assert fill_masks("<extra_id_0>", "The old club.") is None


def test_content_is_entities_and_words_that_say_something():
    claim = tag("It was the best club in Oslo, in 1931!")
    content = [claim.text[start:end] for start, end in content_spans(claim)]
    assert content == ["best", "club", "Oslo", "1931"]
    assert without(claim.text, content_spans(claim)[:3]) == "It was the in , in 1931!"


def test_a_similar_sense_replaces_what_the_evidence_states():
    claim, senses = tag("A dog ran to Oslo."), load_senses("list")
    claims = {
        substitute_sense(claim, ["The dog ran to Rome."], senses, "id", seed).claim
        for seed in range(30)
    }
    # The evidence does not state Oslo, and no replacement occurs in the claim or the evidence.
    animals = ("cat", "cow", "donkey", "goat", "horse", "pig", "rabbit", "sheep")
    assert claims == {f"A {animal} ran to Oslo." for animal in animals}
    stated = substitute_sense(claim, ["They ran to Oslo."], senses, "id")
    assert (stated.kind, stated.detail[:6]) == ("sense", "Oslo →")
    assert stated.claim != claim.text
    assert substitute_sense(tag("It ran."), ["It ran."], senses, "id") is None
    assert similar(claim, senses)[0] == "cat"
    assert "Athens" in similar(claim, senses)
