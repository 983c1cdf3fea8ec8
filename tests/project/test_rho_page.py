"""docs/rho.py, which compares several ρ for the page on choosing one."""

import runpy

from tests.project.snippets import ROOT

COMMAND = runpy.run_path(str(ROOT / "docs/rho.py"))


def test_the_table_is_that_of_the_recorded_runs():
    page = (ROOT / "docs/choose.md").read_text()
    assert COMMAND["render_page"](page) == page, "out of date: python docs/rho.py"


def test_the_figure_has_a_panel_for_each_problem_and_a_line_for_each_rho():
    runs = COMMAND["recorded_runs"]()
    figure = COMMAND["draw"](runs)
    assert [panel.get_title() for panel in figure.axes] == list(COMMAND["PROBLEMS"])
    labels = ["mixed", *(f"ρ = {rho:g}" for rho in COMMAND["speeds"](runs))]
    assert all([line.get_label() for line in panel.lines] == labels for panel in figure.axes)
