"""Several sweeps side by side: one page with the fronts and recommendations of each, and links to their reports."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.reports.advice import advice_table
from gradsurgery.lab.reports.page import render_page
from gradsurgery.lab.run import RunRecord


def write_index(reports: Mapping[Path, tuple[str, Sequence[RunRecord]]], folder: Path) -> Path:
    """Write ``index.html`` into the folder, and return its path.

    Args:
        reports: the page of each report, below the folder -> its title and its runs.
        folder: an older index in it is replaced.
    """
    sections = [_section(page, title, records, folder) for page, (title, records) in reports.items()]
    title = f"{len(reports)} sweeps"
    body = f'<header><h1>{title}</h1></header><main class="sweeps">{"".join(sections)}</main>'
    path = folder / "index.html"
    write_atomically(path, render_page(title, body, layout="wide"))
    return path


def _section(page: Path, title: str, records: Sequence[RunRecord], folder: Path) -> str:
    address = escape(page.relative_to(folder).as_posix())
    figure = page.parent / "figures" / "fronts.png"
    image = ""
    if figure.exists():
        data = b64encode(figure.read_bytes()).decode()
        image = (
            f'<a href="{address}"><img alt="Pareto fronts of {escape(title)}" src="data:image/png;base64,{data}"></a>'
        )
    heading = f'<h2><a href="{address}">{escape(title)}</a></h2>'
    return f"<section>{heading}{image}{advice_table(records)}</section>"
