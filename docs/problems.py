"""Write the tables and draw the figures of docs/problems.md from the runs of the ledger: ``python docs/problems.py``.

A table goes between the marks ``<!-- runs of NAME -->`` and ``<!-- end -->``; the figures go to docs/problems/.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from gradsurgery.lab.find import find_problem
from gradsurgery.lab.grid import specs
from gradsurgery.lab.reports.comparison import compare
from gradsurgery.lab.reports.figures import draw_fronts, draw_mixed_loss, paper_style
from gradsurgery.lab.reports.looks import number
from gradsurgery.lab.reports.series import group_runs
from gradsurgery.lab.run import RunRecord
from gradsurgery.paper.claims.records import read_records

DOCS = Path(__file__).parent
SCALE = "laptop"
FIGURES = {
    "lipschitz": ("fronts",),
    "weights": ("fronts",),
    "cifar10mnist": ("fronts",),
    "language": ("fronts", "mixed-loss"),
    "ema": ("curves",),
    "translation": ("fronts",),
    "imagenet-cifar10": ("fronts",),
}
"""The figures of each problem on the page."""


def recorded_runs(problem: str) -> list[RunRecord]:
    """The runs of a problem with the settings of its scale."""
    settings = specs(find_problem(problem), SCALE)[0].settings
    records = read_records(DOCS / "claims" / "records.parquet")
    return [
        record
        for record in records
        if (record.spec.problem, record.spec.scale, record.spec.settings) == (problem, SCALE, settings)
    ]


def render_table(records: Sequence[RunRecord]) -> str:
    """Main / aux on training data by λ and method, as means over seeds, and the hypervolumes on both splits."""
    groups = group_runs(records)
    cells: dict[tuple[float | None, str], str] = {}
    for group in groups:
        for seeds in group.by_lam("train"):
            cells[seeds.number, group.look.label] = " / ".join(number(loss, digits=4) for loss in seeds.mean)
    labels = [group.look.label for group in groups]
    rows = [["λ", *labels], ["---"] * (1 + len(labels))]
    rows.append(["seeds", *(str(len(group.seeds)) for group in groups)])
    lams = sorted({lam for lam, _ in cells if lam is not None})
    rows += [[number(lam), *(cells.get((lam, label), "") for label in labels)] for lam in lams]
    for split in ("train", "test"):
        comparison = compare(records, split)
        if comparison.results and not comparison.no_verdict:
            volumes = {result.label: f"{result.hypervolume:.3f} ± {result.spread:.3f}" for result in comparison.results}
            rows.append([f"hypervolume, {split}", *(volumes.get(label, "") for label in labels)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def render_page(page: str) -> str:
    """The page with the tables of the recorded runs."""

    def replace(match: re.Match[str]) -> str:
        start, name, end = match.groups()
        return f"{start}\n{render_table(recorded_runs(name))}\n{end}"

    return re.sub(r"(<!-- runs of (\S+) -->)\n.*?(<!-- end -->)", replace, page, flags=re.DOTALL)


def draw_figures(folder: Path) -> None:
    """Draw the figures of all problems with recorded runs."""
    folder.mkdir(exist_ok=True)
    with paper_style():
        for name, wanted in FIGURES.items():
            if not (records := recorded_runs(name)):
                continue
            groups, draw = group_runs(records), find_problem(name).draw
            figures = {"fronts": draw_fronts(groups), "mixed-loss": draw_mixed_loss(groups)}
            figures |= draw(records) if draw else {}
            for figure in wanted:
                figures[figure].savefig(folder / f"{name}-{figure}.png", metadata={"Software": None})


if __name__ == "__main__":
    path = DOCS / "problems.md"
    path.write_text(render_page(path.read_text()))
    draw_figures(DOCS / "problems")
