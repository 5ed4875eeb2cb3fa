import json

import pytest

from tests.paths import REPOSITORY
from tests.tools.test_mini_responses import judge_mini

ROW = {
    "id": "tea-2-1",
    "query": "Is tea good for offices?",
    "pro": ["Tea calms two nervous clerks.", "It is cheap."],
    "con": ["Tea stains the teeth of clerks."],
}
GOOD = (
    "Views differ. Supporters say that tea calms two nervous clerks. They add that it is cheap. "
    "Opponents argue: Tea stains the teeth of clerks."
)


@pytest.mark.parametrize(
    ("response", "missed"),
    [
        (GOOD, set()),
        (GOOD.replace(" They add that it is cheap.", ""), {"recall"}),
        (GOOD.replace("cheap", "sheap"), {"recall", "precision", "own words"}),
        (GOOD + " They add: Tea stains the teeth of clerks.", {"precision"}),
        (GOOD.replace("Supporters", "Most supporters"), {"no numbers"}),
        (GOOD.replace("Opponents argue: ", ""), {"two views"}),
        (GOOD.replace("Supporters", "Critics").replace("Opponents", "Supporters"), {"two views"}),
    ],
)
def test_what_a_response_misses(response, missed):
    measures = judge_mini.judge(ROW, response, True)
    assert {name for name, value in measures.items() if value < 1} == missed
    assert judge_mini.judge(ROW, response, False)["finished"] == 0


def test_the_commands(tmp_path, capsys):
    topics = REPOSITORY / "docs" / "mini" / "topics.jsonl"
    rows, responses, faults = (tmp_path / name for name in ("rows", "responses", "faults"))
    assert judge_mini.main(["rows", str(topics), str(rows)]) == 0
    items = judge_mini.read(rows)
    assert len(items) == 6 * 50 == len({row["id"] for row in items})
    assert {(len(row["pro"]), len(row["con"])) for row in items} == set(judge_mini.SIZES)
    judge_mini.write(rows, [ROW, {**ROW, "id": "other"}])
    answers = [{"id": "other", "prediction": GOOD, "finished": True}]
    judge_mini.write(responses, answers)
    arguments = ["table", str(rows), str(responses), f"--faults={faults}"]
    assert judge_mini.main(arguments) == 2
    assert capsys.readouterr().err == (
        f"judge_mini: {responses}: there is no response to 'tea-2-1'.\n"
    )
    judge_mini.write(responses, [*answers, {**answers[0], "id": "tea-2-1", "finished": False}])
    assert judge_mini.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    numbers = "0.500 | 1.000 | 1.000 | 1.000 | 1.000 | 1.000"
    assert lines[2:] == [f"| {size} | 2 | {numbers} |" for size in ("2 and 1", "all")]
    (fault,) = map(json.loads, faults.read_text().splitlines())
    assert (fault["id"], fault["misses"]) == ("tea-2-1", ["finished"])
