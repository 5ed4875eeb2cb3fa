import jax
import pytest


@pytest.fixture(scope="package", autouse=True)
def quick_compilation():
    """Compiles without most optimizations: these tests wait for little but compilation."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
