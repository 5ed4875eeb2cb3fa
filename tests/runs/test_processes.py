import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.runs import processes

NONE = (None, None, None)


@pytest.mark.parametrize(
    ("address", "found_by_cluster", "message"),
    [
        (("host:1", 2, None), False, r"^Give --coordinator_address, .* together\.$"),
        (("host:1", 2, 0), True, "^--multiprocess: the cluster says where"),
    ],
)
def test_processes_are_named_in_one_way(address, found_by_cluster, message):
    with pytest.raises(ConfigError, match=message):
        processes.join(address, found_by_cluster)


def test_a_cluster_that_is_not_there(monkeypatch):
    def initialize(*args):
        assert not args
        raise ValueError("coordinator_address should be defined.\nMore.")

    monkeypatch.setattr(processes.jax.distributed, "initialize", initialize)
    with pytest.raises(ConfigError, match=r"finds no cluster here \(coordinator_address should"):
        processes.join(NONE, True)
    processes.join(NONE, False)  # one process alone


def digests(*texts):
    return np.stack([processes._hash_text(text) for text in texts])


def test_processes_must_be_configured_alike():
    processes._check_equal_digests(digests("a", "a"))
    with pytest.raises(ConfigError, match=r"^process 1, 2 of this run has other gin files"):
        processes._check_equal_digests(digests("a", "c", "d"))
    with pytest.raises(ConfigError, match=r"^process 2 could not read its configuration"):
        processes._check_equal_digests(digests("a", "c", "failed"))
