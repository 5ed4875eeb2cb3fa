"""Inputs that are far too long: every scorer keeps the last turn and the whole response."""

import itertools
import json
import re

import numpy as np
import pytest

from faith_jax.core import templates
from faith_jax.core.cutting import Kind, Part, by_name
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.templates import PUBLISHED
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference.texts.text_pairs import CRITIC_FORM, NLI_FORM, PairEncoder
from faith_jax.inference.texts.text_reader import TextReader
from faith_jax.scoring.pmi_faith import Prompter, PromptFormat
from faith_jax.scoring.registry import load_scorer
from tests.paths import REAL, needs_shared
from tests.scoring import tiny_models

LENGTH = 384
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DOCUMENT = " ".join(
    f"House {street} {house} of the old harbour was built of grey stone, and was sold again."
    for street, house in itertools.product(WORDS[:4], WORDS)
)
TURNS = tuple(f"On day {day} I walked by the harbour and saw the boats go out." for day in WORDS)
EXAMPLE = GroundedExample(
    "h1", Grounding((DOCUMENT,)), (*TURNS, "What is house two five of?"), "It is of grey stone."
)
NAMES = ("contradiction", "neutral", "entailment")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write = tiny_models.write_model
    return {
        "gpt2": write(folder / "gpt2", "gpt2", max_positions=1024),
        "bart": write(folder / "bart", "bart", max_positions=1024),
        "nli": write(folder / "nli", "deberta_nli", label_names=NAMES),
        "critic": write(folder / "critic", "roberta", max_positions=514, label_names=("no", "yes")),
    }


def real_example():
    """A conversation, grounded in all knowledge about the film with the most knowledge."""
    with open(REAL / "cmu_dog" / "conversations_valid_40.jsonl", encoding="utf-8") as file:
        row = json.loads(next(file))
    films = json.loads((REAL / "cmu_dog" / "wikidata.json").read_text("utf-8"))
    film = max(films.values(), key=lambda film: len(str(film)))
    texts = [templates.one_space(str(film[name])) for name in sorted(film)]
    turns = [templates.clean_tagged(templates.clean_value(t["text"])) for t in row["history"]]
    turns = [turn for turn in turns if turn]
    return GroundedExample("film", Grounding(tuple(texts)), tuple(turns[:-1]), turns[-1])


def with_sides(example):
    half = len(example.grounding.texts[0]) // 2
    text = " ".join(example.grounding.texts)
    grounding = Grounding((text[:half], text[half:]), ("pro", "con"))
    return GroundedExample(example.id, grounding, example.history, example.response)


def examples(real):
    return real_example() if real else EXAMPLE


REALS = [False, pytest.param(True, marks=needs_shared)]
READING_HISTORY = [
    ("pmi_faith_sum", "gpt2", {}, False),
    ("pmi_faith_sum", "bart", {}, False),
    ("pmi_faith_sum", "bart", {"document_prompt": "D: {document}\n", "turn_prompt": "{turn}|"}, 0),
    ("npov_hallucination", "gpt2", {}, True),
    ("npov_coverage", "bart", {}, True),
    ("salience_hallucination", "gpt2", {}, False),
    ("salience_coverage", "bart", {}, True),
]
READING_PAIRS = [
    ("nli_e_minus_c", "nli", {}, False),
    ("nli_e_minus_c", "bart", {}, False),
    ("faith_critic", "critic", {}, False),
    ("faith_critic", "bart", {}, False),
    ("bertscore", "critic", {"layer": 1}, False),
]


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize(("name", "model", "options", "sides"), [*READING_HISTORY, *READING_PAIRS])
def test_the_last_turn_and_the_whole_response_stay(models, name, model, options, sides, real):
    example = with_sides(examples(real)) if sides else examples(real)
    scorer = load_scorer(name, model=models[model], max_length=LENGTH, **options)
    seen = scorer.seen(example)
    read = " ".join(seen.texts.values())
    assert example.response in read
    if (name, model, options, sides) in READING_HISTORY:
        assert example.history[-1] in read
    assert set(seen.cut) <= {Kind.KNOWLEDGE, Kind.HISTORY}
    assert 0 < seen.cut[Kind.KNOWLEDGE] <= seen.cut.knowledge
    assert not seen.cut.last_turn
    if not real and (name, model) in (("pmi_faith_sum", "gpt2"), ("nli_e_minus_c", "nli")):
        score = scorer.score([example])[0]
        assert score.cut == by_name(seen.cut)
        assert score.cut_tokens == sum(seen.cut.values())
        assert np.isfinite(score.value)


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("length", [256, 640])
@pytest.mark.parametrize(("model", "form"), [("gpt2", True), ("bart", False), ("bart", True)])
def test_both_branches_of_pmi_have_the_same_history_and_response(models, model, form, length, real):
    example = examples(real)
    prompts = {"turn_prompt": "{turn}.\n"} if form else {}
    scorer = load_scorer("pmi_faith_sum", model=models[model], max_length=length, **prompts)
    prompter = scorer._prompter
    tokens, branches = prompter.reader.tokenizer, prompter(example)
    with_document, without = branches.with_document, branches.without_document
    assert with_document.targets == without.targets
    assert with_document.targets == tokens.encode(
        f"Agent: {example.response}." if form else example.response
    )
    total = len(with_document.inputs) + (len(with_document.targets) if model == "gpt2" else 0)
    assert total <= length
    # What the branch without the document reads is the end of what the other reads.
    shared_ids = without.inputs[len(tokens.prefix_ids) :]
    assert list(shared_ids) == list(
        with_document.inputs[len(with_document.inputs) - len(shared_ids) :]
    )
    turns = example.history if form else example.history[-3:]
    texts = [
        "".join(f"{turn}.\n" for turn in turns[first:])
        if form
        else templates.dialogue_inputs("", turns[first:])
        for first in range(len(turns))
    ]
    assert tokens.decode(shared_ids).removesuffix("</s>") in texts


def test_the_oldest_turns_go_whole_and_only_where_they_do_not_fit(models):
    tokens = load_scorer("pmi_faith_sum", model=models["gpt2"])._prompter.reader.tokenizer
    short = GroundedExample(
        "s", Grounding(("It is of grey stone, as all are.",)), EXAMPLE.history, EXAMPLE.response
    )
    form = PromptFormat()
    history, _ = form.history_text(EXAMPLE.history)
    ends = list(itertools.accumulate(len(tokens.encode(f"{turn}.\n")) for turn in EXAMPLE.history))
    assert ends[-1] == len(tokens.encode(history))
    behind = len(tokens.encode(f"Agent: {EXAMPLE.response}."))
    marks = len(tokens.encode("Document:")) + len(tokens.encode("\n\n"))
    for dropped in (0, 1, 5):
        rest = ends[-1] - (ends[dropped - 1] if dropped else 0)
        limit = marks + rest + behind + 2
        prompt = Prompter(TextReader(tokens, 10**6, limit, True))(short)
        assert len(prompt.without_document.inputs) + len(prompt.without_document.targets) == (
            rest + behind
        )
        assert prompt.cut == {
            Kind.KNOWLEDGE: len(tokens.encode(" It is of grey stone, as all are.")) - 2,
            **({Kind.HISTORY: ends[dropped - 1]} if dropped else {}),
        }
        assert len(prompt.with_document.inputs) + len(prompt.with_document.targets) == limit


def test_pro_and_con_lose_their_ends_evenly(models):
    pro, con = "Tea is calming and cheap. " * 60, "Tea keeps people awake at night. " * 60
    example = GroundedExample("n", Grounding((pro, con), ("pro", "con")), ("Is tea good?",), "Yes.")
    for model in ("gpt2", "bart"):
        scorer = load_scorer("npov_coverage", model=models[model], max_length=300)
        (read,) = scorer.seen(example).texts.values()
        assert "{query: Is tea good?} {response: Yes.} {pro: Tea is calming" in read
        sides = read.partition("{pro: ")[2].partition("} {con: ")
        lengths = [
            len(scorer._reader.tokenizer.encode(f" {side.strip(' }')}")) for side in sides[::2]
        ]
        assert abs(lengths[0] - lengths[1]) <= 3
        assert min(lengths) > 80


def test_no_room_for_the_last_turn_names_the_row_and_the_option(models):
    long = GroundedExample("x7", Grounding(("Tea.",)), ("Why? " * 200,), "So.")
    for name in ("pmi_faith_sum", "salience_hallucination"):
        for model in ("gpt2", "bart"):
            scorer = load_scorer(name, model=models[model], max_length=64)
            with pytest.raises(InputError) as error:
                scorer.score([long])
            assert str(error.value).startswith(
                "example 'x7': max_length = 64: without its knowledge"
            )
            assert "no room for the last turn of the history" in str(error.value)
            assert "'end'" not in str(error.value)
            least = 64 + int(re.search(r"the limit by at least (\d+)\.$", str(error.value))[1])
            load_scorer(name, model=models[model], max_length=least).seen(long)
            with pytest.raises(InputError, match="no room"):
                load_scorer(name, model=models[model], max_length=least - 1).seen(long)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("pmi_faith_sum", "gpt2"),
        ("nli_entailment", "nli"),
        ("nli_entailment", "bart"),
        ("npov_coverage", "bart"),
        ("salience_coverage", "bart"),
        ("bertscore", "critic"),
        ("q2_f1_no_fallback", "bart"),
    ],
)
def test_policies_are_checked_and_error_refuses(models, name, model):
    options = {"model": models[model]}
    options |= {"layer": 1} if name == "bertscore" else {}
    options |= {"tagger": "rules", "max_question_length": 8} if name == "q2_f1_no_fallback" else {}
    with pytest.raises(ConfigError, match=r"cut_policy = 'knowlege': .* Did you mean 'knowledge'"):
        load_scorer(name, cut_policy="knowlege", **options)
    example = with_sides(EXAMPLE) if name == "npov_coverage" else EXAMPLE
    scorer = load_scorer(name, cut_policy="error", max_length=64, **options)
    with pytest.raises(InputError, match=r"example 'h1': max_length.* the cut policy is 'error'"):
        scorer.seen(example)


def test_the_policy_end_may_leave_nothing_of_the_response(models):
    scorer = load_scorer("pmi_faith_sum", model=models["gpt2"], max_length=64, cut_policy="end")
    with pytest.raises(InputError, match="'end' leaves nothing of the response to score"):
        scorer.score([EXAMPLE])
    scorer = load_scorer("pmi_faith_sum", model=models["bart"], max_length=64, cut_policy="end")
    with pytest.raises(InputError, match="'end' leaves an empty second branch of PMI"):
        scorer.seen(EXAMPLE)
    short = GroundedExample("s", Grounding(("Stone.",)), EXAMPLE.history, EXAMPLE.response)
    seen = scorer.seen(short)
    assert "<seeker>" in seen.texts["without"]
    assert seen.cut.last_turn
    assert set(seen.cut) == {Kind.HISTORY}


def test_a_form_without_parts_cannot_be_cut(models):
    tokens = load_scorer("pmi_faith_sum", model=models["bart"])._prompter.reader.tokenizer
    encode = PairEncoder(tokens, 10**6, 64, form="{} / {}".format)
    assert encode("Tea.", "A leaf.").cut == {}
    with pytest.raises(InputError, match=r"example 'a': .* a text without knowledge or history"):
        encode(DOCUMENT, "A leaf.", "example 'a'")
    for form in (NLI_FORM, CRITIC_FORM):
        row = PairEncoder(tokens, 10**6, 64, form=form.inputs)(DOCUMENT, "A leaf.")
        assert set(row.cut) == {Kind.KNOWLEDGE}
        assert len(row.ids) == 64
        assert "A leaf." in tokens.decode(row.ids)


def test_company_and_batches_change_nothing(models):
    company = [
        GroundedExample("s", Grounding(("It freezes.",)), ("Does it?",), "It freezes."),
        EXAMPLE,
        GroundedExample("t", Grounding((DOCUMENT[:300],)), TURNS[:2], "Stone."),
    ]
    scorer = load_scorer("pmi_faith_sum", model=models["gpt2"], max_length=LENGTH)
    together = scorer.score(company)
    alone = [scorer.score([example])[0] for example in company]
    np.testing.assert_allclose([s.value for s in together], [s.value for s in alone], atol=2e-4)
    assert [s.cut for s in together] == [s.cut for s in alone]


class Tokens:
    """A token for each character, and special tokens around a text."""

    prefix_ids, suffix_ids, notation = (90,), (91,), PUBLISHED

    def text_ids_with_offsets(self, text):
        return self.encode_with_offsets(text)

    def encode_with_offsets(self, text):
        return [ord(c) % 90 for c in text], [(i, i + 1) for i in range(len(text))]


def test_by_hand():
    inputs = ("kKKKabo", [
        Part(Kind.KNOWLEDGE, 0, 1, 4, 4), Part(Kind.HISTORY, 4, 4, 5, 5),
        Part(Kind.HISTORY, 5, 5, 6, 6),
    ])  # fmt: skip
    response = ("rs", [Part(Kind.RESPONSE, 0, 0, 2, 2)])
    k, a, b, o, r, s = (ord(c) % 90 for c in "kabors")
    causal = TextReader(Tokens(), 100, 7, True).read_response([inputs], response, "a")
    assert causal.inputs == [90, k, a, b, o]
    assert causal.without_knowledge == [90, a, b, o]
    assert causal.response == [r, s]
    assert causal.cut == {Kind.KNOWLEDGE: 3}
    both = TextReader(Tokens(), 100, 5, False).read_response([inputs], response, "a")
    assert both.inputs == [90, k, b, o, 91]
    assert both.without_knowledge == [90, b, o, 91]
    assert both.cut == {Kind.KNOWLEDGE: 3, Kind.HISTORY: 1}
    assert both.input_places == [1, *[None] * 4, 2, 3]
    assert both.response_places == [0, 1]
