"""Random parameters of a model on a mesh."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Literal, Var, jaxpr_as_fun

from faith_jax.core.types import Array, PyTree
from faith_jax.models.partitioning import Partitioner
from faith_jax.models.transformer import Transformer, initial_variables, parameter_shapes


def param_shardings(module: Transformer, partitioner: Partitioner) -> PyTree:
    """Returns the sharding of each of the module's parameters."""
    return partitioner.param_shardings(parameter_shapes(module)["params_axes"])


def random_params(
    module: Transformer, partitioner: Partitioner, seed: int, part: str | None = None
) -> PyTree:
    """Returns the parameters of `initial_variables`, created directly with their shardings.

    `part` selects one top-level part; None = all. One program is compiled for each combination of
    shape, initializer and sharding, regardless of the number of layers.
    """
    # The remat policy changes no parameter, but would hide the initializers inside other calls.
    module = module.clone(config=module.config.replace(remat_policy="none"))

    def init(key: Array) -> PyTree:
        params = initial_variables(module, key)["params"]
        return params if part is None else params[part]

    shardings = param_shardings(module, partitioner)
    shardings = shardings if part is None else shardings[part]
    key = jax.random.key(seed)
    if module.config.scan_layers:  # a scan traces the layer's initializers only once anyway
        return partitioner.jit(init, out_shardings=shardings)(key)
    traced, shapes = jax.make_jaxpr(init, return_shape=True)(key)
    outputs = traced.jaxpr.outvars
    sharding_of = dict(zip(outputs, jax.tree.leaves(shardings), strict=True))
    # `param_with_axes` makes each output by calling a jitted initializer. Only the operations that
    # the outputs need are run, one by one: the initializers and the computation of their keys, but
    # no activations.
    needed, equations = set(outputs), []
    for equation in reversed(traced.jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed.update(atom for atom in equation.invars if isinstance(atom, Var))
            equations.append(equation)
    values: dict[Any, Any] = dict(zip(traced.jaxpr.constvars, traced.consts, strict=True))
    values[traced.jaxpr.invars[0]] = key
    programs: dict[Any, Callable[..., list[Array]]] = {}
    for equation in reversed(equations):
        inputs = [a.val if isinstance(a, Literal) else values[a] for a in equation.invars]
        if sharding := sharding_of.get(equation.outvars[0]):
            function = equation.params["jaxpr"]  # calls with the same shape share this object
            program = id(function), sharding
            if program not in programs:
                programs[program] = jax.jit(jaxpr_as_fun(function), out_shardings=[sharding])
            results = programs[program](*inputs)
        else:
            results = equation.primitive.bind(*inputs, **equation.params)
            results = results if equation.primitive.multiple_results else [results]
        values.update(zip(equation.outvars, results, strict=True))
    params = [values[variable] for variable in outputs]
    return jax.tree.unflatten(jax.tree.structure(shapes), params)
