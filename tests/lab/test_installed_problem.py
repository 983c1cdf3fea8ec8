"""A problem of an installed package: built and installed by pip, and used by name in other processes."""

import os
import subprocess
import sys
from textwrap import dedent

import pytest

PROJECT = """
    [build-system]
    requires = ["setuptools"]
    build-backend = "setuptools.build_meta"

    [project]
    name = "walking"
    version = "1.0"

    [project.entry-points."gradsurgery.problems"]
    stroll = "walking.line:walk"
    broken = "walking.missing:walk"
"""
PROBLEM = """
    from gradsurgery import lab
    from walking import START

    @lab.problem(main="distance to 0", aux="distance to 1", settings={"steps": 2}, lams=[1.0])
    def walk(run):
        '''A walk on the line.'''
        for step in range(run.settings["steps"]):
            yield {"step": step, "main_train": START + step, "aux_train": run.lam}
"""


@pytest.fixture(scope="module")
def gradsurgery(tmp_path_factory):
    """Runs the command line where the package is installed, and returns its output."""
    folder, site = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("site")
    package = folder / "src" / "walking"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(dedent(PROJECT))
    (package / "__init__.py").write_text("START = 2.0\n")
    (package / "line.py").write_text(dedent(PROBLEM))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-build-isolation", "--target", site, folder], check=True)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def run(*arguments):
        command = [sys.executable, "-m", "gradsurgery.lab.cli", *arguments]
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_the_list_shows_an_installed_problem_and_one_that_cannot_be_imported(gradsurgery):
    listed = gradsurgery("list")
    assert "stroll: A walk on the line.\n  main: distance to 0\n  aux: distance to 1\n" in listed
    assert "broken: there is no module walking.missing\n" in listed


@pytest.mark.slow
def test_an_installed_problem_is_trained_by_a_worker_and_exported(gradsurgery):
    losses = gradsurgery("run", "stroll", "--method", "mixed", "--lam", "1", "--set", "steps=3")
    assert [line.split() for line in losses.splitlines()[1:]] == [
        ["step", "2"],
        ["aux_train", "1"],
        ["main_train", "4"],
    ]
    assert gradsurgery("export", "stroll", "runs.csv") == "1 run written to runs.csv\n"
