"""Several sweeps side by side: one page with the fronts and the answer of each, and links to their reports."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradsurgery.lab.analysis.allowance import DEFAULT, Allowance
from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.reports.answer import page_answers
from gradsurgery.lab.reports.page import embed_png, render
from gradsurgery.lab.run import RunRecord


def write_index(
    reports: Mapping[Path, tuple[str, Sequence[RunRecord]]], folder: Path, allowance: Allowance = DEFAULT
) -> Path:
    """Write ``index.html`` into the folder, and return its path.

    ``reports`` maps the page of each report, which is below the folder, to its title and its runs. The answers for the
    allowance are open.
    """
    sweeps = []
    for page, (title, records) in reports.items():
        figure = page.parent / "figures" / "fronts.png"
        sweeps.append(
            {
                "title": title,
                "address": page.relative_to(folder).as_posix(),
                "image": embed_png(figure.read_bytes()) if figure.exists() else "",
                "answers": page_answers(records, allowance),
            }
        )
    path = folder / "index.html"
    write_atomically(path, render("index.html", {"title": f"{len(reports)} sweeps", "sweeps": sweeps}))
    return path
