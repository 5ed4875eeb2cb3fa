"""The table of decodings through the command, with tiny random models."""

import json
import pathlib
import statistics

import pytest
import sacrebleu

from faith_jax.cli import main
from faith_jax.decoding.config import PMIConfig
from faith_jax.evaluation.q2_baselines import content_tokens
from faith_jax.language_model import load_model
from faith_jax.reproduce import pmi_table, response_files
from faith_jax.runs.score_input import dataset_rows
from faith_jax.tokenizers import vocabularies
from tests.reproduce.planted import INVENTED, KNOWLEDGE, SHUFFLED, plant_q2
from tests.scoring.tiny_models import write_model

pytestmark = pytest.mark.usefixtures("offline_data_dir", "quick_compilation")

RESPONSES = {
    "likelihood": ["I do not know.", "You can brush the dust off. That is fine by me."],
    "pmi": [
        "Keep them in the dark, in paper envelopes.",
        "You can brush the dust off softly, but do not use water: water dissolves the surface.",
    ],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    made = {}
    for family in ("bart", "gpt2", "roberta"):
        made[family] = write_model(folder / family, family, max_positions=320)
    return made


@pytest.fixture
def reproduce(capsys):
    def run(output, *arguments):
        given = ("--sample", "--corpus=faithdial", "--decodings=likelihood,pmi", "--limit=2")
        given = (*given, "--resamples=100", "--max-length=4", "--max-input-length=200")
        arguments = ("pmi_decode", f"--output={output}", *given, *arguments)
        status = main(["reproduce", *map(str, arguments)])
        out, err = capsys.readouterr()
        return status, out.splitlines(), err.strip().splitlines()

    return run


def scorers(models):
    return (
        f"--scorer-model={models['gpt2']}",
        f"--bertscore-model={models['roberta']}",
        "--scorer-option=bertscore.layer=1",
    )


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_responses(folder):
    """Writes responses as if they had been decoded."""
    corpus = folder / "faithdial"
    corpus.mkdir(parents=True)
    examples = [row.fields for row in dataset_rows("faithdial_generate_sample", "", "test")]
    for decoding, texts in RESPONSES.items():
        lines = [
            {
                "id": example["id"],
                "knowledge": example["knowledge"],
                "history": example["history"],
                "generated_text": text,
                "gold": example["targets_pretokenized"],
                "inputs_cut_tokens": 0,
            }
            for example, text in zip(examples, texts, strict=False)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (corpus / f"{decoding}.jsonl").write_text(text, encoding="utf-8")


def as_if_decoded(folder):
    for decoding in RESPONSES:
        (folder / "faithdial" / decoding).mkdir()
        (folder / "faithdial" / decoding / "predictions.jsonl").touch()


@pytest.fixture
def refuse_work(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("nothing should be computed")

    def refuse():
        monkeypatch.setattr("faith_jax.runs.infer.infer", fail)
        monkeypatch.setattr(response_files, "score", fail)
        monkeypatch.setattr(pmi_table, "load_scorer", fail)

    return refuse


def test_figures_are_the_means_of_the_scored_files(reproduce, models, tmp_path):
    write_responses(tmp_path)
    model = f"--model={models['bart']}"
    status, lines, _ = reproduce(tmp_path, model, *scorers(models))
    assert status == 0
    found = json.loads((tmp_path / "pmi_decode_sample.json").read_text())
    values = {(row["decoding"], row["column"]): row for row in found["rows"]}
    assert len(values) == 12
    for decoding in RESPONSES:

        def mean(scorer, decoding=decoding):
            rows = rows_of(tmp_path / "faithdial" / f"{decoding}_{scorer}.jsonl")
            return statistics.fmean(row["scores"][scorer] for row in rows)

        made = rows_of(tmp_path / "faithdial" / f"{decoding}.jsonl")
        assert [row["generated_text"] for row in made] == RESPONSES[decoding]
        bleu = sacrebleu.corpus_bleu(
            [row["generated_text"].lower() for row in made],
            [[row["gold"].lower() for row in made]],
        )
        expected = {
            "PMI-Faith": (mean("pmi_faith_mean") + 2.1) / 8.5,
            "F1-U": mean("q2_baseline_token_f1"),
            "TRUE F1": mean("token_f1"),
            "BERTScore": mean("bertscore"),
            "BLEU-4": bleu.score,
            "ROUGE-L": mean("rougeL_f1_stemmed"),
        }
        for column, value in expected.items():
            cell = values[decoding, column]
            assert cell["value"] == pytest.approx(value), column
            assert (cell["rows"], cell["low"] <= value <= cell["high"]) == (2, True)
            assert cell["published"] is None
    assert values["likelihood", "BLEU-4"]["p_value"] is None
    assert 0 < values["pmi", "BLEU-4"]["p_value"] <= 1
    gold = rows_of(tmp_path / "faithdial" / "pmi_rougeL_f1_stemmed.jsonl")[0]
    assert gold["grounding"] == ["Keep them in the dark, in paper envelopes without acid."]
    document = rows_of(tmp_path / "faithdial" / "pmi_token_f1.jsonl")[0]
    assert document["grounding"][0].startswith("Photographs last longest")
    assert document["history"] == ["I found a box of old photographs. How do I store them?"]
    # Dark, paper and envelopes, of 5 and 8 words without "in" and "the".
    assert document["scores"]["token_f1"] == pytest.approx(2 * 3 / (5 + 8))
    # Of "keep", dark, paper and envelopes ("keep" is a stop word) the document has all three.
    document = rows_of(tmp_path / "faithdial" / "pmi_q2_baseline_token_f1.jsonl")[0]
    known = content_tokens(document["grounding"][0].lower())
    assert content_tokens(RESPONSES["pmi"][0]) == ["dark", "paper", "envelopes"]
    expected = 2 * 3 / (3 + len(known))
    assert document["scores"]["q2_baseline_token_f1"] == pytest.approx(expected)
    assert lines[0].startswith("SAMPLES, not the paper's data: Decodings with and without PMI")
    assert "first 2 rows of each data set" in lines[0]
    needed = "Q\u00b2 NLI is left out: it needs models (--q2-model, --q2-nli-model)."
    assert needed in lines
    assert not any("published" in line for line in lines)


def test_responses_are_the_models(reproduce, models, tmp_path, refuse_work):
    arguments = (f"--model={models['bart']}", "--beams=2", "--alpha=0.5", "--p=0.9")
    status, lines, errors = reproduce(tmp_path, *arguments)
    assert status == 0, errors
    assert any(line.startswith("PMI-Faith is left out: it needs a model (--s") for line in lines)
    columns = ["corpus", "decoding", "F1-U", "TRUE", "F1", "BLEU-4", "ROUGE-L"]
    assert lines[1].split() == columns
    tokens = vocabularies.load_vocabulary(models["bart"])
    model = load_model(models["bart"])
    pmi = PMIConfig(alpha=0.5, p=0.9)
    for decoding in RESPONSES:
        row = rows_of(tmp_path / "faithdial" / f"{decoding}.jsonl")[1]
        texts = rows_of(tmp_path / "faithdial" / "rows.jsonl")[1]["inputs"]
        turns = texts[texts.index("<seeker>") :]
        inputs = [[tokens.encode_with_special_tokens(text)] for text in (texts, turns)]
        if decoding == "pmi":
            found = model.decode_pmi(*inputs, max_length=4, num_beams=2, pmi=pmi)
        else:
            found = model.decode(inputs[0], max_length=4, num_beams=2)
        assert row["log_prob"] == pytest.approx(float(found.log_prob[0]), abs=1e-3)
    # The same command makes the table again and computes nothing.
    table = tmp_path / "pmi_decode_sample.json"
    before = table.read_text()
    table.unlink()
    refuse_work()
    assert reproduce(tmp_path, *arguments)[0] == 0
    assert table.read_text() == before
    status, _, errors = reproduce(tmp_path, *arguments[:-1], "--p=0.8")
    assert status == 2
    assert "another value of p (0.9, not 0.8); name another folder, or remove it" in errors[-1]


def test_a_scorer_may_be_added(reproduce, models, tmp_path, monkeypatch):
    write_responses(tmp_path)
    model = f"--model={models['bart']}"
    assert reproduce(tmp_path, model)[0] == 0
    as_if_decoded(tmp_path)
    scored = []
    really = response_files.score
    monkeypatch.setattr(response_files, "score", lambda *a: scored.append(a[1]) or really(*a))
    given = f"--scorer-model={models['gpt2']}"
    assert reproduce(tmp_path, model, given)[0] == 0
    options = {"model": models["gpt2"], "score_cue": True}
    assert scored == [{"pmi_faith_mean": options}] * 2
    # One that another run left out is kept; with other options it is refused.
    assert reproduce(tmp_path, model)[0] == 0
    assert len(scored) == 2
    status, _, errors = reproduce(
        tmp_path, model, given, "--scorer-option=pmi_faith_mean.max_length=64"
    )
    assert status == 2
    assert "with another value of scorer-option of pmi_faith_mean" in errors[-1]


def test_published_figures_stand_below_ours(reproduce, models, tmp_path, monkeypatch):
    """With the sample in the place of the paper's data, which is not at hand."""
    write_responses(tmp_path)

    def sample(task, tfds, split):
        return dataset_rows(f"{task.removesuffix('_sample')}_sample", tfds, split)

    monkeypatch.setattr(response_files, "dataset_rows", sample)
    given = ("pmi_decode", f"--model={models['bart']}", f"--output={tmp_path}", "--resamples=100")
    chosen = ("--corpus=faithdial", "--decodings=likelihood,pmi")
    assert main(["reproduce", *given, *chosen]) == 0
    markdown = (tmp_path / "pmi_decode.md").read_text()
    lines = [line.split("|") for line in markdown.splitlines() if "published)" in line]
    assert [[cell.strip() for cell in line[1:-1]] for line in lines] == [
        ["faithdial", "likelihood (published)", "0.64", "", "13.53", "0.40"],
        ["faithdial", "pmi (published)", "0.75", "", "12.95", "0.40"],
    ]
    assert "Published: Nandwani 2023, table 3, of another model" in markdown


def test_rows_without_a_score_do_not_count(reproduce, models, tmp_path):
    write_responses(tmp_path)
    path = tmp_path / "faithdial" / "pmi.jsonl"
    first, second = rows_of(path)
    rows = [first | {"generated_text": ""}, second]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = (f"--model={models['bart']}", f"--scorer-model={models['gpt2']}")
    status, lines, _ = reproduce(tmp_path, *given)
    assert status == 0
    assert any(line.endswith("1 of faithdial, pmi (PMI-Faith).") for line in lines)
    found = json.loads((tmp_path / "pmi_decode_sample.json").read_text())["rows"]
    cells = {row["column"]: row for row in found if row["decoding"] == "pmi"}
    score = rows_of(tmp_path / "faithdial" / "pmi_pmi_faith_mean.jsonl")[1]["scores"]
    assert cells["PMI-Faith"]["value"] == pytest.approx((score["pmi_faith_mean"] + 2.1) / 8.5)
    assert (cells["PMI-Faith"]["rows"], cells["F1-U"]["rows"]) == (1, 2)


GROUNDED = ("PMI-Faith", "F1-U", "TRUE F1", "BERTScore", "Q\u00b2 NLI")


def test_who_copies_beats_who_invents_and_shuffled_knowledge_undoes_it(
    reproduce, models, tmp_path, monkeypatch
):
    """A planted effect: `pmi` copies its document, `likelihood` invents.

    Random encoders and stand-ins for Q\u00b2's models suffice; `mini` has learnt to copy. With the
    documents of other rows no column may tell them apart.
    """
    plant_q2(monkeypatch)
    figures = {}
    for name, knowledge in (("own", KNOWLEDGE), ("shuffled", SHUFFLED)):
        corpus = tmp_path / name / "faithdial"
        corpus.mkdir(parents=True)
        for decoding, texts in {
            "rows": KNOWLEDGE,
            "likelihood": INVENTED,
            "pmi": KNOWLEDGE,
        }.items():
            lines = [
                {
                    "id": str(number),
                    "inputs": document,
                    "response": "Nobody knows.",
                    "knowledge": document,
                    "history": ["Tell me something."],
                    "generated_text": text,
                    "gold": "Nobody knows.",
                    "inputs_cut_tokens": 0,
                }
                for number, (document, text) in enumerate(zip(knowledge, texts, strict=True))
            ]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (corpus / f"{decoding}.jsonl").write_text(text, encoding="utf-8")
        given = (f"--model={models['bart']}", "--scorer-model=mini", *scorers(models)[1:])
        given = (*given, "--q2-model=mini", "--q2-nli-model=mini", "--resamples=200")
        status, lines, errors = reproduce(tmp_path / name, *given)
        assert status == 0, errors
        assert not any("left out" in line for line in lines)
        found = json.loads((tmp_path / name / "pmi_decode_sample.json").read_text())["rows"]
        figures[name] = {(row["decoding"], row["column"]): row for row in found}
    for column in GROUNDED:
        copied, invented = (figures["own"][name, column] for name in ("pmi", "likelihood"))
        assert copied["value"] > invented["value"], column
        assert copied["significant"], column
        assert copied["p_value"] < 0.02, column
        other = figures["shuffled"]["pmi", column]
        assert not other["significant"], column
        drop = copied["value"] - other["value"]
        assert drop > 0.8 * (copied["value"] - invented["value"]), column
    assert figures["own"]["pmi", "F1-U"]["value"] == pytest.approx(1)
    assert figures["own"]["likelihood", "F1-U"]["value"] == 0
    assert figures["own"]["pmi", "Q\u00b2 NLI"]["value"] == 1
    assert figures["own"]["likelihood", "Q\u00b2 NLI"]["value"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "pmi_decode needs a model that responds: give --model=CHECKPOINT."),
        (("--model={bart}", "--corpus=faithdail"), "There are: multidoc2dial, topical_chat"),
        (("--model={bart}", "--corpus=faithdail"), "Did you mean 'faithdial'?"),
        (("--model={bart}", "--decodings=pmi,greedy"), "--decodings: there is no 'greedy'."),
        (("--model={roberta}",), "expected a language model, got an encoder-only one."),
        (("--model={bart}x",), "bartx: there is no such checkpoint."),
        (("--model={bart}", "--beams=0"), "num_beams = 0; expected a positive number"),
        (("--model={bart}", "--alpha=-1"), "pmi.alpha = -1.0; expected a weight in [0, 1]"),
        (("--model={bart}", "--limit=-1"), "--limit: expected a positive number, got -1."),
        (("--model={bart}", "--max-input-length=400"), "--max-input-length: inputs take"),
        (("--model={bart}", "--scorer-model={roberta}"), "expected a language model, got an enc"),
        (
            ("--model={bart}", "--scorers=bleu"),
            "reproduce pmi_decode has no argument '--scorers=bleu'",
        ),
        (
            ("--model={bart}", "--scorer-option=bertscore.layer=1"),
            "--scorer-option: bertscore is not scored without a model of its own.",
        ),
        (
            ("--model={bart}", "--q2-model=mini"),
            "q2_nli needs a model that asks questions (--q2-model) and one of natural language "
            "inference (--q2-nli-model); --q2-nli-model is not given.",
        ),
        (("--model={bart}", "--q2-nli-model=mini"), "--q2-model is not given."),
        (
            ("--model={bart}", "--scorer-option=q2_nli.tagger=rules"),
            "--q2-model is not given.",
        ),
        (("--model={bart}", "--vocabulary=english_4096"), "'english_4096' is not what --model = "),
    ],
)
def test_mistakes(reproduce, models, tmp_path, arguments, message):
    arguments = [argument.format(**models) for argument in arguments]
    status, out, errors = reproduce(tmp_path / "made", *arguments)
    assert (status, out) == (2, [])
    assert message in errors[-1]
    assert errors[-1].startswith("faith-jax: ")


def test_a_run_that_came_to_nothing_is_not_in_the_way(reproduce, models, tmp_path):
    model = f"--model={models['gpt2']}"
    status, _, errors = reproduce(tmp_path, model, "--limit=1", "--max-input-length=400")
    assert (status, "inputs and responses take 404 positions" in errors[-1]) == (2, True)
    status, _, errors = reproduce(tmp_path, model, "--decodings=pmi", "--beams=1")
    assert status == 0, errors
    assert len(rows_of(tmp_path / "faithdial" / "pmi.jsonl")) == 2
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert (settings["limit"], settings["max-input-length"]) == (2, 200)


def test_a_tokenizer_elsewhere(reproduce, models, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).write_bytes((pathlib.Path(models["gpt2"]) / name).read_bytes())
    made = tmp_path / "made"
    status, _, errors = reproduce(made, f"--model={bare}", "--decodings=pmi")
    assert (status, errors[-1].startswith("faith-jax: --vocabulary: Vocab")) == (2, True)
    given = (f"--model={bare}", f"--vocabulary={models['gpt2']}", "--decodings=likelihood")
    status, _, errors = reproduce(made, *given, "--beams=1")
    assert status == 0, errors


def test_options_of_other_tables_are_refused(capsys, tmp_path):
    given = ("reproduce", "begin", "--sample", f"--output={tmp_path}", "--beams=2")
    assert main(given) == 2
    assert "reproduce begin has no argument '--beams=2'" in capsys.readouterr().err
