"""Write the tables and draw the figures of docs/problems.md from the runs of the ledger: ``python docs/problems.py``.

A table goes between the marks ``<!-- runs of NAME -->`` and ``<!-- end -->``; the figures go to docs/problems/.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from gradsurgery.lab.analysis import FrontComparison, compare_fronts, fronts_of, group_runs
from gradsurgery.lab.find import find_problem
from gradsurgery.lab.grid import specs
from gradsurgery.lab.reports.figures import draw_fronts, draw_mixed_loss, paper_style
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.text import number
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
    """The runs of a problem with the settings and methods of its scale, at the λ of mixed."""
    declared = find_problem(problem)
    settings, methods = specs(declared, SCALE)[0].settings, declared.scale(SCALE).methods
    runs = [
        record
        for record in read_records(DOCS / "claims" / "records.parquet")
        if (record.spec.problem, record.spec.scale, record.spec.settings) == (problem, SCALE, settings)
    ]
    lams = {record.spec.lam for record in runs if record.spec.method == "mixed"}
    return [record for record in runs if record.spec.method in methods and record.spec.lam in lams]


def render_table(records: Sequence[RunRecord]) -> str:
    """Main / aux on training data by λ and method, as means over seeds, and how the fronts compare on both splits."""
    groups = group_runs(records)
    cells: dict[tuple[float | None, str], str] = {}
    for group in groups:
        for seeds in group.by_lam("train"):
            cells[seeds.number, group.label] = " / ".join(number(loss, digits=4) for loss in seeds.mean)
    labels = [group.label for group in groups]
    rows = [["λ", *labels], ["---"] * (1 + len(labels))]
    rows.append(["seeds", *(str(len(group.seeds)) for group in groups)])
    lams = sorted({lam for lam, _ in cells if lam is not None})
    rows += [[number(lam), *(cells.get((lam, label), "") for label in labels)] for lam in lams]
    rows += [row for split in ("train", "test") for row in compare_rows(records, split) if any(row[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def compare_rows(records: Sequence[RunRecord], split: str) -> list[list[str]]:
    """The hypervolume lead over mixed and main at equal aux of each method; empty where there is no comparison.

    A method that was trained with some of the λ only is compared with mixed at these, as in the claims.
    """
    groups = group_runs(records)
    rivals = [record for record in records if record.spec.method == "mixed"]
    fronts: list[FrontComparison | None] = []
    for group in groups:
        if group.variant.method == "mixed":
            fronts.append(None)
            continue
        lams = {record.spec.lam for record in group.records}
        at_same_lams = [record for record in rivals if record.spec.lam in lams] or rivals
        fronts.append(compare_fronts(fronts_of(group.records, split), fronts_of(at_same_lams, split)))
    lead = [each.lead.describe() if each and each.lead.by_seed else "" for each in fronts]
    main = [
        each.main_at_equal_aux.describe(percent=True) if each and each.main_at_equal_aux.by_seed else ""
        for each in fronts
    ]
    return [[f"hypervolume lead, {split}", *lead], [f"main at equal aux, {split}", *main]]


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
