import numpy as np
import pytest
import scipy.special

from faith_jax.core import templates
from faith_jax.core.cutting import Kind
from faith_jax.core.errors import ConfigError, FaithJaxError
from faith_jax.inference import EncoderModel, class_probabilities, load_model
from faith_jax.inference.batching import pad_rows, token_types
from faith_jax.inference.class_probabilities import ClassificationEngine, LabelTexts
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow
from faith_jax.inference.texts.text_pairs import label_tokens
from faith_jax.scoring.pair_classifier import pair_classifier
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.models import tiny
from tests.quick import slow_except
from tests.scoring import tiny_models
from tests.scoring.reference import padded
from tests.scoring.tiny_models import FAMILIES
from tests.tokenizers.special_tokens import encode_row

DOCUMENTS = ["Tea is made of leaves.", "The bridge was closed in May. A ferry ran for a year."]
RESPONSES = ["Leaves make tea.", "The bridge is open."]
PAIRS = list(zip(DOCUMENTS, RESPONSES, strict=True))
NLI = ["entailment", "neutral", "contradiction"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bart") / "m"
    return tiny_models.write_model(folder, "bart", max_positions=512)


def likelihoods(folder, text, words):
    """The log-likelihood of each word, the end token left out, one pass a word."""
    opened, tokens = load_model(folder), load_vocabulary(folder)
    first = tokens.prefix_ids  # which BART's decoder reads too
    inputs = padded([*first, *tokens.encode(text), *tokens.suffix_ids], opened.pad_id, 128)
    targets = [np.array([[*first, *tokens.encode(word)]]) for word in words]
    return [
        float(opened.target_log_probs(inputs, target)[0, len(first) :].sum()) for target in targets
    ]


def softmax(values):
    exponents = np.exp(np.array(values) - max(values))
    return exponents / exponents.sum()


@pytest.mark.slow
def test_berts_second_text_has_token_type_1(tmp_path):
    folder = tiny_models.write_model(tmp_path / "bert", "bert", label_names=NLI)
    classify, opened = pair_classifier(folder, max_length=32), load_model(folder)
    rows = [classify.encode(*pair) for pair in PAIRS]
    expected = []
    for row, (premise, _) in zip(rows, PAIRS, strict=True):
        first = encode_row(load_vocabulary(folder), premise)
        assert row.ids[: row.second] == first if not row.cut else row.second < len(first)
        types = np.arange(len(row.ids)) >= row.second
        expected += softmax(opened.classify([row.ids], types[None].astype(int))[0])[None].tolist()
    probs, _ = classify(PAIRS)
    np.testing.assert_allclose(probs, expected, atol=1e-6)
    without = softmax(opened.classify([rows[0].ids])[0])
    assert np.abs(probs[0] - without).max() > 1e-3
    # Monte-Carlo dropout is of the same types.
    options = {"max_length": 32, "dropout_passes": 400, "dropout_rate": 0.002}
    dropped, _ = pair_classifier(folder, **options)(PAIRS[:1])
    assert 0 < np.abs(dropped[0] - probs[0]).max() < np.abs(probs[0] - without).max() / 2


def test_the_softmax_of_the_words_likelihoods(model):
    probs, cut = pair_classifier(model, label_words=NLI)(PAIRS)
    expected = [softmax(likelihoods(model, templates.nli_inputs(*p), NLI)) for p in PAIRS]
    np.testing.assert_allclose(probs, expected, atol=1e-5)
    assert cut == [{}, {}]


def test_nli_scores_are_of_the_first_word_and_less_the_third(model):
    probabilities, _ = pair_classifier(model)(PAIRS)
    entailment = load_scorer("nli_entailment", model=model).score(DOCUMENTS, RESPONSES)
    np.testing.assert_allclose([s.value for s in entailment], probabilities[:, 0], atol=1e-6)
    both = load_scorer("nli_e_minus_c", model=model).score(DOCUMENTS, RESPONSES)
    expected = probabilities[:, 0] - probabilities[:, 2]
    np.testing.assert_allclose([s.value for s in both], expected, atol=1e-6)


def test_two_words_are_entailment_and_all_else(model):
    scores = load_scorer("nli_entailment", model=model, label_words="1,0")
    expected, _ = pair_classifier(model, label_words=["1", "0"])(PAIRS)
    values = [score.value for score in scores.score(DOCUMENTS, RESPONSES)]
    np.testing.assert_allclose(values, expected[:, 0], atol=1e-6)
    with pytest.raises(ConfigError, match=r"2 classes \(entailment, not_entailment\); expected"):
        load_scorer("nli_e_minus_c", model=model, label_words="1,0")


def test_the_critic_reads_what_its_task_has(model):
    words = ["faithful", "unfaithful"]
    scores = load_scorer("faith_critic", model=model).score(DOCUMENTS, RESPONSES)
    for score, pair in zip(scores, PAIRS, strict=True):
        text = templates.knowledge_response_inputs(*pair)
        assert score.value == pytest.approx(softmax(likelihoods(model, text, words))[0], abs=1e-5)


@pytest.mark.slow
def test_the_order_changes_nothing(model):
    classify = pair_classifier(model, dropout_passes=2, seed=1)
    together, _ = classify(PAIRS * 3)
    backwards, _ = classify(PAIRS[::-1] * 3)
    np.testing.assert_allclose(together, backwards[::-1], atol=1e-5)
    np.testing.assert_allclose(together, np.tile(together[:2], (3, 1)), atol=1e-5)
    np.testing.assert_allclose(together.sum(axis=1), 1.0, atol=1e-5)


def test_a_premise_that_is_too_long_loses_its_end(model):
    classify = pair_classifier(model, max_length=80)
    (whole, short), cut = classify([(DOCUMENTS[0] * 30, RESPONSES[0]), PAIRS[0]])
    row = classify.encode(DOCUMENTS[0] * 30, RESPONSES[0])
    tokens = load_vocabulary(model)
    text = tokens.decode(row.ids)
    assert len(row.ids) == 80
    length = len(tokens.encode(templates.nli_inputs(DOCUMENTS[0] * 30, RESPONSES[0])))
    assert cut == [row.cut, {}]
    assert row.cut == {Kind.KNOWLEDGE: length - 80 + len(tokens.add_special_tokens([]))}
    assert RESPONSES[0] in text
    assert DOCUMENTS[0] in text
    assert not np.allclose(whole, short)
    long, _ = classify([(DOCUMENTS[0], RESPONSES[0] * 30)])
    assert np.isfinite(long).all()


def test_words_end_where_one_begins_with_another():
    tokens = load_vocabulary("english_4096")
    pieces = [list(tokens.encode(word)) for word in ("tea", "tea time")]
    assert label_tokens(tokens, ["tea", "tea time"]) == [
        [*ids, *tokens.suffix_ids] for ids in pieces
    ]
    assert label_tokens(tokens, ["tea", "milk"]) == [pieces[0], list(tokens.encode("milk"))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_words": "yes,no,maybe,so"}, "label_words: expected 3 different texts"),
        (
            {"label_words": "yes,yes,no"},
            "label_words: expected 3 different texts, for entailment, neutral, contradiction, or "
            "2, for entailment and all else; got",
        ),
        ({"label_words": "yes,,no"}, "label_words: expected 3 different texts"),
        ({"label_words": 3}, "label_words: expected texts"),
        (
            {"max_length": 12},
            "example '0': max_length = 12: without its knowledge .* no room for what",
        ),
        ({"max_length": 4}, "max_length: expected"),
    ],
)
def test_wrong_options(model, options, message):
    with pytest.raises(FaithJaxError, match=message):
        load_scorer("nli_e_minus_c", model=model, **options).score(DOCUMENTS, RESPONSES)


def test_encoders_have_no_words_and_causal_models_no_classes(tmp_path):
    encoder = tiny_models.write_model(tmp_path / "nli", "deberta_nli")
    with pytest.raises(ConfigError, match="label_words: are of encoder-decoders"):
        load_scorer("nli_entailment", model=encoder, label_words="a,b,c")
    causal = tiny_models.write_model(tmp_path / "gpt2", "gpt2")
    with pytest.raises(ConfigError, match="got CausalModel"):
        load_scorer("nli_entailment", model=causal)


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "m"
    return load_model(tiny_models.write_model(folder, "gpt2"))


INPUTS = [[5, 6, 7], [8], [9, 4] * 9]


@pytest.mark.parametrize(
    ("labels", "prefix", "normalisation"),
    [
        ([[3], [4], [11]], [12, 5], "sum"),
        ([[3], [4, 10], [4, 9, 7]], [12, 5], "mean"),
    ],
)
def test_label_texts_are_compared_by_their_sum_or_mean(
    language_model, labels, prefix, normalisation
):
    texts = LabelTexts.of(labels, normalisation, prefix)
    probs = ClassificationEngine(language_model, texts, tokens_per_batch=256).probabilities(INPUTS)
    rows = [LikelihoodRow(row, [*prefix, *label]) for row in INPUTS for label in labels]
    log_probs = [
        scores[len(prefix) :] for scores in LikelihoodEngine(language_model).log_probs(rows)
    ]
    values = [scores.sum() if normalisation == "sum" else scores.mean() for scores in log_probs]
    expected = [softmax(row) for row in np.reshape(values, (len(INPUTS), len(labels)))]
    np.testing.assert_allclose(probs, expected, atol=1e-5)


def test_the_mass_of_labels_is_what_they_have_of_all_probability(language_model):
    labels = [[3], [4, 10]]
    engine = ClassificationEngine(language_model, LabelTexts.of(labels, "mean", [12]))
    rows = [LikelihoodRow(row, [12, *label]) for row in INPUTS for label in labels]
    log_probs = [scores[1:].sum() for scores in LikelihoodEngine(language_model).log_probs(rows)]
    expected = np.exp(log_probs).reshape(len(INPUTS), 2).sum(axis=1)
    np.testing.assert_allclose(engine.label_probabilities(INPUTS).sum(axis=1), expected, rtol=1e-4)
    # One token more that the labels must begin with makes them rarer, not the sum of the softmax.
    np.testing.assert_allclose(engine.probabilities(INPUTS).sum(axis=1), 1, rtol=1e-6)


def test_what_rare_labels_are_told_by_is_computed_with_the_probabilities(
    language_model, caplog, monkeypatch
):
    texts = LabelTexts.of([[3], [4, 10]], "mean")
    engine = ClassificationEngine(language_model, texts)
    mass = engine.label_probabilities(INPUTS[:16]).sum(axis=1).mean()
    monkeypatch.setattr(class_probabilities, "LEAST_LABEL_MASS", 1.1 * mass)
    engine = ClassificationEngine(language_model, texts)
    engine.probabilities(INPUTS)
    compiled = engine.num_compilations
    monkeypatch.delattr(ClassificationEngine, "label_probabilities")
    engine.warn_of_rare_labels(INPUTS, ("YES", "NO"), "train it longer")
    assert f"(mean probability {mass:.2g} together, below {1.1 * mass:g})" in caplog.text
    assert engine.num_compilations == compiled


def test_rare_labels_are_told_once(language_model, caplog, monkeypatch):
    engine = ClassificationEngine(language_model, LabelTexts.of([[3], [4]], "mean"))
    mass = engine.label_probabilities(INPUTS).sum(axis=1).mean()
    for least, count in ((0.9 * mass, 0), (1.1 * mass, 1)):
        monkeypatch.setattr(class_probabilities, "LEAST_LABEL_MASS", least)
        engine = ClassificationEngine(language_model, LabelTexts.of([[3], [4]], "mean"))
        for _ in range(2):
            engine.warn_of_rare_labels(INPUTS, ("YES", "NO"), "train it longer")
        warnings = [
            record.getMessage() for record in caplog.records if record.levelname == "WARNING"
        ]
        assert len(warnings) == count
    (message,) = warnings
    assert message == (
        f"model {language_model.path}: it hardly ever writes 'YES' or 'NO' (mean probability "
        f"{mass:.2g} together, below {1.1 * mass:g}), so that the scores mean little; train it "
        "longer"
    )


HEADS = {
    "deberta_v1": {"separate_positions": True, "max_positions": 512},
    "prompted": {"encoder_prompt_length": 3},
}


@pytest.mark.parametrize("name", slow_except(HEADS, ["prompted"]))
def test_packed_rows_have_the_classes_of_each_alone(name):
    family = {"deberta_v1": "deberta_nli", "prompted": "bert"}.get(name, name)
    config = tiny.TINY.replace(**FAMILIES[family] | HEADS[name] | {"label_names": ("a", "b", "c")})
    _, params = tiny.model_and_params(config)
    model = EncoderModel(config, params)
    rng = np.random.default_rng(0)
    rows = [rng.integers(3, config.vocab_size, length).tolist() for length in (50, 3, 21, 8, 30, 3)]
    second = [len(row) // 2 for row in rows]
    engine = ClassificationEngine(model, tokens_per_batch=256)
    probs = engine.probabilities(rows, second)
    tokens = pad_rows(rows, 50, model.pad_id)
    types = None if config.num_token_types < 2 else token_types(second, 50)
    expected = scipy.special.softmax(model.classify(tokens, types), axis=-1)
    assert np.ptp(expected, axis=0).min() > 0.01
    np.testing.assert_allclose(probs, expected, atol=1e-5)
    assert engine.num_compilations == 1
    used = sum(map(len, rows)) + len(rows) * config.encoder_prompt_length
    assert engine.padding == 1 - used / (128 if used <= 128 else 256)
    backwards = engine.probabilities(rows[::-1], second[::-1])[::-1]
    np.testing.assert_allclose(backwards, probs, atol=1e-5)
