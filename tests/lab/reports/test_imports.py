"""The command line imports these modules at start-up, so they must not load heavy libraries."""

import subprocess
import sys

HEAVY = ("jax", "torch", "jinja2", "matplotlib", "plotly", "pandas", "datasets", "scipy")
LIGHT = ("analysis", "reports", "reports.terminal", "text")


def loaded_by(code):
    loaded = f"import sys; {code}; print(*sorted(set(sys.modules) & set({HEAVY})))"
    return subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()


def test_light_modules_load_no_heavy_library():
    assert loaded_by("import " + ", ".join(f"gradsurgery.lab.{name}" for name in LIGHT)) == []


def test_writing_a_report_loads_what_draws_it():
    assert loaded_by("import gradsurgery.lab.reports.report") == ["jinja2", "matplotlib", "plotly"]
