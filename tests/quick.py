"""Selects the cases of a test that the quick tests run."""

from collections.abc import Iterable

import pytest


def slow_except(cases: Iterable, quick: Iterable) -> list:
    """Returns the cases of a test; those not in `quick` are marked `slow`.

    Args:
      cases: values of a parameter, or tuples of values for several parameters.
      quick: some of the cases.
    """
    cases, quick = list(cases), list(quick)
    if unknown := [case for case in quick if case not in cases]:
        raise ValueError(f"no cases: {unknown}")
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    marks = [() if case in quick else pytest.mark.slow for case in cases]
    return [pytest.param(*value, marks=mark) for value, mark in zip(values, marks, strict=True)]
