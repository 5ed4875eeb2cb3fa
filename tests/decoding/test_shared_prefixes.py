"""Inputs with a common prefix, read once: the lines, and responses equal to plain reading."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from faith_jax.decoding import shared_prefixes
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.shared_prefixes import line_length, prefix_groups, shared_inputs
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.models.partitioning import make_partitioner
from tests.models import families, tiny
from tests.quick import slow_except

DOCUMENT, OTHER = [7, 9, 4, 11, 3, 8, 20, 6], [5, 13, 17, 21, 9, 2, 30, 31, 12]
INPUTS = [
    [*DOCUMENT, 10, 12],
    [*OTHER, 14],
    [*DOCUMENT, 15],
    [*OTHER, 16, 18, 19],
    [*DOCUMENT, 10, 22],
    DOCUMENT,
    [23, 24],
    [*OTHER, 14],
]
ONE_LAYER = {"num_encoder_layers": 0, "num_decoder_layers": 1}
token_lists = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=8)


@pytest.fixture
def from_two(monkeypatch):
    """Two tokens in common are enough."""
    monkeypatch.setattr(shared_prefixes, "LEAST_SHARED", 2)


@hypothesis.given(token_lists)
def test_lines_hold_each_input_in_order_behind_what_it_shares(inputs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_prefixes, "LEAST_SHARED", 2)
        groups = prefix_groups(inputs)
    assert sorted(row for group in groups for row in group.rows) == list(range(len(inputs)))
    longest = max(line_length(inputs, group) for group in groups)
    tokens = np.zeros((len(inputs), max(map(len, inputs))), np.int32)
    lines = shared_inputs(inputs, groups, tokens, len(groups), longest)
    for row, ids in enumerate(inputs):
        line, places = lines.lines[row], lines.places[row, : len(ids)]
        assert lines.line_tokens[line, places].tolist() == list(ids)
        assert lines.positions[line, places].tolist() == list(range(len(ids)))
        seen = set(lines.segments[line, places].tolist())
        assert 1 in seen  # the beginning, and at most what is its own
        assert len(seen) <= 2
        segment = lines.segments[line, places[-1]]
        if segment != 1:  # which no other row has
            other_rows = [r for group in groups for r in group.rows if r != row]
            assert all(
                segment
                not in lines.segments[line, lines.places[other_row, : len(inputs[other_row])]]
                for other_row in other_rows
                if lines.lines[other_row] == line
            )
    assert lines.segments.astype(bool).sum() == sum(line_length(inputs, g) for g in groups)


def decoded(config, inputs, batch, second=None, **options):
    module, params = tiny.model_and_params(config)
    decoder = BatchDecoder(
        module, make_partitioner(config), DecodingConfig(max_length=5, **options), batch
    )
    responses = decoder(params, inputs, second_inputs=second)
    return responses, decoder


CASES = {
    "samples": (
        families.BLOOM.replace(decoder_prompt_length=3),
        {"num_return": 2, "temperature": 1.0},
    ),
    "scanned": (
        families.LLAMA.replace(scan_layers=True),
        {"pmi": PMIConfig(), "num_beams": 2, "num_return": 2},
    ),
    "window": (
        families.MISTRAL.replace(sliding_window=64, attention_block_length=4),
        {"speculation": "ngram", "draft_length": 2},
    ),
}


@pytest.mark.parametrize("name", slow_except(CASES, ["samples", "window"]))
def test_responses_are_those_of_inputs_that_are_read_one_by_one(name, from_two, monkeypatch):
    config, options = CASES[name]
    config = config.replace(**ONE_LAYER)
    if "pmi" in options:
        options = {**options, "second": [ids[-2:] for ids in INPUTS]}
    read = []
    plain = shared_inputs

    def counted(*arguments):
        read.append(plain(*arguments))
        return read[-1]

    monkeypatch.setattr("faith_jax.inference.batch_decoder.shared_inputs", counted)
    responses, decoder = decoded(config, INPUTS, len(INPUTS), **options)
    assert len(read) == 1
    assert decoder.num_compilations <= 1
    monkeypatch.setattr(BatchDecoder, "_can_share", lambda self, inputs: False)
    expected, _ = decoded(config, INPUTS, len(INPUTS), **options)
    assert len(read) == 1
    for rows, expected_rows in zip(responses, expected, strict=True):
        assert [r.tokens.tolist() for r in rows] == [o.tokens.tolist() for o in expected_rows]
        for row, expected_row in zip(rows, expected_rows, strict=True):
            np.testing.assert_allclose(
                [row.log_prob, row.score], [expected_row.log_prob, expected_row.score], atol=1e-5
            )


def test_what_shares_little_is_read_as_it_is_and_refilled(from_two, monkeypatch):
    monkeypatch.setattr(BatchDecoder, "_decode_in_batches", None)  # is not called
    monkeypatch.setattr(BatchDecoder, "_decode_in_places", lambda *a: [(a[3], a[3])])
    inputs = [[min(row, 4) + 2, 5, row + 9, 6] for row in range(6)]  # two begin alike
    assert decoded(families.GPT2.replace(**ONE_LAYER), inputs, 3)[0] == list(range(6))


def test_rows_of_a_document_come_into_one_batch(from_two, monkeypatch):
    """If this saves more than refilling; the order of the responses stays."""
    config = families.GPT2.replace(**ONE_LAYER)
    mixed = [INPUTS[row] for row in (0, 1, 2, 3, 4, 7)]
    batches = []
    plain = BatchDecoder._build_batch

    def seen(self, branches, rows, *args):
        batches.append(sorted(rows))
        return plain(self, branches, rows, *args)

    monkeypatch.setattr(BatchDecoder, "_build_batch", seen)
    responses, _ = decoded(config, mixed, 3)
    assert sorted(batches) == [[0, 2, 4], [1, 3, 5]]
    for ids, rows in zip(mixed, responses, strict=True):
        (alone,), _ = decoded(config, [ids], 3)
        assert rows[0].tokens.tolist() == alone[0].tokens.tolist()


def test_distances_in_tokens_between_are_not_shared(from_two, monkeypatch):
    assert not tiny.TINY.can_share_inputs(8)
    monkeypatch.setattr("faith_jax.inference.batch_decoder.shared_inputs", None)  # is not called
    short = families.MISTRAL.replace(sliding_window=14, attention_block_length=4, **ONE_LAYER)
    assert len(decoded(short, INPUTS, len(INPUTS))[0]) == len(INPUTS)
