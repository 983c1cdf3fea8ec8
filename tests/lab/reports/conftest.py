import pytest

from gradsurgery.lab.reports import figures, report


def skip_figures(monkeypatch):
    """Let reports list their figures without drawing them: most tests look at the page alone."""
    names = [f"{name}.{suffix}" for name in figures.OWN_FIGURES for suffix in figures.FORMATS]
    monkeypatch.setattr(report, "save_figures", lambda records, folder, draw: [folder / name for name in names])


@pytest.fixture
def no_figures(monkeypatch):
    skip_figures(monkeypatch)


@pytest.fixture(scope="module")
def no_figures_in_module():
    with pytest.MonkeyPatch.context() as monkeypatch:
        skip_figures(monkeypatch)
        yield


@pytest.fixture
def png_only(monkeypatch):
    """Halves the time of tests that draw figures and do not look at the files."""
    monkeypatch.setattr(figures, "FORMATS", {"png": {}})
