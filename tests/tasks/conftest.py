import pytest


@pytest.fixture(autouse=True)
def data_dir(data_folder, monkeypatch):
    """Prepares data in a folder of the tests' own."""
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
    return data_folder
