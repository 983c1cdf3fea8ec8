"""The snippets of the documentation run. Those of a page share one namespace and continue one another."""

import pytest

from tests.project.snippets import ROOT, snippets

TESTED_ELSEWHERE = {"docs/lab.md", "docs/coming-from.md"}  # in test_pages.py, each on its own; in test_coming_from.py
PAGES = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))]
WITH_SNIPPETS = [page for page in PAGES if page not in TESTED_ELSEWHERE and snippets(page)]


def test_every_python_block_is_a_snippet():
    for page in PAGES:
        text = (ROOT / page).read_text()
        assert len(snippets(page)) == text.count("```python") + text.count("```{code-block} python"), page
    assert [len(snippets(f"docs/{name}.md")) for name in ("index", "start/torch", "start/jax", "start/lab")] == [
        2,
        4,
        4,
        1,
    ]


SWEEPS = "docs/start/lab.md"  # starts processes


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page == SWEEPS)) for page in WITH_SNIPPETS]
)
def test_the_snippets_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, snippet in enumerate(snippets(page), start=1):
        exec(compile(snippet, f"{page}, snippet {number}", "exec"), names)
