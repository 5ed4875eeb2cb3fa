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
    """Returns freshly initialised parameters, made where they will lie; of one part, or all.

    They are those of `initial_variables`. One program a shape, initializer and sharding is
    compiled, however many layers there are.
    """
    # What is kept for a backward pass decides no parameter, but would enclose the initializers.
    module = module.clone(config=module.config.replace(remat_policy="none"))

    def init(key: Array) -> PyTree:
        params = initial_variables(module, key)["params"]
        return params if part is None else params[part]

    shardings = param_shardings(module, partitioner)
    shardings = shardings if part is None else shardings[part]
    key = jax.random.key(seed)
    if module.config.scan_layers:  # which traces a layer's initializers once
        return partitioner.jit(init, out_shardings=shardings)(key)
    traced, shapes = jax.make_jaxpr(init, return_shape=True)(key)
    outputs = traced.jaxpr.outvars
    sharding_of = dict(zip(outputs, jax.tree.leaves(shardings), strict=True))
    # `param_with_axes` makes each output by a call of a jitted initializer. Its key is computed
    # operation by operation, without compiling all of them, and nothing else is: outputs need no
    # activations.
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
            function = equation.params["jaxpr"]  # one object for all calls with the same shape
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
