"""Gradient surgery as an optax transformation, to chain with any optimiser.

    >>> import jax, jax.numpy as jnp, optax
    >>> import gradsurgery as gs, gradsurgery.jax as gsj
    >>> tx = optax.chain(gsj.surgery(gs.bloop(lam=0.1, rho=0.01)), optax.adam(3e-4))
    >>> params = {"w": jnp.ones(3)}
    >>> state = tx.init(params)
    >>> main, aux = jax.grad(lambda p: jnp.sum(p["w"] ** 4))(params), jax.grad(lambda p: jnp.sum(p["w"]))(params)
    >>> updates, state = tx.update(main, state, params, aux=aux)      # aux=(first, second) for two auxiliary losses
    >>> params = optax.apply_updates(params, updates)

``diagnostics(state)`` returns the diagnostics of the last step; ``accumulate`` averages both gradients over
micro-batches.
"""

try:
    import jax as _jax  # noqa: F401
    import optax as _optax  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f'gradsurgery.jax needs jax and optax ({error.name} is missing): pip install "gradsurgery[jax]"',
        name=error.name,
    ) from error

from gradsurgery.jax.accumulation import AccumulationState, accumulate
from gradsurgery.jax.transform import SurgeryState, diagnostics, surgery

__all__ = ["AccumulationState", "SurgeryState", "accumulate", "diagnostics", "surgery"]
