"""A training requests huge pages."""

import os
import sys

import pytest

from faith_jax import cli
from faith_jax.cli import huge_pages


@pytest.fixture
def restarts(tmp_path, monkeypatch):
    """What was executed, on a kernel that gives huge pages on request."""
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    monkeypatch.setattr(huge_pages, "_PAGES", tmp_path / "enabled")
    made = []
    monkeypatch.setattr(
        os, "execv", lambda *given: made.append((*given, os.environ["GLIBC_TUNABLES"]))
    )
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "glibc.malloc.hugetlb=1"), ("glibc.x=2", "glibc.x=2:glibc.malloc.hugetlb=1")],
)
def test_the_command_starts_anew_with_its_arguments(restarts, monkeypatch, before, after):
    monkeypatch.setenv("GLIBC_TUNABLES", before)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "faith_jax", "train"])
    huge_pages.restart_with_huge_pages()
    assert restarts == [(sys.executable, [sys.executable, "-m", "faith_jax", "train"], after)]
    huge_pages.restart_with_huge_pages()  # as the new process does
    assert len(restarts) == 1


@pytest.mark.parametrize("told", ["glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=2"])
def test_a_users_setting_stays(restarts, monkeypatch, told):
    monkeypatch.setenv("GLIBC_TUNABLES", told)
    huge_pages.restart_with_huge_pages()
    assert restarts == []
    assert os.environ["GLIBC_TUNABLES"] == told


def test_kernels_that_have_none_on_request(restarts, tmp_path, monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    for text in ("always madvise [never]", "[always] madvise never", None):
        path = tmp_path / "other"
        path.write_text(text) if text else path.unlink()
        monkeypatch.setattr(huge_pages, "_PAGES", path)
        huge_pages.restart_with_huge_pages()
    assert restarts == []


@pytest.mark.parametrize(("command", "count"), [("train", 1), ("eval", 0)])
def test_the_command_line_of_a_training_alone(restarts, monkeypatch, capsys, command, count):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(sys, "argv", ["t5x", command])
    assert cli.t5x_main() == 2  # without --gin_file
    assert cli.t5x_main([command]) == 2  # as a program calls it
    assert len(restarts) == count
