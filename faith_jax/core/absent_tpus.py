"""Keeps libtpu, where it is installed on a machine without TPUs, from complaining of that.

JAX loads libtpu to look for TPUs. Without one it then runs as it would without libtpu, but libtpu
has written a page of errors. It is installed on such machines for `faith-jax plan`.
"""

import importlib.util
import os
import pathlib

_GOOGLE = "0x1ae0"  # the vendor of TPUs on the PCI bus, by which JAX finds them too
_PCI = pathlib.Path("/sys/bus/pci/devices")
# That a host names no type of TPU, and no host of others, is what libtpu complains of.
_NAMES = {"TPU_ACCELERATOR_TYPE": "v4-8", "TPU_WORKER_HOSTNAMES": "localhost"}


def quiet_libtpu() -> None:
    """Gives libtpu the names that it asks for, unless there is a TPU or one is asked for."""
    if {"JAX_PLATFORMS", "JAX_FORCE_TPU_INIT"} & os.environ.keys():
        return
    if importlib.util.find_spec("libtpu") is None or _has_tpu():
        return
    for name, value in _NAMES.items():
        os.environ.setdefault(name, value)


def _has_tpu() -> bool:
    return any(path.read_text().strip() == _GOOGLE for path in _PCI.glob("*/vendor"))
