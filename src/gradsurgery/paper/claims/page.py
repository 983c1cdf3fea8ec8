"""The ledger as an HTML page in the style of the reports: verdicts, and the fronts behind them."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path

from gradsurgery.lab import RunRecord, specs
from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.reports.figures import draw_fronts, paper_style
from gradsurgery.lab.reports.page import render_page
from gradsurgery.lab.reports.series import group_runs
from gradsurgery.lab.store.select import StoredSweep
from gradsurgery.paper.claims.claim import Claim, Result
from gradsurgery.paper.claims.text import describe_measurement, describe_rule, describe_runs

TITLE = "Which claims of the paper hold"
_HEADINGS = ("", "Claim", "Measured, with 95 % interval", "Seeds", "Verdict")


def write_page(by_scale: Mapping[str, Sequence[Result]], folder: Path) -> Path:
    """Write ``claims.html`` into the folder, and return its path."""
    style = files("gradsurgery.paper.claims").joinpath("claims.css").read_text("utf-8")
    sections = "".join(_section(scale, results) for scale, results in by_scale.items())
    body = f"<style>{style}</style><header><h1>{TITLE}</h1></header><main>{sections}</main>\n"
    path = folder / "claims.html"
    write_atomically(path, render_page(TITLE, body))
    return path


def _section(scale: str, results: Sequence[Result]) -> str:
    heading = f'<h2 id="{scale}">At the scale {scale}</h2>'
    head = "".join(f'<th scope="col">{text}</th>' for text in _HEADINGS)
    rows = "".join(map(_row, results))
    table = f'<table class="ledger"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<section aria-labelledby="{scale}">{heading}{table}{_fronts(results)}</section>'


def _row(result: Result) -> str:
    claim, verdict = result.claim, result.verdict
    items = [
        f"<li>{escape(each.statistic.name)}: <strong>{escape(describe_measurement(each))}</strong>"
        f"<small>holds {escape(describe_rule(each.statistic))}</small></li>"
        for each in result.measurements
    ]
    note = f"<small>{escape(text)}</small>" if (text := describe_runs(result)) else ""
    decides = f"<small>{escape(claim.decides)}</small>"
    sentence = f"{escape(claim.sentence)}<small>{escape(claim.section)}</small>"
    name = verdict.replace(" ", "-")
    return (
        f'<tr><th scope="row">{claim.id}</th><td class="claim">{sentence}</td>'
        f'<td class="measured"><ul>{"".join(items)}</ul>{note}{decides}</td><td class="seeds">{result.seeds}</td>'
        f'<td class="verdict {name}">{verdict}</td></tr>'
    )


def _fronts(results: Sequence[Result]) -> str:
    """The fronts of each problem and settings, once for all claims about them."""
    groups: dict[str, tuple[Claim, dict[str, RunRecord], list[str]]] = {}
    for result in results:
        spec = result.records[0].spec
        key = json.dumps([spec.problem, spec.scale, spec.settings], sort_keys=True)
        _, records, ids = groups.setdefault(key, (result.claim, {}, []))
        records.update({record.spec.key: record for record in result.records})
        ids.append(result.claim.id)
    return "".join(_figure(claim, list(records.values()), ids) for claim, records, ids in groups.values())


def _figure(claim: Claim, records: Sequence[RunRecord], ids: Sequence[str]) -> str:
    problem = claim.declared
    sweep = StoredSweep(problem, records, specs(problem, records[0].spec.scale)[0].settings)
    content = BytesIO()
    with paper_style():
        fronts = draw_fronts(group_runs(records))
        if fronts is None:
            return ""
        fronts.savefig(content, format="png")
    data = b64encode(content.getvalue()).decode()
    losses = f"Main: {problem.main}. Aux: {problem.aux}."
    return (
        f"<h3>{escape(sweep.title)} <small>({', '.join(ids)})</small></h3>"
        f'<img alt="Pareto fronts of {escape(sweep.title)}" src="data:image/png;base64,{data}">'
        f'<p class="note">{escape(losses)}</p>'
    )
