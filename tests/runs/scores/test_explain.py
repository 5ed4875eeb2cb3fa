import json

import numpy as np
import pytest

from faith_jax.cli import main
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets import npov, samples
from faith_jax.scoring.registry import load_scorer
from tests.scoring import tiny_models

TEXTS = ["--query=Is tea better?", "--pro=Tea calms.", "--con=It keeps people awake."]
RESPONSE = "Tea calms, and saves money."


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bart") / "m"
    return tiny_models.write_model(folder, "bart", max_positions=512)


def explain(model, *arguments):
    return main(["explain", f"--model={model}", *arguments])


def test_values_are_the_scorers(model, tmp_path, capsys):
    outputs = [f"--{kind}={tmp_path / 'out'}.{kind}" for kind in ("html", "png", "json")]
    assert explain(model, *TEXTS, f"--response={RESPONSE}", *outputs) == 0
    output = capsys.readouterr().out
    assert "query: Is tea better?" in output
    assert output.count(str(tmp_path)) == 3
    row = json.loads((tmp_path / "out.json").read_text())
    example = GroundedExample(
        "x", Grounding(("Tea calms.", "It keeps people awake."), ("pro", "con")),
        ("Is tea better?",), RESPONSE,
    )  # fmt: skip
    scores = {
        name: load_scorer(name, model=model).score([example])[0]
        for name in ("salience_hallucination", "salience_coverage")
    }
    for name, score in scores.items():
        assert row["scores"][name] == pytest.approx(score.value, abs=1e-5)
    for attribution, score in zip(
        row["attributions"], scores["salience_hallucination"].words, strict=True
    ):
        assert (attribution["word"], attribution["start"]) == (score.word, score.start)
        assert attribution["value"] == pytest.approx(score.score, abs=1e-5)
        assert attribution["in_grounding_or_query"] == (attribution["word"] in ("Tea", "calms"))
    assert np.array(row["map"]).shape == (5, 4)
    assert "higher = more faithful" in (tmp_path / "out.html").read_text()
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_colours_are_for_a_terminal_and_escapes_of_texts_are_not(model, capsys):
    for colour in ("always", "never"):
        texts = [*TEXTS[1:], "--query=Is \x1b[2J tea better?"]
        assert explain(model, *texts, f"--response={RESPONSE}", f"--color={colour}") == 0
        output = capsys.readouterr().out
        assert r"Is \x1b[2J tea better?" in output
        assert ("\x1b[4;31m" in output) == (colour == "always")
        assert ("[awake]" in output) == (colour == "never")


@pytest.mark.slow
def test_arguments_of_a_topic_and_a_response_of_the_model(model, tmp_path, capsys):
    topic = npov.load_topics(samples.sample_folder("procon_npov"))[0]
    output = tmp_path / "out.json"
    arguments = [
        "--knowledge=sample",
        f"--query={topic.title}",
        "--arguments=1",
        f"--json={output}",
    ]
    status = explain(model, *arguments)
    captured = capsys.readouterr()
    if status == 2:  # a random model may well write nothing that has content words
        assert "has no content words to explain" in captured.err
        assert not output.exists()
    pro, con = npov.choose_arguments(topic, 1)
    assert explain(model, *arguments, f"--response={pro[0].text}") == 0
    printed = capsys.readouterr().out.replace("[", "").replace("]", "")
    assert f"pro 1: {pro[0].text}" in printed
    assert f"con 1: {con[0].text}" in printed


def test_rows_of_a_file(model, tmp_path, capsys, caplog):
    rows = tmp_path / "rows.jsonl"
    lines = [
        {
            "id": f"r{n}",
            "grounding": ["Tea calms.", "It keeps people awake."],
            "perspectives": ["pro", "con"],
            "history": ["Is tea better?"],
            "response": f"Tea calms, and saves {word}.",
        }
        for n, word in enumerate(["money", "time", "water"])
    ]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    output = tmp_path / "out.json"
    assert explain(model, f"--input={rows}", "--id=r2", "--id=r0", f"--json={output}") == 0
    row_ids = [json.loads(line)["id"] for line in output.read_text().splitlines()]
    assert row_ids == ["r0", "r2"]
    pictures = [f"--png={tmp_path / 'map.png'}", f"--html={tmp_path / 'maps.html'}"]
    assert explain(model, f"--input={rows}", *pictures) == 0
    assert sorted(p.name for p in tmp_path.glob("*.png")) == ["map-2.png", "map-3.png", "map.png"]
    assert (tmp_path / "maps.html").read_text().count("<section") == 3
    lines[1]["response"] = "It is."
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    output.unlink()
    capsys.readouterr()
    assert explain(model, f"--input={rows}", f"--json={output}") == 0
    assert "r1: the response has no content words to explain: 'It is.'. It is left" in caplog.text
    ids = [json.loads(line)["id"] for line in output.read_text().splitlines()]
    assert ids == ["r0", "r2"]
    assert explain(model, f"--input={rows}", "--id=r9") == 2
    assert "no row has the id 'r9'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pro=Tea calms.", "--response=Tea."], "on one side only: --pro without --con"),
        (["--response=Tea."], "Give what the response was written from, by one of"),
        (["--pro=A b.", "--con=C d.", "--grounding=E.", "--response=T"], "texts without sides"),
        (["--pro= ", "--con=C d.", "--response=T"], "An argument is empty"),
        ([*TEXTS, "--response=It is."], "the response has no content words to explain: 'It is.'"),
        (["--input=none.jsonl", "--response=Tea."], "--response: the rows of --input have theirs"),
        ([*TEXTS, "--png=x.jpg"], "--png: x.jpg: what is written is PNG; name a .png file;"),
        pytest.param(
            ["--grounding=It is.", "--response=Tea."],
            "the grounding has no content words",
            marks=pytest.mark.slow,
        ),
        ([*TEXTS, "--response=Tea.", "--html=/no/such/x.html"], "--html: /no/such/x.html: cannot"),
        (["--knowledge=sample", "--query=Should cats vote?"], "No topic matches the query"),
    ],
)
def test_mistakes_are_one_line(model, capsys, arguments, message):
    assert explain(model, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
