"""The command line imports these modules at start-up, so they must not load heavy libraries."""

import subprocess
import sys

import pytest

HEAVY = ("jax", "torch", "jinja2", "matplotlib", "plotly", "pandas", "datasets", "scipy")
LIGHT = ("analysis", "reports", "reports.terminal", "text")


def loaded_by(code):
    loaded = f"import sys; {code}; print(*sorted(set(sys.modules) & set({HEAVY})))"
    return subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()


def test_light_modules_load_no_heavy_library():
    assert loaded_by("import " + ", ".join(f"gradsurgery.lab.{name}" for name in LIGHT)) == []


def test_write_report_is_loaded_on_first_use():
    assert loaded_by("from gradsurgery.lab.reports import write_report") == ["jinja2", "matplotlib", "plotly"]


def test_an_unknown_name_is_an_attribute_error():
    import gradsurgery.lab.reports

    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = gradsurgery.lab.reports.nothing
