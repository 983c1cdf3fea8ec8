"""Runs with given final losses, on a curve that a method may be ahead of."""

from gradsurgery.lab.run import RunRecord, RunSpec

AUXES = (1.0, 2.0, 3.0, 4.0, 5.0)


def ending(method, lam, main, aux, seed=0, status="done"):
    spec = RunSpec("synthetic", "demo", method, lam=lam, rho=None, seed=seed)
    row = {"step": 1.0, "main_train": main, "aux_train": aux, "main_test": main, "aux_test": aux}
    return RunRecord(spec, status, info={}, metrics=(row,))


def on_front(method, factor=1.0, seeds=3, auxes=AUXES, noise=0.0):
    """Runs on main = factor / aux; ``noise`` moves the factor from seed to seed."""
    return [
        ending(method, lam=1 / aux, main=(factor + noise * (seed - 1)) / aux, aux=aux, seed=seed)
        for seed in range(seeds)
        for aux in auxes
    ]
