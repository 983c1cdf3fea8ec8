"""The tables and figures of docs/problems.md are those of the recorded runs."""

import re
import runpy

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
