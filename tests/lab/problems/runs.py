"""Single runs of a problem, trained in this process."""

from gradsurgery.lab.grid import specs
from gradsurgery.lab.problems import problem
from tests.lab.sweeps.recorder import Recorder


def make_run(name, scale="demo", *, method="bloop", lam=0.3, rho=0.1, seed=0, **settings):
    """The spec of one run; rho is for bloop alone."""
    rhos = [rho] if rho is not None and method == "bloop" else None
    (run,) = specs(problem(name), scale, methods=[method], lams=[lam], rhos=rhos, seeds=[seed], settings=settings)
    return run


def train(task, run, chunks=None):
    """State and rows after some chunks, all of them by default."""
    state, rows = task.start(run)
    for chunk in range(task.chunks if chunks is None else chunks):
        state, more = task.advance(run, state, chunk)
        rows = [*rows, *more]
    return state, rows


class Interrupter(Recorder):
    """Interrupts a sweep when this fraction of a run is trained."""

    def __init__(self, at=2.0):
        super().__init__()
        self.at = at

    def run_advanced(self, run, fraction, metrics):
        if fraction >= self.at:
            raise KeyboardInterrupt
