import re

import pytest

from faith_jax.checkpoints.hugging_face.families import FAMILIES
from faith_jax.core.errors import ConfigError
from faith_jax.scoring.judges.card import (
    PRESETS,
    ReadClass,
    ReadWords,
    card_digest,
    preset_names,
    presets_for,
    read_card,
)
from faith_jax.scoring.registry import (
    is_judge,
    load_scorer,
    scorer_card,
    scorer_names,
    scorer_options,
)
from tests.scoring.judges.models import HEADS, T5

CARD = """\
what = "How well the grounding supports the response, by a model of our own."
architectures = ["t5"]
size = "60 million"
checkpoint = "checkpoints/mine"
licence = "Apache-2.0"
source = "https://example.org/judge"
threshold = 0.4
threshold_source = "our validation set"
max_length = 512

[input]
text = "text: {grounding} claim: {response}"

[reads]
form = "words"
words = ["Yes", "No"]

[chunks]
method = "sentences"
length = 200
unit = "words"
"""


def test_the_packages_cards_are_whole():
    assert set(preset_names()) >= {*HEADS, *T5}
    for name in preset_names():
        card = read_card(name)
        assert set(card.architectures) <= FAMILIES.keys()
        assert card.what.endswith(".")
        assert is_judge(name)
        assert name in scorer_names()


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("minicheck_flan_t5_large", ReadWords(["1", "0"])),
        ("minicheck_roberta_large", ReadClass(1)),
        ("true_t5_xxl", ReadWords(["1", "0"], over="vocabulary")),
        ("wecheck_deberta_v3", ReadClass(0, "sigmoid")),
        ("summac_zs_vitaminc", ReadClass(0, minus=1)),
        ("unieval_sum", ReadWords(["Yes", "No"])),
    ],
)
def test_what_is_read_off_the_model(name, reads):
    assert read_card(name).reads == reads


def test_a_card_is_a_scorers_card():
    card = scorer_card("summac_zs_vitaminc")
    assert (card.low, card.high, card.needs_model) == (-1.0, 1.0, True)
    assert card.source == "https://github.com/tingofurro/summac"
    assert scorer_card("factcg_deberta_v3_large").low == 0
    options = scorer_options("factcg_deberta_v3_large")
    assert options[:2] == ["model", "sentences"]
    assert "cut_policy" in options


def test_a_card_of_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(CARD)
    card = read_card(str(path))
    assert (card.threshold, card.chunks.length) == (0.4, 200)
    assert is_judge(str(path))
    before = card_digest(str(path))
    assert before == card_digest(str(path))
    path.write_text(CARD.replace("0.4", "0.5"))
    assert card_digest(str(path)) != before


HISTOGRAM, TOKENS = (
    (PRESETS / f"{name}.toml").read_text()
    for name in ("summac_conv_vitaminc", "lettucedetect_summary")
)


@pytest.mark.parametrize(
    ("card", "old", "new", "message"),
    [
        (CARD, "max_length = 512", "max_length = 512\nmax_lenght = 3",
         "field 'max_lenght' is unknown. Did you mean 'max_length'"),
        (CARD, 'method = "sentences"', 'method = "sentance"',
         "field 'chunks.method': expected one of sentences, windows, even, got \"sentance\". "
         "Did you mean 'sentences'?"),
        (CARD, 'form = "words"\n', 'form = "words"\nclass = 1\n',
         "field 'reads.class' is unknown. There are: form, words, ids, over."),
        (CARD, "threshold = 0.4", "threshold = 40", "field 'threshold': expected"),
        (CARD, '{response}"', '"', "field 'input': expected {response} once, got it 0 times."),
        (CARD, "{response}", "{response} {answer}",
         "field 'input': expected {grounding}, {response} and"),
        (CARD, "[reads]", 'special_tokens = ["</s>"]\n[reads]',
         "field 'input.special_tokens': '</s>' does not occur in the text."),
        (CARD, '"Yes", "No"', '"Yes", "Yes"',
         "field 'reads': expected different words, got one twice."),
        (CARD, "[chunks]", "[chunks", "is no TOML (Expected ']'"),
        (HISTOGRAM, "0.0, 0.01, 0.02", "0.0, 0.02, 0.01",
         "'histogram.edges': expected numbers that grow from 0 to 1"),
        (HISTOGRAM, "0.995, 1.0", "0.995", "'histogram.edges': expected numbers that grow from 0"),
        (HISTOGRAM, "class = 0", "class = 0\nminus = 1",
         "'reads.minus': a histogram reads a single"),
        (TOKENS, "class = 0", "class = 0\nminus = 1", "'reads.minus' is unknown"),
        (TOKENS, TOKENS[TOKENS.index("pair = [") : TOKENS.index("\n\n[reads]")],
         'text = "{grounding} {response}"', "'input': expected 'pair', whose second text has"),
        (TOKENS, '{grounding}\\noutput:", "{response}"', '{response}\\noutput:", "{grounding}"',
         "'input': expected 'pair', whose second text has"),
    ],
)  # fmt: skip
def test_a_wrong_card_is_one_error_that_names_file_and_field(tmp_path, card, old, new, message):
    path = tmp_path / "mine.toml"
    assert card.count(old) == 1
    path.write_text(card.replace(old, new))
    with pytest.raises(ConfigError, match=f"^{re.escape(str(path))}: .*{re.escape(message)}"):
        read_card(str(path))
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        load_scorer(str(path), model="checkpoints/none")
    assert str(error.value).count(str(path)) == 1


def test_a_card_that_is_not_there(tmp_path):
    path = tmp_path / "mine.toml"
    with pytest.raises(ConfigError, match=r"mine\.toml: no such file"):
        read_card(str(path))
    path.write_bytes(b"what = '\xff'")
    with pytest.raises(ConfigError, match=r"mine\.toml: expected UTF-8"):
        read_card(str(path))


def test_cards_of_a_family():
    assert presets_for("albert") == ["summac_conv_vitaminc", "summac_zs_vitaminc"]
    assert presets_for("gpt2") == []
