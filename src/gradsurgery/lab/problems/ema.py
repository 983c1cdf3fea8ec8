"""The role of the moving average: ``language`` at lam = 0.2, for several speeds rho of Bloop's average.

With rho too small the average is stale, and both losses suffer. With rho near 1 it is as noisy as the gradient of one
batch, and training behaves like mixed. The scale ``laptop`` has its own size: half the batch of ``language``, and more
steps.
"""

from dataclasses import replace

from gradsurgery.lab.declaration import Problem, Scale
from gradsurgery.lab.problems import language

LAPTOP = replace(language.LAPTOP, batch=8, steps=1500, evaluated=16)

problem = Problem(
    name="ema",
    title="how fast Bloop's average should move (paper: section Role of the EMA)",
    main=language.problem.main,
    aux=language.problem.aux,
    scales={
        name: Scale(settings, ("mixed", "bloop"), lams=(0.2,), rhos=(0.001, 0.01, 0.1, 0.9))
        for name, settings in (("demo", language.DEMO), ("laptop", LAPTOP), ("paper", language.PAPER))
    },
    task="gradsurgery.lab.tasks.ema",
    draws=True,
)
