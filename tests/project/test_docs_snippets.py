"""The snippets of the documentation run. Those of a page share one namespace and continue one another."""

import re

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
        5,
        5,
        1,
    ]


SWEEPS = "docs/start/lab.md"  # starts processes
SHOWN = re.compile(
    r"prints[^(\n]*\(the last digits depend on your CPU\)\n\n```text\n(.*?)^```", re.DOTALL | re.MULTILINE
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow(seconds=25)] * (page == SWEEPS)) for page in WITH_SNIPPETS]
)
def test_the_snippets_of_a_page_run_in_order_and_print_what_it_shows(page, tmp_path, monkeypatch, capsys, one_worker):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, snippet in enumerate(snippets(page), start=1):
        exec(compile(snippet, f"{page}, snippet {number}", "exec"), names)
    printed = capsys.readouterr().out.replace("−", "-")
    for shown in SHOWN.findall((ROOT / page).read_text().replace("−", "-")):
        words = NUMBER.split(shown)
        match = re.search(rf"({NUMBER.pattern})".join(map(re.escape, words)), printed)
        assert match, printed
        for number, after, actual in zip(NUMBER.findall(shown), words[1:], match.groups(), strict=True):
            percentage = after.startswith((" ± ", " %"))
            assert float(actual) == pytest.approx(float(number), rel=0.25, abs=float(percentage)), match[0]


def test_the_start_pages_show_what_they_print():
    pages = [page for page in WITH_SNIPPETS if SHOWN.search((ROOT / page).read_text())]
    assert pages == ["docs/start/jax.md", "docs/start/lab.md", "docs/start/torch.md", "docs/weighting.md"]
