"""A report on a sweep: one HTML page that opens anywhere, offline, and the figures for a paper beside it.

The page is ``report.html`` with ``report.css``, ``report.js``, plotly.js and the data put into it. It loads nothing:
its content security policy forbids the browser to.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from plotly.offline import get_plotlyjs

from gradsurgery.lab.reports import pareto
from gradsurgery.lab.reports.figures import Drawing, save_figures
from gradsurgery.lab.reports.looks import Look, number
from gradsurgery.lab.reports.measures import html_measures, html_samples
from gradsurgery.lab.reports.plotly_data import chart_data
from gradsurgery.lab.reports.series import Series, series, splits
from gradsurgery.lab.reports.tables import html_table, swatch
from gradsurgery.lab.run import RunRecord, Setting


def write_report(
    records: Iterable[RunRecord],
    folder: Path,
    title: str,
    draw: Drawing | None = None,
    about: Mapping[str, str] | None = None,
) -> Path:
    """Writes ``report.html`` and ``figures/*.png`` and ``*.pdf`` into the folder, and returns the page's path.

    Args:
        records: runs of one problem at one scale, at least one. Runs under way or failed are counted, not drawn.
        folder: made if it is not there; a report in it is written over.
        title: the page's heading.
        draw: adds figures of the problem's own, by file name.
        about: what else to say at the top, by name: for example what the losses are.
    """
    records = list(records)
    if not records:
        raise ValueError("a report needs at least one run, but got none")
    groups = series(records)
    shown = splits(groups)
    folder.mkdir(parents=True, exist_ok=True)
    figures = save_figures(records, folder / "figures", draw)
    resources = files("gradsurgery.lab.reports")
    page = Template(resources.joinpath("report.html").read_text("utf-8")).substitute(
        title=escape(title),
        facts=_facts(records, groups, about or {}),
        finding=_finding(records, groups, shown) + _warning(records),
        methods="".join(_toggle(group.look) for group in groups),
        splits="".join(f'<button type="button" data-split="{split}">{split}</button>' for split in shown),
        table=html_table(records, groups, shown),
        measures=html_measures(groups) if shown else "",
        samples=html_samples(groups),
        settings=_settings(records),
        images=_images(figures),
        figures=_links(figures),
        style=resources.joinpath("report.css").read_text("utf-8"),
        plotly=get_plotlyjs(),
        # a "</script>" inside a string would end the script
        data=json.dumps(chart_data(groups), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        script=resources.joinpath("report.js").read_text("utf-8"),
    )
    path = folder / "report.html"
    path.write_text(page, "utf-8")
    return path


def _facts(records: Sequence[RunRecord], groups: Sequence[Series], about: Mapping[str, str]) -> str:
    """What was run, at a glance."""
    specs = [record.spec for record in records]
    facts = {
        "Problem": specs[0].problem,
        "Scale": specs[0].scale,
        "Runs": ", ".join([f"{len(records)}", *_asides(groups)]),
        "Seeds": f"{len({spec.seed for spec in specs})}",
        "λ": _few({spec.lam for spec in specs}),
        "ρ": _few({spec.rho for spec in specs}),
        **about,
    }
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(fact)}</dd></div>" for name, fact in facts.items() if fact)


def _asides(groups: Sequence[Series]) -> list[str]:
    """How many runs did not come to a good end."""
    records = [record for group in groups for record in group.records]
    done = sum(record.status == "done" for record in records)
    counts = {
        "diverged": max(
            (done - sum(len(group.points(split)) for group in groups) for split in _measured(groups)), default=0
        ),
        "failed": sum(record.status == "failed" for record in records),
        "under way": sum(record.status == "running" for record in records),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]


def _measured(groups: Sequence[Series]) -> list[str]:
    return [split for split in ("train", "test") if any(group.measures(split) for group in groups)]


def _few(values: set[float | None]) -> str:
    shown = sorted(value for value in values if value is not None)
    if len(shown) > 4:
        return f"{len(shown)} from {number(shown[0])} to {number(shown[-1])}"
    return ", ".join(map(number, shown))


def _finding(records: Sequence[RunRecord], groups: Sequence[Series], shown: Sequence[str]) -> str:
    """The table in a sentence."""
    if not _measured(groups):
        return ""
    if not shown:
        return '<p class="finding">No run has ended with finite losses, so there is nothing to draw.</p>'
    rows = sorted(pareto.summary(records, shown[0]), key=lambda row: -row.hypervolume)
    if len(rows) < 2:
        return ""
    first, second = rows[:2]
    near = first.hypervolume - second.hypervolume <= first.spread + second.spread
    return (
        f'<p class="finding">On {shown[0]} losses <strong>{escape(first.label)}</strong> has the largest hypervolume, '
        f"{first.hypervolume:.3f}; next is {escape(second.label)}, {second.hypervolume:.3f}"
        f"{', closer than their spread over seeds' if near else ''}.</p>"
    )


def _warning(records: Sequence[RunRecord]) -> str:
    varied = [name for name, values in _gathered(record.spec.settings for record in records).items() if len(values) > 1]
    if not varied:
        return ""
    return f'<p class="warning">These runs also differ in {escape(", ".join(varied))}: compare with care.</p>'


def _toggle(look: Look) -> str:
    label = escape(look.label)
    return f'<button type="button" aria-pressed="true" data-method="{label}">{swatch(look)}{label}</button>'


def _settings(records: Sequence[RunRecord]) -> str:
    """Every setting with its value, or values; of the rest that is known of the runs, what they have in common."""
    settings = _gathered(record.spec.settings for record in records)
    known = _gathered(record.info for record in records)
    common = {name: values for name, values in known.items() if len(values) == 1 and name != "samples"}
    parts = []
    for heading, found in (("Settings", settings), ("Versions", common)):
        rows = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td><code>{escape(", ".join(values))}</code></td></tr>'
            for name, values in sorted(found.items())
        )
        parts.append(f"<h3>{heading}</h3><table><tbody>{rows}</tbody></table>" if rows else "")
    return "".join(parts) or "<p>None were recorded.</p>"


def _gathered(mappings: Iterable[Mapping[str, Setting]]) -> dict[str, list[str]]:
    """The different values under each name, as they would be typed."""
    found: dict[str, dict[str, None]] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            found.setdefault(name, {})[str(value)] = None
    return {name: list(values) for name, values in found.items()}


def _images(figures: Sequence[Path]) -> str:
    """The problem's own figures, inside the page."""
    images = [
        f'<img alt="{path.stem}" src="data:image/png;base64,{b64encode(path.read_bytes()).decode()}">'
        for path in figures
        if path.suffix == ".png" and path.stem not in ("fronts", "mixed-loss")
    ]
    return f'<section aria-label="Figures">{"".join(images)}</section>' if images else ""


def _links(figures: Sequence[Path]) -> str:
    links = ", ".join(f'<a href="figures/{path.name}">{path.name}</a>' for path in figures)
    return f'<p class="note">Figures for a paper: {links}.</p>' if links else ""
