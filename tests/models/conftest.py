import jax
import pytest


@pytest.fixture(scope="module")
def quick_compilation():
    """Compiles without most optimizations, for tests that wait for nothing but compilation."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
