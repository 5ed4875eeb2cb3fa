"""`faith-jax score` with scorers of models, from folders as they are published."""

import json
import math
import threading

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.inference import class_probabilities
from faith_jax.inference.opening import clear_models
from faith_jax.input.score_input import ScoreInput
from faith_jax.runs.options import ScoreOptions
from faith_jax.runs.preflight import percentiles
from faith_jax.runs.scores import score as score_run
from faith_jax.scoring.registry import load_scorer
from tests.scoring import tiny_models

ROWS = [
    {"grounding": "Tea is a leaf.", "generated_text": "A leaf.", "history": ["What is tea?"]},
    {
        "grounding": "The lake freezes. " * 29 + "The end.",
        "generated_text": "It doesn't.",
        "history": [],
    },
    {"grounding": "Tea", "generated_text": "", "history": []},
]
NLI = ("contradiction", "neutral", "entailment")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "pmi_faith_mean": tiny_models.write_model(folder / "gpt2", "gpt2"),
        "nli_e_minus_c": tiny_models.write_model(folder / "nli", "deberta_nli", label_names=NLI),
    }


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_scores_and_cuts(command, models, rows, tmp_path):
    output = tmp_path / "scores.jsonl"
    options = [f"--scorer-option={name}.model={model}" for name, model in models.items()]
    out = command.succeeds(
        "score",
        f"--scorers={','.join(models)}",
        f"--input={rows}",
        "--history-column=history",
        f"--output={output}",
        *options,
    )
    assert "pmi_faith_mean cut the input of 1 of 3 rows, which was too long: " in out
    assert "nli_e_minus_c is undefined in 1 of 3 rows" in out
    rows_read = [json.loads(line) for line in output.read_text().splitlines()]
    for name, model in models.items():
        expected = load_scorer(name, model=model).score(
            [row["grounding"] for row in ROWS],
            [row["generated_text"] for row in ROWS],
            [row["history"] for row in ROWS],
        )
        tokens = sum(score.cut_tokens for score in expected)
        if tokens:
            assert f"too long: {tokens} tokens of knowledge in 1 row\n" in out
        for row, score in zip(rows_read, expected, strict=True):
            assert row["cut"].get(name, {}) == dict(score.cut)
            assert row["cut_tokens"][name] == score.cut_tokens
            value = row["scores"][name]
            if math.isnan(score.value):
                assert value is None
            else:
                assert value == pytest.approx(score.value, abs=1e-4)


def test_a_torn_batch_is_scored_again(models, tmp_path, monkeypatch):
    """A batch's rows are scored together, so that all scores equal an unbroken run's bit by bit."""
    source = tmp_path / "rows.jsonl"
    # The first row of each batch of 4 is long, so that the others are padded to its length.
    texts = [("Tea is a leaf. " * (1 if i % 4 else 6), f"Tea {i}.") for i in range(11)]
    rows = [{"grounding": text.strip(), "generated_text": reply} for text, reply in texts]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scorers = {name: {"model": str(model)} for name, model in models.items()}

    def scored(name, batch_size=4):
        data = ScoreInput(input=(str(source),))
        score_run.score(
            data, scorers, ScoreOptions(output=str(tmp_path / name), batch_size=batch_size)
        )
        return (tmp_path / name).read_bytes()

    whole = scored("whole.jsonl")

    def torn(job, *_):
        job.shards[0].rows.write_bytes(b"".join(whole.splitlines(True)[:6]) + b'{"id": "1')
        raise KeyboardInterrupt

    monkeypatch.setattr(score_run, "_write_output", torn)
    with pytest.raises(KeyboardInterrupt):
        scored("torn.jsonl")
    monkeypatch.undo()
    message = r"6 rows of another run \(another value of --batch-size \(4, not 5\)\)"
    with pytest.raises(ConfigError, match=message):
        scored("torn.jsonl", batch_size=5)
    note = tmp_path / "torn.jsonl.partial" / "run.json"
    noted = json.loads(note.read_text())
    for changes in ({"version": 1}, {"version": None, "models": [{"step": 5}]}):  # as of `check`
        note.write_text(json.dumps(noted | changes))
        with pytest.raises(ConfigError, match=r"6 rows of another run"):
            scored("torn.jsonl")
    note.write_text(json.dumps(noted))
    append, appended = score_run.append_rows, []
    monkeypatch.setattr(
        score_run, "append_rows", lambda path, rows: appended.extend(rows) or append(path, rows)
    )
    assert scored("torn.jsonl") == whole
    assert len(appended) == 11 - 4


@pytest.mark.slow
def test_a_job_of_models_compiles_three_shapes_and_resumes_where_it_stopped(
    models, tmp_path, monkeypatch
):
    """Batches are computed ahead of writing; a stop loses only those not yet written."""
    source = tmp_path / "rows.jsonl"
    with source.open("w") as file:
        for number in range(80):
            texts = {
                "grounding": "Tea is a leaf. " * (1 + number * 7 % 23),
                "generated_text": f"Tea {number}.",
            }
            file.write(json.dumps(texts) + "\n")
    scorers = {"nli_e_minus_c": {"model": str(models["nli_e_minus_c"])}}
    score_input, costs = ScoreInput(input=(str(source),)), tmp_path / "costs.json"
    monkeypatch.setattr(score_run, "_SHAPED", 40)
    program = class_probabilities._packed_logits
    program.clear_cache()

    def scored(name, **options):
        clear_models()
        score_run.score(
            score_input, scorers, ScoreOptions(output=str(tmp_path / name), batch_size=8, **options)
        )
        return (tmp_path / name).read_bytes()

    whole = scored("whole.jsonl", costs=str(costs))
    assert 1 <= program._cache_size() <= 3
    assert 0 <= json.loads(costs.read_text())["nli_e_minus_c"]["device_waited"] < 1
    append, written = score_run.append_rows, []

    def stopping(path, rows):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(len(rows))
        append(path, rows)

    monkeypatch.setattr(score_run, "append_rows", stopping)
    with pytest.raises(KeyboardInterrupt):
        scored("stopped.jsonl")
    assert not [t for t in threading.enumerate() if t.name.startswith("score")]
    assert not (tmp_path / "stopped.jsonl").exists()
    monkeypatch.setattr(
        score_run, "append_rows", lambda path, rows: written.append(len(rows)) or append(path, rows)
    )
    assert scored("stopped.jsonl") == whole
    assert written == [8] * 10


LONG = [
    {"grounding": ("Tea is a leaf. " * n).strip(), "generated_text": "A leaf.", "history": turns}
    for n, turns in [(1, ["What is tea?"])] * 8
    + [(40, ["What is tea?"]), (2, ["The lake is cold, " * 20 + "I say.", "What is tea?"])]
]


def test_a_dry_run_says_what_is_cut_of_each_part(command, models, tmp_path, caplog):
    rows, output = tmp_path / "long.jsonl", tmp_path / "scores.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in LONG))
    model = models["pmi_faith_mean"]
    arguments = [
        "score",
        "--scorers=pmi_faith_mean,token_f1",
        f"--input={rows}",
        f"--output={output}",
        f"--scorer-option=pmi_faith_mean.model={model}",
    ]
    out = command.succeeds(*arguments, "--dry-run")
    assert f"Written: {output}.preflight.json" in caplog.messages
    assert {path.name for path in tmp_path.iterdir()} == {
        "long.jsonl",
        "scores.jsonl.preflight.json",
    }
    scorer = load_scorer("pmi_faith_mean", model=model)
    columns = [[row[name] for row in LONG] for name in ("grounding", "generated_text", "history")]
    cut = [score.cut for score in scorer.score(*columns)]
    knowledge, history = (sorted(c.get(part, 0) for c in cut) for part in ("knowledge", "history"))
    assert sum(map(bool, history)) == 1
    preflight = json.loads((tmp_path / "scores.jsonl.preflight.json").read_text())
    assert (preflight["source"], preflight["rows"], list(preflight["scorers"])) == (
        str(rows),
        10,
        [scorer.card.name],
    )
    cuts = preflight["scorers"]["pmi_faith_mean"]
    assert (cuts["inputs"], cuts["inputs_cut"]) == (10, 2)
    for part, counts in (("knowledge", knowledge), ("history", history)):
        lost = [count for count in counts if count]
        told_of = {"rows": len(lost), "share": len(lost) / 10} | percentiles(np.array(lost))
        assert cuts["cut"][part].items() >= told_of.items()
    assert "response" not in cuts["cut"]
    assert [first["id"] for first in cuts["examples"]] == ["1", "2", "3"]
    inputs, response = "What is tea?.\n", "Agent: A leaf.."
    assert cuts["examples"][0] == {
        "id": "1",
        "with document": f"Document: Tea is a leaf.\n\n{inputs}{response}",
        "without": inputs + response,
    }
    lines = out.splitlines()
    columns = (
        "  columns: grounding from grounding, response from generated_text, history from history"
    )
    assert lines[:2] == [f"{rows}: 10 rows to score", columns]
    assert lines[2] == "pmi_faith_mean: 10 inputs, 2 cut"
    largest = history[-1]
    assert (
        "  cut of history: 1 row (10.0%); tokens that such a row loses: "
        f"median {largest}, 90% {largest}, 99% {largest}, longest {largest}"
    ) in lines
    assert "  without: " + json.dumps(inputs + response) in lines
    assert cuts["cut"]["knowledge"]["mostly"] == 0.1
    warnings = [
        "pmi_faith_mean: 10.0% of the inputs lose more than half of their knowledge.",
        "pmi_faith_mean: 10.0% of the inputs lose tokens of their history.",
    ]
    assert preflight["warnings"] == warnings
    assert lines[-2:] == [f"warning: {warning}" for warning in warnings]
    # A real run says the same first.
    out = command.succeeds(*arguments)
    warned = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warned == warnings
    assert set(lines[:-2]) <= set(caplog.messages)
    assert json.loads((tmp_path / "scores.jsonl.preflight.json").read_text()) == preflight
    assert f"{sum(history)} tokens of history in 1 row" in out
    assert output.exists()


def test_a_row_without_room_is_an_error_before_anything_is_scored(command, models, tmp_path):
    rows, output = tmp_path / "long.jsonl", tmp_path / "scores.jsonl"
    long = {"id": "r9", "grounding": "Tea.", "generated_text": "So.", "history": ["Why? " * 99]}
    rows.write_text("".join(json.dumps(row) + "\n" for row in (*ROWS[:1], long)))
    for more in (["--dry-run"], []):
        status, out, err = command(
            "score",
            "--scorers=pmi_faith_mean",
            f"--input={rows}",
            f"--output={output}",
            f"--scorer-option=pmi_faith_mean.model={models['pmi_faith_mean']}",
            *more,
        )
        assert (status, out) == (2, "")
        assert len(err.strip().splitlines()) == 1
        assert f"{rows}: pmi_faith_mean: example 'r9': max_length = " in err
        assert "no room for the last turn of the history; raise the limit" in err
        assert [path.name for path in tmp_path.iterdir()] == ["long.jsonl"]


@pytest.mark.parametrize(
    ("scorers", "options", "message"),
    [
        ("nli_entailment", [], "nli_entailment: needs a model: give model=FOLDER"),
        ("bertscore", ["bertscore.model={gpt2}"], "expected an encoder-only model"),
        ("pmi_faith_sum", ["pmi_faith_sum.model={nli}"], "expected a language model, got an enc"),
        ("summac_zs", ["summac_zs.model={nli}", "summac_zs.labels=a,b"], "got 'a,b'"),
    ],
)
def test_wrong_options(command, models, rows, tmp_path, scorers, options, message):
    folders = {"gpt2": models["pmi_faith_mean"], "nli": models["nli_e_minus_c"]}
    assert message in command.refuses(
        "score",
        f"--scorers={scorers}",
        f"--input={rows}",
        f"--output={tmp_path / 'scores.jsonl'}",
        *(f"--scorer-option={option.format(**folders)}" for option in options),
    )
    assert not (tmp_path / "scores.jsonl").exists()


def test_folders_without_tokenizer_or_config(command, models, rows, tmp_path):
    import pathlib
    import shutil

    for missing, message in (
        (
            "tokenizer.json",
            "there is no tokenizer with it; say where its folder or file is with vocabulary=",
        ),
        ("config.json", "config.json: no such file"),
    ):
        folder = tmp_path / missing.partition(".")[0]
        shutil.copytree(models["pmi_faith_mean"], folder)
        for name in (missing, "vocab.json") if missing.startswith("tok") else (missing,):
            pathlib.Path(folder / name).unlink()
        status, _, err = command(
            "score",
            "--scorers=pmi_faith_sum",
            f"--input={rows}",
            f"--output={tmp_path / 'scores.jsonl'}",
            f"--scorer-option=pmi_faith_sum.model={folder}",
        )
        assert status == 2, err
        assert message in err
