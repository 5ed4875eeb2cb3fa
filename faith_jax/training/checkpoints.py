"""Checkpoints of a training run, with Orbax.

MODEL_DIR/checkpoints/<step>/ holds the items `params` (trainable parameters only) and
`opt_state`; a checkpoint that was being written when a run was killed is not seen again.
"""

import math
import pathlib
from collections.abc import Mapping

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers

from faith_jax.errors import CheckpointError
from faith_jax.training.trainer import TrainState


class TrainCheckpoints:
    """Saves and restores train states.

    Args:
      folder: MODEL_DIR/checkpoints.
      keep_last: how many of the newest to keep.
      keep_best: how many of those with the lowest `best_metric` to keep besides.
      best_metric: name of a metric given to `save`; lower is better.
    """

    def __init__(
        self,
        folder: str | pathlib.Path,
        keep_last: int = 2,
        keep_best: int = 1,
        best_metric: str = "loss",
    ):
        self.folder = pathlib.Path(folder).absolute()
        self._best_metric = best_metric
        policies = [checkpoint_managers.LatestN(keep_last)]
        if keep_best:
            policies.append(
                checkpoint_managers.BestN(
                    get_metric_fn=self._metric,
                    # Orbax keeps the highest; ours is better when lower.
                    reverse=False,
                    n=keep_best,
                    keep_checkpoints_without_metrics=False,
                )
            )
        self._manager = ocp.CheckpointManager(
            self.folder,
            item_names=("params", "opt_state"),
            options=ocp.CheckpointManagerOptions(
                preservation_policy=checkpoint_managers.AnyPreservationPolicy(policies),
                best_fn=self._metric,
                best_mode="max",
                cleanup_tmp_directories=True,
                save_root_metadata=False,
            ),
        )

    def _metric(self, metrics: Mapping[str, float]) -> float:
        value = metrics.get(self._best_metric, math.inf)
        return -math.inf if math.isnan(value) else -value

    def latest_step(self) -> int | None:
        """Returns the newest step that is completely written, or None."""
        return self._manager.latest_step()

    def best_step(self) -> int | None:
        """Returns the step with the lowest best_metric, or None."""
        return self._manager.best_step()

    def all_steps(self) -> list[int]:
        """Returns the kept steps, in order."""
        return sorted(self._manager.all_steps())

    def save(self, state: TrainState, metrics: Mapping[str, float] | None = None) -> None:
        """Saves a state in the background; `wait` returns when it is on disk."""
        step = int(state.step)
        if step in self._manager.all_steps():
            return
        self._manager.save(
            step,
            args=ocp.args.Composite(
                params=ocp.args.StandardSave(state.params),
                opt_state=ocp.args.StandardSave(state.opt_state),
            ),
            metrics=dict(metrics) if metrics else None,
            force=True,
        )

    def restore(self, state: TrainState, step: int | None = None) -> TrainState:
        """Returns the saved state, with the shapes and shardings of `state`.

        Raises:
          CheckpointError: on a checkpoint of other parameters or another optimizer.
        """
        step = self._manager.latest_step() if step is None else step
        template = jax.tree.map(ocp.utils.to_shape_dtype_struct, state)
        try:
            restored = self._manager.restore(
                step,
                args=ocp.args.Composite(
                    params=ocp.args.StandardRestore(template.params),
                    opt_state=ocp.args.StandardRestore(template.opt_state),
                ),
            )
        except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            raise CheckpointError(
                f"{self.folder / str(step)}: cannot be restored into this run ({reason}); was it "
                "written with another model, optimizer or TRAINABLE? Use another MODEL_DIR."
            ) from error
        count = jax.device_put(jax.numpy.int32(step), state.step.sharding)
        return TrainState(count, restored["params"], restored["opt_state"])

    def wait(self) -> None:
        """Returns when all saves are on disk."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits, and frees what the manager holds."""
        self._manager.close()
