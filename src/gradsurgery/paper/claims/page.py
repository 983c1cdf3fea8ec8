"""The ledger as an HTML page in the style of the reports: verdicts, and the fronts behind them."""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from gradsurgery.lab import RunRecord, specs
from gradsurgery.lab.analysis import group_runs
from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.reports.figures import draw_fronts, paper_style
from gradsurgery.lab.reports.page import embed_png, render
from gradsurgery.lab.store.select import StoredSweep
from gradsurgery.paper.claims.claim import Claim, Result
from gradsurgery.paper.claims.text import describe_measurement, describe_registration, describe_rule, describe_runs

TITLE = "Which claims of the paper hold"


def write_page(by_scale: Mapping[str, Sequence[Result]], folder: Path) -> Path:
    """Write ``claims.html`` into the folder, and return its path."""
    values = {
        "title": TITLE,
        "by_scale": by_scale,
        "figures": {scale: _figures(results) for scale, results in by_scale.items()},
        "describe_measurement": describe_measurement,
        "describe_registration": describe_registration,
        "describe_rule": describe_rule,
        "describe_runs": describe_runs,
    }
    path = folder / "claims.html"
    write_atomically(path, render("claims.html", values, package="gradsurgery.paper.claims"))
    return path


def _figures(results: Sequence[Result]) -> list[dict[str, object]]:
    """The fronts of each problem and settings, once for all claims about them."""
    groups: dict[str, tuple[Claim, dict[str, RunRecord], list[str]]] = {}
    for result in results:
        spec = result.records[0].spec
        key = json.dumps([spec.problem, spec.scale, spec.settings], sort_keys=True)
        _, records, ids = groups.setdefault(key, (result.claim, {}, []))
        records.update({record.spec.key: record for record in result.records})
        ids.append(result.claim.id)
    figures = (_figure(claim, list(records.values()), ids) for claim, records, ids in groups.values())
    return [figure for figure in figures if figure is not None]


def _figure(claim: Claim, records: Sequence[RunRecord], ids: Sequence[str]) -> dict[str, object] | None:
    """The fronts of some claims with their title; None without finite losses."""
    problem = claim.declared
    content = BytesIO()
    with paper_style():
        fronts = draw_fronts(group_runs(records))
        if fronts is None:
            return None
        fronts.savefig(content, format="png")
    return {
        "title": StoredSweep(problem, records, specs(problem, records[0].spec.scale)[0].settings).title,
        "claims": ids,
        "image": embed_png(content.getvalue()),
        "losses": f"Main: {problem.main}. Aux: {problem.aux}.",
    }
