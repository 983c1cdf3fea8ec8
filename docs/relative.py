"""Compare a grid of relative λ with one of absolute λ: ``python docs/relative.py FOLDER PROBLEM [SCALE]``.

The folder holds the store of two sweeps, one for each grid. For each method this prints the hypervolume lead of the
relative grid over the absolute one, and how many λ of each grid are useful: those whose losses, as means over seeds,
are on the front of their grid with main at most 10 % worse than main alone.
"""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from gradsurgery.lab import RunRecord, Store
from gradsurgery.lab.analysis import Series, compare_fronts, fronts_of, group_runs, is_main_alone, main_alone

_ALLOWED = 1.1


def main(folder: str, problem: str, scale: str = "demo") -> None:
    """Print the table."""
    with Store(folder) as store:
        records = store.select(problem, scale)
    table = Table("method", "losses", "hypervolume lead of relative λ", "useful λ, absolute", "relative", box=None)
    swept = [record for record in records if not is_main_alone(record.spec)]
    for name in sorted({record.spec.method for record in swept}):
        absolute, relative = group_runs(record for record in swept if record.spec.method == name)
        for split in ("train", "test"):
            comparison = compare_fronts(fronts_of(relative.records, split), fronts_of(absolute.records, split))
            grids = (absolute, relative)
            useful = [f"{count_useful(grid, records, split)} of {len(grid.by_lam(split))}" for grid in grids]
            table.add_row(name, split, comparison.reason or comparison.lead.describe(), *useful)
    Console().print(table)


def count_useful(group: Series, records: Sequence[RunRecord], split: str) -> int:
    """The number of λ on the front of their grid, with main at most 10 % worse than main alone."""
    alone = [main for main, _ in main_alone(records, split).values()]
    limit = _ALLOWED * sum(alone) / len(alone)
    on_front, _ = group.split_front(split)
    return sum(seeds.mean[0] <= limit for seeds in on_front)


if __name__ == "__main__":
    main(*sys.argv[1:])
