import pytest

from faith_jax.scoring.judges.card import read_card
from faith_jax.scoring.judges.chunks import text_chunks
from tools import benchmark_judges


def plain_words(text):
    return len(text.split())


@pytest.mark.parametrize(
    ("judge", "count"),
    [
        ("factcg_deberta_v3_large", benchmark_judges.plain_treebank_words),
        ("minicheck_flan_t5_large", plain_words),
    ],
)
def test_the_loop_reads_the_chunks_of_the_card(judge, count):
    rule = read_card(judge).chunks
    rows = benchmark_judges.rows_of(5, 4, rule.length)
    assert len({row["grounding"] for row in rows}) == 5
    for row in rows:
        chunks = benchmark_judges.plain_chunks(row["grounding"], rule.length, count)
        between = rule.joined_by
        expected = [chunk.text for chunk in text_chunks([row["grounding"]], rule, len)]
        assert [between.join(sentences) for sentences in chunks] == expected
        assert len(chunks) in (4, 5)  # a word more for each full stop
