"""The time of a training step with Bloop, compared with one backward pass of main + lam aux.

Both train the byte-level transformer of ``language`` by Adam on the same two batches of random bytes; steps of the two
are interleaved, and the value of a round is the ratio of its times.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from gradsurgery.lab import Metrics, Run, problem
from gradsurgery.lab.lam import lam_number

Step = Callable[[Any], Any]


@problem(
    main="next-byte loss on random bytes",
    aux="the same on other random bytes",
    settings={"layers": 1, "width": 64, "length": 64, "batch": 8, "rounds": 30, "steps": 5},
    methods=("bloop",),
    lams=(0.1,),
    rhos=(0.1,),
    name="claims-cost",
    share_process=True,
)
def cost(run: Run) -> Iterator[Metrics]:
    """The extra time of a step over mixed training, as a fraction."""
    import jax

    states = _steps(run)
    mixed, bloop = states
    rounds, steps = run.settings["rounds"], run.settings["steps"]
    ratios = []
    for _ in range(rounds + 1):
        seconds = {}
        for step in states:
            began = time.perf_counter()
            for _ in range(steps):
                states[step] = step(states[step])
            jax.block_until_ready(states[step])  # type: ignore[no-untyped-call]
            seconds[step] = time.perf_counter() - began
        ratios.append(seconds[bloop] / seconds[mixed])
    yield {"step": rounds, "extra": statistics.median(ratios[1:]) - 1}  # the first round compiles


def _steps(run: Run) -> dict[Step, Any]:
    """A step of mixed training and one of Bloop, each with the state that it starts from."""
    import jax
    import optax

    import gradsurgery.jax as gsj
    from gradsurgery.paper.language.train import BYTES, next_byte_loss
    from gradsurgery.paper.models.functional import Functional
    from gradsurgery.paper.models.transformer import Decoder, TransformerConfig

    layers, width, length, batch = (run.settings[name] for name in ("layers", "width", "length", "batch"))
    config = TransformerConfig(layers, heads=4, width=width, hidden=4 * width)
    network = Functional(lambda rngs: Decoder(config, tokens=BYTES, length=length, rngs=rngs))
    params, extra = network.init(jax.random.key(run.seed))
    windows = jax.random.randint(jax.random.key(run.seed + 1), (2, batch, length + 1), 0, 256)
    lam, adam = lam_number(run.lam or 0.0), optax.adam(2e-3)
    surgery = optax.chain(gsj.surgery(run.method), adam)

    def loss(params: Any, which: int) -> jax.Array:
        return next_byte_loss(network(params, extra), windows[which])

    @jax.jit
    def mixed(state: Any) -> Any:
        params, optimiser = state
        gradients = jax.grad(lambda params: loss(params, 0) + lam * loss(params, 1))(params)
        updates, optimiser = adam.update(gradients, optimiser, params)
        return optax.apply_updates(params, updates), optimiser

    @jax.jit
    def bloop(state: Any) -> Any:
        params, optimiser = state
        main, aux = jax.grad(loss)(params, 0), jax.grad(loss)(params, 1)
        updates, optimiser = surgery.update(main, optimiser, params, aux=aux)
        return optax.apply_updates(params, updates), optimiser

    return {mixed: (params, adam.init(params)), bloop: (params, surgery.init(params))}
