"""Write the table and draw the figure of docs/choose.md, Bloop's fronts for several ρ: ``python docs/rho.py``.

The runs are in docs/claims/rho.parquet. The table has the change of aux against main alone if main may be worse by an
allowance, both on held-out data.
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from gradsurgery import lab
from gradsurgery.lab import RunRecord
from gradsurgery.lab.analysis import group_runs, is_main_alone
from gradsurgery.lab.reports.figures import PAGE, paper_style
from gradsurgery.lab.text import number
from gradsurgery.paper.claims.records import read_records

DOCS = Path(__file__).parent
PROBLEMS = ("lipschitz", "weights", "language")
LIMITS = {"lipschitz": 0.3, "weights": 0.21, "language": None}
"""Where panels end: mixed goes on to the right."""
ALLOWANCES = (0.02, 0.05, 0.1)


def swept(records: Sequence[RunRecord], method: str) -> list[RunRecord]:
    """The runs of a method, without those of main alone."""
    return [record for record in records if record.spec.method == method and not is_main_alone(record.spec)]


def speeds(by_problem: dict[str, list[RunRecord]]) -> list[float]:
    """All ρ, the smallest first."""
    return sorted({record.spec.rho for records in by_problem.values() for record in swept(records, "bloop")})


def draw(by_problem: dict[str, list[RunRecord]]) -> Figure:
    """One panel a problem, on training data: mixed in grey, Bloop from dark (slow) to light (quick averages)."""
    rhos = speeds(by_problem)
    figure = Figure(figsize=(PAGE, 2.5), layout="constrained")
    panels = figure.subplots(1, len(by_problem))
    for panel, (problem, records) in zip(panels, by_problem.items(), strict=True):
        for front in group_runs(swept(records, "mixed")) + group_runs(swept(records, "bloop")):
            x, y = zip(*(seeds.mean for seeds in front.by_lam("train")), strict=True)
            rho = front.variant.rho
            if rho is None:
                panel.plot(x, y, "s-", color="0.6", markersize=3, linewidth=1.1, label="mixed")
            else:
                colour = colormaps["viridis"](0.9 * rhos.index(rho) / (len(rhos) - 1))
                panel.plot(x, y, "o-", color=colour, markersize=3, linewidth=1.1, label=f"ρ = {number(rho)}")
        panel.set(title=problem, xlabel="main loss", xscale="log", xlim=(None, LIMITS[problem]))
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.minorticks_off()
    panels[0].set_ylabel("auxiliary loss")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def render_table(by_problem: dict[str, list[RunRecord]]) -> str:
    """The change of aux against main alone that ``recommend`` finds with mixed, with each ρ, and with all of them."""
    rhos = speeds(by_problem)
    rows = [["problem", "main may be worse by", "mixed", *(f"ρ = {number(rho)}" for rho in rhos), "all ρ"]]
    rows.append(["---"] * len(rows[0]))
    for problem, records in by_problem.items():
        alone = [record for record in records if is_main_alone(record.spec)]
        bloop = swept(records, "bloop")
        choices = [[record for record in bloop if record.spec.rho == rho] for rho in rhos]
        for allowance in ALLOWANCES:
            cells = []
            for runs in (swept(records, "mixed"), *choices, bloop):
                best = lab.recommend([*alone, *runs], allow=allowance)[0]
                cells.append(percent(best.aux.excess().mean) if best.aux else "none")
            rows.append([f"`{problem}`", f"{100 * allowance:.0f} %", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def percent(change: float) -> str:
    """A fraction as text, with a minus sign."""
    return f"{100 * change:+.0f} %".replace("-", "\N{MINUS SIGN}")


def recorded_runs() -> dict[str, list[RunRecord]]:
    """The runs of each problem."""
    records = read_records(DOCS / "claims" / "rho.parquet")
    return {name: [record for record in records if record.spec.problem == name] for name in PROBLEMS}


def render_page(page: str) -> str:
    """The page with the table of the recorded runs."""
    before, start, rest = page.partition("<!-- aux by rho -->\n")
    return before + start + render_table(recorded_runs()) + "\n" + rest[rest.index("<!-- end -->") :]


if __name__ == "__main__":
    path = DOCS / "choose.md"
    path.write_text(render_page(path.read_text()))
    with paper_style():
        draw(recorded_runs()).savefig(DOCS / "choose-rho.png", metadata={"Software": None})
