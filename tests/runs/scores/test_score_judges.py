"""`faith-jax score` with judges: cards of the package and of files."""

import json

import pytest

from faith_jax.export.read_scored import read_scored_rows
from faith_jax.scoring.registry import load_scorer
from tests.scoring import tiny_models
from tests.scoring.judges.test_card import CARD

ROWS = [
    {
        "grounding": ["Tea is a leaf. It grows in the hills.", "The lake freezes in winter."],
        "generated_text": "A leaf grows. The lake freezes.",
        "label": 1,
    },
    {"grounding": ["The lake freezes."], "generated_text": "It is hot.", "label": 0},
    {"grounding": ["Tea"], "generated_text": ""},
]


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return tiny_models.write_judge_t5(tmp_path_factory.mktemp("judge") / "t5")


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def card(tmp_path):
    path = tmp_path / "my_judge.toml"
    path.write_text(CARD.replace("length = 200", "length = 5"))
    return path


def test_judges_by_name_and_by_file(command, t5, rows, card, tmp_path):
    output = tmp_path / "scores.jsonl"
    argv = ["score", f"--scorers=unieval_fact,{card},again={card}", f"--input={rows}"]
    argv += [f"--scorer-option={n}.model={t5}" for n in ("unieval_fact", "my_judge", "again")]
    argv += ["--scorer-option=again.sentences=min", f"--output={output}"]
    out = command.succeeds(*argv)
    assert "3 rows, 3 scorers" in out
    assert "my_judge is undefined in 1 of 3 rows: the response is empty (1)" in out
    scored = [json.loads(line) for line in output.read_text().splitlines()]
    scorer = load_scorer(str(card), model=t5)
    expected = scorer.score(
        [row["grounding"] for row in ROWS], [row["generated_text"] for row in ROWS]
    )
    for row, score in list(zip(scored, expected, strict=True))[:2]:
        assert row["scores"]["my_judge"] == pytest.approx(score.value, abs=1e-6)
        (passage,) = row["evidence"]["my_judge"]
        start, end, value, number = passage
        assert row["grounding"][number][start:end] == score.evidence[0].word
        assert value == row["scores"]["my_judge"]
        assert row["words"].keys() == {"unieval_fact", "again"}
    assert len(scored[0]["evidence"]["again"]) == 2  # one for each sentence
    assert scored[2]["evidence"] == {}
    # A report shows it, and it is read back from a data set.
    page = tmp_path / "report.html"
    status, out, err = command("report", output, f"--output={page}", "--resamples=100")
    assert status == 0, err
    assert '"evidence":{' in page.read_text()
    command.succeeds(*argv[:-1], f"--output={tmp_path / 'scores_tfds'}")
    places = [
        [[p[:2] + p[3:] for p in row["evidence"].get("again", [])] for row in rows]
        for rows in (scored, read_scored_rows(tmp_path / "scores_tfds"))
    ]
    assert places[0] == places[1]


def test_another_card_is_another_run(command, t5, rows, card, tmp_path):
    output = tmp_path / "scores.jsonl"
    argv = ["score", f"--scorers={card}", f"--input={rows}", f"--output={output}"]
    argv.append(f"--scorer-option=my_judge.model={t5}")
    assert command(*argv)[0] == 0
    assert command(*argv)[0] == 0  # finished
    card.write_text(card.read_text().replace("claim:", "answer:"))
    assert "exists already" in command.refuses(*argv)


@pytest.mark.parametrize(
    ("scorer", "option", "message"),
    [
        ("x=minicheck_flan_t5_large", "", "(on the command line --scorer-option=x.model=FOLDER)"),
        ("summac_zs_vitaminc", "model=T5", "this judge's card is for albert. Cards for t5: attr"),
        ("a.b.toml", "", "--scorers: a.b.toml: give it a name without a full stop, as NAME=a.b."),
    ],
)
def test_bad_input_is_one_line(command, t5, rows, tmp_path, scorer, option, message):
    name = scorer.partition("=")[0].removesuffix(".toml")
    options = [f"--scorer-option={name}.{option.replace('T5', t5)}"] if option else []
    output = tmp_path / "scores.jsonl"
    assert message in command.refuses(
        "score", f"--scorers={scorer}", f"--input={rows}", f"--output={output}", *options
    )
    assert not output.exists()


def test_the_list_of_scorers_has_the_cards_with_licence_and_source(command):
    out = command.succeeds("scorers")
    (line,) = [line for line in out.splitlines() if line.startswith("trueteacher_t5_11b")]
    parts = ["t5", "0", "to", "1", "0.5", "CC", "BY-NC", "4.0", "(not", "commercial)"]
    address = "https://huggingface.co/google/t5_11b_trueteacher_and_anli"
    assert line.split() == ["trueteacher_t5_11b", *parts, address]
