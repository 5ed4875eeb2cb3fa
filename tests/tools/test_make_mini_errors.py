import json
import sys

from faith_jax.statistics.told_arguments import tell_arguments
from tests.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tools"))
import make_mini_corpus
import make_mini_errors

sys.path.remove(str(REPOSITORY / "tools"))

WORDINGS = REPOSITORY / "docs" / "mini" / "wordings.jsonl"


def test_the_topics_are_not_those_that_mini_is_judged_by():
    lines = (REPOSITORY / "docs" / "mini" / "topics.jsonl").read_text().splitlines()
    judged = {json.loads(line)["query"] for line in lines}
    assert not judged & {topic.query for topic in make_mini_corpus.read_topics(WORDINGS)}


def test_labels_say_what_the_response_adds_and_misses(tmp_path, capsys):
    topics = make_mini_corpus.read_topics(WORDINGS)
    wordings = {w for topic in topics for side in topic[1:] for ws in side for w in ws}
    command = [str(WORDINGS), f"--output={tmp_path}", "--rows=300"]
    assert make_mini_errors.main(command) == 0
    assert capsys.readouterr().out.endswith("train_dev.jsonl: 300 rows of 456 topics\n")
    written = (tmp_path / "train_dev.jsonl").read_bytes()
    rows = [json.loads(line) for line in written.splitlines()]
    plain = [row for row in rows if not row["paraphrased"]]
    assert 40 < len(plain) < 110
    errors = [(row["has_hallucination"], row["has_coverage_error"]) for row in rows]
    assert min(errors.count((h, c)) for h in (0, 1) for c in (0, 1)) > 45
    for row in rows:
        given = [*row["pro_arguments"], *row["con_arguments"]]
        assert bool(row["removed_argument"]) == bool(row["has_hallucination"])
        assert bool(row["added_argument"]) == bool(row["has_coverage_error"])
        assert row["removed_argument"] not in given
        assert not row["added_argument"] or row["added_argument"] in given
        if row["paraphrased"]:
            assert all(text in wordings for text in given)
            assert tell_arguments(row["response"], given).precision(0.95) < 0.5
        else:
            told = tell_arguments(row["response"], given, row["query"])
            assert (told.precision(0.99) < 1) <= bool(row["has_hallucination"]), row
            assert (told.recall(0.99) < 1) <= bool(row["has_coverage_error"]), row
    assert make_mini_errors.main(command) == 0
    assert (tmp_path / "train_dev.jsonl").read_bytes() == written
    capsys.readouterr()
    assert make_mini_errors.main([str(tmp_path / "none"), f"--output={tmp_path}"]) == 2
    assert "cannot be read as topics" in capsys.readouterr().err
