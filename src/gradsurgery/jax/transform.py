"""``surgery``, an optax transformation: main's gradients go in as updates, the auxiliary ones as ``aux``.

A step takes two passes over memory: the inner products that the method needs, then the direction and the new averages.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gradsurgery.jax.checks import as_aux_tuple, check_average_dtype, check_parameters, check_state, refuse_wrappers
from gradsurgery.jax.rounding import round_averages
from gradsurgery.jax.tree import Tree, combine_and_update, inner_products, scalar_type, zeros_like
from gradsurgery.method import Method
from gradsurgery.plan import basis, plan, required_products


class SurgeryState(NamedTuple):
    """The state of ``surgery``: a pytree like any other."""

    steps: jax.Array
    """The number of steps so far, including unsound ones."""
    averages: tuple[Tree, ...]
    """Moving averages of main's gradients and of every auxiliary level but the last, corrected for their start at zero,
    in float32 at least or in ``average_dtype``; empty without rho."""
    mass: jax.Array
    """The moving average of the number 1, from which the correction is computed."""
    memory: tuple[jax.Array, ...]
    """The method's own scalars."""
    diagnostics: dict[str, jax.Array]
    """The diagnostics of the last step."""


def surgery(
    method: Method,
    *,
    measure: bool = False,
    axis_name: str | tuple[str, ...] | None = None,
    average_dtype: Any = None,
) -> optax.GradientTransformationExtraArgs:
    """Turn the gradients of several losses into one direction.

    Put it before the optimiser, and pass the auxiliary gradients to ``update``:

        tx = optax.chain(surgery(gs.bloop(lam=0.1, rho=0.01)), optax.adam(3e-4))
        updates, state = tx.update(main_grads, state, params, aux=aux_grads)

    ``aux`` is a pytree like ``main_grads``, or a tuple of them, most important first. The direction has the types of
    ``main_grads``. Hyperparameters may be traced: build the transformation inside the jitted function, or inside
    ``optax.inject_hyperparams``, and a new lam does not recompile.

    Compile it as part of the training step. If you jit it on its own, donate ``aux`` along with the state: the
    direction is then written over ``aux``.

    If an inner product or a weight is not finite, the averages keep their values and the direction is NaN. To skip such
    steps, wrap the optimiser that follows in ``optax.apply_if_finite``. Around the whole chain, it would not see a NaN
    in ``aux``; there ``surgery`` raises.

    Parameters may be sharded in any way under ``jit``. Inside ``shard_map``, where code sees one shard at a time, name
    the mesh axes that parameters are sharded over in ``axis_name``; without it, each shard projects by itself.

    Args:
        method: for example ``gradsurgery.bloop(lam=0.1)``.
        measure: whether to compute every inner product, which makes ``diagnostics`` complete.
        axis_name: inside ``shard_map``, the mesh axis or axes to sum inner products over. A leaf that is replicated
            over an axis counts once. With ``check_vma=False``, JAX does not track this, and every leaf must be sharded.
        average_dtype: ``jnp.bfloat16`` halves the memory of the averages. They are rounded stochastically, from the
            step and the position alone: no random key is needed, and a resumed run is identical bit for bit. With None,
            averages are float32 or wider.

    Example:
        >>> import gradsurgery as gs
        >>> tx = surgery(gs.bloop(lam=0.5, rho=None))
        >>> direction, state = tx.update(jnp.array([2.0, 0.0]), tx.init(jnp.zeros(2)), aux=jnp.array([4.0, 6.0]))
        >>> print(direction)
        [2. 3.]
    """
    if not isinstance(method, Method):
        raise TypeError(f"method must be a method such as gradsurgery.bloop(lam=0.1); got {method!r}")
    check_average_dtype(average_dtype)
    axis_names = () if axis_name is None else (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)

    def init(params: Tree) -> SurgeryState:
        refuse_wrappers()
        check_parameters(params, average_dtype)
        dtype = scalar_type(params)
        return SurgeryState(
            steps=jnp.zeros((), jnp.int32),
            averages=tuple(zeros_like(params, average_dtype) for _ in range(method.averages)),
            mass=jnp.zeros((), dtype),
            memory=tuple(jnp.zeros((), dtype) for _ in method.memory),
            diagnostics={name: jnp.zeros((), jnp.float32) for name in _diagnostic_names(method, measure)},
        )

    def update(
        updates: Tree, state: SurgeryState, params: Tree | None = None, *, aux: Any = None, **extra: Any
    ) -> tuple[Tree, SurgeryState]:
        refuse_wrappers()
        gradients = (updates, *as_aux_tuple(updates, aux))
        aux_count = len(gradients) - 1
        method.check_aux_count(aux_count)
        check_state(method, state, updates, average_dtype)
        names = basis(method, aux_count)
        trees = dict(zip(names, (*gradients, *state.averages), strict=True))
        pairs = required_products(method, aux_count, measure=measure)
        products = inner_products(trees, pairs, axis_names)
        step = plan(
            _widen(method.resolve(state.steps)),
            names,
            dot=lambda a, b: products[a, b],
            mass=state.mass,
            memory=state.memory,
            measure=measure,
        )

        weights = [step.weights.get(name) for name in names]
        direction, averages = combine_and_update(weights, step.keep, step.sound * step.take, gradients, state.averages)

        def if_sound(new: Any, old: jax.Array) -> jax.Array:
            return jnp.where(step.sound, new, old).astype(old.dtype)

        values = step.diagnostics()
        return direction, SurgeryState(
            steps=optax.safe_increment(state.steps),
            averages=round_averages(averages, state.averages, state.steps, axis_names),
            mass=if_sound(step.mass, state.mass),
            memory=tuple(if_sound(new, old) for new, old in zip(step.memory, state.memory, strict=True)),
            diagnostics={name: jnp.asarray(values[name], jnp.float32) for name in _diagnostic_names(method, measure)},
        )

    return optax.GradientTransformationExtraArgs(init, update)


def _widen(method: Method) -> Method:
    """The method with hyperparameters of 32 bits or more.

    ``optax.inject_hyperparams`` keeps them in the type of the parameters, and in bfloat16 1 - 0.001 is 1.
    """
    arrays = {name: value for name, value in vars(method).items() if isinstance(value, jax.Array)}
    wide = {name: value.astype(jnp.promote_types(value.dtype, jnp.float32)) for name, value in arrays.items()}
    return replace(method, **wide) if wide else method


def _diagnostic_names(method: Method, measure: bool) -> list[str]:
    """The names in the state, whose structure is fixed before the number of auxiliary losses is known."""
    resolved, counts = method.resolve(0), (1, 2) if method.aux_count is None else (method.aux_count,)
    plans = [plan(resolved, basis(method, count), dot=lambda a, b: 1.0, measure=measure) for count in counts]
    first, *others = (step.diagnostics() for step in plans)
    return [name for name in first if all(name in other for other in others)]


def diagnostics(state: Any) -> dict[str, jax.Array]:
    """The diagnostics of the last step, by name, from the state of an optimiser that contains ``surgery``.

    ``weight_main``, ``weight_aux``, ``weight_average`` are the weights of the direction; ``sound`` is 1 if everything
    was finite. ``cos_main_aux``, ``cos_main_average``, ``conflict`` and ``removed`` are included if the method computes
    the inner products that they need, and always with ``surgery(method, measure=True)``. For a method that takes any
    number of auxiliary losses, they describe the first. See ``gradsurgery.diagnostics`` for their definitions.

    Example:
        >>> import gradsurgery as gs
        >>> tx = optax.chain(surgery(gs.pcgrad(lam=1.0)), optax.sgd(0.1))
        >>> _, state = tx.update(jnp.array([1.0, 0.0]), tx.init(jnp.zeros(2)), aux=jnp.array([-1.0, 0.0]))
        >>> float(diagnostics(state)["cos_main_aux"])
        -1.0
    """
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, SurgeryState))
    states = [node for node in nodes if isinstance(node, SurgeryState)]
    if len(states) != 1:
        raise ValueError(f"the state must be that of an optimiser with one surgery in it; got {len(states)} surgeries")
    return states[0].diagnostics
