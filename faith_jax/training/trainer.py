"""Training, from the state over the step to the loop.

A step is one compiled, sharded function from state and batch to state and metrics. Only trainable
parameters have gradients and optimizer state; the frozen ones are an argument of the step beside
the state.
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

    step: Array  # int32 scalar, steps done
    params: PyTree  # the trainable parameters
    opt_state: PyTree
    objective: PyTree = ()  # the objective's state; most have none


def split_params(params: PyTree, trainable: Sequence[str]) -> tuple[PyTree, PyTree]:
    """Splits parameters into (trainable, frozen).

    A parameter is trained where its whole name ("encoder/layers_0/mlp/wo/kernel") matches one of
    the regular expressions `trainable`.

    Raises:
      ConfigError: where nothing matches, or on what is no regular expression.
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

    An array that belongs to a parameter (its path ends with the parameter's) and has its shape
    lies as the parameter does. Adafactor's row and column moments, which lack one of its axes, lie
    as the others do. Counters lie `otherwise`.
    """
    placed = {
        jax.tree_util.keystr(path): (array.shape, array.sharding)
        for path, array in jax.tree_util.tree_leaves_with_path(params)
    }

    def sharding(path: Any, array: Any) -> Any:
        # Behind the optimizer's own names, such as `[0].mu`, the path is the parameter's.
        for start in range(len(path)):
            shape, parameter_sharding = placed.get(jax.tree_util.keystr(path[start:]), ((), None))
            if parameter_sharding is not None and shape == array.shape:
                return parameter_sharding
            # Axes without which the parameter would have the array's shape.
            lacking = [a for a in range(len(shape)) if (*shape[:a], *shape[a + 1 :]) == array.shape]
            if parameter_sharding is not None and lacking:
                # In a square either axis may be the one: Optax's rows lack the last.
                axis = lacking[-1 if "v_row" in jax.tree_util.keystr(path[:start]) else 0]
                # A spec may be shorter than the array's rank; the axes behind its end are not
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
    """Returns shapes of arrays that lie so on the mesh."""

    def place(x: Any, sharding: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

    return jax.tree.map(place, shapes, shardings)


class Trainer:
    """Compiles and runs training and evaluation steps.

    Args:
      module: the model.
      objective: what is minimised, per target token.
      optimizer: an Optax transformation.
      partitioner: the mesh.
      seed: of the dropout; step and micro-batch are folded in.
      num_microbatches: pieces of a batch whose gradients are added up before one update.
      use_hardware_rng: dropout masks from XLA's generator ("rbg"), which is cheap on TPUs. They
        then depend on the platform, the mesh and the version of XLA too, not on the seed alone.
      loss_normalizing_factor: what the gradient of the summed loss is divided by, as in T5X; None =
        the number of target tokens of each batch.

    Raises:
      ConfigError: on fewer than one micro-batch, and on several where the objective compares the
        rows of a batch.
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
        # Made with the first state, whose shardings it must return.
        self._train_step: Any = None

    def init_state(self, params: PyTree) -> TrainState:
        """Returns the state before the first step, for trainable parameters on the mesh."""
        shardings = jax.tree.map(lambda x: x.sharding, self.state_shapes(params).opt_state)
        # Made where it will lie: whole, it might not fit on one device.
        opt_state = self.partitioner.jit(self.optimizer.init, out_shardings=shardings)(params)
        step, objective = self.partitioner.put(
            (jnp.zeros((), jnp.int32), self.objective.init_state()), self.partitioner.replicated
        )
        return TrainState(step, params, opt_state, objective)

    def state_shapes(self, params: PyTree) -> TrainState:
        """Returns the shapes and shardings of `init_state`, for parameters or their shapes."""
        replicated = self.partitioner.replicated
        # JAX does not carry a parameter's sharding over to the zeros made like it.
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
          The state after it, and metrics: the objective's as means over target tokens (nats),
          `weight` (target tokens), `gradient_norm`, and those of `prompt_gradient_norms`.
        """
        return self._compiled_step(state)(state, frozen, batch)

    def compile_step(self, state: TrainState, frozen: PyTree, batch: Batch) -> Any:
        """Compiles the training step for arguments, or for their shapes; see `state_shapes`."""
        return self._compiled_step(state).compile(state, frozen, batch)

    def step_cost(self, state: TrainState, frozen: PyTree, batch: Batch) -> dict[str, float]:
        """Compiles the training step and returns what it costs, see `Compiled.cost`."""
        return self._compiled_step(state).cost(state, frozen, batch)

    def _compiled_step(self, state: TrainState) -> Any:
        if self._train_step is None:
            # The new state takes the memory of the old one, and lies as it does.
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
        """How many programs the training and evaluation steps were compiled to so far."""
        steps = [s for s in (self._train_step, self._eval_step) if s is not None]
        return sum(s.num_compilations for s in steps)

    def _compute_loss(self, params: PyTree, frozen: PyTree, batch: Batch, key: Array | None):
        loss, *measured = self.objective(self.module, merge_params(params, frozen), batch, key)
        return loss, tuple(measured)

    def _evaluate(self, params: PyTree, frozen: PyTree, batch: Batch) -> Metrics:
        # Without a key there is no dropout; only the metrics are of interest.
        return self._compute_loss(params, frozen, batch, None)[1][0]

    def _train(self, state: TrainState, frozen: PyTree, batch: Batch):
        import optax  # takes half a second, which `infer` and `score` do without

        # A run that is resumed draws the dropout that it would have drawn.
        key = jax.random.fold_in(self._dropout_key, state.step)
        batch = self.objective.prepare(self.module, batch, state.objective)
        # Both are sums over target tokens, which add up over pieces and devices.
        gradient, sums, rows = self._compute_gradient(state.params, frozen, batch, key)
        # An empty batch (all padding) must not poison the parameters with NaN.
        weight = jnp.where(sums["weight"] > 0, sums["weight"], 1.0)
        divisor = weight if self._normalizing_factor is None else self._normalizing_factor
        gradient = jax.tree.map(lambda g: g / divisor, gradient)
        updates, opt_state = self.optimizer.update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        # Means over target tokens, and their number.
        metrics = {n: v if n == "weight" else v / weight for n, v in sums.items()}
        # Before clipping, which is the optimizer's.
        metrics["gradient_norm"] = optax.global_norm(gradient)
        metrics |= prompt_gradient_norms(gradient)
        objective = self.objective.update_state(state.objective, rows)
        return TrainState(state.step + 1, params, opt_state, objective), metrics

    def _compute_gradient(self, params: PyTree, frozen: PyTree, batch: Batch, key: Array):
        """Returns gradient and metrics, both summed over micro-batches, and arrays of the rows."""
        # Without dropout no key is needed, and no random numbers are drawn.
        dropout = self.module.config.dropout_rate > 0
        # By the trainable parameters alone, which are the first argument.
        gradient_of = jax.grad(self._compute_loss, has_aux=True)
        count = self.num_microbatches
        if count == 1:
            gradient, (sums, rows) = gradient_of(params, frozen, batch, key if dropout else None)
            return gradient, sums, rows

        def split(x):
            # Rows are dealt out in turn, so that every device keeps a share of each piece.
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
        # The scan begins with zeros, in the shapes of one piece's gradient and metrics.
        gradient, (sums, _) = jax.eval_shape(
            gradient_of, params, frozen, first, key if dropout else None
        )
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), (gradient, sums))
        # One piece after the other: activations of only one are in memory.
        (gradient, sums), rows = jax.lax.scan(add, zeros, (jnp.arange(count), pieces))
        # Rows of pieces, [pieces, rows], in the batch's order again; see `split`.
        return gradient, sums, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1), rows)


class Stopped(Exception):
    """The run was asked to stop (SIGTERM); its state is saved."""


class Periods(NamedTuple):
    """How many steps a run takes, and after how many it logs and saves; the last step does both.

    A step whose validation loss is among the lowest is saved, too.
    """

    total: int
    log: int
    checkpoint: int


class Watcher(Protocol):
    """The observer of a run: it writes metrics and measures losses between the steps."""

    def write_training_metrics(
        self, step: int, metrics: Metrics, params: PyTree, final: bool
    ) -> None:
        """Takes a step's metrics, and the parameters after it."""

    def write_losses(self, step: int, params: PyTree, final: bool) -> Mapping[str, float] | None:
        """Writes and returns the validation losses that are due, by which checkpoints are kept."""

    def has_converged(self) -> bool:
        """Whether training ends here, since the validation loss no longer falls."""

    def write_decoded_metrics(self, step: int, params: PyTree, final: bool) -> None:
        """Writes the decoded metrics that are due; may fail, since a state is saved before."""


def fit(
    trainer: Trainer,
    state: TrainState,
    frozen: PyTree,
    batches: Iterator[Batch],
    periods: Periods,
    watcher: Watcher,
    checkpoints: "TrainCheckpoints",
) -> TrainState:
    """Trains from a state to the last step, with global batches from that state on.

    It ends before it where the watcher sees no further gain. The state that it returns is saved.

    Raises:
      Stopped: after a SIGTERM, when the state is saved.
      DivergenceError: the loss, the gradient or parameters are not finite; this step is not
        saved.
      StorageError: the disk has no room for a checkpoint.
    """
    with _catch_termination() as is_asked_to_stop:
        for step in range(int(state.step) + 1, periods.total + 1):
            final = step == periods.total
            state, metrics = trainer.train_step(state, frozen, next(batches))
            if final or step % periods.log == 0:
                watcher.write_training_metrics(step, metrics, state.params, final)
                _check_finite(step, metrics, checkpoints)
            # Before the checkpoint, which is kept or removed by these losses.
            validation = watcher.write_losses(step, state.params, final)
            final = final or watcher.has_converged()
            # Asked at each step: so several processes agree at which one to stop.
            stopping = is_asked_to_stop(step)
            is_best = validation is not None and checkpoints.is_among_best(validation)
            if final or stopping or is_best or step % periods.checkpoint == 0:
                _check_finite(step, metrics, checkpoints, state.params)
                checkpoints.save(state, validation)
            if final or stopping:
                # Saving goes on in the background, and must end before the process does.
                checkpoints.wait()
            if stopping and not final:
                raise Stopped(f"Stopped at step {step}; run the same command to resume.")
            # After the save: a user's metric that fails loses no training.
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
    """Raises DivergenceError where a step's loss, gradient or `params` are NaN or infinite.

    Its state would replace a good checkpoint, and be resumed from.
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
    """Turns SIGTERM into a question asked after each step: are we to stop?

    With several processes JAX's own handler makes all of them stop at the same step.
    """
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        yield multihost_utils.reached_preemption_sync_point
        return
    requests = []
    try:
        before = signal.signal(signal.SIGTERM, lambda *_: requests.append(True))
    except ValueError:  # not in the main thread: nobody can send us signals
        yield lambda step: False
        return
    try:
        yield lambda step: bool(requests)
    finally:
        signal.signal(signal.SIGTERM, before)
