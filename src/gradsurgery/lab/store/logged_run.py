"""Runs of training scripts that the lab does not start, as ``Store.run`` records them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gradsurgery.lab.find import find_problem, installed_problems
from gradsurgery.lab.lam import Tau, split_lam
from gradsurgery.lab.run import Metrics, RunRecord, RunSpec, Setting
from gradsurgery.lab.store.rows import check_row
from gradsurgery.method import Method
from gradsurgery.relative import relative

if TYPE_CHECKING:
    from gradsurgery.lab.store.store import Store


def spec_of_script(problem: str, method: Method, seed: int, settings: Mapping[str, Setting], scale: str) -> RunSpec:
    """The run of a script; raise unless its method's hyperparameters, or the settings, tell it from others."""
    if problem in installed_problems():
        find_problem(problem).scale(scale)  # reports by this name look for its scales only
    weight = "tau" if hasattr(method, "tau") and not hasattr(method, "lam") else "lam"
    lam: Any = getattr(method, weight, None)
    rho: Any = getattr(method, "rho", None)
    weights = [(weight, part.ratio if isinstance(part, relative) else part) for part in split_lam(lam)]
    for name, value in (*weights, ("rho", rho)):
        if not (value is None or isinstance(value, int | float)):
            raise ValueError(f"a recorded run must have one number as its {name}; got {value!r}")
    for item in fields(method):
        if item.name not in (weight, "rho", *settings) and getattr(method, item.name) != item.default:
            raise ValueError(
                f"a recorded run is known by its method's {weight} and rho and by its settings, but {method!r} has "
                f"another hyperparameter: add {item.name} to settings"
            )
    return RunSpec(problem, scale, method.name, Tau(lam) if weight == "tau" else lam, rho, seed, settings)


class LoggedRun:
    """A run that ``Store.run`` records."""

    def __init__(self, store: "Store", spec: RunSpec, replaces: bool) -> None:
        self.spec, self.replaces = spec, replaces
        self._store = store
        self._rows: list[Metrics] = []  # if it replaces a finished run, which stays until the end

    def log(self, *, step: int, **metrics: float) -> None:
        """Record what was measured at a step: ``main_train``, ``aux_train``, ``main_test``, ``aux_test`` and others."""
        row = {"step": step, **metrics}
        if self.replaces:
            check_row(row)
            self._rows.append(row)
        else:
            self._store.log(self.spec.key, row)

    def finish(self) -> None:
        """Mark the run as done; it replaces the finished run of the same spec, if there is one."""
        if not self.replaces:
            self._store.finish(self.spec.key)
        else:
            self._store.edit(remove=[self.spec.key], add=[RunRecord(self.spec, "done", {}, tuple(self._rows))])
