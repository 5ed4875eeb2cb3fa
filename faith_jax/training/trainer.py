"""Training: the state, the step and the loop.

A step is one compiled, sharded function from state and batch to state and metrics. Only trainable
parameters have gradients and optimizer state; frozen parameters are a separate argument.
"""

import contextlib
import math
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import flax.traverse_util
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from faith_jax.core.errors import ConfigError, DivergenceError
from faith_jax.core.types import Array, PyTree
from faith_jax.models.partitioning import Partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.training.metrics import prompt_gradient_norms
from faith_jax.training.objectives import Batch, Metrics, Objective

if TYPE_CHECKING:
    import optax

    from faith_jax.training.checkpoints import TrainCheckpoints


class TrainState(NamedTuple):
    """The state that each training step replaces."""

    step: Array  # int32 scalar, number of steps done
    params: PyTree  # the trainable parameters
    opt_state: PyTree
    objective: PyTree = ()  # the objective's state; empty for most objectives


def split_params(params: PyTree, trainable: Sequence[str]) -> tuple[PyTree, PyTree]:
    """Splits parameters into (trainable, frozen).

    A parameter is trained if its whole name ("encoder/layers_0/mlp/wo/kernel") matches one of the
    regular expressions `trainable`.

    Raises:
      ConfigError: if no parameter matches, or for an invalid regular expression.
    """
    try:
        expressions = [trainable] if isinstance(trainable, str) else trainable
        patterns = [re.compile(pattern) for pattern in expressions]
    except (re.error, TypeError) as error:
        raise ConfigError(
            f"TRAINABLE = {trainable!r} is not a regular expression ({error}); write '.*' for any "
            "text."
        ) from None
    flat = flax.traverse_util.flatten_dict(params, sep="/")
    trained = {n: any(p.fullmatch(n) for p in patterns) for n in flat}
    if not any(trained.values()):
        raise ConfigError(
            f"TRAINABLE = {trainable!r} matches none of the {len(flat)} parameters "
            f"(such as {next(iter(flat))!r})."
        )
    # Trainable first, then frozen.
    parts = [{n: v for n, v in flat.items() if trained[n] == flag} for flag in (True, False)]
    return tuple(flax.traverse_util.unflatten_dict(p, sep="/") for p in parts)


def merge_params(trainable: PyTree, frozen: PyTree) -> PyTree:
    """The inverse of `split_params`."""
    flat = flax.traverse_util.flatten_dict(frozen) | flax.traverse_util.flatten_dict(trainable)
    return flax.traverse_util.unflatten_dict(flat)


def _like_params(state: PyTree, params: PyTree, otherwise: Any) -> PyTree:
    """Returns a sharding for each array of an optimizer's state.

    An array belongs to a parameter if its path ends with the parameter's path. It has the
    parameter's sharding if it has the same shape. Adafactor's row and column moments, which lack
    one axis, are sharded like the remaining axes. Other arrays, such as counters, get `otherwise`.
    """
    placed = {
        jax.tree_util.keystr(path): (array.shape, array.sharding)
        for path, array in jax.tree_util.tree_leaves_with_path(params)
    }

    def sharding(path: Any, array: Any) -> Any:
        # The parameter's path follows the optimizer's own names, such as `[0].mu`.
        for start in range(len(path)):
            shape, parameter_sharding = placed.get(jax.tree_util.keystr(path[start:]), ((), None))
            if parameter_sharding is not None and shape == array.shape:
                return parameter_sharding
            # The axes whose removal gives the array's shape.
            lacking = [a for a in range(len(shape)) if (*shape[:a], *shape[a + 1 :]) == array.shape]
            if parameter_sharding is not None and lacking:
                # In a square matrix it may be either axis: Optax's row moments lack the last.
                axis = lacking[-1 if "v_row" in jax.tree_util.keystr(path[:start]) else 0]
                # A spec may be shorter than the array's rank; the remaining axes are then not
                # split.
                spec = [
                    *parameter_sharding.spec,
                    *[None] * (len(shape) - len(parameter_sharding.spec)),
                ]
                del spec[axis]
                return NamedSharding(parameter_sharding.mesh, PartitionSpec(*spec))
        return otherwise

    return jax.tree_util.tree_map_with_path(sharding, state)


def with_shardings(shapes: PyTree, shardings: PyTree) -> PyTree:
    """Returns array shapes with the given shardings."""

    def place(x: Any, sharding: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

    return jax.tree.map(place, shapes, shardings)


class Trainer:
    """Compiles and runs training and evaluation steps.

    Args:
      module: the model.
      objective: the loss to minimise, per target token.
      optimizer: an Optax transformation.
      partitioner: the mesh.
      seed: seed of dropout; the step and the micro-batch are folded in.
      num_microbatches: number of pieces of a batch whose gradients are added up before an update.
      use_hardware_rng: draw dropout masks with XLA's generator ("rbg"), which is cheap on TPUs. The
        masks then depend on the platform, the mesh and XLA's version, not only on the seed.
      loss_normalizing_factor: divisor of the summed loss's gradient, as in T5X; None = the number
        of target tokens of each batch.

    Raises:
      ConfigError: for fewer than one micro-batch, or several if the objective compares the rows of
        a batch.
    """

    def __init__(
        self,
        module: Transformer,
        objective: Objective,
        optimizer: "optax.GradientTransformation",
        partitioner: Partitioner,
        seed: int = 0,
        num_microbatches: int = 1,
        use_hardware_rng: bool = False,
        loss_normalizing_factor: float | None = None,
    ):
        if num_microbatches < 1:
            raise ConfigError(f"NUM_MICROBATCHES: expected 1 or more, got {num_microbatches!r}.")
        if num_microbatches > 1 and objective.couples_rows:
            raise ConfigError(
                f"NUM_MICROBATCHES = {num_microbatches}: {type(objective).__name__} compares the "
                "rows of a batch, which then cannot be taken in pieces; set NUM_MICROBATCHES = 1."
            )
        self.module = module
        self.objective = objective
        self.optimizer = optimizer
        self.partitioner = partitioner
        self.num_microbatches = num_microbatches
        self._normalizing_factor = loss_normalizing_factor
        self._dropout_key = jax.random.key(seed, impl="rbg" if use_hardware_rng else "threefry2x32")
        self._eval_step = partitioner.jit(self._evaluate)
        # Compiled when the first state is known, because it must return the same shardings.
        self._train_step: Any = None

    def init_state(self, params: PyTree) -> TrainState:
        """Returns the state before the first step, for trainable parameters on the mesh."""
        shardings = jax.tree.map(lambda x: x.sharding, self.state_shapes(params).opt_state)
        # Created with its shardings, because as a whole it might not fit on one device.
        opt_state = self.partitioner.jit(self.optimizer.init, out_shardings=shardings)(params)
        step, objective = self.partitioner.put(
            (jnp.zeros((), jnp.int32), self.objective.init_state()), self.partitioner.replicated
        )
        return TrainState(step, params, opt_state, objective)

    def state_shapes(self, params: PyTree) -> TrainState:
        """Returns the shapes and shardings of `init_state`, for parameters or their shapes."""
        replicated = self.partitioner.replicated
        # `eval_shape` does not pass a parameter's sharding on to arrays created like it.
        opt_state = jax.eval_shape(self.optimizer.init, params)
        shardings = _like_params(opt_state, params, replicated)
        step = jax.ShapeDtypeStruct((), jnp.int32)
        rest = (step, jax.eval_shape(self.objective.init_state))
        step, objective = with_shardings(rest, jax.tree.map(lambda _: replicated, rest))
        return TrainState(step, params, with_shardings(opt_state, shardings), objective)

    def train_step(
        self, state: TrainState, frozen: PyTree, batch: Batch
    ) -> tuple[TrainState, Metrics]:
        """Takes one optimizer step with a global batch; the memory of `state` is reused.

        Returns:
          The new state, and metrics: the objective's metrics as means over target tokens (nats),
          `weight` (target tokens), `gradient_norm`, and the norms of `prompt_gradient_norms`.
        """
        return self._compiled_step(state)(state, frozen, batch)

    def compile_step(self, state: TrainState, frozen: PyTree, batch: Batch) -> Any:
        """Compiles the training step for arguments, or for their shapes; see `state_shapes`."""
        return self._compiled_step(state).compile(state, frozen, batch)

    def step_cost(self, state: TrainState, frozen: PyTree, batch: Batch) -> dict[str, float]:
        """Compiles the training step and returns its cost; see `Compiled.cost`."""
        return self._compiled_step(state).cost(state, frozen, batch)

    def _compiled_step(self, state: TrainState) -> Any:
        if self._train_step is None:
            # The new state reuses the old state's memory and has the same shardings.
            shardings = jax.tree.map(lambda x: x.sharding, state)
            self._train_step = self.partitioner.jit(
                self._train,
                donate_argnums=0,
                out_shardings=(shardings, self.partitioner.replicated),
            )
        return self._train_step

    def eval_step(self, params: PyTree, frozen: PyTree, batch: Batch) -> Metrics:
        """Returns the metrics of a batch, summed over target tokens, without dropout."""
        return self._eval_step(params, frozen, batch)

    def compile_eval_step(self, params: PyTree, frozen: PyTree, batch: Batch) -> Any:
        """Compiles the evaluation step for arguments, or for their shapes."""
        return self._eval_step.compile(params, frozen, batch)

    @property
    def num_compilations(self) -> int:
        """Number of programs that were compiled for training and evaluation steps so far."""
        steps = [s for s in (self._train_step, self._eval_step) if s is not None]
        return sum(s.num_compilations for s in steps)

    def _compute_loss(self, params: PyTree, frozen: PyTree, batch: Batch, key: Array | None):
        measured = self.objective(self.module, merge_params(params, frozen), batch, key)
        return measured[0]["loss"], measured

    def _evaluate(self, params: PyTree, frozen: PyTree, batch: Batch) -> Metrics:
        # Without a key there is no dropout; only the metrics are of interest.
        return self._compute_loss(params, frozen, batch, None)[1][0]

    def _train(self, state: TrainState, frozen: PyTree, batch: Batch):
        import optax  # takes half a second, so `infer` and `score` do not import it

        # A resumed run draws the same dropout masks as an uninterrupted one.
        key = jax.random.fold_in(self._dropout_key, state.step)
        batch = self.objective.prepare(self.module, batch, state.objective)
        # Gradient and metrics are sums over target tokens, which add up over pieces and devices.
        gradient, sums, rows = self._compute_gradient(state.params, frozen, batch, key)
        # An empty batch (all padding) must not poison the parameters with NaN.
        weight = jnp.where(sums["weight"] > 0, sums["weight"], 1.0)
        divisor = weight if self._normalizing_factor is None else self._normalizing_factor
        gradient = jax.tree.map(lambda g: g / divisor, gradient)
        updates, opt_state = self.optimizer.update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        # Means over target tokens, and the number of tokens.
        metrics = {n: v if n == "weight" else v / weight for n, v in sums.items()}
        # The norm before clipping, which is part of the optimizer.
        metrics["gradient_norm"] = optax.global_norm(gradient)
        metrics |= prompt_gradient_norms(gradient)
        objective = self.objective.update_state(state.objective, rows)
        return TrainState(state.step + 1, params, opt_state, objective), metrics

    def _compute_gradient(self, params: PyTree, frozen: PyTree, batch: Batch, key: Array):
        """Returns gradient and metrics, summed over micro-batches, and arrays with one row each."""
        # Without dropout, no key is needed and no random numbers are drawn.
        dropout = self.module.config.has_dropout
        # The gradient is with respect to the first argument, the trainable parameters.
        gradient_of = jax.grad(self._compute_loss, has_aux=True)
        count = self.num_microbatches
        if count == 1:
            gradient, (sums, rows) = gradient_of(params, frozen, batch, key if dropout else None)
            return gradient, sums, rows

        def split(x):
            # Rows are dealt out to pieces in turn, so that every device has a share of each piece.
            if x.shape[0] % count:
                raise ConfigError(
                    f"BATCH_SIZE = {x.shape[0]} does not divide into NUM_MICROBATCHES = {count}."
                )
            return jnp.swapaxes(x.reshape(x.shape[0] // count, count, *x.shape[1:]), 0, 1)

        def add(total, inputs):
            # Each piece draws its own dropout.
            index, piece = inputs
            piece_key = jax.random.fold_in(key, index) if dropout else None
            gradient, (sums, rows) = gradient_of(params, frozen, piece, piece_key)
            return jax.tree.map(jnp.add, total, (gradient, sums)), rows

        pieces = jax.tree.map(split, batch)
        first = jax.tree.map(lambda x: x[0], pieces)
        # The scan starts with zeros in the shapes of one piece's gradient and metrics.
        gradient, (sums, _) = jax.eval_shape(
            gradient_of, params, frozen, first, key if dropout else None
        )
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), (gradient, sums))
        # One piece after the other, so that only one piece's activations are in memory.
        (gradient, sums), rows = jax.lax.scan(add, zeros, (jnp.arange(count), pieces))
        # Puts the rows of pieces, [pieces, rows], back into the batch's order; see `split`.
        return gradient, sums, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1), rows)


class Stopped(Exception):
    """The run was asked to stop (SIGTERM); its state is saved."""


class Periods(NamedTuple):
    """The number of steps of a run, and the intervals, in steps, at which it logs and saves.

    The last step is logged and saved. A step whose validation loss is among the lowest is saved.
    """

    total: int
    log: int
    checkpoint: int


class Watcher(Protocol):
    """The observer of a run, which writes metrics and measures losses between steps."""

    def write_training_metrics(
        self, step: int, metrics: Metrics, params: PyTree, final: bool
    ) -> None:
        """Writes a step's metrics, given the parameters after the step."""

    def write_losses(self, step: int, params: PyTree, final: bool) -> Mapping[str, float] | None:
        """Writes and returns validation losses that are due; they decide which states are kept."""

    def has_converged(self) -> bool:
        """Whether training should end, because the validation loss no longer falls."""

    def write_decoded_metrics(self, step: int, params: PyTree, final: bool) -> None:
        """Writes decoded metrics that are due; may fail, because due states are saved before."""


def fit(
    trainer: Trainer,
    state: TrainState,
    frozen: PyTree,
    batches: Iterator[Batch],
    periods: Periods,
    watcher: Watcher,
    checkpoints: "TrainCheckpoints",
) -> TrainState:
    """Trains from a state to the last step; `batches` are the global batches after that state.

    Training ends earlier if `watcher.has_converged`. The returned state is saved.

    Raises:
      Stopped: after a SIGTERM, when the state is saved.
      DivergenceError: if the loss, the gradient or parameters are not finite; this step is not
        saved.
      StorageError: if the disk has no room for a checkpoint.
    """
    with _catch_termination() as is_asked_to_stop:
        for step in range(int(state.step) + 1, periods.total + 1):
            final = step == periods.total
            is_logged = final or step % periods.log == 0
            state, metrics = trainer.train_step(state, frozen, next(batches))
            if is_logged:
                watcher.write_training_metrics(step, metrics, state.params, final)
                _check_finite(step, metrics, checkpoints)
            # Before the checkpoint, because these losses decide whether it is kept.
            validation = watcher.write_losses(step, state.params, final)
            final = final or watcher.has_converged()
            if final and not is_logged:
                watcher.write_training_metrics(step, metrics, state.params, final)
            # Called at every step, so that several processes agree on the step at which to stop.
            stopping = is_asked_to_stop(step)
            is_best = validation is not None and checkpoints.is_among_best(validation)
            if final or stopping or is_best or step % periods.checkpoint == 0:
                _check_finite(step, metrics, checkpoints, state.params)
                checkpoints.save(state, validation)
            if final or stopping:
                # Saving continues in the background and must finish before the process ends.
                checkpoints.wait()
            if stopping and not final:
                raise Stopped(f"Stopped at step {step}; run the same command to resume.")
            # After the save, so that a user's metric that fails does not lose the training.
            watcher.write_decoded_metrics(step, state.params, final)
            if final:
                break
    return state


@jax.jit
def _are_finite(params: PyTree) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)]).all()


def _check_finite(
    step: int, metrics: Metrics, checkpoints: "TrainCheckpoints", params: PyTree = None
) -> None:
    """Raises DivergenceError if a step's loss, gradient or `params` are NaN or infinite.

    Such a state would replace a good checkpoint, and a later run would resume from it.
    """
    loss, norm = float(metrics["loss"]), float(metrics["gradient_norm"])
    if not (math.isfinite(loss) and math.isfinite(norm)):
        reason = f"its loss is {loss:.4g} and its gradient's norm {norm:.4g}"
    elif params is not None and not _are_finite(params):
        reason = "its parameters are NaN or infinite"
    else:
        return
    advice = "lower LEARNING_RATE or clip the gradient"
    newest = checkpoints.latest_step()
    if newest is None:
        remedy = f"no checkpoint was saved before: {advice}, and run this again."
    else:
        remedy = (
            f"the newest checkpoint is that of step {newest:,}. This MODEL_DIR resumes with its "
            f"own settings only: in another one, {advice}, and train from the start or from "
            f"INITIAL_CHECKPOINT_PATH={checkpoints.folder / str(newest)}."
        )
    raise DivergenceError(f"Step {step:,} is not saved, since {reason}; {remedy}")


@contextlib.contextmanager
def _catch_termination() -> Iterator[Callable[[int], bool]]:
    """Catches SIGTERM; yields a function that returns whether to stop after a given step.

    With several processes, JAX's own handler makes all of them stop at the same step.
    """
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        yield multihost_utils.reached_preemption_sync_point
        return
    requests = []
    try:
        before = signal.signal(signal.SIGTERM, lambda *_: requests.append(True))
    except ValueError:  # signals can only be handled in the main thread
        yield lambda step: False
        return
    try:
        yield lambda step: bool(requests)
    finally:
        signal.signal(signal.SIGTERM, before)
