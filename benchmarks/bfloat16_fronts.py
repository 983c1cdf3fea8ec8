"""Fronts with averages in bfloat16 beside those in float32, seed by seed; not in ``make bench``, as it trains for long.

python -m benchmarks.bfloat16_fronts runs/bfloat16 --data-dir FOLDER     (all problems; a killed run continues)
python -m benchmarks.bfloat16_fronts runs/bfloat16 --table               (the table of docs/speed.md)
"""

import argparse
import json
import math
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import jax.numpy as jnp
import numpy as np
from scipy import stats

import gradsurgery.jax as gsj
from gradsurgery import lab

RHOS = (0.01, 0.001)
DTYPES = ("float32", "bfloat16")


class Grid(NamedTuple):
    """What is trained of a problem."""

    lams: tuple[float, ...]
    seeds: tuple[int, ...]
    settings: dict[str, Any]


SMALL_LANGUAGE_MODEL = {"layers": 1, "width": 64, "hidden": 256, "length": 64, "steps": 2000}
GRIDS = {
    "weights": Grid((0.003, 0.01, 0.03), (0, 1, 2, 3, 4), {}),
    "lipschitz": Grid((0.01, 0.03, 0.1), (0, 1, 2, 3, 4), {}),
    "language": Grid((0.3, 1.0, 3.0), (0, 1, 2), SMALL_LANGUAGE_MODEL),
}


class Row(NamedTuple):
    """How far averages in bfloat16 move the final training losses of one point of a front."""

    problem: str
    rho: float
    lam: float
    main: float
    aux: float
    """The losses with averages in float32: means over seeds."""
    main_change: tuple[float, float]
    aux_change: tuple[float, float]
    """Mean change with bfloat16, relative, and half its 95 % interval over seeds."""


def train(name: str, dtype: str, folder: Path, data_dir: Path | None) -> None:
    """Train the grid of a problem with averages of this type."""
    grid = GRIDS[name]
    average_dtype = jnp.bfloat16 if dtype == "bfloat16" else None
    with patch.object(gsj, "surgery", partial(gsj.surgery, average_dtype=average_dtype)):
        lab.sweep(
            name,
            folder=folder / dtype,
            methods=["bloop"],
            lams=grid.lams,
            rhos=RHOS,
            seeds=grid.seeds,
            settings=grid.settings,
            scale="laptop",
            main_alone=False,
            workers=0,  # in this process, where the type of the averages is set
            data_dir=data_dir,
        )


def train_apart(*arguments: Any) -> None:
    """``train`` in a fresh process: a process compiles a training step once, for one type of averages."""
    process = get_context("spawn").Process(target=train, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def rows(folder: Path) -> Iterator[Row]:
    """The comparison of all points that are trained with both types."""
    for name, grid in GRIDS.items():
        single, half = (_final_losses(folder / dtype, name) for dtype in DTYPES)
        for rho in RHOS:
            for lam in grid.lams:
                seeds = [seed for seed in grid.seeds if (rho, lam, seed) in single and (rho, lam, seed) in half]
                if len(seeds) < 2:
                    continue
                before, after = (np.array([losses[rho, lam, seed] for seed in seeds]) for losses in (single, half))
                changes = after / before - 1
                halves = stats.t.ppf(0.975, len(seeds) - 1) * changes.std(0, ddof=1) / math.sqrt(len(seeds))
                main, aux = before.mean(0)
                pairs = [(float(mean), float(width)) for mean, width in zip(changes.mean(0), halves, strict=True)]
                yield Row(name, rho, lam, float(main), float(aux), *pairs)


def _final_losses(folder: Path, problem: str) -> dict[tuple[float, float, int], tuple[float, float]]:
    """The last training losses by ρ, λ and seed."""
    losses = {}
    with lab.Store(folder / "store.sqlite") as store:
        for record in store.select(problem=problem):
            if record.status == "done":
                last = record.final
                losses[record.spec.rho, record.spec.lam, record.spec.seed] = (last["main_train"], last["aux_train"])
    return losses


def main() -> None:
    """Train, or print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problem", choices=GRIDS, action="append")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        for name in options.problem or GRIDS:
            for dtype in DTYPES:
                train_apart(name, dtype, options.folder, options.data_dir)
    table = list(rows(options.folder))
    (options.folder / "bfloat16.json").write_text(json.dumps([row._asdict() for row in table], indent=1) + "\n")
    for row in table:
        main_change, aux_change = (
            f"{100 * mean:+.2f} ± {100 * width:.2f} %" for mean, width in (row.main_change, row.aux_change)
        )
        point = f"| `{row.problem}` | {row.rho} | {row.lam} |"
        print(f"{point} {row.main:.4f} | {main_change} | {row.aux:.3f} | {aux_change} |")


if __name__ == "__main__":
    main()
