"""The docstrings of dataclass fields: the string below each field, which Python itself does not keep."""

import ast
import inspect
from dataclasses import is_dataclass
from itertools import pairwise
from textwrap import dedent


def field_docs(dataclass: type) -> dict[str, str]:
    """The docstring of each field that has one, including inherited fields; empty for a class without source code.

    Example:
        >>> from gradsurgery.paper.lipschitz.problem import Settings
        >>> field_docs(Settings)["learning_rate"]
        'Of Adam, at the end of the warm-up.'
    """
    docs: dict[str, str] = {}
    for base in reversed(dataclass.__mro__):
        if is_dataclass(base):
            docs |= _own_docs(base)
    return docs


def _own_docs(dataclass: type) -> dict[str, str]:
    try:
        source = inspect.getsource(dataclass)
    except (OSError, TypeError):  # made at run time
        return {}
    definition = ast.parse(dedent(source)).body[0]
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(below.value.value.replace("``", "").split())
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
