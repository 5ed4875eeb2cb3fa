import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture(scope="session")
def session_data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(autouse=True)
def data_dir(session_data_dir, monkeypatch):
    """Prepares data in a folder of the tests' own."""
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(session_data_dir))
    return session_data_dir


@pytest.fixture(scope="session")
def in_tensorflow():
    """Calls a preprocessor on texts and lists of texts."""

    def call(function, *values):
        values = [tf.constant(v, tf.string, shape=np.shape(v)) for v in values]
        return function(*values).numpy().decode("utf-8")

    return call
