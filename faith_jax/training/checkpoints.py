"""Checkpoints of a training run, with Orbax: saved during training, restored to resume it.

MODEL_DIR/checkpoints/<step>/ has the items `params` (only trainable parameters; the soft prompt in
prompt-tuning), `opt_state` and, for objectives with a state, `objective`, and a manifest of all
arrays. A checkpoint that a killed run left incomplete is ignored. `runs.train` resumes from the
newest checkpoint, if `runs.model_dir.check_former_run` finds that it belongs to the same run.
"""

import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers

from faith_jax.checkpoints import manifest
from faith_jax.checkpoints.embedded import step_folders
from faith_jax.checkpoints.manifest import TensorDigests
from faith_jax.checkpoints.native import orbax_path, read_part
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.core.files import check_space, read_json_or_none, sync, sync_entry
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.processes import from_all, on_first_process
from faith_jax.core.types import PyTree
from faith_jax.training.trainer import TrainState


def check_folder(folder: str | pathlib.Path, keep_last: int, keep_best: int) -> None:
    """Checks the arguments of `TrainCheckpoints` without creating anything.

    Raises:
      ConfigError: if the newest checkpoint would not be kept, or for a path that Orbax cannot
        write to.
    """
    if keep_last < 1 or keep_best < 0:
        raise ConfigError(
            f"KEEP_LAST = {keep_last!r}, KEEP_BEST = {keep_best!r}: expected at least 1 and 0."
        )
    path = path_of(folder).absolute()
    if is_remote(path) and str(path).startswith("s3:"):
        raise ConfigError(
            f"{path}: Orbax cannot write to s3://; let MODEL_DIR be local or on gs://."
        )
    if "[" in str(path):
        # Orbax would interpret the path as a glob pattern and silently skip files.
        raise ConfigError(
            f"{path}: Orbax cannot write to a path with '['; choose another MODEL_DIR."
        )


class TrainCheckpoints:
    """Saves and restores train states.

    Args:
      folder: MODEL_DIR/checkpoints.
      keep_last: number of newest checkpoints to keep.
      keep_best: number of checkpoints with the lowest loss to keep in addition.

    Raises:
      ConfigError: if the newest checkpoint would not be kept, or for a path that Orbax cannot
        write to.
      CheckpointError: if the metrics of a kept step cannot be read.
    """

    def __init__(self, folder: str | pathlib.Path, keep_last: int = 2, keep_best: int = 1):
        check_folder(folder, keep_last, keep_best)
        self.folder = path_of(folder).absolute()
        self._keep_best = keep_best
        self._metrics_by_step: dict[int, Mapping[str, float]] = {}
        for path in sorted(self.folder.glob("*/metrics/metrics")):
            if not path.parts[-3].isdecimal():  # left by a killed save
                continue
            metrics = read_json_or_none(path)
            if metrics is None or not all(isinstance(v, int | float) for v in metrics.values()):
                raise CheckpointError(
                    f"{path}: expected the metrics of a step; remove the folder {path.parent}, "
                    "then the step counts as one without metrics."
                )
            self._metrics_by_step[int(path.parts[-3])] = metrics
        policies = [checkpoint_managers.LatestN(keep_last)]
        if keep_best:
            policies.append(
                checkpoint_managers.BestN(
                    get_metric_fn=self._score_metrics,
                    # Orbax keeps the highest values; `_score_metrics` negates the loss.
                    reverse=False,
                    n=keep_best,
                    keep_checkpoints_without_metrics=False,
                )
            )
        # The step and the array digests of the checkpoint that is being written.
        self._saved: tuple[int, dict[str, TensorDigests]] | None = None
        self._manager = ocp.CheckpointManager(
            orbax_path(self.folder),
            item_names=("params", "opt_state", "objective"),
            options=ocp.CheckpointManagerOptions(
                preservation_policy=checkpoint_managers.AnyPreservationPolicy(policies),
                best_fn=self._score_metrics,
                best_mode="max",
                cleanup_tmp_directories=True,
                save_root_metadata=False,
                async_options=ocp.AsyncOptions(
                    post_finalization_callback=self._complete_checkpoint
                ),
            ),
        )

    def _score_metrics(self, metrics: Mapping[str, float]) -> float:
        # A step without a loss, or with a loss of NaN, ranks last.
        value = metrics.get("loss", math.inf)
        # Orbax prefers the largest value, but a lower loss is better.
        return -math.inf if math.isnan(value) else -value

    def latest_step(self) -> int | None:
        """Returns the newest complete step, or None."""
        return self._manager.latest_step()

    def best_step(self) -> int | None:
        """Returns the step with the lowest loss, or None if no finite loss was measured."""
        step = self._manager.best_step()
        metrics = self._metrics_by_step.get(step, {})
        return step if math.isfinite(self._score_metrics(metrics)) else None

    def all_steps(self) -> list[int]:
        """Returns the kept steps, in order."""
        return sorted(self._manager.all_steps())

    def is_among_best(self, metrics: Mapping[str, float]) -> bool:
        """Whether a state with these metrics would be one of the best that are kept."""
        score = self._score_metrics(metrics)
        # Compared with kept steps only, so that resumed and uninterrupted runs save the same steps.
        kept = (self._metrics_by_step.get(step) for step in self._manager.all_steps())
        as_good = [m for m in kept if m and self._score_metrics(m) >= score]
        return math.isfinite(score) and len(as_good) < self._keep_best

    def save(self, state: TrainState, metrics: Mapping[str, float] | None = None) -> None:
        """Saves a state in the background; `wait` blocks until the state is on disk.

        Raises:
          ConfigError: if another run has saved a step to the same folder of a store.
          StorageError: if the disk has no room for the state.
        """
        step = int(state.step)
        if step in self._manager.all_steps():
            return
        if jax.process_index() == 0:  # on a full disk, Orbax would leave half a checkpoint
            # `nbytes` counts all shards.
            check_space(self.folder, 2 * sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
        # One save at a time, because `_saved` describes the checkpoint that is being written.
        self.wait()
        if is_remote(self.folder):  # a store has no lock against runs on other machines
            on_first_process(self._check_only_writer, "a look at what is saved")
        items = _collect_items(state)
        if metrics:
            self._metrics_by_step[step] = dict(metrics)
        # Computed before `save` returns, because the next step reuses the memory of this state.
        self._saved = step, _array_digests(_arrays_by_name(items))
        self._manager.save(
            step,
            args=ocp.args.Composite(
                **{item: ocp.args.StandardSave(tree) for item, tree in items.items()}
            ),
            metrics=dict(metrics) if metrics else None,
            force=True,
        )

    def _check_only_writer(self) -> None:
        newest = max((int(path.name) for path in step_folders(self.folder)), default=None)
        if newest is not None and newest not in self._manager.all_steps():
            raise ConfigError(
                f"MODEL_DIR: another run has saved step {newest:,} in {self.folder}; this one "
                "stops."
            )

    def _complete_checkpoint(self) -> None:
        """Adds the manifest to a checkpoint and syncs it to disk, before it gets its final name."""
        if self._saved is None or jax.process_index():
            return
        step, digests = self._saved
        # On a store, a step has its final name at once; Orbax adds a file when it is complete.
        name = str(step) if is_remote(self.folder) else f"{step}.orbax-checkpoint-tmp*"
        for folder in self.folder.glob(name):
            manifest.write_manifest(folder, digests)
            sync(folder)

    def restore(self, state: TrainState, step: int | None = None) -> TrainState:
        """Returns the saved state, with the shapes and shardings of `state`.

        Raises:
          CheckpointError: if the checkpoint has other parameters or another optimizer (names the
            array), is damaged, differs from its manifest, or does not exist.
        """
        step = self._manager.latest_step() if step is None else step
        if step not in self.all_steps():
            raise CheckpointError(
                f"{self.folder}: no checkpoint of step {step}; there are {self.all_steps()}."
            )
        # Only shapes and shardings are needed; the given state's arrays are not read or copied.
        target = _collect_items(jax.tree.map(ocp.utils.to_shape_dtype_struct, state))
        folder = self.folder / str(step)
        had, has = (folder / "objective").exists(), "objective" in target
        if had != has:
            raise CheckpointError(
                f"{folder}: was written with an objective {'with' if had else 'without'} a state, "
                f"this run's has {'one' if has else 'none'}: set OBJECTIVE as it was, or use "
                "another MODEL_DIR."
            )
        # Checked before Orbax reads, so that the error names the array that does not fit the model.
        for item, tree in target.items():
            self._check_item(folder / item, tree)
        try:
            restored = self._manager.restore(
                step,
                args=ocp.args.Composite(
                    **{item: ocp.args.StandardRestore(tree) for item, tree in target.items()}
                ),
            )
        except Exception as error:  # Orbax and TensorStore raise many types for a broken folder
            raise _damage_error(folder, error) from error
        _check_arrays(folder, _arrays_by_name({item: restored[item] for item in target}))
        # The step is not stored in an item: it is the folder's name.
        count = jax.device_put(jax.numpy.int32(step), state.step.sharding)
        objective = restored["objective"] if "objective" in target else state.objective
        return TrainState(count, restored["params"], restored["opt_state"], objective)

    def _check_item(self, folder: pathlib.Path, target: PyTree) -> None:
        """Compares names, shapes and dtypes before any array is read."""
        try:
            with ocp.StandardCheckpointer() as checkpointer:
                stored = _describe_arrays(
                    checkpointer.metadata(orbax_path(folder)).item_metadata.tree
                )
        except Exception as error:
            raise _damage_error(folder.parent, error) from error
        expected = _describe_arrays(target)
        for name in sorted(stored.keys() | expected.keys()):
            if stored.get(name) != expected.get(name):
                raise CheckpointError(
                    f"{folder}: {name!r} is {stored.get(name, 'not there')}, but this run needs "
                    f"{expected.get(name, 'no such array')}: it was written with another model, "
                    "optimizer or TRAINABLE. Use another MODEL_DIR."
                )

    def wait(self) -> None:
        """Blocks until all saves are on disk."""
        self._manager.wait_until_finished()
        if self._saved is None or jax.process_index():
            return
        folder, self._saved = self.folder / str(self._saved[0]), None
        if folder.is_dir():
            sync(folder)
            sync_entry(self.folder)

    def close(self) -> None:
        """Waits for all saves and closes Orbax's manager."""
        self.wait()
        self._manager.close()


def _arrays_by_name(items: Mapping[str, PyTree]) -> dict[str, jax.Array]:
    """Returns the arrays of all items by their names in the manifest."""
    return {
        f"{item}/{jax.tree_util.keystr(path, simple=True, separator='/')}": array
        for item, tree in items.items()
        for path, array in jax.tree_util.tree_leaves_with_path(tree)
    }


def _is_here(array: jax.Array) -> bool:
    """Whether this process has an array as a whole on one device, without gathering shards."""
    return array.is_fully_replicated


def _array_digests(arrays: Mapping[str, jax.Array]) -> dict[str, TensorDigests]:
    """Returns the digests of arrays on a mesh; each process only digests its own shards."""
    digests = manifest.tensor_digests({n: np.asarray(x) for n, x in arrays.items() if _is_here(x)})
    sharded = {name: array for name, array in arrays.items() if name not in digests}
    digests |= shard_digests(sharded) if sharded else {}
    return {name: digests[name] for name in arrays}


def shard_digests(arrays: Mapping[str, jax.Array]) -> dict[str, TensorDigests]:
    """Returns the digests of sharded arrays, in chunks that each lie within one shard."""
    digests_by_name, parts = {}, []
    for name, array in arrays.items():
        shard = array.sharding.shard_shape(array.shape)
        # Chunk shapes divide the shard shape, so each chunk is on one device, in one process.
        chunk = manifest.chunk_shape(shard, array.dtype.itemsize, divides=True)
        digests_by_name[name] = TensorDigests(array.dtype.name, array.shape, chunk, [])
        places = manifest.boxes(array.shape, chunk)
        # The 32 bytes of each chunk's SHA-256; 0 for chunks of other processes.
        mine = np.zeros((len(places), 32), np.uint8)
        for place, box in enumerate(places):
            part = _read_array_part(array, box, first_copy_only=True)
            if part is not None:
                mine[place] = np.frombuffer(manifest.chunk_digest(part), np.uint8)
        parts.append(mine)
    digests = np.concatenate(parts)
    # [processes, chunks, 32]: only one process has a chunk's digest, the others have 0.
    digests = from_all(digests, "the digests of a checkpoint are known").max(axis=0)
    rows: Iterator[np.ndarray] = iter(digests)
    for name, mine in zip(arrays, parts, strict=True):
        digests_by_name[name].sha256.extend(next(rows).tobytes().hex() for _ in mine)
    return digests_by_name


def _read_array_part(
    array: jax.Array, box: manifest.Box, first_copy_only: bool = False
) -> np.ndarray | None:
    """Returns a part of an array, or None if no shard of this process contains all of it.

    With `first_copy_only`, only the first of several identical shards counts.
    """
    for shard in array.addressable_shards:
        # The slice of a whole axis has no start.
        starts = [index.start or 0 for index in shard.index]
        ends = [start + size for start, size in zip(starts, shard.data.shape, strict=True)]
        is_within = all(
            start <= part.start and part.stop <= end
            for start, part, end in zip(starts, box, ends, strict=True)
        )
        if is_within and not (first_copy_only and shard.replica_id):
            # The box in the shard's own coordinates.
            inner = [slice(p.start - s, p.stop - s) for s, p in zip(starts, box, strict=True)]
            return np.asarray(shard.data)[tuple(inner)]
    return None


def _check_arrays(folder: pathlib.Path, arrays: Mapping[str, jax.Array]) -> None:
    """Compares the restored arrays of a step with the manifest; each process checks its shards.

    Raises:
      CheckpointError: in all processes, if an array differs from the manifest in one of them.
    """
    expected, problem = manifest.read_manifest(folder), None
    if expected is None:
        return
    try:
        local_arrays = {
            name: np.asarray(array) for name, array in arrays.items() if _is_here(array)
        }
        manifest.check_tensors(folder, expected, local_arrays)
        for name, array in arrays.items():
            if name not in local_arrays:
                check_shards(folder, expected, name, array)
    except CheckpointError as error:
        problem = error
    # Each process only sees its own shards; if only one stopped, the others would wait forever.
    failed = from_all(problem is not None, f"all have checked {folder}")
    if failed.any():
        raise problem or CheckpointError(f"{folder}: another process found it damaged.")


def check_shards(
    folder: pathlib.Path, expected: manifest.Manifest, name: str, array: jax.Array
) -> None:
    """Checks the chunks of an array that overlap with shards of this process.

    Raises:
      CheckpointError: if a chunk differs from the manifest.
    """
    digests = manifest.digests_of(folder, expected, name, array.shape, array.dtype)
    places = manifest.boxes(array.shape, digests.chunk)
    for place, (box, sha256) in enumerate(zip(places, digests.sha256, strict=True)):
        part = _read_array_part(array, box)
        if part is None:
            if not any(_has_overlap(box, shard.index) for shard in array.addressable_shards):
                continue
            # The checkpoint was written on another mesh, so the chunk spans several shards, some of
            # which may be in other processes. It is read from disk.
            part = read_part(folder, name, box)
        if manifest.chunk_digest(part).hex() != sha256:
            raise manifest.chunk_differs(folder, name, place, len(places))


def _has_overlap(box: manifest.Box, index: tuple[Any, ...]) -> bool:
    return all(
        (shard_part.start or 0) < part.stop
        and (shard_part.stop is None or part.start < shard_part.stop)
        for part, shard_part in zip(box, index, strict=True)
    )


def _damage_error(folder: pathlib.Path, error: Exception) -> CheckpointError:
    reason = " ".join(str(error).split()) or repr(error)
    return CheckpointError(
        f"{folder}: the checkpoint is not whole ({reason[:200]}); remove this folder to resume "
        "from an earlier step, or use another MODEL_DIR."
    )


def _collect_items(state: TrainState) -> dict[str, PyTree]:
    """Returns the items of a state to save; the step is saved as the folder's name."""
    items = {"params": state.params, "opt_state": state.opt_state}
    has_objective = bool(jax.tree.leaves(state.objective))
    return items | {"objective": state.objective} if has_objective else items


def _describe_arrays(tree: PyTree) -> dict[str, str]:
    """Returns "float32 [4, 3]" for each array of a tree, by name."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): f"{x.dtype} {list(x.shape)}"
        for path, x in jax.tree_util.tree_leaves_with_path(tree)
    }
