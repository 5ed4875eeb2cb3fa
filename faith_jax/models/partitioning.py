"""Placement of parameters and batches: a ([slice,] data, model) mesh and logical axis rules.

Models use logical names for their axes ("embed", "mlp" …); only this file maps the names to the
mesh. The same code runs on one device, on eight forced host devices, on several processes and on
TPU pods.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import flax
import jax
import numpy as np
from flax.linen import partitioning as nn_partitioning
from jax.experimental import mesh_utils, multihost_utils
from jax.experimental.layout import Format, Layout
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from faith_jax.core.errors import ConfigError, FaithJaxError, pluralize
from faith_jax.core.processes import raise_together
from faith_jax.core.settings import BlockFlag
from faith_jax.core.types import Array, PyTree
from faith_jax.models.config import KERNELS, TransformerConfig

MESH_AXES = ("data", "model")
SLICE_AXIS = "slice"  # the outermost axis, only if the devices form several slices

AxisRules = tuple[tuple[str, str | tuple[str, ...] | None], ...]


def batch_axes(mesh: Mesh) -> tuple[str, ...]:
    """Returns the axes of a mesh over which the rows of a batch are split."""
    return (SLICE_AXIS, "data") if SLICE_AXIS in mesh.shape else ("data",)


def with_sharding_constraint(x: Array, axes: tuple[str | None, ...]) -> Array:
    """Constrains an array's sharding by the logical names of its axes, if a mesh is active.

    Axes of size 1 are not split. Under `jax.vmap` over rows, the row axis has size 1, and the
    mapped axis stays free to be sharded like the rows.
    """
    names = tuple(None if size == 1 else name for size, name in zip(x.shape, axes, strict=True))
    constrained: Array = nn_partitioning.with_sharding_constraint(x, names)
    return constrained


def standard_logical_axis_rules(
    activation_partitioning_dims: int = 1, parameter_partitioning_dims: int = 1
) -> AxisRules:
    """Returns T5X's rules: batch over "data"; heads, feed-forward and vocabulary over "model".

    A name may have several rules; an array uses the first one whose mesh axis is not yet taken by
    another of its dimensions.

    Args:
      activation_partitioning_dims: 2 = the width of the states between layers is split over
        "model" too, which takes more communication but less memory.
      parameter_partitioning_dims: 2 = the other dimension of parameters, and so of the optimizer's
        state, is split over "data" (ZeRO-3 or FSDP). Layers are gathered when they are needed.

    Raises:
      ConfigError: for numbers other than 1 and 2.
    """
    for name, dims in (
        ("activation_partitioning_dims", activation_partitioning_dims),
        ("parameter_partitioning_dims", parameter_partitioning_dims),
    ):
        if dims not in (1, 2):
            raise ConfigError(f"{name} = {dims!r}; expected 1 or 2.")
    # These precede the rule that leaves "embed" whole, because the first free rule applies.
    split = [("embed", "model")] * (activation_partitioning_dims == 2)
    split += [("embed", "data")] * (parameter_partitioning_dims == 2)
    axes = ("embed", "kv", "length", "layers", "prompt", "relpos_buckets", "position", "labels")
    # Kernels that project into heads or the feed-forward layer are split by columns, those back by
    # rows, so that devices only exchange the sums of the second product.
    return (
        ("batch", "data"),
        ("vocab", "model"),
        ("heads", "model"),
        ("mlp", "model"),
        ("joined_kv", "model"),
        *split,
        *((name, None) for name in axes),
    )


def fitting_rules(rules: AxisRules, config: TransformerConfig, mesh: Mesh) -> AxisRules:
    """Drops rules for dimensions that are not divisible by the size of the mesh axis.

    The dimension is then replicated. For example, six heads cannot be split over eight devices, but
    their kernels of width 384 can. Rows that are split over "data" are also split over slices.
    """
    # A batch's rows are split over slices too.
    rules = tuple(
        (name, batch_axes(mesh) if (name, axis) == ("batch", "data") else axis)
        for name, axis in rules
    )
    sizes = {
        "vocab": config.vocab_size,
        "heads": config.num_heads,
        "mlp": config.mlp_dim,
        "joined_kv": config.num_heads * config.head_dim,
        "embed": config.emb_dim,
    }

    def fits(name: str, axis: Any) -> bool:
        # The config does not determine the sizes of all axes: the batch size is unknown here.
        return axis is None or name not in sizes or sizes[name] % mesh.shape[axis] == 0

    fitting = tuple((name, axis) for name, axis in rules if fits(name, axis))
    # A name without a rule that fits is replicated.
    left = {name for name, _ in rules} - {name for name, _ in fitting}
    return (*fitting, *((name, None) for name in sorted(left)))


@dataclasses.dataclass(frozen=True)
class Partitioner:
    """Places arrays on the mesh and compiles functions for it.

    Attributes:
      mesh: devices on the axes "data" and "model", with several slices also "slice" as the first.
      rules: maps logical axis names to mesh axes.
    """

    mesh: Mesh
    rules: AxisRules

    @property
    def data_parallelism(self) -> int:
        """Number of pieces into which a batch is split."""
        return math.prod(self.mesh.shape[axis] for axis in batch_axes(self.mesh))

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Makes the model's sharding constraints refer to this mesh, as a context manager."""
        with jax.set_mesh(self.mesh), nn_partitioning.axis_rules(self.rules):
            yield

    def jit(self, function: Callable, **options: Any) -> "Compiled":
        """Applies `jax.jit`; the function is traced and called with the mesh and rules active."""
        return Compiled(self, function, options)

    @property
    def replicated(self) -> NamedSharding:
        """The sharding of arrays that are replicated on every device."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def rows(self) -> NamedSharding:
        """The sharding of batches, over their first axis."""
        return NamedSharding(self.mesh, PartitionSpec(batch_axes(self.mesh)))

    def param_shardings(self, params_axes: PyTree) -> PyTree:
        """Returns the shardings of parameters from the model's `params_axes` collection."""

        def sharding(axes):
            # Maps the parameter's logical axes to mesh axes, by the first rule whose axis is free.
            spec = nn_partitioning.logical_to_mesh_axes(axes, self.rules)
            return NamedSharding(self.mesh, PartitionSpec(*(spec or ())))

        names = flax.core.unfreeze(nn_partitioning.get_axis_names(params_axes))
        return jax.tree.map(sharding, names, is_leaf=lambda x: isinstance(x, PartitionSpec))

    def put(self, tree: PyTree, shardings: PyTree) -> PyTree:
        """Makes global arrays from arrays that every process has, or can read, in full.

        Args:
          tree: arrays in memory, or lazy ones with a shape, a dtype and readable parts
            (`array[box]`), such as `checkpoints.lazy_arrays.LazyArray`. Each process reads only the
            parts that its devices hold, at most the size of the largest array at a time.
          shardings: a tree of the same form, or one sharding for all arrays.

        Raises:
          FaithJaxError: in all processes, if one of them cannot read an array.
        """
        leaves, form = jax.tree.flatten(tree)
        arrays = [leaf if _is_lazy(leaf) else np.asarray(leaf) for leaf in leaves]
        if isinstance(shardings, NamedSharding):
            placements = [shardings] * len(arrays)
        else:
            # One sharding for each array, in the order of the leaves.
            placements = jax.tree.leaves(jax.tree.map(lambda _, place: place, tree, shardings))
        # Everything is in memory already, so there is nothing to limit.
        if not any(map(_is_lazy, arrays)):
            held = map(_read_parts, arrays, placements)
            return jax.tree.unflatten(form, map(_place_parts, arrays, placements, held))
        placed_arrays: list[jax.Array] = []
        problem = None
        try:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                # Group by group, so that reading takes no more memory than the largest array.
                for group in _group_by_bytes([array.nbytes for array in arrays]):
                    some, places = arrays[group], placements[group]
                    read = pool.map(_read_parts, some, places)
                    placed_arrays += jax.block_until_ready(
                        list(map(_place_parts, some, places, read))
                    )
        except FaithJaxError as error:
            problem = error
        # If only one process failed, the others would wait for it forever.
        raise_together(problem, "read the checkpoint")
        return jax.tree.unflatten(form, placed_arrays)

    def local_rows(self, batch_size: int) -> slice:
        """Returns the rows of a global batch that this process's devices hold.

        Raises:
          ConfigError: if the batch is not divisible by the size of the data axis.
        """
        if batch_size % self.data_parallelism:
            raise ConfigError(
                f"A batch of {batch_size} rows does not divide over {self.data_parallelism} "
                "data-parallel devices; set BATCH_SIZE to a multiple."
            )
        # A process's devices may hold several pieces, which are consecutive.
        held = self.rows.addressable_devices_indices_map((batch_size,)).values()
        pieces = [index[0].indices(batch_size) for index in held if index is not None]
        return slice(min(start for start, _, _ in pieces), max(stop for _, stop, _ in pieces))

    def put_batch(self, batch: PyTree, batch_size: int | None = None) -> PyTree:
        """Makes a global batch, split over `batch_axes`.

        Args:
          batch: the rows of `local_rows`, or all rows if every process has them.
          batch_size: rows of the global batch; None = `batch` has all rows.

        Raises:
          ConfigError: see `local_rows`.
        """
        global_rows = len(jax.tree.leaves(batch)[0]) if batch_size is None else batch_size
        local = self.local_rows(global_rows)
        # A process's own first row is row `local.start` of the global batch.
        first = 0 if batch_size is None else local.start

        def place(array: Any) -> Any:
            if _is_key(array):
                # NumPy cannot represent random keys, but it can represent their data.
                return jax.random.wrap_key_data(place(jax.random.key_data(array)))
            array = np.asarray(array)

            def piece(index: Any) -> np.ndarray:
                start, stop, _ = index[0].indices(global_rows)
                return array[start - first : stop - first]

            # JAX calls `piece` once for each of this process's devices.
            return jax.make_array_from_callback((global_rows, *array.shape[1:]), self.rows, piece)

        return jax.tree.map(place, batch)

    def compute(self, function: Callable[..., PyTree], *batch: PyTree) -> PyTree:
        """Applies a compiled function to each row of a batch on the mesh.

        The batch may have any number of rows: if it does not divide over the devices, the last row
        is repeated. Different batch sizes are compiled separately.

        Returns:
          The function's outputs, as NumPy arrays that every process has in full.
        """
        return self.finish(self.start(function, *batch))

    def start(self, function: Callable[..., PyTree], *batch: PyTree) -> "Started":
        """Queues the computation of `compute`, which may still run when this returns."""
        rows = len(jax.tree.leaves(batch)[0])
        missing = -rows % self.data_parallelism
        if missing:
            # Repeat the last row until the number of rows divides over the devices.
            lines = np.minimum(np.arange(rows + missing), rows - 1)
            batch = jax.tree.map(lambda array: array[lines], batch)
        with self.active():
            outputs = function(*jax.tree.map(self.put_batch, batch))
        return Started(outputs, rows if missing else None)

    def finish(self, started: "Started") -> PyTree:
        """Waits for the outputs that `start` has queued, and returns them."""
        with self.active():
            outputs = self.gather(started.outputs)
        rows = started.rows
        return outputs if rows is None else jax.tree.map(lambda array: array[:rows], outputs)

    def gather(self, tree: PyTree) -> PyTree:
        """Returns whole NumPy arrays on every process, wherever their pieces are stored."""
        # Gathering pieces from other processes' devices requires that all processes call this.
        if not all(leaf.is_fully_addressable for leaf in jax.tree.leaves(tree)):
            # Tiled: pieces are joined along their axis, not stacked by process.
            tree = multihost_utils.process_allgather(tree, tiled=True)
        return jax.device_get(tree)


class Started(NamedTuple):
    """A computation on a batch that has been queued.

    Attributes:
      outputs: arrays on the devices.
      rows: number of rows that are not repetitions; None = all.
    """

    outputs: PyTree
    rows: int | None


def _is_lazy(array: Any) -> bool:
    """Whether an array reads its parts only when they are indexed."""
    return not isinstance(array, np.ndarray | np.generic | jax.Array) and hasattr(array, "nbytes")


def _group_by_bytes(sizes: Sequence[int]) -> Iterator[slice]:
    """Yields runs of arrays that together take no more bytes than the largest array."""
    start, room, largest = 0, 0, max(sizes, default=0)
    for end, size in enumerate(sizes):
        # The next array would not fit into the group.
        if room + size > largest:
            yield slice(start, end)
            start, room = end, 0
        room += size
    yield slice(start, len(sizes))


# The place of a part in an array: (start, stop) on each axis.
Span = tuple[tuple[int, int], ...]


def _read_parts(array: Any, sharding: NamedSharding) -> dict[Span, np.ndarray]:
    """Returns the parts of an array that this process's devices hold, by their spans.

    One read covers all parts, unless it would include elements that no part needs.
    """
    indices = sharding.addressable_devices_indices_map(array.shape).values()
    spans = list(dict.fromkeys(_index_to_span(index, array.shape) for index in indices))
    around = tuple(
        (min(start for start, _ in axis), max(stop for _, stop in axis))
        for axis in zip(*spans, strict=True)
    )
    # Elements between the parts are not needed, so the parts are read one by one.
    if _count_elements(around) > sum(map(_count_elements, spans)):
        return {span: array[_span_to_slices(span)] for span in spans}
    region, first = array[_span_to_slices(around)], [start for start, _ in around]
    return {
        span: region[tuple(slice(a - f, b - f) for (a, b), f in zip(span, first, strict=True))]
        for span in spans
    }


def _place_parts(array: Any, sharding: NamedSharding, held: Mapping[Span, np.ndarray]) -> jax.Array:
    """Makes a global array from the parts that this process's devices hold."""
    shape = array.shape
    return jax.make_array_from_callback(
        shape, sharding, lambda index: held[_index_to_span(index, shape)]
    )


def _index_to_span(index: Any, shape: Sequence[int]) -> Span:
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))


def _span_to_slices(span: Span) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in span)


def _count_elements(span: Span) -> int:
    return math.prod(stop - start for start, stop in span)


def _is_key(array: Any) -> bool:
    """Whether an array contains random keys."""
    dtype = getattr(array, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


class Compiled:
    """A jitted function that runs on a partitioner's mesh."""

    def __init__(self, partitioner: Partitioner, function: Any, options: Mapping[str, Any]):
        self._partitioner, self._plain, self._options = partitioner, function, options
        self._function: Any = jax.jit(function, **options)

    def __call__(self, *args: Any) -> Any:
        """Calls the function with the mesh and rules active."""
        with self._partitioner.active():
            return self._function(*args)

    def compile(self, *args: Any) -> Any:
        """Compiles the function for arguments or their shapes, and returns JAX's executable."""
        with self._partitioner.active():
            return self._function.lower(*args).compile()

    def compile_with_layouts(self, first: PyTree, *rest: Any) -> Any:
        """Compiles the function and lets XLA choose the memory layout of the first argument.

        A loop may read an array in another order than that of its dimensions. XLA then copies the
        array before the loop, unless it may choose the argument's layout, which `input_formats` of
        the compiled function returns.

        Args:
          first: arrays, or their shapes with shardings.
          *rest: shapes with shardings.
        """
        # XLA chooses the layout only, not the devices.
        automatic_layout = jax.tree.map(lambda x: Format(Layout.AUTO, x.sharding), first)
        shardings = (automatic_layout, *jax.tree.map(lambda x: x.sharding, rest))
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (first, *rest))
        function: Any = jax.jit(self._plain, in_shardings=shardings, **self._options)
        with self._partitioner.active():
            return function.lower(*shapes).compile()

    def cost(self, *args: Any) -> dict[str, float]:
        """Compiles the function for the arguments; later calls reuse the program.

        Returns:
          `step_operations`: floating-point operations per device; `step_bytes`: memory of
          arguments, results, intermediate values and code per device.
        """
        compiled = self.compile(*args)
        memory, operations = compiled.memory_analysis(), compiled.cost_analysis() or {}
        parts = ("argument", "output", "temp", "generated_code")
        total = sum(getattr(memory, f"{part}_size_in_bytes", 0) for part in parts)
        return {
            "step_operations": float(operations.get("flops", 0.0)),
            # Results that reuse the memory of donated arguments count once.
            "step_bytes": float(total - getattr(memory, "alias_size_in_bytes", 0)),
        }

    @property
    def num_compilations(self) -> int:
        """Number of compiled programs: one for each shape and placement of arguments."""
        # JAX has no public function for this.
        return self._function._cache_size()


# If set, each process uses a mesh of only its own devices if the model fits on them. Processes
# then compute independently of each other.
own_devices = BlockFlag("own_devices")


def fits_own_devices(num_partitions: int) -> bool:
    """Whether a model split over `num_partitions` devices fits on the devices of one process."""
    return num_partitions > 0 and jax.local_device_count() % num_partitions == 0


def make_mesh(
    num_partitions: int = 1, devices: Sequence[Any] | None = None, num_slices: int | None = None
) -> Mesh:
    """Returns the mesh of devices: [num_slices x] data x num_partitions.

    JAX orders the devices so that neighbours on "model" are neighbours in the devices' network.

    Args:
      num_partitions: number of devices over which a model is split; the rest split the rows.
      devices: None = all devices of the run.
      num_slices: groups of devices with a slower network between them. Rows are split over them,
        and each slice has all parameters. None = the TPUs' own slices; other devices are one slice.
        If devices do not know their slice, each slice consists of consecutive processes.

    Raises:
      ConfigError: if the product of slices and partitions does not divide the number of devices.
    """
    if devices is None:
        uses_own_devices = own_devices.is_set and fits_own_devices(num_partitions)
        devices = jax.local_devices() if uses_own_devices else jax.devices()
    count, slices = len(devices), {getattr(device, "slice_index", 0) for device in devices}
    # A mesh cannot have fewer slices than the TPUs have.
    least = len(slices) if devices[0].platform == "tpu" else 1
    num_slices = least if num_slices is None else num_slices
    if num_slices < 1 or num_slices % least or count % num_slices:
        raise ConfigError(
            f"NUM_SLICES = {num_slices} does not divide this run's {pluralize(count, 'device')} in "
            f"{pluralize(least, 'slice')}; give one of {_list_divisors(count, least)}."
        )
    # A model is only split within a slice, where the network is fast.
    own_count = count // num_slices
    if num_partitions < 1 or own_count % num_partitions:
        where = " of a slice" if num_slices > 1 else ""
        raise ConfigError(
            f"NUM_PARTITIONS = {num_partitions} does not divide this run's "
            f"{pluralize(own_count, 'device')}{where}; give one of {_list_divisors(own_count)}. "
            "Scorers call this option num_partitions."
        )
    shape = (own_count // num_partitions, num_partitions)
    if num_slices > 1:
        placed = _arrange_slices((num_slices, *shape), devices, len(slices) == num_slices)
        return Mesh(placed, (SLICE_AXIS, *MESH_AXES), axis_types=(AxisType.Auto,) * 3)
    axis_types = (AxisType.Auto,) * len(shape)
    try:
        if len(slices) == 1:
            return jax.make_mesh(shape, MESH_AXES, axis_types=axis_types, devices=devices)
    except NotImplementedError:
        pass  # A mesh axis is only a part of a network axis, such as 2 in a network of 4 x 4 x 4.
    # Also for devices other than TPUs that report several slices but are used as one.
    placed = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
    return Mesh(placed, MESH_AXES, axis_types=axis_types)


def _list_divisors(count: int, multiple_of: int = 1) -> str:
    multiples = range(multiple_of, count + 1, multiple_of)
    return ", ".join(str(number) for number in multiples if count % number == 0)


def _arrange_slices(
    shape: tuple[int, int, int], devices: Sequence[Any], have_slices: bool
) -> np.ndarray:
    """Returns devices as [slices, data, model]; `have_slices`: devices know their own slice."""
    if not have_slices:
        return np.array(sorted(devices, key=lambda device: device.process_index)).reshape(shape)
    place = functools.partial(
        # [1, data, model] within a slice, [slices, 1, 1] between them.
        mesh_utils.create_hybrid_device_mesh,
        (1, *shape[1:]),
        (shape[0], 1, 1),
        devices,
    )
    try:
        return place()
    except NotImplementedError:  # see `make_mesh`
        return place(allow_split_physical_axes=True)


def make_partitioner(
    config: TransformerConfig,
    num_partitions: int = 1,
    logical_axis_rules: AxisRules | None = None,
    mesh: Mesh | None = None,
    activation_partitioning_dims: int = 1,
    parameter_partitioning_dims: int = 1,
    devices: Sequence[Any] | None = None,
    num_slices: int | None = None,
) -> Partitioner:
    """Returns the placement of a model on a mesh; its dimensions determine which rules apply.

    Args:
      config: the model's configuration.
      num_partitions: see `make_mesh`.
      devices: see `make_mesh`.
      num_slices: see `make_mesh`.
      logical_axis_rules: custom rules, such as T5X's; None = `standard_logical_axis_rules`.
      mesh: with the axes "data" and "model", or "slice", "data" and "model"; None = `make_mesh`.
      activation_partitioning_dims: see `standard_logical_axis_rules`.
      parameter_partitioning_dims: see `standard_logical_axis_rules`.

    Raises:
      ConfigError: as `make_mesh` and `standard_logical_axis_rules`, for a mesh with other axes, and
        if its devices do not support the config's attention kernel.
    """
    if mesh is None:
        mesh = make_mesh(num_partitions, devices, num_slices)
    elif not isinstance(mesh, Mesh) or mesh.axis_names not in (MESH_AXES, (SLICE_AXIS, *MESH_AXES)):
        axes = getattr(mesh, "axis_names", type(mesh).__name__)
        raise ConfigError(
            f"mesh: expected a jax.sharding.Mesh of the axes {MESH_AXES}, got {axes}; see "
            "faith_jax.models.partitioning.make_mesh."
        )
    elif any(kind != AxisType.Auto for kind in mesh.axis_types):
        # With explicit axes, model code would have to state the sharding of ambiguous results; with
        # automatic axes, the compiler chooses everything that the constraints leave open.
        axis_types = (AxisType.Auto,) * len(mesh.axis_names)
        mesh = Mesh(mesh.devices, mesh.axis_names, axis_types=axis_types)
    platform = mesh.devices.flat[0].platform
    kernel = config.attention_kernel
    if kernel not in ("auto", "blocks", KERNELS.get(platform)):
        needed = next(name for name, of_platform in KERNELS.items() if of_platform == kernel)
        raise ConfigError(
            f"attention_kernel = {kernel!r} runs on {needed.upper()}s only, and these devices are "
            f"{platform}s; leave it 'auto'."
        )
    rules = logical_axis_rules or standard_logical_axis_rules(
        activation_partitioning_dims, parameter_partitioning_dims
    )
    return Partitioner(mesh, fitting_rules(rules, config, mesh))
