import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def data_dir(data_folder, monkeypatch):
    """Prepares data in a folder of the tests' own."""
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
    return data_folder


@pytest.fixture(scope="session")
def in_tensorflow():
    """Calls a preprocessor on texts and lists of texts."""

    def call(function, *values):
        values = [tf.constant(v, tf.string, shape=np.shape(v)) for v in values]
        return function(*values).numpy().decode("utf-8")

    return call
