"""Planted effects in Steen 2023's tables: dialogue phrases, contradiction, and draws of phrases."""

import json
import shutil
import zlib

import pytest

from faith_jax.cli import main
from faith_jax.datasets.augmentation.dialogue_phrases import PHRASES, phrase_draw, with_phrase
from tests.papers.planted import plant_classifiers, sentences, write_corpus
from tests.papers.workflows import figures, without_snakemake
from tests.scoring.tiny_models import write_model

pytestmark = pytest.mark.usefixtures("offline_data_dir")

NLI = ("neutral", "contradiction", "entailment")
COUNT = 60
DRAWS = 3
CORPORA = {name: sentences(2 * COUNT, seed) for seed, name in enumerate(("q2", "frank"))}
# One in five of the unsupported responses, which classifiers take for entailed.
MISJUDGED = {text for texts in CORPORA.values() for text in texts[COUNT + 1 :: 10]}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {n: write_model(folder / n, "roberta", label_names=NLI) for n in ("base", "augmented")}


def write_data(folder, is_spoken):
    """Prepares q2, whose consistent responses may open with phrases, and frank without any."""
    for corpus, texts in CORPORA.items():
        rows = []
        for number, text in enumerate(texts[:COUNT]):
            response = text if number % 2 == 0 else texts[COUNT + number]
            if is_spoken and corpus == "q2" and number % 2 == 0:
                response = with_phrase(response, PHRASES[number // 2 % len(PHRASES)])
            rows.append((text, response, int(number % 2 == 0)))
        write_corpus(folder / "raw" / corpus, corpus, rows)


def plant(monkeypatch, learnt, contradiction_tells=False):
    """Replaces each checkpoint by a planted classifier; `learnt` has the phrases it has learnt.

    It predicts entailment for hypotheses that the premise supports, but neutral for those that open
    with a phrase it has not learnt. It misjudges some unsupported ones. With `contradiction_tells`,
    contradiction is more probable for all unsupported ones.
    """

    def probabilities(model, premise, hypothesis):
        phrase = next((p for p in PHRASES if hypothesis.startswith(f"{p} ")), "")
        is_said = premise[1:] in hypothesis
        is_neutral = phrase and phrase not in learnt(model)
        is_entailed = hypothesis in MISJUDGED or (is_said and not is_neutral)
        noise = zlib.crc32(hypothesis.encode()) % 101 / 1010  # 0 to 0.1
        entailment = (0.55 if is_entailed else 0.2) + noise
        contradiction = 0.3 if contradiction_tells and not is_said else 0.1
        return 1 - entailment - contradiction, contradiction, entailment

    plant_classifiers(monkeypatch, lambda _: NLI, probabilities)


def cells_of(folder, name="nli"):
    return figures(folder, name, "table", "method", "corpus", "figure")


@pytest.fixture
def nli(tmp_path, monkeypatch, models):
    without_snakemake(monkeypatch)

    def run(name, is_spoken, contradiction_tells=False):
        folder = tmp_path / name
        monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(folder / "prepared"))
        write_data(folder, is_spoken)
        plant(
            monkeypatch, lambda m: PHRASES if m == models["augmented"] else (), contradiction_tells
        )
        arguments = [f"--model={models['base']}", f"--augmented-model={models['augmented']}"]
        arguments += ["--resamples=200", "--dropout-passes=2", "--corpora=frank,q2"]
        assert main(["reproduce", "nli", f"--output={folder / 'made'}", *arguments]) == 0
        return cells_of(folder / "made")

    return run


@pytest.mark.papers
def test_training_on_phrases_helps_where_responses_open_with_them(nli):
    for name, is_spoken in (("phrases", True), ("none", False)):
        cells = nli(name, is_spoken)
        gain = {c: cells["2", "augmented", c, "auc_difference"] for c in ("q2", "frank")}
        p_value = cells["1", "augmented", "q2", "p_base"]["value"]
        if is_spoken:
            assert gain["q2"]["value"] > 0.3
            assert gain["q2"]["low"] > 0.2
            assert p_value < 0.02
            assert cells["1", "base", "q2", "auc"]["value"] < 0.55
        else:
            assert gain["q2"]["value"] == 0
            assert p_value == 1
        assert gain["frank"]["value"] == 0
        assert cells["1", "augmented", "q2", "auc"]["value"] > 0.85


@pytest.mark.papers
def test_contradiction_helps_where_it_tells(nli):
    for name, tells in (("tells", True), ("constant", False)):
        cells = nli(name, False, tells)
        for corpus in ("q2", "frank"):
            gain = cells["2", "base_e_minus_c", corpus, "auc_difference"]
            p_value = cells["1", "base_e_minus_c", corpus, "p_base"]["value"]
            if tells:
                assert gain["value"] > 0.05
                assert gain["low"] > 0
                assert p_value < 0.02
                assert cells["1", "base_e_minus_c", corpus, "auc"]["value"] == 1
            else:
                assert gain["value"] == pytest.approx(0)
                assert p_value == 1
        # Figure 1: of 60 responses that the grounding does not say, 12 are misjudged.
        high = {"base": 0.5, "base_e_minus_c": 0.4}
        for method, least in high.items():
            counts = bars(cells, method)
            above = {n: sum(c for low, c in bins.items() if low >= least) for n, bins in counts}
            told_apart = tells and method == "base_e_minus_c"
            assert above == {"faithful": 60, "not faithful": 0 if told_apart else 12}
        below = dict(bars(cells, "base_e_minus_c"))["not faithful"]
        assert sum(count for low, count in below.items() if low < 0) == (48 if tells else 0)


def bars(cells, method):
    """Returns the number of responses in each bin of figure 1, by class."""
    counts = {}
    for (table, of, _, name), row in cells.items():
        if (table, of) == ("figure 1", method):
            label, _, scores = name.partition(", ")
            counts.setdefault(label, {})[float(scores.split(" to ")[0])] = row["value"]
            assert row["rows"] == 60
    return counts.items()


@pytest.mark.papers
@pytest.mark.parametrize("is_spoken", [True, False], ids=["phrases", "none"])
def test_draws_of_phrases(tmp_path, monkeypatch, models, is_spoken):
    """Each draw recognises responses with its own phrases; the figures show the draws' spread."""
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(tmp_path / "prepared"))
    write_data(tmp_path, is_spoken)
    output = tmp_path / "made"
    learnt = {models["augmented"]: PHRASES}
    for number in range(DRAWS):  # as their trainings leave them
        best = output / "models" / f"draw_{number}" / "checkpoints" / "best"
        shutil.copytree(models["base"], best)
        learnt[f"models/draw_{number}/checkpoints/best"] = phrase_draw(number)
    without_snakemake(monkeypatch)
    plant(monkeypatch, lambda model: learnt.get(model, ()))
    arguments = [f"--model={models['base']}", f"--augmented-model={models['augmented']}"]
    arguments += [f"--draws={DRAWS}", "--dropout-passes=2", "--corpora=frank,q2"]
    assert main(["reproduce", "nli_phrases", f"--output={output}", *arguments]) == 0
    report = json.loads((output / "nli_phrases.json").read_text("utf-8"))
    assert report["phrases"] == [list(phrase_draw(number)) for number in range(DRAWS)]
    cells = {key[1:]: row["value"] for key, row in cells_of(output, "nli_phrases").items()}
    for corpus in ("q2", "frank"):
        none, *draws = (
            cells[key, corpus, figure]
            for key, figure in (
                ("draws", "no_augmentation"),
                *((f"draw_{n}", "auc") for n in range(DRAWS)),
            )
        )
        if is_spoken and corpus == "q2":
            assert all(draw > none + 0.1 for draw in draws)
            assert cells["draws", corpus, "difference"] < -0.1  # half of the phrases are not learnt
        else:
            assert draws == [none] * DRAWS
            assert cells["draws", corpus, "difference"] == pytest.approx(0)
            assert cells["draws", corpus, "std"] == pytest.approx(0)
