"""Optimizers and learning rate schedules, built on Optax."""

import functools
import logging
import operator
from collections.abc import Callable

import jax
import optax

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.settings import NotNegativeNumber
from faith_jax.core.types import PyTree

FACTORS = (
    "constant", "linear_warmup", "linear_decay", "rsqrt_decay", "rsqrt_normalized_decay",
    "decay_every", "cosine_decay",
)  # fmt: skip
Schedule = Callable[[jax.Array | int], jax.Array]
logger = logging.getLogger("faith_jax")


def constant(
    learning_rate: NotNegativeNumber = 1e-3, warmup_steps: int = 0, total_steps: int | None = None
) -> Schedule:
    """The same rate at every step, after a linear warm-up from 0.

    With `total_steps`, too long a warm-up and errors are handled as in `linear_decay`.
    """
    if total_steps is not None:
        warmup_steps = _warmup_within("constant", warmup_steps, total_steps)
    if not warmup_steps:
        return optax.constant_schedule(learning_rate)
    return optax.linear_schedule(0.0, learning_rate, warmup_steps)


def linear_decay(
    learning_rate: NotNegativeNumber = 1e-3,
    warmup_steps: int = 0,
    total_steps: int = 1000,
    end_rate: float = 0.0,
) -> Schedule:
    """A linear warm-up from 0 to `learning_rate`, then a decay to `end_rate` at `total_steps`.

    A warm-up that would not end before the run, such as a recipe's in a short trial, is shortened
    to a twentieth of the run, with a warning.

    Raises:
      ConfigError: if `warmup_steps` is negative or `total_steps` is less than 1.
    """
    warmup_steps = _warmup_within("linear_decay", warmup_steps, total_steps)
    # The decay counts its steps from the end of the warm-up.
    decay = optax.linear_schedule(learning_rate, end_rate, total_steps - warmup_steps)
    if not warmup_steps:
        return decay
    warmup = optax.linear_schedule(0.0, learning_rate, warmup_steps)
    return optax.join_schedules([warmup, decay], [warmup_steps])


def _warmup_within(name: str, warmup_steps: int, total_steps: int) -> int:
    """Returns the number of warm-up steps, shortened if necessary as `linear_decay` describes."""
    if warmup_steps < 0 or total_steps < 1:
        raise ConfigError(
            f"{name}: expected WARMUP_STEPS of 0 or more, and TRAIN_STEPS of 1 or more; got "
            f"{warmup_steps} and {total_steps}."
        )
    if warmup_steps < total_steps:
        return warmup_steps
    shorter = total_steps // 20
    warm_up = f"warms up for {shorter} steps instead, a twentieth of the run"
    logger.warning(
        "WARMUP_STEPS = %d is not less than TRAIN_STEPS = %d: the learning rate %s",
        *(warmup_steps, total_steps, warm_up if shorter else "begins without a warm-up"),
    )
    return shorter


def inverse_square_root(
    learning_rate: NotNegativeNumber = 1.0, warmup_steps: int = 10_000
) -> Schedule:
    """T5's pre-training rate: learning_rate / sqrt(max(step, warmup_steps, 1))."""

    def schedule(step):
        # Constant during the warm-up: T5's rate does not rise from 0.
        return learning_rate * jax.lax.rsqrt(
            jax.numpy.maximum(step, max(warmup_steps, 1)).astype(jax.numpy.float32)
        )

    return schedule


def factored_rate(
    factors: str = "constant",
    base_learning_rate: NotNegativeNumber = 1e-3,
    warmup_steps: int = 1000,
    decay_factor: float = 0.5,
    steps_per_decay: int = 20_000,
    steps_per_cycle: int = 100_000,
    step_offset: int = 0,
    min_learning_rate: NotNegativeNumber = 1e-8,
    first_step: int = 0,
) -> Schedule:
    """Returns a schedule that is a product of factors, like T5X's schedules.

    Args:
      factors: names joined by `*`: constant (`base_learning_rate`), linear_warmup, linear_decay
        (warm-up and then a line of slope `decay_factor`, times `base_learning_rate`), rsqrt_decay,
        rsqrt_normalized_decay, decay_every, cosine_decay.
      base_learning_rate: the rate of `constant` and `linear_decay`.
      warmup_steps: for linear_warmup and linear_decay, and the first step of the other decays; 0 =
        no warm-up.
      decay_factor: for linear_decay and decay_every.
      steps_per_decay: for decay_every.
      steps_per_cycle: for cosine_decay.
      step_offset: the step at which the schedule begins.
      min_learning_rate: the smallest rate.
      first_step: added to the run's steps, because T5X counts the initial checkpoint's steps too.

    Raises:
      ConfigError: for an unknown factor, or rsqrt_normalized_decay without a warm-up.
    """
    names = [name.strip() for name in factors.split("*")]

    def factor(name: str, step: jax.Array) -> jax.Array | float:
        jnp = jax.numpy
        # Decays begin where the warm-up ends.
        since_warmup = jnp.maximum(step, warmup_steps)
        match name:
            case "constant":
                return base_learning_rate
            case "linear_warmup":
                return jnp.minimum(1.0, step / warmup_steps) if warmup_steps else 1.0
            case "linear_decay":
                # 1 at the end of the warm-up, then `decay_factor` less at each step.
                decay = 1.0 + decay_factor * (warmup_steps - step)
                warmup = step / warmup_steps if warmup_steps else 1.0
                return base_learning_rate * jnp.minimum(warmup, decay)
            case "rsqrt_decay":
                # Without a warm-up, the first step would divide by 0.
                return jax.lax.rsqrt(jnp.maximum(since_warmup, 1))
            case "rsqrt_normalized_decay":
                # 1 during the warm-up, then sqrt(warmup_steps / step).
                return jnp.sqrt(warmup_steps) * jax.lax.rsqrt(since_warmup)
            case "decay_every":
                # Constant between the multiples of `steps_per_decay`.
                return decay_factor ** (step // steps_per_decay)
            case _:
                # From 1 to 0 along half a cosine, restarted in each cycle.
                cycles = jnp.maximum(0.0, (step - warmup_steps) / steps_per_cycle)
                return jnp.maximum(0.0, 0.5 * (1.0 + jnp.cos(jnp.pi * (cycles % 1.0))))

    for name in names:
        if name not in FACTORS:
            raise ConfigError(
                f"factored_rate.factors = {factors!r}: expected a product of "
                f"{', '.join(FACTORS)}, got {name!r}.{did_you_mean(name, FACTORS)}"
            )
    if "rsqrt_normalized_decay" in names and not warmup_steps:
        raise ConfigError(
            "factored_rate.warmup_steps = 0: rsqrt_normalized_decay is sqrt(warmup_steps / step), "
            "which is 0 then; give the step at which the decay begins (WARMUP_STEPS), or take "
            "rsqrt_decay."
        )

    def schedule(step: jax.Array | int) -> jax.Array:
        # T5X counts the initial checkpoint's steps too, which continues the schedule.
        place = jax.numpy.maximum(0.0, jax.numpy.float32(step) + (first_step - step_offset))
        rate = functools.reduce(
            operator.mul, [factor(name, place) for name in names], jax.numpy.float32(1)
        )
        # A linear decay would become negative; as in T5X, it stops at the minimum.
        return jax.numpy.maximum(rate, min_learning_rate)

    return schedule


def adafactor(
    learning_rate: Schedule | NotNegativeNumber,
    multiply_by_parameter_scale: bool = True,
    decay_rate: float = 0.8,
    weight_decay: float | None = None,
    gradient_clip: float | None = None,
) -> optax.GradientTransformation:
    """Adafactor (Shazeer 2018), factored for kernels of at least 128 x 128.

    Args:
      learning_rate: a rate or a schedule.
      multiply_by_parameter_scale: make the rate relative to each parameter's size, as in T5's
        training; False for soft prompts, as in Lester 2021.
      decay_rate: exponent of the second moment's decay.
      weight_decay: share subtracted from a parameter at each step, independent of the rate; only
        for `decayed_parameters`; None = no decay.
      gradient_clip: maximum global norm of the gradient; None = no limit.
    """
    # The chain of `optax.adafactor` with its defaults, which are the paper's: updates are clipped
    # to a root mean square of 1, and there is no first moment. Only stacked layers differ.
    transforms = [
        optax.scale_by_factored_rms(decay_rate=decay_rate),
        _of_each_layer(optax.clip_by_block_rms(1.0)),
        optax.scale_by_learning_rate(learning_rate, flip_sign=False),
    ]
    if multiply_by_parameter_scale:
        transforms.append(_of_each_layer(optax.scale_by_param_block_rms()))
    if weight_decay is not None:
        transforms.append(optax.add_decayed_weights(weight_decay, mask=decayed_parameters))
    return _clip_gradients(optax.chain(*transforms, optax.scale(-1)), gradient_clip)


def _of_each_layer(transform: optax.GradientTransformation) -> optax.GradientTransformation:
    """Returns a stateless transform that treats each of the stacked layers as a parameter.

    A root mean square over the whole stack would make training depend on `scan_layers`; T5X's
    Adafactor treats stacked layers separately too.
    """

    def update(updates: PyTree, state: optax.OptState, params: PyTree) -> tuple:
        def update_leaf(path: tuple, update: jax.Array, param: jax.Array) -> jax.Array:
            def scaled(update: jax.Array, param: jax.Array) -> jax.Array:
                return transform.update(update, state, param)[0]

            is_stacked = any(getattr(part, "key", None) == "layers" for part in path)
            return (jax.vmap(scaled) if is_stacked else scaled)(update, param)

        return jax.tree_util.tree_map_with_path(update_leaf, updates, params), state

    return optax.GradientTransformation(transform.init, update)


def adamw(
    learning_rate: Schedule | NotNegativeNumber,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    gradient_clip: float | None = None,
) -> optax.GradientTransformation:
    """AdamW (Loshchilov 2019); Adam if there is no weight decay.

    Args:
      learning_rate: a rate or a schedule.
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment.
      weight_decay: decoupled weight decay, times the rate; only for `decayed_parameters`.
      gradient_clip: maximum global norm of the gradient; None = no limit.
    """
    transform = optax.adamw(
        learning_rate, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay, mask=decayed_parameters
    )
    return _clip_gradients(transform, gradient_clip)


def decayed_parameters(params: PyTree) -> PyTree:
    """Returns a tree of booleans: which parameters weight decay applies to.

    As in Hugging Face's Trainer, it does not apply to biases of projections and logits, scales and
    biases of norms, and T5's relative position biases.
    """

    def decays(path: tuple, _: object) -> bool:
        # Decay pulls towards 0, but norm scales are neutral at 1, and biases amplify no inputs.
        names = [str(part.key) for part in path]
        return names[-1] != "scale" and not any("bias" in name for name in names)

    return jax.tree_util.tree_map_with_path(decays, params)


def _clip_gradients(
    transform: optax.GradientTransformation, gradient_clip: float | None
) -> optax.GradientTransformation:
    if gradient_clip is None:
        return transform
    # Clip first, so that the optimizer's moments use clipped gradients.
    return optax.chain(optax.clip_by_global_norm(gradient_clip), transform)
