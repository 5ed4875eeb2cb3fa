"""Scores of judges against plain computations: a model's own logits, and NumPy."""

import json
import math
import pathlib
import re
import shutil
import zlib

import msgspec
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference import load_model
from faith_jax.scoring.judges import scorer as judges
from faith_jax.scoring.judges.card import read_card
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.scoring.judges.models import HEADS, T5
from tests.scoring.reference import padded

GROUNDINGS = [
    "Tea is a leaf. It grows in the hills.\nIt is dry and hot.",
    "The lake freezes in winter, and the children skate on it. The ice is thick.",
]
RESPONSES = ["A leaf grows in the hills. It is a lake in winter.", "The lake freezes over."]


def softmax(logits):
    exponents = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponents / exponents.sum(axis=-1, keepdims=True)


def examples(groundings=GROUNDINGS, responses=RESPONSES):
    return [
        GroundedExample(str(n), Grounding((g,)), (), r)
        for n, (g, r) in enumerate(zip(groundings, responses, strict=True))
    ]


def plain_support(name, path, ids, second):
    """The probability that a row is supported, by the rules of the judge's authors."""
    model = load_model(path)
    # HHEM sees its padding token too.
    tokens = np.array([ids]) if name == "hhem_2_1_open" else padded(ids, model.pad_id)
    if name in HEADS:
        types = (np.arange(tokens.shape[1]) >= second).astype(int)[None]
        has_types = model.config.num_token_types == 2
        logits = model.classify(tokens, types if has_types else None)[0].astype(np.float64)
        if name == "wecheck_deberta_v3":
            return [1 / (1 + np.exp(-logits[0]))]
        probabilities = softmax(logits)
        if name == "summac_zs_vitaminc":
            return [probabilities[0], probabilities[1]]
        return [probabilities[0 if name == "alignscore" else 1]]
    logits = model.logits(tokens, np.array([[0]]))[0, 0].astype(np.float64)
    tokenizer = load_vocabulary(path)
    words = {
        "minicheck_flan_t5_large": ("1", "0"),
        "true_t5_xxl": ("1", "0"),
        "trueteacher_t5_11b": ("1", "0"),
        "attrscore_flan_t5": ("Attributable", "Contradictory", "Extrapolatory"),
    }.get(name, ("Yes", "No"))
    places = [tokenizer.encode(word)[0] for word in words]
    if name.startswith("true"):
        return [softmax(logits)[places[0]]]
    return [softmax(logits[places])[0]]


# One judge for each form and kind of input; the others only differ in their texts.
LIKE_OTHERS = ("factcg_deberta_v3_large", "trueteacher_t5_11b", "scale_flan_t5", "unieval_sum")
FORMS = [name for name in (*HEADS, *T5) if name not in LIKE_OTHERS]


@pytest.mark.parametrize("name", FORMS)
def test_scores_are_what_the_sources_code_would_give(models, name):
    scorer = load_scorer(name, model=models[name])
    card = read_card(name)
    for example, score in zip(examples(), scorer.score(examples()), strict=True):
        row = scorer.read(example)
        by_sentence = []
        for part in row.rows:
            support = np.array(
                [plain_support(name, models[name], p.row.ids, p.row.second) for p in part]
            )
            best = support.max(axis=0)
            by_sentence.append(best[0] - best[1:].sum())
        assert len(by_sentence) == (1 if card.response.sentences == "whole" else len(row.sentences))
        np.testing.assert_allclose(score.value, np.mean(by_sentence), atol=2e-6)


@pytest.mark.slow
def test_a_job_has_three_shapes_for_all_its_windows(models):
    name = "minicheck_roberta_large"
    rng = np.random.default_rng(0)

    def text(most):
        words = rng.choice(["tea", "lake", "leaf", "grows."], rng.integers(1, most))
        return " ".join(words) + "."

    rows = examples([text(200) for _ in range(40)], [text(9) for _ in range(40)])
    expected = [score.value for score in load_scorer(name, model=models[name]).score(rows)]
    scorer = load_scorer(name, model=models[name], tokens_per_batch=1024)
    scorer.prepare(rows[:20], 10, len(rows))
    parts = [scorer.score(rows[start : start + 10]) for start in range(0, 40, 10)]
    scores = [score.value for part in parts for score in part]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert 1 <= scorer.judge.engine.num_compilations <= 3


def test_alignscores_pooler_and_layer_are_robertas_head(models):
    """As docs/judges.md renames them: `base_model.pooler.dense` and `tri_layer`."""
    path = models["alignscore"]
    stored = safetensors.numpy.load_file(pathlib.Path(path) / "model.safetensors")
    pooler, tri_layer = (
        (stored[f"classifier.{name}.weight"], stored[f"classifier.{name}.bias"])
        for name in ("dense", "out_proj")
    )
    scorer = load_scorer("alignscore", model=path)
    ((pair,),) = scorer.read(examples()[1]).rows
    first = load_model(path).hidden_states(np.array([pair.row.ids]))[0, 0]
    pooled = np.tanh(pooler[0] @ first + pooler[1])
    probabilities = softmax((tri_layer[0] @ pooled + tri_layer[1]).astype(np.float64))
    (score,) = scorer.score(GROUNDINGS[1:], RESPONSES[1:])
    assert score.value == pytest.approx(probabilities[0], abs=2e-6)


def test_the_right_numbers_of_sentences_are_read(models):
    name = "summac_zs_vitaminc"
    row = load_scorer(name, model=models[name]).read(examples()[0])
    sentences = ["A leaf grows in the hills.", "It is a lake in winter."]
    assert [sentence.text for sentence in row.sentences] == sentences
    chunks = ["Tea is a leaf.", "It grows in the hills.", "It is dry and hot."]
    assert [[pair.chunk.text for pair in part] for part in row.rows] == [chunks, chunks]


def with_chunks(models, name, **changes):
    """Returns the scorer of a judge with chunks that differ from its card's."""
    scorer = load_scorer(name, model=models[name])
    chunks = msgspec.structs.replace(scorer.judge.card.chunks, **changes)
    card = msgspec.structs.replace(scorer.judge.card, chunks=chunks)
    scorer.judge = judges.open_judge(card, models[name])
    return scorer


SENTENCES = [f"{subject} {verb} in {place}." for subject, verb, place in zip(
    ["Tea", "The lake", "The ice", "A leaf", "The report", "Dr. Lee"],
    ["grows", "freezes", "melts", "falls", "ends", "lives"],
    ["the hills", "winter", "spring", "autumn", "May", "town"],
    strict=True,
)]  # fmt: skip


WORDS = st.sampled_from(["tea", "leaf", "hill", "frost", "lake", "green"])
PART = st.lists(
    st.lists(WORDS, min_size=1, max_size=5).map(lambda words: f"{' '.join(words)}.".capitalize()),
    min_size=1,
    max_size=6,
)


@given(PART, PART, PART)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_unrelated_chunks_leave_support_as_it_is(judge_of_words, front, inner, behind):
    """Exactly: what a model says of a row is replaced by a function of its tokens."""
    response = "The lake freezes."
    whole = [*front, *inner, *behind]
    chunks = [
        [chunk.text for chunk in judge_of_words.judge.encode.chunks([" ".join(part)])]
        for part in (front, inner, behind, whole)
    ]
    assume(chunks[0] + chunks[1] + chunks[2] == chunks[3])  # they come at boundaries
    scores = [
        judge_of_words.score([" ".join(part)], [response])[0].value
        for part in (front, inner, behind, whole)
    ]
    assert scores[3] == max(scores[:3]) >= scores[1]


@pytest.fixture
def judge_of_words(models, monkeypatch):
    """MiniCheck's rule with short chunks, and a fixed value for each row."""
    scorer = with_chunks(models, "minicheck_flan_t5_large", length=6)

    def support(rows):
        return np.array([[zlib.crc32(repr(row.row.ids).encode()) / 2**32] for row in rows])

    monkeypatch.setattr(scorer.judge, "support", support)
    return scorer


def test_evidence_is_the_chunk_that_decided_in_its_text(models):
    judge = with_chunks(models, "minicheck_roberta_large", length=1, unit="sentences")
    texts = (" ".join(SENTENCES[:2]), " ".join(SENTENCES[2:4]), " ".join(SENTENCES[4:]))
    score = judge.score([texts], ["The ice melts."])[0]
    (passage,) = score.evidence
    assert texts[passage.text][passage.start : passage.end] == passage.word
    assert passage.word in SENTENCES
    assert passage.score == score.value
    whole = judge.score([passage.word], ["The ice melts."])[0]
    assert whole.value == pytest.approx(score.value, abs=1e-6)


def test_a_chunk_of_two_texts_is_a_passage_of_each(models):
    name = "true_t5_xxl"
    texts = ("Tea is a leaf.", "It is hot.")
    score = load_scorer(name, model=models[name]).score([texts], ["Tea is hot."])[0]
    passages = [(p.word, p.start, p.text) for p in score.evidence]
    assert passages == [("Tea is a leaf.", 0, 0), ("It is hot.", 0, 1)]


@pytest.mark.parametrize(("reading", "combine"), [("mean", np.mean), ("min", np.min)])
def test_sentences_of_a_response(models, reading, combine):
    name = "minicheck_flan_t5_large"
    scorer = load_scorer(name, model=models[name], sentences=reading)
    single = load_scorer(name, model=models[name])
    score = scorer.score([GROUNDINGS[0]], [RESPONSES[0]])[0]
    parts = ["A leaf grows in the hills.", "It is a lake in winter."]
    values = [s.value for s in single.score([GROUNDINGS[0]] * 2, parts)]
    assert score.value == pytest.approx(combine(values), abs=1e-6)
    assert [word.word for word in score.words] == " ".join(parts).split()
    assert score.words[0].score == pytest.approx(values[0], abs=1e-6)
    assert score.words[-1].score == pytest.approx(values[1], abs=1e-6)
    assert [passage.score for passage in score.evidence[::2]] == [
        score.words[0].score,
        score.words[-1].score,
    ] or len(score.evidence) == 2
    assert single.card.word_level is False
    assert scorer.card.word_level is True
    assert not single.score([GROUNDINGS[0]], [RESPONSES[0]])[0].words


def test_without_a_grounding_or_a_sentence_it_is_undefined(models):
    name = "summac_zs_vitaminc"
    scorer = load_scorer(name, model=models[name])
    for grounding, response, reason in (
        (" ", RESPONSES[0], "the grounding is empty"),
        (GROUNDINGS[0], "Tea.", "no sentence of the response has 11 characters"),
        ("Tea.", "No.", "no sentence of the grounding has 11 characters"),
        (GROUNDINGS[0], "", "the response is empty"),
    ):
        (score,) = scorer.score([grounding], [response])
        assert (math.isnan(score.value), score.undefined) == (True, reason)


def test_what_a_judge_is_shown_to_read(models):
    name = "unieval_fact"
    seen = load_scorer(name, model=models[name]).seen(examples()[1])
    text = seen.texts["input"]
    assert text.startswith("question: ")
    assert text.count("</s>") == 3
    name = "summac_zs_vitaminc"
    seen = load_scorer(name, model=models[name]).seen(examples()[0])
    assert list(seen.texts) == ["chunk 1 of 6"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("true_t5_xxl", {}, "needs a model: give model=FOLDER"),
        ("true_t5_xxl", {"model": "roberta"}, "is a model of the family roberta, but"),
        ("true_t5_xxl", {"model": "roberta"}, "Cards for roberta: alignscore, mini"),
        ("true_t5_xxl", {"model": "t5", "cut_policy": "end"}, "cut_policy: expected know"),
        ("true_t5_xxl", {"model": "t5", "max_length": 9}, "leaves no room for a response"),
        ("minicheck_roberta_large", {"model": "roberta", "max_length": 300}, "chunks of 400 leave"),
        ("true_t5_xxl", {"model": "t5", "label_words": "1,0"}, "no option 'label_words'"),
    ],
)
def test_wrong_options_are_one_error(models, name, options, message):
    folders = {"t5": models["true_t5_xxl"], "roberta": models["minicheck_roberta_large"]}
    if "model" in options:
        options = options | {"model": folders.get(options["model"], options["model"])}
    with pytest.raises((ConfigError, ValueError), match=re.escape(message)) as error:
        load_scorer(name, **options)
    assert "\n" not in str(error.value)


PAIR, TEXT = 'pair = ["{grounding}", "{response}"]', 'text = "{grounding} {response}"'


@pytest.fixture
def own_card(tmp_path):
    """Writes a card; returns its path."""

    def write(family, reads, inputs=PAIR, max_length=5000):
        (tmp_path / "mine.toml").write_text(
            f'what = "Ours."\narchitectures = ["{family}"]\nsize = "1"\ncheckpoint = "ours"\n'
            f'licence = "none"\nsource = "https://example.org"\nmax_length = {max_length}\n'
            f"[input]\n{inputs}\n[reads]\n{reads}\n"
        )
        return str(tmp_path / "mine.toml")

    return write


def test_a_class_that_the_model_lacks(models, own_card, caplog):
    model = models["minicheck_roberta_large"]
    for label in ('"label_1"', "1"):
        scorer = load_scorer(own_card("roberta", f'form = "class"\nclass = {label}'), model=model)
        assert scorer.judge.places == (1,)
        limit = scorer.judge.encode.max_length
        assert f"reads {limit} tokens at most, fewer than the card's max_length = 5" in caplog.text
    for label in ('"LABEL_7"', "2"):
        card = own_card("roberta", f'form = "class"\nclass = {label}')
        with pytest.raises(ConfigError, match=r"has no class .* classes: 0 = LABEL_0, 1 = LABEL_1"):
            load_scorer(card, model=model)


def test_a_softmax_of_classes_true_each_by_itself_is_told(models, own_card, tmp_path, caplog):
    folder = tmp_path / "model"
    shutil.copytree(models["minicheck_roberta_large"], folder)
    fields = json.loads((folder / "config.json").read_text())
    fields["problem_type"] = "multi_label_classification"
    (folder / "config.json").write_text(json.dumps(fields))
    for activation, is_told in (("sigmoid", False), ("softmax", True)):
        reads = f'form = "class"\nclass = 1\nactivation = "{activation}"'
        load_scorer(own_card("roberta", reads, max_length=64), model=str(folder))
        assert ("multi_label_classification" in caplog.text) == is_told


def test_words_that_begin_alike(models, own_card):
    model = models["true_t5_xxl"]

    def load(reads):
        card = own_card("t5", f'form = "words"\n{reads}', TEXT, max_length=512)
        return load_scorer(card, model=model)

    with pytest.raises(ConfigError, match=r"reads\.words: expected words that begin"):
        load('words = ["Yes", "Yes sir"]')
    with pytest.raises(ConfigError, match="4000"):
        load("ids = [3, 4000]")
    scorer = load("ids = [5, 7]")
    ids = [p.row.ids for p in scorer.read(examples()[1]).rows[0]]
    logits = load_model(model).logits(np.array(ids), np.array([[0]]))[0, 0].astype(np.float64)
    value = scorer.score([GROUNDINGS[1]], [RESPONSES[1]])[0].value
    assert value == pytest.approx(softmax(logits[[5, 7]])[0], abs=2e-6)


def test_a_response_that_fits_in_no_row_names_the_row(models):
    name = "minicheck_flan_t5_large"
    scorer = load_scorer(name, model=models[name], max_length=32)
    message = "example '1': max_length = 32: the response and the judge's"
    with pytest.raises(InputError, match=message):
        scorer.score(["Tea is hot.", "Tea."], ["Tea.", "Tea is hot and dry and old. " * 5])
