"""Certification: our scores against those of the judges' own code, and invalid certificates."""

import json
import math
import pathlib
import zlib

import numpy as np
import pytest
import safetensors.numpy

from faith_jax.runs.judges import certify
from faith_jax.runs.judges.reference_models import _draw_parameter
from faith_jax.scoring.judges.card import PRESETS, preset_names, read_card
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.quick import slow_except

PAIRS = certify.certification_pairs()
FEW = 6  # pairs of the tests of the command
# Some pairs of each kind, with long ones that need several chunks.
CHOSEN = [*range(0, 155, 18), 137, 138, 155, 159, 170]
CARD = "wecheck_deberta_v3"


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Returns the folder of a card's tiny model."""
    folders = {}

    def folder_of(name):
        if name not in folders:
            path = tmp_path_factory.mktemp("references") / name
            family = read_card(name).architectures[0]
            folders[name] = certify.reference_model(path, name, family)
        return folders[name]

    return folder_of


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(certify, "certification_pairs", lambda: PAIRS[:FEW])
    kept = certify.read_references()
    short = {
        name: certify.References(references.code, references.scores[:FEW])
        for name, references in kept.items()
    }
    monkeypatch.setattr(certify, "read_references", lambda: short)
    return short


def write_rows(path, scores):
    rows = [{"pair": number, "score": score} for number, score in scores.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_there_are_200_pairs_of_all_kinds():
    assert len(PAIRS) == len(set(PAIRS)) == 200
    kinds = {pair.kind.partition(",")[0] for pair in PAIRS}
    assert kinds == {"short", "unicode", "two texts", "edge", "long"}
    assert all("".join(pair.texts).strip() and pair.response.strip() for pair in PAIRS)
    words = [len(" ".join(pair.texts).split()) for pair in PAIRS if pair.kind.startswith("long")]
    assert min(words) > 550  # of FactCG's chunks, the longest
    assert not any("</s>" in text or "[SEP]" in text for pair in PAIRS for text in pair.texts)


def test_every_card_has_a_reference_of_every_pair():
    references = certify.read_references()
    assert references.keys() == set(preset_names())
    for name, kept in references.items():
        card = read_card(name).scorer_card(name)
        scores = np.array([math.nan if s is None else s for s in kept.scores])
        assert len(scores) == 200
        assert np.isnan(scores).sum() == (11 if name.startswith("summac") else 0)
        assert np.nanmin(scores) >= card.low
        assert np.nanmax(scores) <= card.high
        assert np.nanstd(scores) > 0.1  # what is read wrongly shows


QUICK = ("summac_conv_vitaminc",)  # an encoder's sentences with a histogram


@pytest.mark.parametrize("name", slow_except(preset_names(), QUICK))
def test_scores_are_those_of_the_judges_own_code(references, name):
    kept = certify.read_references()[name]
    scorer = load_scorer(name, model=str(references(name)))
    scores = np.array(certify._score_pairs(scorer, [PAIRS[n] for n in CHOSEN]))
    expected = [math.nan if kept.scores[n] is None else kept.scores[n] for n in CHOSEN]
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_a_tiny_model_is_a_function_of_its_seed(references):
    name = "encoder/layers_0/mlp/wi/kernel"
    drawn, rng = (
        _draw_parameter(name, (2, 2)),
        np.random.default_rng([0, zlib.crc32(name.encode())]),
    )
    np.testing.assert_allclose(drawn, (rng.random((2, 2)) * 2 - 1) * 1.5**0.5, rtol=1e-6)
    tokenizer = load_vocabulary(str(references("minicheck_flan_t5_large")))
    assert [tokenizer.encode(word)[0] for word in ("1", "0", "Yes", "No")] == [209, 3, 2163, 465]


def test_the_command_certifies_the_tiny_model(few, command, tmp_path):
    status, out, err = command(
        "certify", CARD, "--dtype=bfloat16", f"--json={tmp_path}/figures.json"
    )
    assert (status, err) == (0, "")
    assert f"{CARD}, its tiny random model: certified" in out
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["certified"] is True
    exact, rounded = figures["comparisons"]
    assert exact["pairs"] == FEW
    assert exact["largest_difference"] < 1e-5
    difference = np.abs(np.subtract(*figures["scores"].values()))
    assert rounded["largest_difference"] == pytest.approx(difference.max())
    assert rounded["median_difference"] == pytest.approx(np.median(difference))
    assert 1e-4 < difference.max() < 0.05
    status, out, _ = command("certify", CARD, "--tolerance=1e-9")
    assert status == 1
    assert "float32 with Transformers" in out
    assert "bfloat16" not in out


def test_a_folder_with_references_of_the_authors_code(few, references, command, tmp_path):
    folder, scores = references(CARD), few[CARD].scores
    rows = write_rows(tmp_path / "authors.jsonl", dict(enumerate(scores, 1)))
    called = "certify", CARD, str(folder), "--dtype=float32", f"--references={rows}"
    status, out, err = command(*called)
    assert (status, err) == (0, "")
    assert "float32 with authors.jsonl" in out
    write_rows(rows, dict(enumerate(scores, 1)) | {3: 0.5, 5: None})
    status, out, _ = command(*called)
    assert status == 1
    assert f"pair 3 (short, unrelated): {scores[2]:.6f}"[:-1] in out
    assert "but 0.500000 (float32 with authors.jsonl)" in out
    assert "pair 5 (short, contradicted)" in out
    # A folder with a changed weight also fails.
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    changed = tmp_path / "changed"
    changed.mkdir()
    for file in folder.iterdir():
        (changed / file.name).write_bytes(file.read_bytes())
    stored["classifier.weight"] = stored["classifier.weight"] * 1.01
    safetensors.numpy.save_file(stored, changed / "model.safetensors", {"format": "pt"})
    write_rows(rows, dict(enumerate(scores, 1)))
    status, out, _ = command("certify", CARD, str(changed), f"--references={rows}")
    assert status == 1
    assert "not certified" in out


def test_verdicts_that_change_and_scores_out_of_range(few, references, monkeypatch):
    name = "minicheck_roberta_large"
    comparison = certify.ScoreComparison(
        "a with b", 0.1, [0.49, 0.6, math.nan], {0: 0.51, 1: 0.3}, 0.5
    )
    assert comparison.changed_pairs() == [0, 1]
    assert comparison.wrong() == [1]
    row = comparison.row()
    assert row[1:] == (2, "0.3", "0.16", "0.1", 2, "differs")
    undefined = certify.ScoreComparison("a", 0.1, [math.nan] * 2, {0: math.nan, 1: 0.5}, None)
    assert undefined.differences == [0, math.inf]
    assert undefined.changed_pairs() == []
    monkeypatch.setattr(certify, "_score_pairs", lambda scorer, pairs: [1.5] * len(pairs))
    options = certify.CertifyOptions(name, str(references(name)))
    text, is_certified = certify.certify(options)
    assert not is_certified
    assert "pair 1: float32 score 1.5 is outside the card's range, 0 to 1" in text


def test_words_with_other_tokens_than_the_published_ones(few, models, command, monkeypatch):
    name = "true_t5_xxl"
    monkeypatch.setattr(certify, "_score_pairs", lambda scorer, pairs: [0.5] * len(pairs))
    status, out, _ = command("certify", name, models[name])
    assert status == 1
    assert "the word '1' begins with token " in out
    assert "in T5's published vocabulary, which this judge was trained with, with 209" in out


def test_the_tiny_model_is_written_to_try_cards_of_ones_own(few, command, tmp_path):
    folder, card = tmp_path / "tiny", tmp_path / "mine.toml"
    status, _, err = command("certify", CARD, f"--write-model={folder}")
    assert (status, err) == (0, "")
    card.write_text((PRESETS / f"{CARD}.toml").read_text())
    texts = ["Tea is a leaf."], ["Tea is hot."]
    scores = [load_scorer(name, model=str(folder)).score(*texts) for name in (CARD, str(card))]
    assert scores[0] == scores[1]
    status, _, err = command("certify", CARD, f"--write-model={folder}")
    assert (status, "tiny" in err) == (2, True)
    for arguments in ([CARD, str(folder)], [str(card)]):
        status, _, err = command("certify", *arguments, f"--write-model={tmp_path / 'new'}")
        assert (status, "goes with a judge of the package" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "rows", "message"),
    [
        (["minichek_roberta_large"], None, "is no judge. Did you mean 'minicheck_roberta_large'"),
        ([CARD, "ROBERTA"], None, "Cards for roberta: alignscore, minicheck_roberta_large"),
        ([CARD, "FOLDER", "--dtype=float32"], None, "give --references=FILE, or another dtype"),
        ([CARD, "--references=ROWS"], '{"pair": 1, "score": 0.5}', "goes with the FOLDER"),
        (
            [CARD, "FOLDER", "--references=ROWS"],
            '{"pair": 7, "score": 0.5}',
            "expected 1 to 6, got",
        ),
        ([CARD, "FOLDER", "--references=ROWS"], '{"score": 0.5}', "field 'pair'"),
        ([CARD, "FOLDER", "--references=ROWS"], '{"pair": 1}\n{"pair": 1}', "1 is given twice"),
        ([CARD, "FOLDER", "--references=ROWS"], "", "has no rows"),
        ([CARD, "FOLDER", "--references=ROWS", "--write-pairs=ROWS"], "{}", "would overwrite the"),
        ([CARD, "--json=-", "--write-pairs=-"], None, "--write-pairs: - is the output of --json"),
        (["CARDFILE"], None, "a card of your own has no tiny model; give its FOLDER"),
    ],
)
def test_bad_input_is_one_line(few, references, command, tmp_path, arguments, rows, message):
    places = {"ROWS": tmp_path / "rows.jsonl", "FOLDER": references(CARD)}
    places |= {"ROBERTA": references("alignscore"), "CARDFILE": tmp_path / "mine.toml"}
    preset = pathlib.Path(certify.__file__).parents[2] / "scoring" / "presets" / f"{CARD}.toml"
    places["CARDFILE"].write_text(preset.read_text())
    if rows is not None:
        places["ROWS"].write_text(rows)
    called = []
    for argument in arguments:
        option, equals, value = argument.rpartition("=")
        called.append(f"{option}{equals}{places.get(value, value)}")
    status, out, err = command("certify", *called)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
