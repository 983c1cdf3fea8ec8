"""``gradsurgery list``: prints all problems in brief, or one in full."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

import gradsurgery as gs
from gradsurgery.lab.cli.field_docs import field_docs
from gradsurgery.lab.grid import specs
from gradsurgery.lab.lam import is_relative, lam_number
from gradsurgery.lab.method import known_methods, takes_several
from gradsurgery.lab.notation import parse_lam_lists
from gradsurgery.lab.problem import Problem, Scale
from gradsurgery.lab.settings import kinds_of, settings_mapping
from gradsurgery.lab.text import number, write_setting


def print_problems(problems: Mapping[str, Problem], console: Console) -> None:
    """Print the scales and default grids of problems, each under the name that commands take."""
    for name, problem in problems.items():
        _print_heading(name, problem, console)
        console.print(_grids(problem), "")


def print_problem(problem: Problem, console: Console) -> None:
    """Print the default grids, settings, data and methods of one problem."""
    _print_heading(problem.name, problem, console)
    console.print(_grids(problem))
    console.print("\nSettings (--set NAME=VALUE)", style="bold")
    table = _settings(problem)
    console.print(table if table.row_count else "  none")
    console.print("\nData", style="bold")
    for line in _data(problem):
        console.print(Padding(line, (0, 0, 0, 2), expand=False))
    console.print("\nMethods (--methods)", style="bold")
    console.print(_methods(problem))


def _print_heading(name: str, problem: Problem, console: Console) -> None:
    console.print(f"{name}: {problem.title}", style="bold")
    for role, loss in problem.losses.items():
        console.print(Padding(f"{role.lower()}: {loss}", (0, 0, 0, 2), expand=False))


def _grids(problem: Problem) -> Table:
    table = Table("scale", "methods", "λ", "ρ", "seeds", "runs", box=None, padding=(0, 2))
    for name, scale in problem.scales.items():
        runs = str(len(specs(problem, name, main_alone=True)))
        table.add_row(name, ", ".join(scale.methods), _lams(scale), _span(scale.rhos), str(len(scale.seeds)), runs)
    return table


def _lams(scale: Scale) -> str:
    return " × ".join(
        "relative " * any(map(is_relative, lams)) + _span(list(map(lam_number, lams)))
        for lams in parse_lam_lists(scale.lams)
    )


def _span(values: Sequence[float]) -> str:
    if len(values) > 4:
        return f"{number(min(values))} … {number(max(values))}"
    return ", ".join(map(number, values))


def _settings(problem: Problem) -> Table:
    """Each setting with its value at each scale and its meaning, or the values it takes if it has no docstring.

    Values and meaning share a cell, so that the meaning has room on a narrow terminal.
    """
    declared = problem.scale(None).settings
    meanings = {name: values.expected for name, values in kinds_of(declared).items()} | field_docs(type(declared))
    by_scale = [settings_mapping(scale.settings) for scale in problem.scales.values()]
    table = Table(Column("setting", no_wrap=True), " / ".join(problem.scales), box=None, padding=(0, 2))
    for name, meaning in meanings.items():
        values = [write_setting(settings[name]) for settings in by_scale]
        shown = " / ".join(values) if len(set(values)) > 1 else values[0]
        table.add_row(name, Text.assemble((shown, "bold"), "  ", meaning))
    return table


def _data(problem: Problem) -> list[str]:
    """Where the data of each scale comes from."""
    if problem.data is None:
        return ["loaded by the training function"]
    sources = {name: problem.data(scale.settings) for name, scale in problem.scales.items()}
    return [f"{name}: {'; '.join(lines)}" for name, lines in sources.items() if lines] or ["generated"]


def _methods(problem: Problem) -> Table:
    table = Table("method", "hyperparameters", "", box=None, padding=(0, 2))
    for name, method in known_methods().items():
        is_possible = len(problem.aux_losses) == 1 or takes_several(name)
        if is_possible and (problem.methods is None or name in problem.methods):
            summary = (inspect.getdoc(method) or "").partition("\n")[0].replace("``", "")
            table.add_row(name, ", ".join(_hyperparameters(method)), summary)
    return table


def _hyperparameters(method: type[gs.Method]) -> list[str]:
    """The hyperparameters of a method, with their defaults."""
    return [
        field.name if field.default is MISSING else f"{field.name}={_default(field.default)}"
        for field in fields(method)
    ]


def _default(value: Any) -> str:
    return value.__name__ if callable(value) else str(value)
