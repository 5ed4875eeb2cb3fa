import jax
import numpy as np
import pytest

from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.models.parameters import random_params
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.runs.setup import StartingPoint, initial_params
from tests.checkpoints import family_folders
from tests.models import families


def test_a_new_head_keeps_the_pooler(tmp_path):
    family_folders.write_case(tmp_path / "bert", "bert_base_model")
    config = open_checkpoint(tmp_path / "bert").config
    assert config.pooler
    config = config.replace(label_names=("yes", "no"))
    params, _ = initial_params(
        Transformer(config),
        make_partitioner(config),
        StartingPoint(initial_checkpoint_path=str(tmp_path / "bert")),
    )
    head = jax.device_get(params["classifier"])
    pooler = family_folders.draw(family_folders.shapes_of("bert_base_model"))["pooler.dense.weight"]
    np.testing.assert_array_equal(head["dense"]["kernel"], pooler.T)
    assert head["out"]["kernel"].shape == (16, 2)


@pytest.mark.slow
def test_a_part_of_random_parameters_is_that_of_all():
    config = families.BERT.replace(label_names=("yes", "no"))
    module, partitioner = Transformer(config), make_partitioner(config)
    whole, head = (random_params(module, partitioner, 3, part) for part in (None, "classifier"))
    jax.tree.map(np.testing.assert_array_equal, head, whole["classifier"])
    assert np.any(head["out"]["kernel"])
