import os
from pathlib import Path

import jax
import pytest

from gradsurgery.lab.reports import figures, report
from gradsurgery.lab.store import Store


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    """Train on one device: programs for eight take several times as long to compile."""
    first = jax.devices()[:1]
    monkeypatch.setattr(jax, "devices", lambda: first)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path):
    with Store(path, patience=0.1) as store:
        yield store


@pytest.fixture
def read_only(monkeypatch):
    """Call it with a file or folder to take away the permission to write it, also from root."""
    allowed = os.access
    locked = set()

    def access(path, mode):
        return not (mode & os.W_OK and Path(path) in locked) and allowed(path, mode)

    monkeypatch.setattr(os, "access", access)
    return locked.add


def skip_figures(monkeypatch):
    """Let reports list their figures without drawing them: most tests look at the page alone."""
    names = [f"{name}.{suffix}" for name in figures.STANDARD_FIGURES for suffix in figures.FORMATS]
    monkeypatch.setattr(report, "save_figures", lambda records, folder, draw: [folder / name for name in names])


@pytest.fixture
def no_figures(monkeypatch):
    """Reports without figures, which take a second or two to draw."""
    skip_figures(monkeypatch)


@pytest.fixture(scope="module")
def no_figures_in_module():
    with pytest.MonkeyPatch.context() as monkeypatch:
        skip_figures(monkeypatch)
        yield
