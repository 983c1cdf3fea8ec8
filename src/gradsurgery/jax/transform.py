"""``surgery``: main's gradients come in as updates, the auxiliary ones as ``aux``, and the direction goes out."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gradsurgery.jax.checks import auxiliary, refuse_multi_steps
from gradsurgery.jax.cpu_in_place import formed
from gradsurgery.jax.tree import Tree, inner, scalar_type, wide
from gradsurgery.method import Method
from gradsurgery.plan import basis, plan


class SurgeryState(NamedTuple):
    """What ``surgery`` carries from step to step: a pytree like any other."""

    steps: jax.Array
    """Steps so far, unsound ones too."""
    averages: tuple[Tree, ...]
    """Moving averages of main's gradients and of each level above the last, corrected for their start at zero, in
    float32 at least; none without rho."""
    mass: jax.Array
    """The moving average of the number 1, from which the correction is computed."""
    memory: tuple[jax.Array, ...]
    """The method's own scalars."""
    diagnostics: dict[str, jax.Array]
    """What the last step was like."""


def surgery(method: Method, *, measure: bool = False) -> optax.GradientTransformationExtraArgs:
    """Turn the gradients of several losses into one direction.

    Put it where the gradients come in, before the optimiser, and hand the auxiliary gradients to ``update``:

        tx = optax.chain(surgery(gs.bloop(lam=0.1, rho=0.01)), optax.adam(3e-4))
        updates, state = tx.update(main_grads, state, params, aux=aux_grads)

    ``aux`` is a pytree like ``main_grads``, or a tuple of them, most important first. The direction has the types of
    ``main_grads``. Hyperparameters may be traced: make the transformation inside the function that is jitted, or inside
    ``optax.inject_hyperparams``, and another lam compiles nothing anew.

    Let it be compiled within the training step. If it is a jitted function of its own, donate ``aux`` to it as well as
    the state: the direction is then written over ``aux``.

    In a step with an inner product that is not finite the averages stay as they are and the direction is NaN: with
    ``optax.apply_if_finite`` around what follows, the optimiser skips it.

    Args:
        method: for example ``gradsurgery.bloop(lam=0.1)``.
        measure: whether to compute all inner products, so that ``diagnostics`` is complete.

    Example:
        >>> import gradsurgery as gs
        >>> tx = surgery(gs.bloop(lam=0.5, rho=None))
        >>> direction, state = tx.update(jnp.array([2.0, 0.0]), tx.init(jnp.zeros(2)), aux=jnp.array([4.0, 6.0]))
        >>> print(direction)
        [2. 3.]
    """
    if not isinstance(method, Method):
        raise TypeError(f"surgery takes a method such as gradsurgery.bloop(lam=0.1), but got {method!r}")

    def init(params: Tree) -> SurgeryState:
        dtype = scalar_type(params)
        # the state's structure is fixed before the number of auxiliary losses is known: tell what any number can tell
        counts = (1, 2) if method.aux_count is None else (method.aux_count,)
        told = [plan(method, count, dot=lambda a, b: 1.0, measure=measure).diagnostics() for count in counts]
        return SurgeryState(
            steps=jnp.zeros((), jnp.int32),
            averages=tuple(
                jax.tree.map(lambda leaf: jnp.zeros_like(leaf, dtype=wide(leaf)), params)
                for _ in range(method.averages)
            ),
            mass=jnp.zeros((), dtype),
            memory=tuple(jnp.zeros((), dtype) for _ in method.memory),
            diagnostics={name: jnp.zeros((), jnp.float32) for name in told[0] if name in told[-1]},
        )

    def update(
        updates: Tree, state: SurgeryState, params: Tree | None = None, *, aux: Any = None, **extra: Any
    ) -> tuple[Tree, SurgeryState]:
        refuse_multi_steps()
        gradients = (updates, *auxiliary(updates, aux))
        aux_count = len(gradients) - 1
        method.check_aux_count(aux_count)
        names = basis(method, aux_count)
        trees = dict(zip(names, (*gradients, *state.averages), strict=True))
        step = plan(
            method,
            aux_count,
            dot=lambda a, b: inner(trees[a], trees[b]),
            steps=state.steps,
            mass=state.mass,
            memory=state.memory,
            measure=measure,
        )

        weights = [step.weights.get(name) for name in names]
        direction, averages = formed(weights, step.keep, step.sound * step.take, gradients, state.averages)

        def carried(new: Any, old: jax.Array) -> jax.Array:
            return jnp.where(step.sound, new, old).astype(old.dtype)

        told = step.diagnostics()
        return direction, SurgeryState(
            steps=optax.safe_increment(state.steps),
            averages=averages,
            mass=carried(step.mass, state.mass),
            memory=tuple(carried(new, old) for new, old in zip(step.memory, state.memory, strict=True)),
            diagnostics={name: jnp.asarray(told[name], jnp.float32) for name in state.diagnostics},
        )

    return optax.GradientTransformationExtraArgs(init, update)


def diagnostics(state: Any) -> dict[str, jax.Array]:
    """What the last step was like, by name, from the state of an optimiser that has ``surgery`` in it.

    ``weight_main``, ``weight_aux``, ``weight_average`` are the direction's; ``sound`` is 1 unless something was not
    finite; ``cos_main_aux``, ``cos_main_average``, ``conflict`` and ``removed`` are there as far as the method has
    asked for the inner products that they need, and all of them with ``surgery(method, measure=True)``. A method that
    takes any number of auxiliary losses tells of the first. See ``gradsurgery.diagnostics`` for what each means.

    Example:
        >>> import gradsurgery as gs
        >>> tx = optax.chain(surgery(gs.pcgrad(lam=1.0)), optax.sgd(0.1))
        >>> _, state = tx.update(jnp.array([1.0, 0.0]), tx.init(jnp.zeros(2)), aux=jnp.array([-1.0, 0.0]))
        >>> float(diagnostics(state)["cos_main_aux"])
        -1.0
    """
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, SurgeryState))
    found = [leaf for leaf in leaves if isinstance(leaf, SurgeryState)]
    if len(found) != 1:
        raise ValueError(
            f"diagnostics takes the state of an optimiser with one surgery in it, but found {len(found)} of them"
        )
    return found[0].diagnostics
