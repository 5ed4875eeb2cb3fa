import pytest

from tests.retrieval.encyclopedia import built


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    return built(tmp_path_factory.mktemp("encyclopedia"))
