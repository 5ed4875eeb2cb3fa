"""The published figures of benchmarks, and tables made from scored files."""

import csv
import json
import re

import pytest

from faith_jax.datasets.samples import sample_folder

pytestmark = pytest.mark.usefixtures("offline_data_dir")


def scored(path, split):
    """Writes the sample of LLM-AggreFact as a table with the scores of a system."""
    raw = (sample_folder("llm_aggrefact") / f"{split}.jsonl").read_text(encoding="utf-8")
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = [json.loads(line) for line in raw.splitlines()]
        writer = csv.DictWriter(file, [*rows[0], "mine", "alignscore"])
        writer.writeheader()
        for row in rows:
            scores = {"mine": 0.2 + 0.1 * row["label"], "alignscore": row["label"]}
            writer.writerow({**row, **scores})
    return path


def test_a_table_of_scored_files(command, tmp_path):
    test, development = (scored(tmp_path / f"{name}.csv", name) for name in ("test", "dev"))
    options = f"--scored={test}", f"--development={development}", "--scorers=mine,alignscore"
    options += "--cluster-field=doc", f"--output={tmp_path / 'made'}"
    lines = command.succeeds("reproduce", "aggrefact", *options).splitlines()
    assert lines[0] == "LLM-AggreFact (Tang 2024): Balanced accuracy in per cent"
    cells = {}
    for line in lines[3:]:
        if line.startswith(("0.5", "tuned")):
            kind, name, *figures = line.split("  ")[0:1] + line.split(maxsplit=1)[1].split("  ")
            cells[kind, name.strip()] = [figure.strip() for figure in figures if figure.strip()]
    # No score of `mine` is above 0.5, but its order is right.
    assert cells["0.5", "mine"][-1].startswith("50.0")
    assert cells["tuned", "mine"][-1].startswith("100.0")
    # AlignScore's figures stand below the row of its name, the others' at the end.
    names = [name for kind, name in cells if kind == "0.5"]
    assert names[:3] == ["mine", "alignscore", "alignscore (published)"]
    assert cells["0.5", "alignscore (published)"][-1] == "70.5"
    assert cells["tuned", "factcg_deberta_v3_large (published)"][-1] == "77.2"
    assert "mine (published)" not in names
    figures = json.loads((tmp_path / "made" / "aggrefact.json").read_text())
    assert (figures["protocol"], figures["sample"]) == ("balanced_accuracy", False)
    unit = "Rows with the same doc are one unit: AggreFact-CNN 2 of 3 rows"
    assert unit in " ".join(figures["notes"])
    tidy = (tmp_path / "made" / "aggrefact.csv").read_text(encoding="utf-8").splitlines()
    assert "0.5,alignscore (published),average,0.705,,,,," in tidy


def test_parts_bear_the_benchmark_s_names_by_a_field(command, tmp_path):
    path = tmp_path / "mine.csv"
    rows = ["News,a,1,0.9", "News,a,0,0.2", "podcast,b,1,0.8", "podcast,b,0,0.6", "podcast,c,1,"]
    path.write_text("\n".join(["domain,doc,label,mine", *rows]), encoding="utf-8")
    arguments = ["summedits", f"--scored={path}", "--scorers=mine", "--cluster-field=doc"]

    def made(*further):
        folder = tmp_path / f"made_{len(further)}"
        out = command.succeeds("reproduce", *arguments, *further, f"--output={folder}")
        rows = json.loads((folder / "summedits.json").read_text())["rows"]
        return {row["part"]: row["balanced accuracy"] for row in rows}, out.replace("\n", " ")

    figures, text = made()
    assert figures == {"mine": pytest.approx(0.75)}
    assert "No part of ours is one that published figures are of (podcast, billsum, " in text
    figures, text = made("--slice-field=domain")
    assert figures == {"News": 1.0, "podcast": 0.5, "average": 0.75}
    assert re.search("threshold +scorer +news +podcast +average +billsum", text)
    assert "Averages of ours are without billsum, " in text
    assert "podcast: of 3 rows, mine undefined in 1." in text
    assert "Undefined scores of the rows with a label" in text  # a further table
    assert "News (2), podcast (2): so few rows can say little" in text
    figures, text = made("--slice-field=domain", "--undefined=0")
    assert figures == {"News": 1.0, "podcast": 0.25, "average": 0.625}
    assert "Undefined scores count as 0." in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--slice-field=doc",), "--slice-field: goes with --scored"),
        (("--scored={test}", "--sample"), "--sample: goes with scorers, not with --scored"),
        (("--scored={test}", "--scorer-option=mine.a=1"), "--scorer-option: goes with scorers"),
        (("--development={test}",), "--development: goes with --scored"),
        (("--cluster-field=doc",), "--cluster-field: goes with --scored"),
        (("--scored={test}", "--scorers=yours"), "test has no scores of 'yours'"),
        (("--scored=missing.jsonl",), "missing.jsonl"),
        (("--scored={test}", "--scorers=mine", "--cluster-field=dok"), "has no field 'dok'"),
    ],
)
def test_mistakes(command, tmp_path, arguments, message):
    test = scored(tmp_path / "test.csv", "test")
    formatted = [argument.format(test=test) for argument in arguments]
    assert message in command.refuses(
        "reproduce", "aggrefact", *formatted, f"--output={tmp_path / 'made'}"
    )
    assert not (tmp_path / "made").exists()
