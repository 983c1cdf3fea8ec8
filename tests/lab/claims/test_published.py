"""The published page is what the command writes from the published runs."""

from pathlib import Path

from gradsurgery.lab.cli import main

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_written_from_the_recorded_runs(tmp_path):
    page, records = tmp_path / "claims.md", DOCS / "claims" / "records.parquet"
    assert records.stat().st_size < 1_000_000
    assert main(["claims", "--from", str(records), "--folder", str(tmp_path), "--markdown", str(page)]) == 0
    assert page.read_text() == (DOCS / "claims.md").read_text(), (
        "gradsurgery claims --from ... --markdown docs/claims.md"
    )
