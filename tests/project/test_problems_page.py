"""The tables and figures of docs/problems.md are those of the recorded runs."""

import re
import runpy

from gradsurgery.paper.claims.claim import judge
from gradsurgery.paper.claims.ledger import CLAIMS
from gradsurgery.paper.claims.records import read_records
from tests.project.snippets import ROOT

COMMAND = runpy.run_path(str(ROOT / "docs/problems.py"))
PAGE = (ROOT / "docs/problems.md").read_text()


def test_the_tables_are_those_of_the_recorded_runs():
    assert len(re.findall("<!-- runs of ", PAGE)) >= 2
    assert COMMAND["render_page"](PAGE) == PAGE, "out of date: python docs/problems.py"


def test_the_command_draws_every_figure_of_runs(tmp_path):
    COMMAND["draw_figures"](tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == set(re.findall(r"\]\(problems/(.*?)\)", PAGE))
    assert drawn == {path.name for path in (ROOT / "docs/problems").iterdir()}


def test_the_tables_agree_with_the_claims():
    """The same runs give the same numbers on both pages."""
    records = {record.spec.key: record for record in read_records(ROOT / "docs/claims/records.parquet")}
    claims = [claim for claim in CLAIMS.values() if "laptop" in claim.grids and not claim.grids["laptop"].settings]
    results = [judge(claim, "laptop", records) for claim in claims]
    shared = 0
    for result in filter(None, results):
        for measurement in result.measurements:
            name = measurement.statistic.name
            compares_fronts = name.startswith(("hypervolume", "main at equal aux"))
            if compares_fronts and "mixed" in name and measurement.interval.seeds > 1:  # the page compares with mixed
                section = PAGE.split(f"<!-- runs of {result.claim.declared.name} -->")[1].split("<!-- end -->")[0]
                assert measurement.text in section, result.claim.id
                shared += 1
    assert shared >= 20
