import json
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from faith_jax.core.errors import ConfigError
from faith_jax.core.labels import NliLabel
from faith_jax.inference import class_probabilities, load_model
from faith_jax.inference.batching import pad_rows
from faith_jax.inference.class_probabilities import ClassificationEngine, DropoutPasses
from faith_jax.inference.texts.text_pairs import PairEncoder
from faith_jax.runs.convert import import_checkpoint
from faith_jax.scoring.nli import faithful_class, nli_label_numbers
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import TOKENIZER_FILES, load_vocabulary
from tests.scoring import reference, tiny_models
from tests.tokenizers.published_tokenizers import SAME_PIECES

FIXTURES = reference.stored_scores()
DOCUMENTS, RESPONSES = list(reference.DOCUMENTS), list(reference.RESPONSES)


def values(scorer, documents=DOCUMENTS, responses=RESPONSES):
    return [score.value for score in scorer.score(documents, responses)]


@SAME_PIECES
def test_nli_scores_are_transformers_probabilities(models):
    contradiction, _, entailment = np.array(FIXTURES["nli"]).T  # as the config orders them
    results = values(load_scorer("nli_entailment", model=models["nli"]))
    np.testing.assert_allclose(results, entailment, atol=1e-5)
    results = values(load_scorer("nli_e_minus_c", model=models["nli"]))
    np.testing.assert_allclose(results, entailment - contradiction, atol=1e-5)


def test_the_critic_is_transformers_probability_of_faithful(models):
    results = values(load_scorer("faith_critic", model=models["critic"]))
    np.testing.assert_allclose(results, np.array(FIXTURES["critic"])[:, 1], atol=1e-5)


def test_the_critics_call_is_its_most_probable_class(models):
    results = values(load_scorer("faith_critic", model=models["critic"]))
    calls = values(load_scorer("faith_critic_call", model=models["critic"]))
    assert calls == [float(value >= 0.5) for value in results]
    options = {"model": models["critic"], "faithful_label": "hallucination"}
    turned = values(load_scorer("faith_critic_call", **options))
    assert turned == [1 - call for call in calls]
    assert set(calls + turned) == {0.0, 1.0}
    results = values(load_scorer("faith_critic", model=models["nli"], form="nli"))
    assert results == values(load_scorer("nli_entailment", model=models["nli"]))


@SAME_PIECES
def test_labels_may_be_told(models):
    labels = "entailment,neutral,contradiction"
    scorer = load_scorer("nli_entailment", model=models["nli"], labels=labels)
    np.testing.assert_allclose(values(scorer), np.array(FIXTURES["nli"])[:, 0], atol=1e-5)
    scorer = load_scorer("faith_critic", model=models["critic"], faithful_label="hallucination")
    np.testing.assert_allclose(values(scorer), np.array(FIXTURES["critic"])[:, 0], atol=1e-5)


def test_a_bart_classifies_by_its_decoder(tmp_path):
    names = ("contradiction", "neutral", "entailment")
    folder = tiny_models.write_model(
        tmp_path / "bart", "bart", label_names=names, max_positions=512
    )
    model, tokens = load_model(folder), load_vocabulary(folder)
    encode = PairEncoder(tokens, model.config.vocab_size, 512)
    rows = [encode(*pair).ids for pair in zip(DOCUMENTS, RESPONSES, strict=True)]
    logits = model.classify(pad_rows(rows, max(map(len, rows)), model.pad_id))
    expected = scipy.special.softmax(logits, axis=1) @ [-1, 0, 1]
    results = values(load_scorer("nli_e_minus_c", model=folder))
    np.testing.assert_allclose(results, expected, atol=1e-5)
    options = {"dropout_passes": 4, "dropout_rate": 0.1, "seed": 1, "max_length": 512}
    scorer = load_scorer("nli_e_minus_c", model=folder, **options)
    assert 1e-4 <= np.abs(values(scorer) - expected).max() <= 0.3


@pytest.mark.slow
def test_batches_and_order_change_no_masks(models):
    options = {"model": models["nli"], "dropout_passes": 3, "tokens_per_batch": 64}
    scorer = load_scorer("nli_e_minus_c", **options)
    together = values(scorer, DOCUMENTS * 2, RESPONSES * 2)
    alone = [values(scorer, [d], [r])[0] for d, r in zip(DOCUMENTS, RESPONSES, strict=True)]
    np.testing.assert_allclose(together, alone * 2, atol=1e-5)


def test_monte_carlo_dropout_is_the_mean_over_exactly_k_masks(models):
    model = load_model(models["nli"])
    engine = ClassificationEngine(model, dropout=DropoutPasses(4, seed=7))
    encode = PairEncoder(load_vocabulary(models["nli"]), model.config.vocab_size, 512)
    row = encode(DOCUMENTS[0], RESPONSES[0]).ids
    tokens = np.full((1, 64), model.pad_id, np.int32)
    tokens[0, : len(row)] = row
    row_key = jax.random.fold_in(
        jax.random.key(7),
        jnp.uint32(class_probabilities.zlib.crc32(tokens[0, : len(row)].tobytes())),
    )

    @jax.jit
    def one_pass(params, key):
        logits = model.module.apply(
            {"params": params}, tokens, True, method="classify", rngs={"dropout": key}
        )
        return jax.nn.softmax(logits)[0]

    keys = [jax.random.fold_in(row_key, number) for number in range(4)]
    passes = [one_pass(model.params, key) for key in keys]
    np.testing.assert_allclose(engine.probabilities([row])[0], np.mean(passes, 0), atol=1e-5)
    assert np.ptp(np.array(passes), axis=0).max() > 0.01  # the masks differ


@pytest.mark.slow
def test_seeds_and_rates_of_dropout(models):
    def scores(**options):
        return values(load_scorer("nli_e_minus_c", model=models["nli"], **options))

    plain = scores()
    first = scores(dropout_passes=2, seed=1)
    assert first == scores(dropout_passes=2, seed=1)
    assert first != scores(dropout_passes=2, seed=2)
    np.testing.assert_allclose(scores(dropout_passes=2, dropout_rate=1e-9), plain, atol=1e-5)
    assert np.abs(np.array(scores(dropout_passes=2, dropout_rate=0.5)) - plain).max() > 0.01


def test_only_the_premise_is_cut(models):
    tokens = load_vocabulary(models["nli"])
    encode = PairEncoder(tokens, 10**6, 24)
    long, short = "tea " * 40, "It grows."
    row = encode(long, short)
    before, between, after = tokens.pair_ids
    assert len(row.ids) == 24
    tail = [*between, *tokens.encode(short), *after]
    assert row.ids[-len(tail) :] == tail
    whole = len(tokens.encode(long)) + len(tokens.encode(short))
    kept = 24 - len(before) - len(between) - len(after)
    assert row.cut_tokens == whole - kept
    assert encode("a", long).ids[: len(before)] == list(before)
    both = encode(long, long)  # the premise keeps a quarter of the room
    assert both.ids[len(before) :][: kept // 4] == tokens.encode(long)[: kept // 4]
    assert both.ids[-len(after) - 1 - (kept - kept // 4) :][:1] == list(between)[-1:]
    assert len(both.ids) == 24
    assert encode("a", long).cut_tokens == len(tokens.encode("a")) + len(tokens.encode(long)) - kept
    scorer = load_scorer("nli_entailment", model=models["nli"], max_length=24)
    assert scorer.score([long], [short])[0].cut_tokens == row.cut_tokens


@pytest.mark.parametrize(
    ("premise", "history", "text"),
    [
        ("grounding", ["Hi."], "Tea is hot."),
        ("last_turn", ["I sail.", "Do you?"], "Do you?"),
        ("speaker_turns", ["Who?", "I sail.", "Where?", "At sea.", "Why?"], "I sail. At sea."),
        ("speaker_turns", ["Who?"], ""),
    ],
)
def test_a_premise_of_the_dialogue(models, premise, history, text):
    scorer = load_scorer("nli_neutral", model=models["nli"], premise=premise)
    (score,) = scorer.score(["Tea is hot."], ["I like tea."], [history])
    texts = ["Tea is hot.", "Do you?", "I sail. At sea.", "At sea. I sail.", ""]
    plain = load_scorer("nli_neutral", model=models["nli"])
    expected = values(plain, texts, ["I like tea."] * len(texts))
    assert score.value == pytest.approx(expected[texts.index(text)], abs=1e-6)
    # Each text has a probability of its own, so that only the right one agrees.
    assert len({round(value, 6) for value in expected}) == len(texts)


def test_an_empty_response_is_undefined(models):
    scorer = load_scorer("nli_entailment", model=models["nli"])
    results = values(scorer, ["Tea.", "Tea."], ["", "Tea"])
    assert math.isnan(results[0])
    assert 0 < results[1] < 1


def test_label_names():
    numbers = nli_label_numbers(["contradiction", "entailment", "neutral"])
    assert {label.value: n for label, n in numbers.items()} == {
        "entailment": 1, "neutral": 2, "contradiction": 0,
    }  # fmt: skip
    assert faithful_class(["LABEL_0", "LABEL_1"]) == 0
    assert faithful_class(["Unfaithful", "Other"]) == 1
    assert faithful_class(["Contradiction", "Non-Contradiction"], form="decode") == 1
    assert faithful_class(["other", "contradiction"], form="decode") == 0
    assert faithful_class(["neutral", "entailment", "contradiction"], form="nli") == 1
    assert nli_label_numbers("abc", ["entailment", "Neutral ", "contradiction"]) == {
        NliLabel.ENTAILMENT: 0,
        NliLabel.NEUTRAL: 1,
        NliLabel.CONTRADICTION: 2,
    }


def test_the_faithful_class_has_a_name_or_a_number():
    names = ["Entailment", "Hallucination"]
    assert (faithful_class(names), faithful_class(names[::-1])) == (0, 1)
    assert [faithful_class(names, label) for label in (0, 1, "1", "hallucination ")] == [0, 1, 1, 1]
    assert [faithful_class(["same", "same"], label) for label in (0, 1)] == [0, 1]
    assert faithful_class(["1", "0"], 0) == 1  # a name counts before a number


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (["a", "b"], None,
         r"has 2 classes \(a, b\); expected the three of natural language inference; faith_critic "
         r"reads a model of two\.$"),
        (["a", "b", "c"], None, "named a, b, c; say their order with labels="),
        (["neutral", "Entailment", "entailment"], None,
         "named neutral, Entailment, entailment; say their order with"),
        (["a", "b", "c"], "entailment",
         "labels: expected the model's 3 classes in its order, each once, .*; got 'entailment'"),
        (["a", "b", "c"], "entailment,neutral, Neutral",
         "labels: expected .* each once, such as entailment,.*; got 'entailment,n"),
        (["a", "b", "c"], [0, 1, 2], r"got \[0, 1, 2\]"),
    ],
)  # fmt: skip
def test_label_names_that_do_not_tell(names, given, message):
    with pytest.raises(ConfigError, match=message):
        nli_label_numbers(names, given)


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (["a", "b"], None, "named a, b; say which one means faithful"),
        (["a", "b"], "c",
         "faithful_label: 'c' is none of a, b; give the name of a class, or its number, 0 or 1"),
        (["a", "b"], 2, "faithful_label: 2 is none of a, b"),
        (["Faithful", "faithful"], None,
         "both of the model's classes are named Faithful; say the number of the one that means"),
        (["a", "b", "c"], None, r"has 3 classes .*; expected a critic's two"),
    ],
)  # fmt: skip
def test_faithful_classes_that_cannot_be_told(names, given, message):
    with pytest.raises(ConfigError, match=message):
        faithful_class(names, given)


def test_all_that_is_wrong_with_a_model_is_said_at_once(tmp_path):
    """Each message names the option that helps."""
    names = ("LABEL_0", "LABEL_1", "LABEL_2")
    folder = pathlib.Path(tiny_models.write_model(tmp_path / "m", "deberta_nli", label_names=names))
    for file in TOKENIZER_FILES:
        (folder / file).unlink(missing_ok=True)
    with pytest.raises(ConfigError) as error:
        load_scorer("nli_entailment", model=folder, dropout_passes=2, dropout_rate=0.1)
    assert str(error.value) == (
        f"nli_entailment: model {folder}: there is no tokenizer with it; say where its folder or "
        "file is with vocabulary=…. And: the model's classes are named LABEL_0, LABEL_1, LABEL_2; "
        "say their order with labels=entailment,neutral,contradiction (or another)."
    )
    with pytest.raises(ConfigError, match=r"^summac_zs: .*do not belong.* vocabulary= .* labels="):
        load_scorer("summac_zs", model=folder, vocabulary="english_4096")
    with pytest.raises(ConfigError, match=r"no tokenizer with it.* And: .* 3 classes .* critic's"):
        load_scorer("faith_critic", model=folder)
    with pytest.raises(ConfigError, match=r"layer.* And: .*no tokenizer with it"):
        load_scorer("bertscore", model=folder, layer=99)


def test_classes_that_are_true_each_by_itself_are_no_softmax(tmp_path):
    labels = reference.NLI_LABELS
    folder = pathlib.Path(
        tiny_models.write_model(tmp_path / "m", "deberta_nli", label_names=labels)
    )
    fields = json.loads((folder / "config.json").read_text())
    fields["problem_type"] = "multi_label_classification"
    (folder / "config.json").write_text(json.dumps(fields))
    with pytest.raises(
        ConfigError, match=r"'problem_type': .* got multi_label.* activation = \"sigmoid\""
    ):
        load_scorer("nli_entailment", model=folder)
    import_checkpoint(str(folder), str(tmp_path / "imported"))
    with pytest.raises(ConfigError, match="multi_label_classification"):
        load_scorer("nli_entailment", model=tmp_path / "imported")


def test_a_model_without_dropout_has_no_masks(tmp_path):
    labels = reference.NLI_LABELS
    rates = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    folder = tiny_models.write_model(tmp_path / "m", "deberta_nli", label_names=labels, **rates)
    with pytest.raises(ConfigError, match=r"without dropout.*give dropout_rate="):
        load_scorer("nli_entailment", model=folder, dropout_passes=2)
    assert load_scorer("nli_entailment", model=folder, dropout_passes=2, dropout_rate=0.1)
