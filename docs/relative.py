"""Compare a grid of relative λ with one of absolute λ: ``python docs/relative.py FOLDER PROBLEM [SCALE]``.

The folder holds the store of two sweeps, one for each grid. For each method this prints the hypervolume of both fronts,
in the region that both reach, and how many λ of each grid are useful: those whose losses, as means over seeds, are on
the front of their grid with main at most 10 % worse than main alone.
"""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from gradsurgery.lab import Store
from gradsurgery.lab.lam import has_weight
from gradsurgery.lab.reports.comparison import compare
from gradsurgery.lab.reports.pareto import front
from gradsurgery.lab.reports.series import Series, group_runs, is_main_alone, loss_point
from gradsurgery.lab.run import RunRecord

_ALLOWED = 1.1


def main(folder: str, problem: str, scale: str = "demo") -> None:
    """Print the table."""
    with Store(folder) as store:
        records = store.select(problem, scale)
    table = Table("method", "losses", "hypervolume", "useful λ", box=None)
    for name in sorted({record.spec.method for record in records}):
        of_method = [record for record in records if record.spec.method == name and has_weight(record.spec.lam)]
        for split in ("train", "test"):
            results = {result.label: result for result in compare(of_method, split).results}
            for group in group_runs(of_method):
                result = results[group.look.label]
                spread = f" ± {result.spread:.3f}" if len(group.seeds) > 1 else ""
                useful = f"{count_useful(group, records, split)} of {len(group.by_lam(split))}"
                table.add_row(group.look.label, split, f"{result.hypervolume:.3f}{spread}", useful)
    Console().print(table)


def count_useful(group: Series, records: Sequence[RunRecord], split: str) -> int:
    """The number of λ on the front of their grid, with main at most 10 % worse than main alone."""
    alone = [loss_point(record.final, split)[0] for record in records if is_main_alone(record.spec)]
    limit = _ALLOWED * sum(alone) / len(alone)
    return sum(main <= limit for main, _ in front(seeds.mean for seeds in group.by_lam(split)))


if __name__ == "__main__":
    main(*sys.argv[1:])
