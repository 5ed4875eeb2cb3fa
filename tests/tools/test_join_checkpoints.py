import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints.checkpoint import Checkpoint, flatten
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import ConfigError
from tests.models import tiny
from tools import join_checkpoints as tool


def test_each_parameter_is_of_the_one_or_the_other():
    _, params = tiny.model_and_params(tiny.TINY)
    flat = flatten(params)
    first = Checkpoint(tiny.TINY, tool.unflatten({n: np.full(x.shape, 1) for n, x in flat.items()}))
    second = Checkpoint(
        tiny.TINY, tool.unflatten({n: np.full(x.shape, 2) for n, x in flat.items()})
    )
    joined = flatten(tool.joined(first, second).params)
    assert {n: int(x.max()) for n, x in joined.items()} == {
        n: 2 if n.startswith("decoder/") else 1 for n in flat
    }
    smaller = tiny.TINY.replace(mlp_dim=tiny.TINY.mlp_dim + 2)
    other_sizes = Checkpoint(smaller, tiny.model_and_params(smaller)[1])
    with pytest.raises(ConfigError, match=r"parameters differ, such as .*mlp"):
        tool.joined(other_sizes, second)


def test_a_model_joined_with_itself_is_itself(tmp_path, capsys):
    output = tmp_path / "joined"
    arguments = ["--encoder=mini", "--decoder=mini", f"--output={output}"]
    assert tool.main(arguments) == 0
    expected, joined = (flatten(open_checkpoint(path).params) for path in ("mini", str(output)))
    assert expected.keys() == joined.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(np.float32(joined[name]), np.float32(array))
    assert faith_jax.load_model(str(output)).config == faith_jax.load_model("mini").config
    assert (output / "spiece.model").is_file()
    assert tool.main(arguments) == 2
    assert "exists; give another --output" in capsys.readouterr().err
