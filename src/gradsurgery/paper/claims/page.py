"""The ledger as an HTML page in the style of the reports: verdicts, and the fronts behind them."""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from gradsurgery.lab import specs
from gradsurgery.lab.analysis import group_runs
from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.reports.figures import draw_fronts, paper_style
from gradsurgery.lab.reports.page import embed_png, render
from gradsurgery.lab.store.select import StoredSweep
from gradsurgery.paper.claims.claim import Result
from gradsurgery.paper.claims.summary import TOPICS, largest_scale, summarise

TITLE = "Which claims of the paper hold"


def write_page(by_scale: Mapping[str, Sequence[Result]], folder: Path) -> Path:
    """Write ``claims.html`` into the folder, and return its path."""
    latest = largest_scale(by_scale)
    run = {topic for topic, clauses in TOPICS.items() if any(clause.id in latest for clause in clauses)}
    values = {
        "title": TITLE,
        "summary": {topic: line for topic, line in summarise(latest).items() if topic in run},
        "by_scale": by_scale,
        "figures": {scale: _figures(results) for scale, results in by_scale.items()},
    }
    path = folder / "claims.html"
    write_atomically(path, render("claims.html", values, package="gradsurgery.paper.claims"))
    return path


def _figures(results: Sequence[Result]) -> list[dict[str, object]]:
    """The fronts of each problem and settings, once for all claims about them."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        spec = result.records[0].spec
        groups.setdefault(json.dumps([spec.problem, spec.scale, spec.settings], sort_keys=True), []).append(result)
    return [figure for group in groups.values() if (figure := _figure(group))]


def _figure(results: Sequence[Result]) -> dict[str, object] | None:
    """The fronts of the runs of some claims with their title; None without finite losses."""
    problem = results[0].claim.declared
    records = list({record.spec.key: record for result in results for record in result.records}.values())
    content = BytesIO()
    with paper_style():
        fronts = draw_fronts(group_runs(records))
        if fronts is None:
            return None
        fronts.savefig(content, format="png")
    return {
        "title": StoredSweep(problem, records, specs(problem, records[0].spec.scale)[0].settings).title,
        "claims": [result.claim.id for result in results],
        "image": embed_png(content.getvalue()),
        "losses": f"Main: {problem.main}. Aux: {problem.aux}.",
    }
