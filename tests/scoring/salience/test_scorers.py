import math

import numpy as np
import pytest

from faith_jax.core import templates
from faith_jax.core.cutting import Kind
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference import load_model
from faith_jax.inference.row_likelihoods import LikelihoodRow
from faith_jax.inference.texts.text_reader import TextReader
from faith_jax.scoring.registry import load_scorer, scorer_card
from faith_jax.scoring.salience.gradients import SalienceEngine
from faith_jax.scoring.salience.inputs import SalienceEncoder
from faith_jax.scoring.salience.scorers import open_salience
from faith_jax.statistics.texts import salience_scores
from faith_jax.statistics.texts.text_metrics import content_words
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.checkpoints import family_folders

NPOV = GroundedExample(
    "1",
    # Con stands first and texts have odd spaces and braces: the model sees neither.
    Grounding(
        ("It keeps  people\nawake.", "Tea {green} is calming.", "It's cheap"),
        ("con", "pro", "pro"),
    ),
    ("Is tea better?",),
    "Supporters say tea's calming {and} cheap. Critics fear sleepless people.",
)  # fmt: skip
DIALOGUE = GroundedExample(
    "2", Grounding(("Tea is a leaf.", "It grows <wild>.")), ("Hi!", "What is tea?"), "A wild leaf"
)


# For tests that do not depend on whether inputs have a separate encoder.
CAUSAL = pytest.mark.parametrize("model", ["gpt2"], indirect=True)


def token_map(folder, inputs, targets):
    """The squared, normalised map of texts, from one row of the model alone."""
    opened, tokens = load_model(folder), load_vocabulary(folder)
    ids, target_ids = [*tokens.prefix_ids, *tokens.encode(inputs)], tokens.encode(targets)
    if not opened.config.is_decoder_only:
        ids, target_ids = [*ids, *tokens.suffix_ids], [*tokens.prefix_ids, *target_ids]
    return SalienceEngine(opened).maps([LikelihoodRow(ids, target_ids)])[0]


def token_words(folder, text, words, first=0, behind=""):
    """The tokens that overlap each wanted word, found one after the other in the text."""
    _, spans = load_vocabulary(folder).encode_with_offsets(text)
    word_tokens, place = [], text.index(behind)
    for word in words:
        place = text.index(word, place)
        end = place + len(word)
        word_tokens.append(
            [first + n for n, (a, b) in enumerate(spans) if a < end and b > place]
        )  # fmt: skip
        place = end
    return word_tokens


def test_words_of_the_npov_format(model):
    inputs = templates.npov_generate_inputs(
        "Is tea better?", NPOV.grounding.of("pro"), NPOV.grounding.of("con")
    )
    response = NPOV.response.replace("{", "(").replace("}", ")")
    targets = "{response: " + response + "}"
    salience = open_salience(model)([NPOV])[0]
    first = len(load_vocabulary(model).prefix_ids)
    pro_first = ["Tea", "green", "calming", "cheap", "keeps", "people", "awake"]
    rows = token_words(model, inputs, pro_first, first, "{pro:")
    spoken = [word.text for word in content_words(response)]
    columns = token_words(model, targets, spoken, first)  # BART's decoder reads the prefix too
    expected = salience_scores.word_map(token_map(model, inputs, targets), rows, columns)
    # The rows are in the grounding's order.
    order = [4, 5, 6, 0, 1, 2, 3]
    assert [w.text for w in salience.argument_words] == [pro_first[i] for i in order]
    assert [w.number for w in salience.argument_words] == [0, 0, 0, 1, 1, 1, 2]
    assert [w.perspective for w in salience.argument_words] == ["con"] * 3 + ["pro"] * 4
    for word in salience.argument_words:
        text = NPOV.grounding.texts[word.number]
        assert text[word.start : word.end] == word.text
    for word in salience.response_words:
        assert NPOV.response[word.start : word.end] == word.text
    np.testing.assert_allclose(salience.values, expected[order], atol=2e-4)


@CAUSAL
def test_words_of_the_dialogue_format(model):
    inputs = "<knowledge> Tea is a leaf. It grows (wild). <wizard> Hi! <seeker> What is tea?"
    salience = open_salience(model)([DIALOGUE])[0]
    first = len(load_vocabulary(model).prefix_ids)
    rows = token_words(model, inputs, ["Tea", "leaf", "grows", "wild"], first)
    columns = token_words(model, "A wild leaf", ["wild", "leaf"])
    expected = salience_scores.word_map(token_map(model, inputs, "A wild leaf"), rows, columns)
    np.testing.assert_allclose(salience.values, expected, atol=2e-4)


def test_scorers_of_one_checkpoint_share_its_parameters(model):
    salience, coverage = (
        load_scorer(f"salience_{name}", model=model) for name in ("hallucination", "coverage")
    )
    likelihood = load_scorer("pmi_faith_mean", model=model)
    assert salience._compute is coverage._compute
    assert salience._compute.engine.model.params is likelihood._prompter.engine.model.params


@CAUSAL
def test_scores_follow_the_definitions(model):
    result = open_salience(model)([NPOV, DIALOGUE])
    for aggregation, mean in (("max", "geometric"), ("sum", "arithmetic")):
        options = {"model": model, "aggregation": aggregation, "mean": mean}
        hallucination = load_scorer("salience_hallucination", **options).score([NPOV, DIALOGUE])
        coverage = load_scorer("salience_coverage", **options).score([NPOV, DIALOGUE])
        for salience, attributed, contributed in zip(result, hallucination, coverage, strict=True):
            beta = salience.values.max(0) if aggregation == "max" else salience.values.sum(0)
            alpha = salience.values.max(1) if aggregation == "max" else salience.values.sum(1)

            def average(x, mean=mean):
                return np.exp(np.log(x).mean()) if mean == "geometric" else x.mean()

            sides = np.array([w.perspective for w in salience.argument_words])
            assert attributed.value == pytest.approx(average(beta))
            expected = min(average(alpha[sides == side]) for side in set(sides))
            assert contributed.value == pytest.approx(expected)
            np.testing.assert_allclose([w.score for w in attributed.words], beta)
            np.testing.assert_allclose([w.score for w in contributed.words], alpha)
    assert load_scorer("salience_coverage", model=model, aggregation="sum").card.high == math.inf
    assert scorer_card("salience_coverage").high == 1


@CAUSAL
def test_scorers_of_the_same_options_compute_the_gradients_once(model, monkeypatch):
    computed, maps = [], SalienceEngine.maps

    def counted(engine, rows, columns=None):
        computed.append(len(rows))
        return maps(engine, rows, columns)

    monkeypatch.setattr(SalienceEngine, "maps", counted)
    first = load_scorer("salience_hallucination", model=model, max_length=100)
    second = load_scorer(
        "salience_coverage", model=model, mean="arithmetic", method="gradient_x_input",
        dtype=None, max_length=100,
    )  # fmt: skip
    for examples in ([DIALOGUE, NPOV], [DIALOGUE]):
        for scorer in (first, second):
            scorer.score(examples)
    assert computed == [2, 1]
    # A page of maps of these rows does without, too.
    assert open_salience(model, max_length=100)([DIALOGUE])[0] is not None
    assert computed == [2, 1]
    load_scorer("salience_coverage", model=model, max_length=101).score([DIALOGUE])
    assert computed == [2, 1, 1]


@CAUSAL
def test_batches_and_bounds_do_not_matter(model):
    examples = [NPOV, DIALOGUE, NPOV]
    whole = open_salience(model)(examples)
    parts = open_salience(model, tokens_per_batch=1, max_bytes=1)(examples)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a.values, b.values, atol=2e-4)
    np.testing.assert_array_equal(whole[0].values, whole[2].values)


@CAUSAL
def test_what_has_no_words_has_no_score(model):
    empty = GroundedExample("1", NPOV.grounding, NPOV.history, "  ")
    function_words = GroundedExample("2", NPOV.grounding, NPOV.history, "It is what it is.")
    bare = GroundedExample("3", Grounding(("It is.", "Is it?"), ("pro", "con")), (), "Tea is hot.")
    for name in ("salience_hallucination", "salience_coverage"):
        scores = load_scorer(name, model=model).score([empty, function_words, bare])
        assert all(math.isnan(score.value) for score in scores)


@CAUSAL
def test_what_does_not_fit_is_counted(model):
    whole = open_salience(model)([DIALOGUE])[0]
    encode = open_salience(model).encode
    row = encode(DIALOGUE).row
    limit = len(row.inputs) + len(row.targets) - 6
    cut = open_salience(model, max_length=limit)([DIALOGUE])[0]
    assert whole.cut_tokens == 0
    assert dict(cut.cut) == {"knowledge": 6}
    assert 0 < len(cut.argument_words) < len(whole.argument_words)
    assert cut.response_words == whole.response_words
    scored = load_scorer("salience_hallucination", model=model, max_length=limit)
    assert scored.score([DIALOGUE])[0].cut == cut.cut
    # The words' tokens are those that the model is fed.
    encoded = open_salience(model, max_length=limit).encode(DIALOGUE)
    tokens = load_vocabulary(model)
    for word in encoded.argument_words:
        text = tokens.decode([encoded.row.inputs[place] for place in word.tokens])
        assert text.strip(" .)(") in ("Tea", "leaf", "grows", "wild")
        assert word.word.text in text
    for word in encoded.response_words:
        assert word.word.text in tokens.decode([encoded.row.targets[t] for t in word.tokens])


def test_a_response_that_is_too_long_loses_its_end(model):
    tokens = load_vocabulary(model)
    config = load_model(model).config
    encode = SalienceEncoder(TextReader(tokens, config.vocab_size, 32, config.is_decoder_only))
    long = GroundedExample("1", DIALOGUE.grounding, (), "wild leaf " * 20)
    encoded = encode(long)
    total = len(encoded.row.inputs) + (len(encoded.row.targets) if config.is_decoder_only else 0)
    assert total == 32 or not config.is_decoder_only
    assert config.is_decoder_only or len(encoded.row.targets) == 32
    assert encoded.cut[Kind.RESPONSE] == len(tokens.encode(("wild leaf " * 20).strip())) - len(
        encoded.row.targets
    )
    assert all(max(word.tokens) < len(encoded.row.targets) for word in encoded.response_words)
    assert len(encoded.argument_words) > 0


@CAUSAL
def test_columns_may_be_chosen(model):
    engine = SalienceEngine(load_model(model))
    rows = [LikelihoodRow([3, 5, 7], [4, 6, 8, 9]), LikelihoodRow([5], [6, 4])]
    whole = engine.maps(rows)
    picked = [[3, 0], []]
    for all_, some, columns in zip(whole, engine.maps(rows, picked), picked, strict=True):
        np.testing.assert_allclose(some, all_[:, columns], atol=1e-6)


def test_parity_of_normalised_maps_of_an_encoder_decoder(tmp_path):
    model, stored = family_folders.load_case(tmp_path, "t5_v1_1")
    lengths = (stored["encoder_input_tokens"] != 0).sum(1)
    counts = (stored["decoder_target_tokens"] > 0).sum(1)
    rows = [
        LikelihoodRow(inputs[:n].tolist(), targets[:m].tolist())
        for inputs, targets, n, m in zip(
            stored["encoder_input_tokens"], stored["decoder_target_tokens"], lengths, counts,
            strict=True,
        )
    ]  # fmt: skip
    for i, salience_map in enumerate(SalienceEngine(model).maps(rows)):
        n, m = lengths[i], counts[i]
        raw = [stored["salience_encoder"][i, :n, :m], stored["salience_decoder"][i, :m, :m]]
        expected = salience_scores.normalize_columns(np.concatenate(raw))
        np.testing.assert_allclose(salience_map, expected, atol=1e-4)


def test_parity_of_normalised_maps_of_a_decoder_only_model(tmp_path):
    model, stored = family_folders.load_case(tmp_path, "gemma2_softcaps")
    tokens = stored["input_tokens"][0].tolist()
    salience_map = SalienceEngine(model).maps([LikelihoodRow(tokens[:6], tokens[6:])])[0]
    expected = salience_scores.normalize_columns(stored["salience"][:-1, 6:])
    np.testing.assert_allclose(salience_map, expected, atol=1e-4)
