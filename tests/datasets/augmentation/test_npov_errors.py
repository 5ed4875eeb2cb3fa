import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faith_jax.datasets.augmentation import npov_errors
from faith_jax.datasets.augmentation.npov_errors import ErrorKind, NpovErrorExample

EXAMPLE = NpovErrorExample("tea-1", "tea", "Tea?", ("P1", "P2"), ("C1", "C2"), "P1 P2 C1 C2")
UNUSED = (["P3", "P4"], ["C3"])


def errors(example=EXAMPLE, unused=UNUSED, **options):
    return {e.kind: e for e in npov_errors.synthetic_errors(example, *unused, **options)}


@given(st.integers(0, 1000))
def test_each_kind_changes_the_arguments_and_nothing_else(seed):
    found = errors(seed=seed)
    assert list(found) == list(ErrorKind)
    given_ = {*EXAMPLE.pro_arguments, *EXAMPLE.con_arguments}
    for kind, example in found.items():
        arguments = [*example.pro_arguments, *example.con_arguments]
        removed = kind in (ErrorKind.HALLUCINATION, ErrorKind.BOTH)
        added = kind in (ErrorKind.COVERAGE, ErrorKind.BOTH)
        assert (example.has_hallucination, example.has_coverage_error) == (removed, added)
        assert given_ - set(arguments) == ({example.removed_argument} if removed else set())
        assert set(arguments) - given_ == ({example.added_argument} if added else set())
        assert len(arguments) == len(set(arguments))
        assert (example.query, example.response) == (EXAMPLE.query, EXAMPLE.response)
        assert all(a.startswith("P") for a in example.pro_arguments)
        assert all(a.startswith("C") for a in example.con_arguments)


def test_ids_say_the_kind():
    assert [e.id for e in errors().values()] == [
        "tea-1", "tea-1-hallucination", "tea-1-coverage", "tea-1-both",
    ]  # fmt: skip


def test_every_argument_is_removed_or_added_under_some_seed():
    seeds = [errors(seed=seed) for seed in range(100)]
    assert {s[ErrorKind.HALLUCINATION].removed_argument for s in seeds} == {"P1", "P2", "C1", "C2"}
    assert {s[ErrorKind.COVERAGE].added_argument for s in seeds} == {"P3", "P4", "C3"}
    places = {s[ErrorKind.COVERAGE].con_arguments.index("C3") for s in seeds
              if s[ErrorKind.COVERAGE].added_argument == "C3"}  # fmt: skip
    assert places == {0, 1, 2}


def test_errors_that_are_impossible_are_left_out():
    assert list(errors(unused=([], []))) == [ErrorKind.NONE, ErrorKind.HALLUCINATION]
    single = dataclasses.replace(EXAMPLE, pro_arguments=("P1",), con_arguments=())
    assert list(errors(single)) == [ErrorKind.NONE, ErrorKind.COVERAGE]


@pytest.mark.parametrize("seed", range(20))
def test_an_added_argument_is_not_the_one_removed(seed):
    first = npov_errors.with_coverage_error(EXAMPLE, *UNUSED, seed=seed)
    both = npov_errors.with_hallucination(first, seed)
    assert both.kind is ErrorKind.BOTH
    assert both.removed_argument != both.added_argument
    assert both.added_argument in both.pro_arguments + both.con_arguments


def test_kinds_can_be_chosen():
    assert list(errors(kinds=[ErrorKind.COVERAGE])) == [ErrorKind.COVERAGE]
