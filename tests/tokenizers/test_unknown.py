import json

import pytest

from faith_jax.core import templates
from faith_jax.core.cutting import fit
from faith_jax.core.errors import ConfigError
from faith_jax.core.templates import PUBLISHED, Notation
from faith_jax.tokenizers import unknown
from faith_jax.tokenizers.carried import write_vocabulary
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.paths import REAL, needs_shared
from tests.tokenizers import published_tokenizers, without_braces


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return load_vocabulary(without_braces.write(tmp_path_factory.mktemp("t5")))


def test_unknown_tokens_are_counted_by_part_with_their_characters(tokenizer):
    text = templates.npov_classifier_inputs("Is ~tea~ good?", "It is.", ["A ^b."], ["c"])
    with unknown.counting_unknown() as counts:
        ids = fit(tokenizer, text, 200, "knowledge", "a row").ids
    assert counts.unknown == {"history": 2, "knowledge": 1}
    assert sum(counts.unknown.values()) == ids.count(tokenizer.unk_id)
    assert counts.characters == {"~": 2, "^": 1}
    assert sum(counts.tokens.values()) == pytest.approx(len(ids), abs=3)
    report = counts.report()
    assert list(report["parts"]) == ["history", "knowledge"]
    (line,) = [x for x in unknown.unknown_lines(report) if "history" in x]
    assert line.startswith("  unknown tokens of history: 2 of ")
    assert line.endswith("from ~ ^")
    assert len(list(unknown.unknown_warnings(report))) == 2


@pytest.mark.parametrize(("length", "warns"), [(500, True), (3000, False)])
def test_a_thousandth_of_a_part_is_warned_of(tokenizer, length, warns):
    counts = unknown.UnknownTokens()
    text = " a" * length + " ~"
    counts.add(tokenizer, text, tokenizer.encode(text))
    assert counts.unknown["other"] == 1
    assert bool(list(unknown.unknown_warnings(counts.report()))) == warns


def test_nothing_unknown_is_no_report(tokenizer):
    with unknown.counting_unknown() as counts:
        tokenizer.encode("Tea is good.")
    assert counts.report() == {}
    tokenizer.encode("~")
    assert counts.report() == {}  # it is closed


def test_rows_add_up_to_the_counts(tokenizer):
    texts = ["[query: a ~ b] [pro: c]", "d ^ ~", "e"]
    whole, summed = unknown.UnknownTokens(), unknown.UnknownTokens()
    for text in texts:
        row = unknown.UnknownTokens()
        row.add(tokenizer, text, tokenizer.encode(text))
        whole.add(tokenizer, text, tokenizer.encode(text))
        counts = row.row()
        summed.add_rows(counts["part_tokens"], counts["unknown"], [counts["unknown_characters"]])
    assert summed.report() == whole.report()
    assert whole.characters == {"~": 2, "^": 1}


@pytest.mark.parametrize("family", sorted(published_tokenizers.FAMILIES))
def test_other_families_write_the_published_delimiters_or_say_what_they_write(family, tmp_path):
    published_tokenizers.FAMILIES[family](tmp_path)
    tokenizer = load_vocabulary(tmp_path)
    for pair in (tokenizer.notation.braces, tokenizer.notation.tags):
        assert not pair or tokenizer.writes(f"{pair[0]}wizard{pair[1]} a b.")


def test_the_delimiters_stay_with_the_vocabulary(tokenizer, tmp_path):
    write_vocabulary(tokenizer, tmp_path)
    kept = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert kept == {"faith_jax_notation": {"braces": "[]", "tags": "[]"}}
    assert load_vocabulary(tmp_path).notation == Notation("[]", "[]")
    embedded = tmp_path / "embedded"
    embedded.mkdir()
    write_vocabulary(load_vocabulary(), embedded)
    assert not (embedded / "tokenizer_config.json").exists()


def test_wrong_delimiters_are_one_line(tmp_path):
    without_braces.write(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"faith_jax_notation": {"braces": "//"}}')
    with pytest.raises(ConfigError, match=r"field 'faith_jax_notation.braces': expected one of"):
        load_vocabulary(tmp_path)


@needs_shared
def test_t5s_published_vocabulary_writes_square_brackets():
    tokenizer = load_vocabulary(REAL / "t5_vocabulary")
    assert tokenizer.notation == Notation("[]", "[]") != PUBLISHED
    for text, value in (
        (templates.npov_generate_targets("Tea {hot} is [good]."), "Tea (hot) is (good)."),
        (templates.npov_classifier_targets("YES"), "YES"),
    ):
        ids = tokenizer.encode(tokenizer.notation.to_model_notation(text))
        assert tokenizer.unk_id not in ids
        read = templates.npov_label if "label" in text else templates.npov_response
        assert read(tokenizer.decode(ids)) == value
