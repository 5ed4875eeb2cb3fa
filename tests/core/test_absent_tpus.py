"""libtpu on a machine without TPUs."""

import importlib.util
import os

import pytest

from faith_jax.core import absent_tpus

NAMES = {"TPU_ACCELERATOR_TYPE": "v4-8", "TPU_WORKER_HOSTNAMES": "localhost"}


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Returns a function that makes libtpu look at a machine: (vendors, installed, environment)."""

    def names(vendors=(), installed=True, **environment):
        for number, vendor in enumerate(vendors):
            (tmp_path / str(number)).mkdir()
            (tmp_path / str(number) / "vendor").write_text(f"{vendor}\n")
        spec = importlib.util.find_spec("json") if installed else None
        monkeypatch.setattr(absent_tpus.importlib.util, "find_spec", lambda name: spec)
        monkeypatch.setattr(absent_tpus, "_PCI", tmp_path)
        monkeypatch.setattr(os, "environ", dict(environment))
        absent_tpus.quiet_libtpu()
        return os.environ

    return names


def test_names_are_given_where_libtpu_is_and_no_tpu(machine):
    assert machine(["0x8086", "0x10de"]) == NAMES
    assert machine(TPU_ACCELERATOR_TYPE="v5e-4")["TPU_ACCELERATOR_TYPE"] == "v5e-4"


@pytest.mark.parametrize(
    "given",
    [
        {"vendors": ["0x8086", "0x1ae0"]},
        {"installed": False},
        {"JAX_PLATFORMS": "cpu"},
        {"JAX_FORCE_TPU_INIT": "1"},
    ],
)
def test_nothing_is_given_to_others(machine, given):
    assert not NAMES.keys() & machine(**given).keys()
