"""Exported judges: score.py, where faith_jax cannot be imported, against `faith-jax score`."""

import inspect
import json
import math
import subprocess
import sys

import jax
import numpy as np
import pytest

from faith_jax.runs.judges import standalone_score
from faith_jax.scoring.judges.card import PRESETS
from faith_jax.scoring.registry import load_scorer
from tests.quick import slow_except

TEXT = (
    "Tea is a leaf. It grows in the hills of Dr. J.K. Lee Inc. He dries it.\n"
    "It shuts at 6 p.m. in D.C. of old. Why? "
)
ROWS = [
    {"grounding": TEXT, "response": "A leaf grows in the hills."},
    {"grounding": TEXT, "response": "The lake freezes in winter. It never grows."},
    {"grounding": [TEXT, "The lake freezes in winter.", "The ice is thick."], "response": "Tea."},
    {"grounding": [TEXT, "The lake freezes. " * 12, TEXT], "response": "The lake freezes over."},
    {
        "grounding": "Le caf\u00e9 \u2615 est \u201cchaud\u201d \u00e0 midi. " * 4,
        "response": "Un caf\u00e9.",
    },
    {"grounding": "tea " * 150, "response": "The tea is </s> [SEP] hot.", "query": "Is it?"},
    {"grounding": "  ", "response": "Tea is hot."},
    {"grounding": TEXT, "response": " \u200b"},
    {"grounding": ["", TEXT], "response": "  No.  It is dry and hot. "},
    {"grounding": "tea", "response": "The tea is hot.", "history": ["Hello.", "Is the tea hot?"]},
]
BLOCKED = """
import runpy, sys
sys.modules["faith_jax"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# It reads the question, which eight of the rows do not have.
READS_QUERY = "attrscore_flan_t5"
# Chunks so short that these groundings need several, and one program.
CARDS = {
    "minicheck_flan_t5_large": ("length = 500", "length = 12", "max_length = 2048"),
    "minicheck_roberta_large": ("length = 400", "length = 30", "max_length = 512"),
    "summac_zs_vitaminc": ("", "", "max_length = 500"),
    "scale_flan_t5": ("length = 1000", "length = 90", "max_length = 1000"),
    "hhem_2_1_open": ("", "", "max_length = 8192"),
    "attrscore_flan_t5": ("", "", "max_length = 512"),
}


def write_card(folder, name):
    former, length, limit = CARDS[name]
    text = (PRESETS / f"{name}.toml").read_text()
    assert former in text
    assert limit in text
    path = folder / f"{name}.toml"
    shorter = 450 if name == READS_QUERY else 120  # its prompt alone is long
    path.write_text(text.replace(former, length).replace(limit, f"max_length = {shorter}"))
    return path


@pytest.fixture(scope="module")
def exported(models, tmp_path_factory, succeed):
    """Returns the folder of an exported card, with the card."""
    folders = {}

    def folder_of(name):
        if name not in folders:
            place = tmp_path_factory.mktemp("exported")
            card = write_card(place, name)
            succeed("export-scorer", str(card), models[name], str(place / "scorer"))
            folders[name] = place / "scorer", card
        return folders[name]

    return folder_of


def run_score(folder, rows, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-c", BLOCKED, str(folder / "score.py"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"grounding": ["Tea."]}', "field 'response': expected a text."),
        ('{"grounding": "Tea.", "response": "Tea.", "query": []}', "field 'query': expected a"),
        ("{", "is no JSON ("),
    ],
)
def test_a_wrong_row_is_one_error(tmp_path, monkeypatch, capsys, line, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + line + "\n")
    monkeypatch.setattr(sys, "argv", ["score.py", str(path)])
    assert standalone_score.main() == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"{path}:2: {message}")
    assert printed.count("\n") == 1


def test_the_last_turn_is_the_question_and_without_one_it_warns():
    scorer = object.__new__(standalone_score.Scorer)
    scorer.manifest = {"segments": [[["Question: ", "query", " Claim: ", "response", ""], 1]]}
    rows = [{}, {"history": []}, {"history": ["a", "b"]}, {"history": "b"}, {"query": "c"}]
    assert [*map(standalone_score.query_of, rows)] == ["", "", "b", "b", "c"]
    with pytest.warns(UserWarning, match="reads the question, and 2 of the 5 rows have none"):
        scorer._warn_of_no_query(rows)


QUICK = ("minicheck_roberta_large",)


@pytest.mark.parametrize("name", slow_except(CARDS, QUICK))
def test_score_py_scores_as_we_do(exported, models, name, tmp_path):
    folder, card = exported(name)
    if name in QUICK:  # in this process
        assert (folder / "score.py").read_text() == inspect.getsource(standalone_score)
        rows = standalone_score.Scorer(folder).score(ROWS)
    else:
        result = run_score(folder, ROWS, tmp_path)
        assert result.returncode == 0, result.stderr
        assert ("8 of the 10 rows have none" in result.stderr) == (name == READS_QUERY)
        rows = [json.loads(line) for line in result.stdout.splitlines()]
    scorer = load_scorer(str(card), model=models[name])
    scores = scorer.score(
        [row["grounding"] for row in ROWS],
        [row["response"] for row in ROWS],
        [[row["query"]] if "query" in row else row.get("history", []) for row in ROWS],
    )
    expected = [score.value for score in scores]
    values = [math.nan if row["score"] is None else row["score"] for row in rows]
    np.testing.assert_allclose(values, expected, atol=1e-5)
    assert [math.isnan(value) for value in values[6:8]] == [True, True]
    for row, score in zip(rows, scores, strict=True):
        assert row["cut_tokens"] == score.cut_tokens
        assert row["undefined"] == score.undefined
        threshold = scorer.judge.card.threshold
        undefined = threshold is None or math.isnan(score.value)
        assert row["supported"] == (None if undefined else score.value > threshold)
        # A chunk of several texts is as many passages in a scored row.
        texts = "".join(passage.word for passage in score.evidence)
        assert name == "scale_flan_t5" or sorted(
            "".join("".join(row["evidence"]).split())
        ) == sorted("".join(texts.split()))
    chunks = [sum(map(len, scorer.read(e).rows)) for e in _examples(scorer)]
    assert max(chunks) > 1 or scorer.judge.card.chunks is None


def _examples(scorer):
    from faith_jax.core.types import GroundedExample, Grounding

    texts = [r["grounding"] if isinstance(r["grounding"], list) else [r["grounding"]] for r in ROWS]
    examples = [
        GroundedExample(str(n), Grounding(tuple(t)), (), row["response"])
        for n, (t, row) in enumerate(zip(texts, ROWS, strict=True))
    ]
    return [example for example in examples[:6] if scorer.read(example)]


def test_a_program_is_for_all_platforms_and_holds_no_parameters(exported):
    folder, _ = exported("minicheck_roberta_large")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["programs"] == [[120, 16]]
    program = jax.export.deserialize(bytearray((folder / "program_120.bin").read_bytes()))
    assert program.platforms == ("cpu", "cuda", "tpu")
    stored = (folder / "params.safetensors").stat().st_size
    assert (folder / "program_120.bin").stat().st_size < stored
    assert len(program.in_avals) > 10  # each parameter, and the rows
    packages = ["jax", "flatbuffers", "numpy", "safetensors", "tokenizers", "nltk"]
    assert manifest["requires"] == packages
    names = {path.name for path in folder.iterdir()}
    assert names == {*manifest["sha256"], "manifest.json", "score.py"}


def test_altered_files_are_refused(exported, tmp_path):
    file = "program_120.bin"
    folder, _ = exported("minicheck_roberta_large")
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    content = bytearray((copy / file).read_bytes())
    content[-3] ^= 1
    (copy / file).write_bytes(content)
    result = run_score(copy, ROWS[:1], tmp_path)
    assert result.returncode != 0
    assert f"{file}: is not the file that was exported" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["token_f1", "MODEL", "OUT"], "is no judge"),
        (["summac_zs_vitaminc", "MODEL", "OUT"], "Cards for roberta: alignscore"),
        (["minicheck_roberta_large", "MODEL", "MODEL"], "exists already"),
        (["minicheck_roberta_large", "MODEL", "OUT", "--option=max_lenght=9"], "max_length"),
        (["true_t5_xxl", "T5", "OUT", "--option=vocabulary=byt5"], "cannot be exported"),
    ],
)
def test_what_cannot_be_exported_is_one_line(models, command, tmp_path, arguments, message):
    places = {
        "MODEL": models["minicheck_roberta_large"],
        "T5": models["true_t5_xxl"],
        "OUT": str(tmp_path / "out"),
    }
    status, out, err = command("export-scorer", *(places.get(a, a) for a in arguments))
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
    assert not list(tmp_path.iterdir())
