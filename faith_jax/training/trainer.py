"""The training step: one compiled, sharded function from state and batch to state and metrics.

Only trainable parameters get gradients and optimizer state; the frozen ones are an argument of
the step beside the state.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.traverse_util
import jax
import jax.numpy as jnp
import optax

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Array, PyTree
from faith_jax.models.partitioning import Partitioner
from faith_jax.models.transformer import Transformer
from faith_jax.training.objectives import Batch, Objective
from faith_jax.training.prompt_metrics import prompt_gradient_norms


class TrainState(NamedTuple):
    """What training changes.

    Attributes:
      step: int32 scalar, steps done.
      params: the trainable parameters.
      opt_state: the optimizer's state.
      objective: the objective's state; most have none.
    """

    step: Array
    params: PyTree
    opt_state: PyTree
    objective: PyTree = ()


def split_params(params: PyTree, trainable: Sequence[str]) -> tuple[PyTree, PyTree]:
    """Splits parameters into (trainable, frozen) by regular expressions.

    Args:
      params: nested dict.
      trainable: a parameter whose whole name ("encoder/layers_0/mlp/wo/kernel") matches any of
        these is trained.

    Raises:
      ConfigError: where nothing matches, or on what is no regular expression.
    """
    patterns = [_pattern(p) for p in ([trainable] if isinstance(trainable, str) else trainable)]
    flat = flax.traverse_util.flatten_dict(params, sep="/")
    chosen = {n: any(p.fullmatch(n) for p in patterns) for n in flat}
    if not any(chosen.values()):
        raise ConfigError(
            f"TRAINABLE = {trainable!r} matches none of the {len(flat)} parameters "
            f"(such as {next(iter(flat))!r})."
        )
    parts = [{n: v for n, v in flat.items() if chosen[n] == wanted} for wanted in (True, False)]
    return tuple(flax.traverse_util.unflatten_dict(p, sep="/") for p in parts)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, TypeError) as error:
        raise ConfigError(
            f"TRAINABLE: {text!r} is not a regular expression ({error}); write '.*' for any text."
        ) from None


def merge_params(trainable: PyTree, frozen: PyTree) -> PyTree:
    """The inverse of `split_params`."""
    flat = flax.traverse_util.flatten_dict(frozen) | flax.traverse_util.flatten_dict(trainable)
    return flax.traverse_util.unflatten_dict(flat)


def like_params(state: PyTree, params: PyTree, otherwise: Any) -> PyTree:
    """Returns a sharding for each array of an optimizer's state.

    An array that belongs to a parameter (its path ends with the parameter's) and has its shape
    lies as the parameter does; counters and Adafactor's row and column moments lie `otherwise`.
    """
    placed = {
        jax.tree_util.keystr(path): (array.shape, array.sharding)
        for path, array in jax.tree_util.tree_leaves_with_path(params)
    }

    def sharding(path: Any, array: Any) -> Any:
        for start in range(len(path)):
            shape, found = placed.get(jax.tree_util.keystr(path[start:]), (None, None))
            if shape == array.shape:
                return found
        return otherwise

    return jax.tree_util.tree_map_with_path(sharding, state)


class Trainer:
    """Compiles and runs training and evaluation steps.

    Args:
      module: the model.
      objective: what is minimised, per target token.
      optimizer: an Optax transformation.
      partitioner: the mesh.
      seed: of the dropout; step and micro-batch are folded in.
      num_microbatches: pieces of a batch whose gradients are added up before one update.

    Raises:
      ConfigError: on fewer than one micro-batch, and on several where the objective compares the
        rows of a batch.
    """

    def __init__(
        self,
        module: Transformer,
        objective: Objective,
        optimizer: optax.GradientTransformation,
        partitioner: Partitioner,
        seed: int = 0,
        num_microbatches: int = 1,
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
        self._dropout_key = jax.random.key(seed)
        self._eval_step = partitioner.jit(self._evaluate)
        self._train_step: Any = None

    def init_state(self, params: PyTree) -> TrainState:
        """Returns the state before the first step, for trainable parameters on the mesh."""
        # JAX does not carry a parameter's sharding over to the zeros made like it.
        shapes = jax.eval_shape(self.optimizer.init, params)
        shardings = like_params(shapes, params, self.partitioner.replicated)
        opt_state = self.partitioner.jit(self.optimizer.init, out_shardings=shardings)(params)
        step, objective = self.partitioner.put(
            (jnp.zeros((), jnp.int32), self.objective.init_state()), self.partitioner.replicated
        )
        return TrainState(step, params, opt_state, objective)

    def train_step(
        self, state: TrainState, frozen: PyTree, batch: Batch
    ) -> tuple[TrainState, dict[str, Array]]:
        """Takes one optimizer step. The state given is used up (its memory is reused).

        Args:
          state: before the step.
          frozen: the parameters that are not trained.
          batch: global arrays [batch, length].

        Returns:
          The state after it, and metrics: `loss` (mean over target tokens, nats),
          `negative_log_likelihood` (mean), `z_loss`, `weight` (target tokens),
          `gradient_norm`, and where prompts are trained `prompt_gradient_norms`'.
        """
        return self._compiled_step(state)(state, frozen, batch)

    def step_cost(self, state: TrainState, frozen: PyTree, batch: Batch) -> dict[str, float]:
        """Compiles the training step and returns what it costs, see `Compiled.cost`."""
        return self._compiled_step(state).cost(state, frozen, batch)

    def _compiled_step(self, state: TrainState) -> Any:
        if self._train_step is None:
            shardings = jax.tree.map(lambda x: x.sharding, state)
            self._train_step = self.partitioner.jit(
                self._train,
                donate_argnums=0,
                out_shardings=(shardings, self.partitioner.replicated),
            )
        return self._train_step

    def eval_step(self, params: PyTree, frozen: PyTree, batch: Batch) -> dict[str, Array]:
        """Returns the metrics of a batch, summed over target tokens, without dropout."""
        return self._eval_step(params, frozen, batch)

    @property
    def num_compilations(self) -> int:
        """How many programs the training and evaluation steps were compiled to so far."""
        steps = [s for s in (self._train_step, self._eval_step) if s is not None]
        return sum(s.num_compilations for s in steps)

    def _loss(self, params: PyTree, frozen: PyTree, batch: Batch, key: Array | None):
        loss, *measured = self.objective(self.module, merge_params(params, frozen), batch, key)
        return loss, tuple(measured)

    def _evaluate(self, params: PyTree, frozen: PyTree, batch: Batch) -> dict[str, Array]:
        return self._loss(params, frozen, batch, None)[1][0]

    def _train(self, state: TrainState, frozen: PyTree, batch: Batch):
        key = jax.random.fold_in(self._dropout_key, state.step)
        batch = self.objective.prepare(self.module, batch, state.objective)
        gradient, sums, rows = self._gradient(state.params, frozen, batch, key)
        # An empty batch (all padding) must not poison the parameters with NaN.
        weight = jnp.where(sums["weight"] > 0, sums["weight"], 1.0)
        gradient = jax.tree.map(lambda g: g / weight, gradient)
        updates, opt_state = self.optimizer.update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        metrics = {n: v if n == "weight" else v / weight for n, v in sums.items()}
        metrics["gradient_norm"] = optax.global_norm(gradient)
        metrics |= prompt_gradient_norms(gradient)
        objective = self.objective.update_state(state.objective, rows)
        return TrainState(state.step + 1, params, opt_state, objective), metrics

    def _gradient(self, params: PyTree, frozen: PyTree, batch: Batch, key: Array):
        """Returns gradient and metrics, both summed over micro-batches, and arrays of the rows."""
        dropout = self.module.config.dropout_rate > 0
        gradient_of = jax.grad(self._loss, has_aux=True)
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
            index, piece = inputs
            piece_key = jax.random.fold_in(key, index) if dropout else None
            gradient, (sums, rows) = gradient_of(params, frozen, piece, piece_key)
            return jax.tree.map(jnp.add, total, (gradient, sums)), rows

        pieces = jax.tree.map(split, batch)
        first = jax.tree.map(lambda x: x[0], pieces)
        gradient, (sums, _) = jax.eval_shape(
            gradient_of, params, frozen, first, key if dropout else None
        )
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), (gradient, sums))
        (gradient, sums), rows = jax.lax.scan(add, zeros, (jnp.arange(count), pieces))
        return gradient, sums, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1), rows)
