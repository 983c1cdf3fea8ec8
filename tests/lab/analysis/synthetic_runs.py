"""Synthetic runs for tests of figures and reports: losses by formula, recorded as the lab would record them."""

import math
import random

from gradsurgery.lab.run import RunRecord, RunSpec

METHODS = {"mixed": None, "pcgrad": None, "dynamic_barrier": None, "bloop": 0.01}
LAMS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


def run(method="bloop", lam=0.1, rho=None, seed=0, steps=20, status="done", diverged=False, negative=False, test=True):
    """A run whose main loss falls from 2.3 and whose aux loss falls from 6, to final values that depend on λ.

    The final main loss grows with λ, the final aux loss shrinks; both are lower for bloop.
    """
    noise = random.Random(f"{method} {lam} {rho} {seed}")
    weight = 0.0 if lam is None else lam
    gain = 0.35 if method == "bloop" else 1.0
    main_floor = gain * (0.004 + 0.25 * weight**0.8) * math.exp(noise.gauss(0, 0.08))
    aux_floor = gain * 4.5 / (1 + 12 * weight**0.6) * math.exp(noise.gauss(0, 0.04)) + 0.2 - 2.0 * negative
    rows = []
    for row in range(steps + 1):
        done = row / steps
        main = main_floor + (2.3 - main_floor) * math.exp(-9 * done) * math.exp(noise.gauss(0, 0.03))
        aux = aux_floor + (6 - aux_floor) * math.exp(-4 * done) * (1 + math.sin(3 * done) * (gain < 1))
        losses = {"main_train": main, "aux_train": aux}
        if test:
            losses |= {"main_test": 0.05 + main * 1.1, "aux_test": aux + 0.02 * noise.random()}
        if diverged and done > 0.5:
            losses = dict.fromkeys(losses, math.nan)
        conflict = float(noise.random() < 0.8 * done)
        diagnostics = {"surgery/removed": gain * conflict * noise.random(), "surgery/conflict": conflict}
        rows.append({"step": row * 50.0, **losses, **diagnostics})
    settings = {"steps": steps * 50, "batch_size": 128, "learning_rate": 3e-4, "optimiser": "adam", "warm_up": True}
    spec = RunSpec("lipschitz", "demo", method, lam=lam, rho=rho, seed=seed, settings=settings)
    return RunRecord(
        spec, status, info={"jax": "0.6.2", "commit": "f392914", "seconds": noise.random()}, metrics=tuple(rows)
    )


def sweep(seeds=3, lams=LAMS, methods=METHODS, **options):
    """4 methods × 5 λ × 3 seeds, of which one run diverged: pcgrad, λ = 10, seed 1."""
    return [
        run(method, lam, rho, seed, diverged=(method, lam, seed) == ("pcgrad", 10.0, 1), **options)
        for method, rho in methods.items()
        for lam in lams
        for seed in range(seeds)
    ]


def main_alone(seeds=3, **options):
    """Mixed with λ = 0."""
    return [run("mixed", 0.0, seed=seed, **options) for seed in range(seeds)]


def ending(method, lam, main, aux, seed=0, problem="lipschitz"):
    """A run with the given final losses and no other row."""
    spec = RunSpec(problem, "demo", method, lam=lam, rho=None, seed=seed)
    return RunRecord(spec, "done", info={}, metrics=({"step": 1.0, "main_train": main, "aux_train": aux},))
