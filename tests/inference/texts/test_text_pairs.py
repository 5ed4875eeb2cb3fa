"""Rows of two texts, as encoders read them."""

import pytest

from faith_jax.core.cutting import Kind
from faith_jax.inference.texts.text_pairs import PairEncoder
from faith_jax.tokenizers.vocabularies import load_vocabulary

CLAIM, CONTEXT, SENTENCE = "It is hot.", ("Hello.", "Do you like tea?", "Yes."), "Tea is hot water."


@pytest.fixture
def encode():
    return PairEncoder(load_vocabulary("english_4096"), 4096, max_length=128)


def test_a_claim_stands_before_a_sentence_that_may_be_relevant(encode):
    row = encode.relevance(CLAIM, CONTEXT, "Tea", SENTENCE)
    text = "Do you like tea? [EOT] Yes. [EOT] It is hot."
    assert row.ids == encode.response_first(text, SENTENCE).ids
    assert row.ids == encode(text, SENTENCE).ids  # the same order, of other kinds
    assert row.cut_tokens == 0


def test_the_sentence_is_cut_and_not_the_claim(encode):
    whole = encode.relevance(CLAIM, CONTEXT, "Tea", SENTENCE * 40)
    assert whole.cut[Kind.KNOWLEDGE] > 0
    assert whole.cut.get(Kind.RESPONSE, 0) == 0
    assert len(whole.ids) == 128
    claim = encode.tokenizer.encode("Do you like tea? [EOT] Yes. [EOT] It is hot.")
    assert whole.ids[: len(claim)] == claim


def test_a_model_that_writes_the_class_reads_the_title_too(encode):
    written = PairEncoder(encode.tokenizer, 4096, 128, form=lambda first, second: first)
    text = written.tokenizer.decode(written.relevance(CLAIM, CONTEXT, "Tea", SENTENCE).ids)
    assert "title: Tea content: Tea is hot water." in text
