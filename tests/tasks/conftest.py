import pytest


@pytest.fixture(autouse=True)
def data_dir(data_folder, monkeypatch):
    """Makes tests prepare data in their own folder."""
    monkeypatch.setenv("FAITH_JAX_DATA_DIR", str(data_folder))
    return data_folder
