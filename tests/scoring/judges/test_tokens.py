"""Judges with a head on tokens (LettuceDetect): scores of tokens, words and windows."""

import msgspec
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.core.words import Piece
from faith_jax.inference import load_model
from faith_jax.inference.class_probabilities import ClassificationEngine
from faith_jax.scoring.judges.card import PRESETS, Windows, read_card
from faith_jax.scoring.judges.scorer import token_words
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.scoring.reference import padded
from tests.tokenizers.special_tokens import encode_row

NAME = "lettucedetect_summary"
GROUNDING = "Tea is a leaf. It grows in the hills.\nIt is dry and hot."
RESPONSE = "Tea grows in the hills,  and the lake freezes in winter."
CARD = (PRESETS / f"{NAME}.toml").read_text()


def example(grounding=GROUNDING, response=RESPONSE, history=()):
    return GroundedExample("1", Grounding((grounding,)), history, response)


def plain_support(path, grounding, response):
    """P(supported) of the response's tokens, by the model's own logits of the texts."""
    tokenizer = load_vocabulary(path)
    prompt = f"Summarize the following text:\npassage 1: {grounding}\noutput:"
    ids = encode_row(tokenizer, prompt, response)
    model = load_model(path)
    logits = model.classify_tokens(padded(ids, model.pad_id, 128))[0, : len(ids)].astype(np.float64)
    exponents = np.exp(logits - logits.max(axis=-1, keepdims=True))
    supported = exponents[:, 0] / exponents.sum(axis=-1)
    # [CLS] prompt [SEP] response [SEP]
    return supported[-1 - len(tokenizer.encode(response)) : -1]


def test_the_score_is_that_of_the_least_supported_token(models):
    path = models[NAME]
    scorer = load_scorer(NAME, model=path)
    more = [example(response="Tea is hot."), example("The lake freezes.", "It is Pölzig's tea.")]
    examples = [example(), *more]
    for each, score in zip(examples, scorer.score(examples), strict=True):
        support = plain_support(path, each.grounding.texts[0], each.response)
        assert score.value == pytest.approx(support.min(), abs=1e-5)
        assert [word.word for word in score.words] == each.response.split()
        least = min(word.score for word in score.words)
        assert least == pytest.approx(score.value, abs=1e-6)
        _, offsets = load_vocabulary(path).encode_with_offsets(each.response)
        for word in score.words:
            assert each.response[word.start : word.end] == word.word
            of_word = [
                token
                for token, (start, end) in zip(support, offsets, strict=True)
                if start < word.end and end > word.start
            ]
            # Further spaces in front of it count, too.
            assert word.score <= min(of_word) + 1e-5
            if each.response[: word.start].endswith("  "):
                continue
            assert word.score == pytest.approx(min(of_word), abs=1e-5)
        # Read whole, the grounding is the evidence.
        assert [piece.word for piece in score.evidence] == [each.grounding.texts[0]]
    assert len({score.value for score in scorer.score(examples)}) == 3


def test_words_have_the_smallest_score_of_their_tokens():
    sentence = Piece("It isn't  so", 10, 22)
    # "It", " isn", "'t", two spaces, "so", with the space in front of a word in its token.
    offsets = [(0, 2), (2, 6), (6, 8), (8, 10), (10, 12)]
    words = list(token_words(sentence, offsets, [0.9, 0.8, 0.3, 0.1, 0.7]))
    assert [(word.word, word.start, word.end, word.score) for word in words] == [
        ("It", 10, 12, 0.9),
        ("isn't", 13, 18, 0.3),
        ("so", 20, 22, 0.1),  # a token of white space counts with the word behind it
    ]
    (word,) = token_words(Piece("It \n", 0, 4), [(0, 2), (2, 4)], [0.9, 0.4])
    assert word.score == 0.4
    assert [word.word for word in token_words(sentence, [(0, 2)], [0.5])] == ["It"]


def test_a_grounding_in_windows_supports_a_token_where_any_of_them_does(models):
    path = models[NAME]
    rule = Windows(length=90, unit="row_tokens")
    card = msgspec.structs.replace(read_card(NAME), chunks=rule)
    scorer = load_scorer(NAME, model=path)
    scorer.judge.card = card
    object.__setattr__(scorer.judge.encode, "card", card)
    long = example(" ".join(f"Tea number {number} is dry." for number in range(20)))
    row = scorer.read(long)
    (part,) = row.rows
    assert len(part) > 2
    tokenizer = load_vocabulary(path)
    for pair in part:
        assert len(pair.row.ids) <= 90
        span = pair.row.ids[pair.response : pair.response + len(pair.offsets)]
        assert span == tokenizer.encode(RESPONSE)
    engine = ClassificationEngine(load_model(path))
    of_rows = engine.token_probabilities([pair.row.ids for pair in part])
    exact = np.stack([
        of_row[pair.response : pair.response + len(pair.offsets), 0]
        for pair, of_row in zip(part, of_rows, strict=True)
    ])  # fmt: skip
    (score,) = scorer.score([long])
    assert score.value == pytest.approx(exact.max(axis=0).min(), abs=1e-6)
    assert score.evidence[0].word == part[int(exact.min(axis=1).argmax())].chunk.text


def test_rows_of_all_lengths_have_the_probabilities_of_each_alone(models):
    path = models[NAME]
    model = load_model(path)
    rng = np.random.default_rng(0)
    rows = [[1, *rng.integers(5, 300, length).tolist(), 2] for length in (3, 40, 7, 90, 3, 18)]
    engine = ClassificationEngine(model, tokens_per_batch=128)
    together = engine.token_probabilities(rows)
    # Rows share lines, in which they do not see each other.
    assert engine.num_compilations < len(rows)
    for row, probabilities in zip(rows, together, strict=True):
        logits = model.classify_tokens(padded(row, model.pad_id, 128))[0, : len(row)]
        logits = logits.astype(np.float64)
        expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)


def test_a_model_without_a_head_on_its_tokens_is_one_error(models, tmp_path):
    path = tmp_path / "mine.toml"
    for old, new, model, message in (
        ('["modernbert"]', '["roberta"]', "minicheck_roberta_large",
         "has no classification head on its tokens, whose class"),
        ('form = "tokens"', 'form = "class"', NAME, "has no classification head, whose class 0"),
        ("class = 0", "class = 2", NAME, "has no class 2, which the card reads"),
    ):  # fmt: skip
        path.write_text(CARD.replace(old, new))
        with pytest.raises(ConfigError, match=message):
            load_scorer(str(path), model=models[model])
