"""Tiny models that several test files score with."""

import pytest

from tests.scoring import reference, tiny_models


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The folders of "nli", "critic" and "encoder"; judges have other models."""
    return reference.write_models(tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="session")
def nli(models):
    return models["nli"]


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    return tiny_models.write_model(tmp_path_factory.mktemp("gpt2") / "m", "gpt2")


@pytest.fixture(scope="session")
def bart(tmp_path_factory):
    return tiny_models.write_model(tmp_path_factory.mktemp("bart") / "m", "bart")


@pytest.fixture(scope="session")
def t5(tmp_path_factory):
    return tiny_models.write_t5(tmp_path_factory.mktemp("t5") / "m")


@pytest.fixture(scope="module", params=["bart", "gpt2"])
def model(request, tmp_path_factory):
    """Each kind of language model, with positions for long texts."""
    folder = tmp_path_factory.mktemp(request.param) / "m"
    return tiny_models.write_model(folder, request.param, max_positions=512)
