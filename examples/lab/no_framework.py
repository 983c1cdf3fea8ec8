"""No framework: least squares in NumPy (main), with coefficients close to a guess (aux).

    python examples/lab/no_framework.py
    gradsurgery sweep examples/lab/no_framework.py:least_squares --methods mixed,pcgrad,bloop

``gs.Reference`` applies any method to gradients that you compute yourself.
"""

import numpy as np

import gradsurgery as gs
from gradsurgery import lab


@lab.problem(
    main="mean squared error",
    aux="squared distance to a guess",
    settings={"steps": 200, "rate": 0.05},
    lams="relative:0.1:1:2log",
    rhos=[0.1],  # short runs need a fast average
)
def least_squares(run):
    """Least squares with a guess."""
    rng = np.random.default_rng(run.seed)
    x, truth = rng.normal(size=(200, 5)), np.arange(5.0)
    y = x @ truth + rng.normal(size=200)
    guess, weights = truth + 1, np.zeros(5)
    step = gs.Reference(run.method)
    for number in range(run.settings["steps"]):
        rows = rng.integers(0, 100, 10)  # the second half is held out
        main = x[rows].T @ (x[rows] @ weights - y[rows]) / len(rows)
        weights = weights - run.settings["rate"] * step(main, weights - guess)
        run.progress = (number + 1) / run.settings["steps"]
        if (number + 1) % 20 == 0:
            errors, distance = (x @ weights - y) ** 2, np.sum((weights - guess) ** 2)
            yield {
                "step": number + 1,
                "main_train": errors[:100].mean(),
                "main_test": errors[100:].mean(),
                "aux_train": distance,
                "aux_test": distance,
            }


if __name__ == "__main__":
    for recommendation in lab.recommend(lab.sweep(least_squares, folder="runs", seeds=[0, 1]), allow=0.05):
        print(recommendation.text)
