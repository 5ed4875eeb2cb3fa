"""The table of decodings: its workflow's commands, run in this process with tiny random models."""

import json

import pytest

from faith_jax.decoding.config import PMIConfig
from faith_jax.inference import load_model
from faith_jax.papers.pmi.decoding_table import CORPORA, Table
from faith_jax.papers.pmi.options import PmiDecode
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.texts.text_metrics import content_tokens
from faith_jax.tokenizers import vocabularies
from tests.papers.planted import INVENTED, KNOWLEDGE, SHUFFLED, plant_q2, write_rows
from tests.papers.workflows import figures, rows_of, run_in_process, shown_commands
from tests.scoring.tiny_models import write_model
from tests.tokenizers.special_tokens import encode_row

pytestmark = pytest.mark.usefixtures("offline_data_dir")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        family: write_model(folder / family, family, max_positions=320)
        for family in ("bart", "gpt2", "roberta")
    }


def arguments(output, *more):
    options = ("pmi_decode", "--sample", "--corpus=faithdial", "--decodings=likelihood,pmi")
    return (*options, "--resamples=100", f"--output={output}", *more)


@pytest.mark.papers
def test_the_models_responses_and_their_figures(models, tmp_path, capfd):
    lengths = ("--limit=2", "--max-length=4", "--max-input-length=200")
    search = ("--beams=2", "--alpha=0.5", "--p=0.9")
    options = (f"--model={models['bart']}", *lengths, *search, f"--scorer-model={models['gpt2']}")
    commands = shown_commands(capfd, *arguments(tmp_path, *options))
    assert len(commands) == 5  # two decodings, two sets of scores, a table
    content = json.loads((tmp_path / "options.json").read_text())
    assert content["options"]["limit"] == 2
    content = json.loads((tmp_path / "rows.json").read_text())
    assert content == {"faithdial_generate_sample:test": 4}
    run_in_process(capfd, tmp_path, commands)
    responses = {
        name: rows_of(tmp_path / "responses" / "faithdial" / name / "predictions.jsonl")
        for name in ("likelihood", "pmi")
    }
    tokens, model = vocabularies.load_vocabulary(models["bart"]), load_model(models["bart"])
    for decoding, rows in responses.items():
        assert [row["system"] for row in rows] == [decoding] * 2
        text = rows[1]["inputs"]
        inputs = [[encode_row(tokens, part)] for part in (text, text[text.index("<seeker>") :])]
        if decoding == "pmi":
            pmi = PMIConfig(alpha=0.5, p=0.9)
            result = model.decode_pmi(*inputs, max_length=4, num_beams=2, pmi=pmi)
        else:
            result = model.decode(inputs[0], max_length=4, num_beams=2)
        assert rows[1]["log_prob"] == pytest.approx(float(result.log_prob[0]), abs=1e-3)
    values = figures(tmp_path, "pmi_decode_sample")
    scorer = load_scorer("pmi_faith_mean", model=models["gpt2"], score_cue=True)
    for decoding, rows in responses.items():
        texts = ([row[name] for row in rows] for name in ("knowledge", "prediction", "history"))
        defined = [s.value for s in scorer.score(*texts) if s.value == s.value]
        result = values[decoding, "PMI-Faith"]
        assert result["value"] == pytest.approx(
            sum((s + 2.1) / 8.5 for s in defined) / len(defined)
        )
        assert result["rows"] == len(defined)
    assert values["likelihood", "BLEU-4"]["p_value"] is None
    assert 0 < values["pmi", "BLEU-4"]["p_value"] <= 1
    markdown = (tmp_path / "pmi_decode_sample.md").read_text("utf-8")
    assert markdown.startswith("**SAMPLES, not the paper's data: Decodings with and without PMI")
    assert "first 2 rows of each data set" in markdown
    needed = "Q\u00b2 NLI is left out: it needs models (--q2-model, --q2-nli-model)."
    assert needed in markdown
    assert "(published)" not in markdown


GROUNDED = ("PMI-Faith", "F1-U", "TRUE F1", "BERTScore", "Q\u00b2 NLI")


@pytest.mark.papers
def test_who_copies_beats_who_invents_and_shuffled_knowledge_undoes_it(
    models, tmp_path, monkeypatch, capfd
):
    """A planted effect: `pmi` copies its document, `likelihood` invents.

    Random encoders and stand-ins for Q\u00b2's models suffice; `mini` has learnt to copy. With the
    documents of other rows no column may distinguish the two.
    """
    plant_q2(monkeypatch)
    options = (f"--model={models['bart']}", "--scorer-model=mini", "--resamples=200")
    options += (f"--bertscore-model={models['roberta']}", "--scorer-option=bertscore.layer=1")
    options += ("--q2-model=mini", "--q2-nli-model=mini")
    tables = {}
    for name, knowledge in (("own", KNOWLEDGE), ("shuffled", SHUFFLED)):
        output = tmp_path / name
        commands = shown_commands(capfd, *arguments(output, *options))
        for decoding, texts in {"likelihood": INVENTED, "pmi": KNOWLEDGE}.items():
            rows = [
                {"id": str(number), "knowledge": document, "history": ["Tell me something."]}
                | {"prediction": text, "target": "Nobody knows.", "system": decoding}
                for number, (document, text) in enumerate(zip(knowledge, texts, strict=True))
            ]
            write_rows(output / "responses" / "faithdial" / decoding / "predictions.jsonl", rows)
        run_in_process(capfd, output, [line for line in commands if " infer " not in line])
        tables[name] = figures(output, "pmi_decode_sample")
    for column in GROUNDED:
        copied, invented = (tables["own"][name, column] for name in ("pmi", "likelihood"))
        assert copied["value"] > invented["value"], column
        assert copied["significant"], column
        assert copied["p_value"] < 0.02, column
        shuffled = tables["shuffled"]["pmi", column]
        assert not shuffled["significant"], column
        drop = copied["value"] - shuffled["value"]
        assert drop > 0.8 * (copied["value"] - invented["value"]), column
    for column in ("F1-U", "Q\u00b2 NLI"):
        assert tables["own"]["pmi", column]["value"] == pytest.approx(1)
        assert tables["own"]["likelihood", column]["value"] == 0
    # Of "keep", dark, paper and envelopes the first is a stop word.
    assert content_tokens("Keep them in the dark, in paper envelopes.") == [
        "dark", "paper", "envelopes",
    ]  # fmt: skip


def test_published_figures_and_options_that_make_another_function():
    options = {"output": "", "model": "mine", "bertscore_model": "m"}
    layout = Table(PmiDecode(**options), lambda *_: 0).layout()
    assert layout["published"]["faithdial"]["pmi"] == {
        "PMI-Faith": 0.59, "F1-U": 0.75, "Q\u00b2 NLI": 0.85, "BLEU-4": 12.95, "ROUGE-L": 0.4,
    }  # fmt: skip
    assert any(
        note.startswith("No published BERTScore: bertscore.baseline") for note in layout["notes"]
    )
    whole = PmiDecode(**options, scorer_option=("bertscore.baseline=b.tsv",))
    table = Table(whole, lambda *_: 0)
    assert table.scorers["bertscore"]["lower_grounding"] is True
    published = table.layout()["published"]
    assert published["faithdial"]["pmi"]["BERTScore"] == 0.66
    q2_figures = {
        name: [row["Q\u00b2 NLI"] for row in rows.values()] for name, rows in published.items()
    }
    assert q2_figures == {
        "multidoc2dial": [0.63, 0.65, 0.69, 0.65],
        "topical_chat": [0.68, 0.72, 0.73, 0.72],
        "faithdial": [0.83, 0.85, 0.87, 0.84],
    }


def test_what_each_decoding_is_told():
    table = Table(PmiDecode(output="", model="mine", alpha=0.3, p=0.7), lambda *_: 9)
    assert table.corpora == list(CORPORA)
    runs = {name: table.responses[f"topical_chat/{name}"] for name in table.decodings}
    settings = {name: run.bindings for name, run in runs.items()}
    assert {name: run.files[1] for name, run in runs.items()} == {
        "likelihood": "decoding/decoding.gin"
    } | dict.fromkeys(("pmi", "pmi_no_mask", "pmi_equal"), "decoding/pmi.gin")
    assert "PMI_ALPHA" not in settings["likelihood"]
    assert (settings["pmi"]["PMI_ALPHA"], settings["pmi"]["PMI_P"]) == (0.3, 0.7)
    assert (settings["pmi_no_mask"]["PMI_ALPHA"], settings["pmi_no_mask"]["PMI_P"]) == (0.3, 1.0)
    assert (settings["pmi_equal"]["PMI_ALPHA"], settings["pmi_equal"]["PMI_P"]) == (0.5, 0.7)
    assert {bound["SPLIT"] for bound in settings.values()} == {"test_rare"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "pmi_decode needs a model that responds: give --model=CHECKPOINT."),
        (("--model={bart}", "--decodings=pmi,greedy"), "--decodings: there is no 'greedy'."),
        (("--model={bart}", "--p=0"), "--p: expected a share in (0, 1], got 0"),
        (("--model={roberta}",), "expected a language model, got an encoder-only one or a"),
        (("--model={bart}", "--scorer-model={roberta}"), "expected a language model, got an enc"),
        (
            ("--model={bart}", "--scorer-option=bertscore.layer=1"),
            "--scorer-option: bertscore is not scored without a model of its own.",
        ),
        (("--model={bart}", "--scorer-option=q2_nli.tagger=rules"), "--q2-model is not given."),
    ],
)
def test_mistakes(command, models, tmp_path, given, message):
    given = [argument.format(**models) for argument in given]
    assert message in command.refuses("reproduce", *arguments(tmp_path / "made", *given))
    assert not (tmp_path / "made").exists()
