"""The messages of the errors and warnings that the package can raise, read from its source.

A message is a template: constant text, with a gap for each part that is known only at run time.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "gradsurgery"
GAP = "\0"

MESSAGE_FUNCTIONS = {"advice", "_advice"}
"""Functions that return a message or None, which reaches an error through a variable."""


def matches(template: str, line: str) -> bool:
    """Whether a line is this message, with any text in its gaps."""
    return re.fullmatch(".*".join(map(re.escape, re.split(f"{GAP}+", template))), line) is not None


@cache
def templates() -> set[str]:
    """The messages of the package."""
    found = (template for tree in _trees() for node in ast.walk(tree) for template in _templates_in(node))
    return {template for template in found if len(re.findall("[a-z]", template)) > 6}  # not f"{expected}; got {value}"


def _templates_in(node: ast.AST) -> Iterator[str]:
    """The message templates in a node of the syntax tree, without its children."""
    if isinstance(node, ast.FunctionDef) and node.name in MESSAGE_FUNCTIONS:
        yield from _returned(node)
    if not isinstance(node, ast.Call) or not node.args:
        return
    name = ast.unparse(node.func).split(".")[-1]
    if name == "_check" and len(node.args) == 4:  # of a hyperparameter: what was expected
        yield f"{_template(node.args[2])}; got {GAP}"
    elif name == "unknown":
        yield f"there is no {_template(node.args[0])} {GAP}: {GAP}"
    elif name == "warn" or name.endswith("Error"):
        value = node.args[0]
        called = _functions().get(ast.unparse(value.func).split(".")[-1]) if isinstance(value, ast.Call) else None
        yield from _returned(called) if called else [_template(value)]


def _returned(function: ast.FunctionDef) -> list[str]:
    return [_template(node.value) for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]


def _template(value: ast.expr) -> str:
    """The constant text of an expression, with gaps for the rest."""
    match value:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values):
            return "".join(map(_template, values))
        case ast.Name(name) | ast.FormattedValue(ast.Name(name)):
            return _constants().get(name, GAP)
        case ast.BinOp(left, ast.Add(), right):
            return _template(left) + _template(right)
    return GAP


@cache
def _trees() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))]


@cache
def _functions() -> dict[str, ast.FunctionDef]:
    """Functions that return a text, by name."""
    nodes = [node for tree in _trees() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {node.name: node for node in nodes if node.returns is not None and ast.unparse(node.returns) == "str"}


@cache
def _constants() -> dict[str, str]:
    """Texts that are assigned to a name at the top of a file."""
    return {
        node.targets[0].id: node.value.value
        for tree in _trees()
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
