import pytest

from gradsurgery.lab.reports import report
from gradsurgery.lab.reports.figures import OWN_FIGURES


def skip_figures(monkeypatch):
    """Let reports list their figures without drawing them: most tests look at the page alone."""
    names = [f"{name}.{suffix}" for name in OWN_FIGURES for suffix in ("png", "pdf")]
    monkeypatch.setattr(report, "save_figures", lambda records, folder, draw: [folder / name for name in names])


@pytest.fixture
def no_figures(monkeypatch):
    skip_figures(monkeypatch)


@pytest.fixture(scope="module")
def no_figures_in_module():
    with pytest.MonkeyPatch.context() as monkeypatch:
        skip_figures(monkeypatch)
        yield
