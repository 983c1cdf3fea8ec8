import pytest

from gradsurgery.lab.reports import figures


@pytest.fixture
def png_only(monkeypatch):
    """Halves the time of tests that draw figures and do not look at the files."""
    monkeypatch.setattr(figures, "FORMATS", {"png": {}})
