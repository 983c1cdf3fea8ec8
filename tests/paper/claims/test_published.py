"""The published page is what the command writes from the published runs."""

from pathlib import Path

from gradsurgery.paper.claims import CLAIMS
from gradsurgery.paper.claims.markdown import render_markdown
from gradsurgery.paper.claims.records import read_records
from gradsurgery.paper.claims.write import judge_all

DOCS = Path(__file__).parents[3] / "docs"
COMMAND = "gradsurgery claims --from docs/claims/records.parquet --markdown docs/claims.md"


def test_the_page_is_written_from_the_recorded_runs():
    path, claims = DOCS / "claims" / "records.parquet", list(CLAIMS.values())
    assert path.stat().st_size < 1_000_000
    page = render_markdown(judge_all(claims, read_records(path)), claims)
    assert page == (DOCS / "claims.md").read_text(), f"out of date: {COMMAND}"


def test_every_recorded_run_belongs_to_a_claim():
    known = {run.key for claim in CLAIMS.values() for scale in claim.grids for run in claim.runs(scale)}
    assert {record.spec.key for record in read_records(DOCS / "claims" / "records.parquet")} <= known


def test_the_summary_has_every_judged_claim_once():
    by_scale = judge_all(list(CLAIMS.values()), read_records(DOCS / "claims" / "records.parquet"))
    judged = {result.claim.id for results in by_scale.values() for result in results}
    summary = (DOCS / "claims.md").read_text().split("\n## ")[0]
    cells = [cell.strip() for line in summary.splitlines() if line.startswith("|") for cell in line.split("|")[2:]]
    listed = [name for cell in cells for name in cell.split(", ") if name in CLAIMS]
    assert sorted(listed) == sorted(judged)
