"""The messages of the errors and warnings that the package can raise, read from its source.

A message is a template: constant text, with a gap for each part that is known only at run time.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "gradsurgery"
GAP = "\0"

NOT_EXPLAINED = {"AttributeError", "NotImplementedError"}
"""Errors that the FAQ leaves out."""
MESSAGE_FUNCTIONS = {"advice", "_freed_graph_advice"}
"""Functions that return a message, which reaches an error through a variable."""
FORWARDED = {"str(error)", "error", "advice", "mistake", "sentence", "problem"}
"""Variables that hold the message of another error, which has an entry of its own."""


@dataclass(frozen=True)
class Message:
    """A message and its place in the source."""

    template: str
    place: str

    @property
    def text(self) -> str:
        """The message with its gaps shown as dots."""
        return re.sub(f"{GAP}+", "...", self.template)

    def matches(self, line: str) -> bool:
        """Whether a line is this message, with any text in its gaps."""
        parts = re.split(f"{GAP}+", self.template)
        return re.fullmatch(".*".join(map(re.escape, parts)), line) is not None


@cache
def messages() -> list[Message]:
    """Every message of the package, each once."""
    by_template: dict[str, Message] = {}
    for path, tree in _trees().items():
        for node in ast.walk(tree):
            for template in _templates_in(node):
                by_template.setdefault(template, Message(template, f"{path.relative_to(SOURCE)}:{node.lineno}"))
    return list(by_template.values())


def _templates_in(node: ast.AST) -> Iterator[str]:
    """The message templates in a node of the syntax tree, without its children."""
    if isinstance(node, ast.FunctionDef) and node.name in MESSAGE_FUNCTIONS:
        yield from _returned(node)
    if not isinstance(node, ast.Call) or not node.args:
        return
    name = ast.unparse(node.func).split(".")[-1]
    if name == "_check" and len(node.args) == 4:  # of a hyperparameter: what was expected
        yield f"{_template(node.args[2])}, but got {GAP}"
    elif name == "unknown":
        yield f"there is no {_template(node.args[0])} {GAP}: {GAP}"
    elif (name == "warn" or name.endswith("Error")) and name not in NOT_EXPLAINED:
        value = node.args[0]
        called = _functions().get(ast.unparse(value.func).split(".")[-1]) if isinstance(value, ast.Call) else None
        for template in _returned(called) if called else [_template(value)]:
            if len(re.findall("[a-z]", template)) > 6:  # not f"{expected}, but got {value}"
                yield template
            elif isinstance(value, ast.Name | ast.Call) and ast.unparse(value) not in FORWARDED:
                raise AssertionError(
                    f"cannot read the message {ast.unparse(node)}: add a rule to {Path(__file__).name}"
                )


def _returned(function: ast.FunctionDef) -> list[str]:
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    return [template for template in map(_template, values) if re.search("[a-z]{3}", template)]


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
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def _functions() -> dict[str, ast.FunctionDef]:
    """Functions that return a text, by name."""
    nodes = [node for tree in _trees().values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {node.name: node for node in nodes if node.returns is not None and ast.unparse(node.returns) == "str"}


@cache
def _constants() -> dict[str, str]:
    """Texts that are assigned to a name at the top of a file."""
    return {
        node.targets[0].id: node.value.value
        for tree in _trees().values()
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
