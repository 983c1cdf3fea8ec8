"""The published page is what the command writes from the published runs."""

import re
from pathlib import Path

import pytest

from gradsurgery.paper.claims.ledger import CLAIMS
from gradsurgery.paper.claims.markdown import render_markdown
from gradsurgery.paper.claims.records import read_records
from gradsurgery.paper.claims.summary import TOPICS
from gradsurgery.paper.claims.write import judge_all

DOCS = Path(__file__).parents[3] / "docs"
COMMAND = "gradsurgery claims --from docs/claims/records.parquet --markdown docs/claims.md"


def test_the_page_is_written_from_the_recorded_runs():
    path = DOCS / "claims" / "records.parquet"
    assert path.stat().st_size < 1_000_000
    page = render_markdown(judge_all(list(CLAIMS.values()), read_records(path)), CLAIMS)
    assert page == (DOCS / "claims.md").read_text(), f"out of date: {COMMAND}"


def test_every_recorded_run_belongs_to_a_claim():
    known = {run.key for claim in CLAIMS.values() for scale in claim.grids for run in claim.runs(scale)}
    assert {record.spec.key for record in read_records(DOCS / "claims" / "records.parquet")} <= known


def test_every_claim_has_one_topic_and_stands_once_in_the_summary():
    assert sorted(clause.id for clauses in TOPICS.values() for clause in clauses) == sorted(CLAIMS)
    summary = (DOCS / "claims.md").read_text().split("\n## ")[0]
    lines = [line for line in summary.splitlines() if line.startswith("- **")]
    assert len(lines) == 10
    assert sorted(re.findall(r"\bC\d+\b", "".join(lines))) == sorted(CLAIMS)


@pytest.mark.parametrize("clause", [clause for clauses in TOPICS.values() for clause in clauses if clause.numbers])
def test_the_summary_names_every_statistic_that_it_quotes(clause):
    assert len(clause.numbers) == len(CLAIMS[clause.id].statistics)
