import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest
from flax.linen.partitioning import logical_to_mesh_axes
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AbstractMesh, PartitionSpec

from faith_jax.core.errors import ConfigError
from faith_jax.models import partitioning
from faith_jax.models.config import TransformerConfig
from tests.training import mesh_driver
from tests.training.processes import output_of, start_module

# Long cases run in their own process, for tests marked `slow`.
LONG = ("adamw", "adafactor", "infonce", "state_bytes")
QUICK = tuple(n for n in (*mesh_driver.CASES, *mesh_driver.OTHERS) if n not in LONG)


def cases(choose=lambda case: True, first=0):
    """Pairs of a case and one of its meshes, from the first or the second mesh on."""
    return [
        pytest.param(name, mesh, marks=[pytest.mark.devices, *slow(name)], id=f"{name}-{mesh}")
        for name, case in mesh_driver.CASES.items()
        if choose(case)
        for mesh in case.meshes[first:]
    ]


def slow(name):
    return [pytest.mark.slow] if name in LONG else []


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns a case's results on each mesh of eight forced host devices, by name."""

    @functools.cache
    def of_all(names):
        folder = tmp_path_factory.mktemp("meshes")
        output = folder / "runs.npz"
        output_of(start_module("tests.training.mesh_driver", output, folder, *names))
        with np.load(output) as arrays:
            return dict(arrays)

    return lambda name: of_all(LONG if name in LONG else QUICK)


def of(runs, case, mesh, prefix=""):
    start = f"{case}/{mesh}/{prefix}"
    return {n.removeprefix(start): v for n, v in runs(case).items() if n.startswith(start)}


@pytest.mark.parametrize(("case", "mesh"), cases(first=1))
def test_training_does_not_depend_on_the_mesh(runs, case, mesh):
    single, several = of(runs, case, "1x1"), of(runs, case, mesh)
    assert len(single["train"]) == mesh_driver.STEPS
    assert len(set(single["train"][:, 0])) == mesh_driver.STEPS  # each step has moved the loss
    np.testing.assert_allclose(several["train"][:, 0], single["train"][:, 0], rtol=1e-5)  # loss
    # The norm sums squares over shards in another order.
    np.testing.assert_allclose(several["train"][:, 1], single["train"][:, 1], rtol=2e-5)
    np.testing.assert_array_equal(several["train"][:, 2], single["train"][:, 2])  # target tokens
    for name, value in of(runs, case, "1x1", "params/").items():
        # Adam divides by the root of a second moment that may be tiny: a few rates' worth of 1e-3.
        np.testing.assert_allclose(several[f"params/{name}"], value, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("case", "mesh"), cases(lambda case: case.decoding, first=1))
def test_evaluation_and_decoding_do_not_depend_on_the_mesh(runs, case, mesh):
    single, several = of(runs, case, "1x1"), of(runs, case, mesh)
    np.testing.assert_allclose(several["eval"], single["eval"], rtol=1e-5)
    assert len(np.unique(single["tokens"])) > 10
    np.testing.assert_array_equal(several["tokens"], single["tokens"])
    np.testing.assert_allclose(several["log_prob"], single["log_prob"], rtol=2e-5)


@pytest.mark.parametrize(("case", "mesh"), cases(lambda case: not case.decoding))
def test_a_checkpoint_of_one_device_goes_on_on_any_mesh(runs, case, mesh):
    single, several = of(runs, case, "1x1"), of(runs, case, mesh)
    assert several["shardings_kept"]
    restored = of(runs, case, mesh, "restored/")
    for name, value in of(runs, case, "1x1", "restored/").items():
        np.testing.assert_array_equal(restored[name], value)
        assert restored[name].dtype == value.dtype
    assert several["loss_after_restoring"] != several["train"][-1, 0]
    np.testing.assert_allclose(
        several["loss_after_restoring"], single["loss_after_restoring"], rtol=1e-5
    )


@pytest.mark.parametrize(("case", "mesh"), cases())
def test_no_step_compiles_twice(runs, case, mesh):
    # One program to train, also from a restored state, and one to evaluate where that is done.
    expected = 1 if mesh_driver.CASES[case].decoding is None else 2
    assert int(of(runs, case, mesh)["compilations"]) == expected


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize(
    ("case", "mesh", "name", "shape"),
    [
        # 264 entries over 2 and 8; heads joined with their width: 24 over 2 and 8.
        ("adamw", "4x2", "token_embedder.embedding", (132, 24)),
        ("adamw", "1x8", "token_embedder.embedding", (33, 24)),
        ("adamw", "1x8", "decoder.logits_dense.kernel", (24, 33)),
        ("adamw", "1x8", "encoder.layers_0.attention.query.kernel", (24, 3)),
        ("adamw", "1x8", "encoder.layers_0.attention.out.kernel", (3, 24)),
        # 36 divides by 2 but not by 8: then it is whole everywhere. So are six heads.
        ("adamw", "4x2", "encoder.layers_0.mlp.wi_0.kernel", (24, 18)),
        ("adamw", "1x8", "encoder.layers_0.mlp.wi_0.kernel", (24, 36)),
        ("adamw", "4x2", "encoder.relpos_bias.rel_embedding", (3, 32)),
        ("adamw", "1x8", "encoder.relpos_bias.rel_embedding", (6, 32)),
    ],
)
def test_parameters_and_moments_lie_in_pieces(runs, case, mesh, name, shape):
    shards = of(runs, case, mesh, "shards/")
    assert tuple(shards[f"params/{name}"]) == shape
    for moment in ("mu", "nu"):
        assert tuple(shards[f"opt_state/0.{moment}.{name}"]) == shape


@pytest.mark.devices
def test_slices_share_the_rows_and_each_has_all_parameters(runs):
    single, several = (of(runs, "truncation", mesh, "means/") for mesh in ("1x1", "2x2x2-2d"))
    assert len(single) > 10
    assert max(np.abs(mean).max() for mean in single.values()) > 0.01
    for name, mean in single.items():  # of the gradients
        np.testing.assert_allclose(several[name], mean, rtol=1e-4, atol=1e-6, err_msg=name)
    shards = of(runs, "truncation", "2x2x2-2d", "shards/")
    assert tuple(shards["params/decoder.layers_0.self_attention.query.kernel"]) == (12, 12)
    assert tuple(shards["batch.decoder_target_tokens"]) == (mesh_driver.ROWS // 4, 6)


@pytest.mark.devices
def test_digests_of_shards_are_those_of_their_parts(runs):
    names = ("found", "expected", "read", "refused")
    all_arrays = runs("sharded_manifest")
    arrays = {name: all_arrays[f"sharded_manifest/{name}"] for name in names}
    assert arrays["found"].tolist() == arrays["expected"].tolist()
    assert len(set(arrays["found"])) == 8
    # On four meshes all is read, and a wrong digest of any chunk is found.
    assert int(arrays["read"]) == 4
    assert int(arrays["refused"]) == 4 * 8


@pytest.mark.devices
def test_one_window_of_losses_for_all_devices(runs):
    """Which examples are dropped, and every loss in the window, in the order of the batches."""
    single, several = of(runs, "truncation", "1x1"), of(runs, "truncation", "2x2x2-2d")
    assert single["examples_dropped"] > 0
    np.testing.assert_array_equal(several["examples_dropped"], single["examples_dropped"])
    assert len(single["objective"]) == 40 + 2
    np.testing.assert_allclose(several["objective"], single["objective"], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.devices
def test_stacked_layers_are_split_within_the_layer(runs):
    shards = of(runs, "adafactor", "4x2", "shards/params/")
    assert tuple(shards["encoder.layers.mlp.wi.kernel"]) == (2, 128, 64)
    assert tuple(shards["decoder.layers.self_attention.out.kernel"]) == (2, 64, 128)


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize(
    ("mesh", "kernel", "row", "column"),
    [("4x2", (2, 128, 64), (2, 128), (2, 64)), ("4x2-2d", (2, 32, 64), (2, 32), (2, 64))],
)
def test_factored_moments_lie_as_their_parameter(runs, mesh, kernel, row, column):
    shards = of(runs, "adafactor", mesh, "shards/")
    name = "encoder.layers.mlp.wi.kernel"
    assert tuple(shards[f"params/{name}"]) == kernel
    moments = {n.split(".", 2)[1]: tuple(s) for n, s in shards.items() if n.endswith(f".{name}")}
    assert (moments["v_row"], moments["v_col"]) == (row, column)


@pytest.mark.slow
@pytest.mark.devices
def test_what_rematerialisation_keeps_is_split_in_two_dimensions(runs):
    """The input of each layer, float32 [rows / 2, length, width], and a fourth of its width."""
    size = mesh_driver.ROWS // 2 * mesh_driver.STATE_LENGTH * mesh_driver.SCANNED.emb_dim * 4
    whole, split = (float(runs("state_bytes")[f"state_bytes/{dims}"]) for dims in (1, 2))
    np.testing.assert_allclose(whole, 2 * size, rtol=0.1)  # an encoder's layer and a decoder's
    np.testing.assert_allclose(split, 2 * size / 4, rtol=0.1)


@pytest.mark.slow
@pytest.mark.devices
def test_frozen_parameters_have_no_optimizer_state(runs):
    names = of(runs, "infonce", "4x2", "shards/opt_state/")
    kept = {n.split(".", 2)[2] for n in names if n.count(".") > 1}
    assert kept == {"encoder_prompt.embedding", "decoder_prompt.embedding"}


@pytest.mark.devices
def test_random_parameters_do_not_depend_on_the_mesh(runs):
    single, several = of(runs, "initial", "1x1"), of(runs, "initial", "4x2")
    assert single.keys() == several.keys()
    for name, value in single.items():
        np.testing.assert_array_equal(several[name], value, err_msg=name)


CONFIG = TransformerConfig(vocab_size=4224, num_heads=6, head_dim=64, mlp_dim=100, emb_dim=50)


def rules_for(data, model, *dims):
    mesh = AbstractMesh((data, model), ("data", "model"))
    rules = partitioning.standard_logical_axis_rules(*dims)
    return partitioning.fitting_rules(rules, CONFIG, mesh)


def test_dimensions_that_do_not_divide_are_replicated():
    two, eight = dict(rules_for(4, 2)), dict(rules_for(1, 8))
    split = ("vocab", "heads", "mlp", "joined_kv")
    assert [two[n] for n in split] == ["model"] * 4
    assert [eight[n] for n in split] == ["model", None, None, "model"]
    assert two["batch"] == eight["batch"] == ("data",)
    assert two["embed"] is None


@pytest.mark.parametrize(
    ("dims", "kernel", "states"),
    [
        ((1, 1), (None, "model"), ("data", None, None)),
        ((1, 2), ("data", "model"), ("data", None, None)),
        # The kernel's other axis is on "model" already, as the states' first is on "data".
        ((2, 1), (None, "model"), ("data", None, "model")),
        ((2, 2), ("data", "model"), ("data", None, "model")),
    ],
)
def test_two_dimensional_rules_are_those_of_t5x(dims, kernel, states):
    rules = rules_for(2, 2, *dims)  # 50 divides by 2

    def spec(*names):
        return tuple(logical_to_mesh_axes(names, rules))

    assert spec("embed", "mlp") == kernel
    assert spec("batch", "length", "embed") == states
    assert spec("vocab", "embed") == kernel[::-1]
    assert tuple(logical_to_mesh_axes(("embed",), rules_for(4, 2, 1, 2))) == (None,)  # nor by 4


def test_an_axis_may_be_a_part_of_one_of_the_network(monkeypatch):
    usual = partitioning.make_mesh()

    def refuse(*_, **__):
        raise NotImplementedError("Failed to find assignment for logical_axis_index 0 of size 2")

    monkeypatch.setattr(jax, "make_mesh", refuse)
    assert partitioning.make_mesh() == usual


@dataclasses.dataclass(frozen=True)
class Device:
    id: int
    process_index: int
    slice_index: int
    platform: str = "cpu"
    device_kind: str = "cpu"


@pytest.mark.parametrize("have_slices", [False, True])
def test_a_slice_has_processes_of_its_own(have_slices):
    """Two slices of two processes with two devices each; processes 0 and 2 form a slice."""
    devices = [Device(i, i // 2, i // 2 % 2) for i in (7, 6, 0, 1, 2, 3, 4, 5)]
    placed = partitioning._arrange_slices((2, 2, 2), devices, have_slices)
    processes = [sorted({device.process_index for device in part.flat}) for part in placed]
    assert processes == ([[0, 2], [1, 3]] if have_slices else [[0, 1], [2, 3]])
    # Neighbours on "model" are of one process.
    assert all(a.process_index == b.process_index for a, b in placed.reshape(4, 2))


def test_tpus_in_several_slices_are_a_mesh_of_slices():
    devices = [Device(i, i // 2, i // 4, "tpu") for i in range(8)]
    for count, message in ((1, "in 2 slices; give one of 2, 4, 8"), (3, "8 devices in 2 slices")):
        with pytest.raises(ConfigError, match=f"^NUM_SLICES = {count} does not divide.*{message}"):
            partitioning.make_mesh(1, devices, count)
    with pytest.raises(
        ConfigError, match=r"^NUM_PARTITIONS = 8 .*4 devices of a slice; .* 1, 2, 4"
    ):
        partitioning.make_mesh(8, devices)
    mesh = AbstractMesh((2, 2, 2), ("slice", "data", "model"))
    rules = partitioning.standard_logical_axis_rules(1, 2)
    fitting = dict(partitioning.fitting_rules(rules, CONFIG, mesh))
    assert fitting["batch"] == ("slice", "data")
    assert "slice" not in set(fitting.values())
    with pytest.raises(ConfigError, match=r"NUM_SLICES = 2 does not divide"):
        partitioning.make_mesh(devices=jax.devices()[:1], num_slices=2)


def test_rules_of_ones_own_replace_the_standard_ones():
    partitioner = partitioning.make_partitioner(CONFIG, logical_axis_rules=(("batch", "data"),))
    assert partitioner.rules == (("batch", ("data",)),)
    assert partitioner.rows.spec == PartitionSpec(("data",))
    assert partitioner.data_parallelism == jax.device_count()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parameter_partitioning_dims": 3}, "^parameter_partitioning_dims = 3; expected 1 or 2"),
        ({"num_partitions": 0}, "NUM_PARTITIONS = 0 does not divide"),
        ({"num_partitions": 3}, "NUM_PARTITIONS = 3 does not divide"),
    ],
)
def test_meshes_that_cannot_be_are_errors(options, message):
    with pytest.raises(ConfigError, match=message):
        partitioning.make_partitioner(CONFIG, **options)


def test_a_batch_that_does_not_divide_is_an_error():
    partitioner = partitioning.make_partitioner(CONFIG)

    class FourRows(partitioning.Partitioner):
        data_parallelism = 4

    with pytest.raises(ConfigError, match=r"batch of 6 rows .* 4 data-parallel .* BATCH_SIZE"):
        FourRows(partitioner.mesh, partitioner.rules).put_batch({"x": np.zeros((6, 2), np.int32)})


def test_put_makes_arrays_of_the_same_values():
    partitioner = partitioning.make_partitioner(CONFIG)
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    placed = partitioner.put({"x": array}, {"x": partitioner.rows})["x"]
    np.testing.assert_array_equal(placed, array)
    assert placed.sharding == partitioner.rows


@given(st.lists(st.integers(0, 9), max_size=8))
def test_arrays_that_are_read_together_take_no_more_than_the_largest(sizes):
    groups = [sizes[group] for group in partitioning._group_by_bytes(sizes)]
    assert [size for group in groups for size in group] == sizes
    assert all(sum(group) <= max(sizes) for group in groups if group)
    # No two of them would have had room together.
    full = [group for group in groups if group]
    assert all(sum(earlier) + later[0] > max(sizes) for earlier, later in itertools.pairwise(full))
