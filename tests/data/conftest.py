import pytest

from faith_jax.data import vocabularies


@pytest.fixture
def restore_default():
    """Sets the default vocabulary back after a test that changes it."""
    before = vocabularies.default_vocabulary_setting()
    yield
    vocabularies.set_default_vocabulary(before.model_file, before.extra_ids)
